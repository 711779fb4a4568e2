"""Recovery: what a restart makes of catalog, ledgers and journal."""

from __future__ import annotations

import pytest
from crash.checker import read_log
from crash.machine import Machine

from milepost.errors import CorruptData
from milepost.storage.journal.journal import file_name
from milepost.testing import power_loss
from milepost.testing.damage import flip_bit
from milepost.testing.trace import Mark


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

    @pytest.mark.parametrize("answered", [True, False])
    def test_a_topic_deleted_behind_the_roll_is_not_missed(self, answered: bool) -> None:
        """Its ledger began before the roll, and only the journal knew; entries follow behind it."""
        machine = Machine()
        machine.create_topic("a")
        machine.create_topic("b")
        machine.publish("a", 1)
        if answered:
            machine.pump()
        machine.begin_checkpoint()
        machine.publish("a", 1)
        machine.publish("b", 1)
        machine.delete_topic("a")
        machine.pump()
        machine.flush()
        machine.record()
        machine.finish_checkpoint()
        machine.kill()
        assert machine.problems() == []
        assert list(machine.topics) == ["b"]

    def test_the_id_of_a_buried_ledger_is_not_given_again(self) -> None:
        """It was buried on its way to the journal; a new one under its id would be buried alive."""
        machine = Machine()
        machine.create_topic("a")
        machine.publish("a", 1)
        machine.delete_topic("a")
        machine.kill()
        machine.create_topic("a")
        machine.publish("a", 1)
        machine.pump()
        machine.kill()
        assert machine.problems() == []
        assert machine.logs["a"].end_index == 1

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


class TestMissingFiles:
    """Absence proves nothing: whatever was there and is needed is asked for by name."""

    def used(self) -> Machine:
        machine = Machine()
        machine.create_topic("a", "s")
        machine.publish("a", 3)
        machine.pump()
        return machine

    def reopen(self, machine: Machine, catalog_image: bytes | None) -> Machine:
        machine.store.journal.close()
        return Machine(power_loss(machine.files, "kept"), catalog_image, machine.history)

    def test_the_newest_journal_file(self) -> None:
        machine = self.used()
        machine.kill()
        machine.publish("a", 1)
        machine.pump()
        assert machine.store.journal.number == 2
        machine.files.delete(file_name(2))
        with pytest.raises(CorruptData, match=r"0002\.journal: missing, recovery"):
            self.reopen(machine, machine.catalog.image())

    def test_the_newest_journal_file_cut_to_nothing(self) -> None:
        machine = self.used()
        machine.files.damage(file_name(1), b"")
        with pytest.raises(CorruptData, match=r"0001\.journal: 0 bytes are too few for a file hea"):
            self.reopen(machine, machine.catalog.image())

    def test_a_journal_file_that_a_checkpoint_began(self) -> None:
        machine = self.used()
        machine.checkpoint()
        machine.files.delete(file_name(2))
        with pytest.raises(CorruptData, match=r"0002\.journal: missing, recovery"):
            self.reopen(machine, machine.catalog.image())

    def test_a_journal_file_in_the_middle(self) -> None:
        machine = self.used()
        machine.kill()
        machine.kill()
        machine.files.delete(file_name(2))
        with pytest.raises(CorruptData, match=r"0002\.journal: missing, recovery"):
            self.reopen(machine, machine.catalog.image())

    def test_the_catalog_while_the_journal_has_records(self) -> None:
        machine = self.used()
        with pytest.raises(CorruptData, match=r"0001\.journal: belongs to data directory"):
            self.reopen(machine, None)

    def test_the_catalog_while_the_journal_is_empty(self) -> None:
        machine = self.used()
        machine.checkpoint()
        with pytest.raises(CorruptData, match=r"0002\.journal: belongs to data directory"):
            self.reopen(machine, None)

    def test_the_catalog_and_the_journal(self) -> None:
        machine = self.used()
        machine.checkpoint()
        machine.files.delete(file_name(2))
        with pytest.raises(CorruptData, match=r"is catalog\.sqlite missing\?"):
            self.reopen(machine, None)

    def test_a_ledger_file_closes_its_topic_and_no_other(self) -> None:
        machine = self.used()
        machine.create_topic("b")
        machine.publish("b", 1)
        machine.pump()
        machine.checkpoint()
        machine.files.delete("ledgers/0000000000000001.ledger")
        machine.kill()
        with pytest.raises(CorruptData, match=r"0001\.ledger: 0 bytes are left of the"):
            machine.publish("a", 1)
        with pytest.raises(CorruptData, match=r"0001\.ledger: byte 64: entry 1:0 \(last index 2\)"):
            read_log(machine.logs["a"])
        machine.publish("b", 1)
        machine.pump()
        assert len(read_log(machine.logs["b"]).items) == 2

    def test_a_directory_that_was_being_made_is_made(self) -> None:
        """The first file was begun, the catalog was not told: nobody was promised anything."""
        machine = Machine()
        before = next(mark for mark in machine.files.trace.ops if isinstance(mark, Mark)).payload
        again = self.reopen(machine, before)
        assert again.store.journal.number == 2
        again.kill()
        assert again.problems() == []


