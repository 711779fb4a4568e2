"""Recovery: what a restart makes of catalog, ledgers and journal."""

from __future__ import annotations

from crash.machine import Machine


class TestTrimsAndDeletions:
    def test_ledgers_trimmed_before_any_checkpoint_stay_trimmed(self) -> None:
        """The journal still tells how they began; their tombstones say that they are gone."""
        machine = Machine()
        machine.create_topic("a")
        for _ in range(3):
            machine.publish("a", 5)
            machine.roll("a")
            machine.pump()
        assert machine.trim("a", 10) == 2
        machine.kill()
        log = machine.logs["a"]
        assert (log.first_index, log.end_index, log.damage) == (10, 15, None)
        machine.publish("a", 1)
        machine.pump()
        assert machine.problems() == []

    def test_a_log_that_begins_with_a_journalled_ledger_begins_where_it_does(self) -> None:
        """The catalog knew only the ledger that was trimmed."""
        machine = Machine()
        machine.create_topic("a")
        machine.publish("a", 7)
        machine.pump()
        machine.checkpoint()
        machine.roll("a")
        machine.publish("a", 1)
        machine.pump()
        assert machine.trim("a", 7) == 1
        machine.kill()
        assert (machine.logs["a"].first_index, machine.logs["a"].damage) == (7, None)
        assert machine.problems() == []

    def test_a_topic_deleted_during_a_checkpoint_is_not_missed(self) -> None:
        """The checkpoint drops the record that told whose ledger it was; entries follow behind."""
        machine = Machine()
        machine.create_topic("a")
        machine.create_topic("b")
        machine.publish("a", 1)
        machine.pump()
        machine.begin_checkpoint()
        machine.pump()
        machine.publish("a", 1)
        machine.pump()
        machine.delete_topic("a")
        machine.flush()
        machine.record()
        machine.finish_checkpoint()
        machine.kill()
        assert machine.problems() == []
        assert list(machine.topics) == ["b"]

    def test_an_answer_that_comes_after_the_deletion_brings_nothing_back(self) -> None:
        machine = Machine()
        machine.create_topic("a")
        machine.publish("a", 1)
        machine.commit()
        machine.delete_topic("a")
        machine.finish()
        assert not machine.store.is_dirty
        machine.checkpoint()
        machine.kill()
        assert machine.problems() == []
        assert machine.files.names("ledgers") == []