class TestHoles:
    """Entries whose journal record is damaged may be in the ledger's file all the same."""

    def crashed(self, *damaged: int, flushed: bool) -> Machine:
        """Five blocks of a, each a group and a moment later; a checkpoint that was not recorded."""
        machine = Machine()
        machine.create_topic("a")
        machine.create_topic("b")
        for _ in range(5):
            machine.clock.advance(1)
            machine.publish("a", 2)
            machine.pump()
        machine.publish("b", 1)
        machine.pump()
        if flushed:
            machine.begin_checkpoint()
            machine.pump()
            machine.flush()
        for serial in damaged:
            payload = machine.history.topics["a"].publishes[serial].payload
            place = machine.files.contents()[file_name(1)].index(payload)
            flip_bit(machine.files, file_name(1), 8 * place)
        machine.kill()
        return machine

    @pytest.mark.parametrize("damaged", [(0,), (2,), (1, 3), (0, 1, 2, 3)])
    def test_they_are_taken_from_there(self, damaged: tuple[int, ...]) -> None:
        machine = self.crashed(*damaged, flushed=True)
        assert machine.problems() == []
        assert machine.logs["a"].damage is None
        assert len(machine.store.report.damages) == len(damaged)

    def test_one_at_the_end_that_nobody_follows_closes_the_log(self) -> None:
        """Nothing shows where it ends, so nothing may be numbered behind it."""
        machine = self.crashed(2, 4, flushed=True)
        log = machine.logs["a"]
        assert log.end_index == 8
        with pytest.raises(CorruptData, match=r"0001\.journal: byte \d+: sequence 6: entries of l"):
            machine.publish("a", 1)
        machine.publish("b", 1)
        machine.pump()
        assert len(read_log(machine.logs["b"]).items) == 2

    def test_what_is_nowhere_closes_the_log_and_keeps_the_journal(self) -> None:
        machine = self.crashed(2, flushed=False)
        log = machine.logs["a"]
        assert [item.first_index for item in read_log(log).items] == [0, 2]
        with pytest.raises(CorruptData, match=r"entries 2 to 2 of .* are missing"):
            machine.publish("a", 1)
        machine.publish("b", 1)
        machine.pump()
        machine.checkpoint()
        assert machine.files.exists(file_name(1)), "it holds what is intact behind the hole"
        machine.kill()
        assert machine.logs["a"].damage is not None
        assert machine.logs["b"].end_index == 2


class TestFoldedFacts:
    """A snapshot may be ahead of the journal: it was taken with facts that were on their way."""

    def begun(self) -> Machine:
        machine = Machine()
        machine.create_topic("a", "s")
        machine.publish("a", 9)
        machine.pump()
        machine.ack("a", "s", 1)
        machine.begin_checkpoint()
        machine.commit()
        machine.ack("a", "s", 2)  # behind the roll, and in the snapshot
        machine.finish()
        machine.flush()
        machine.record()
        return machine

    def test_facts_that_it_holds_are_not_replayed(self) -> None:
        machine = self.begun()
        machine.pump()
        machine.kill()
        assert machine.problems() == []
        assert machine.store.report.facts == 0
        assert len(machine.subscriptions["a", "s"].facts) == 2

    def test_facts_that_never_reached_the_journal_keep_their_numbers(self) -> None:
        machine = self.begun()
        machine.kill()
        machine.settle()
        assert len(machine.subscriptions["a", "s"].facts) == 2
        machine.ack("a", "s", 3)
        machine.pump()
        machine.kill()
        assert machine.problems() == []
        assert len(machine.subscriptions["a", "s"].facts) == 3
