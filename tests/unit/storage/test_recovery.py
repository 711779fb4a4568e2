"""Recovery: what a restart makes of catalog, ledgers and journal."""

from __future__ import annotations

import errno

import pytest
from crash.checker import read_log
from crash.machine import Machine

from milepost.errors import CorruptData
from milepost.positions.ids import Position
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
    """Entries whose journal record is damaged may be in the ledger's file all the same, or are lost."""

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

    @pytest.mark.parametrize("damaged", [(0,), (2,), (1, 3), (0, 1, 2, 3), (2, 4), (4,)])
    def test_what_is_nowhere_is_a_loss_and_what_lies_behind_it_is_there(
        self, damaged: tuple[int, ...]
    ) -> None:
        machine = self.crashed(*damaged, flushed=False)
        log = machine.logs["a"]
        lost = [(2 * serial, 2 * serial + 2) for serial in damaged]
        told = [(one.first_index, one.end_index) for one in machine.store.losses[1]]
        assert (told, log.damage, log.end_index) == (lost, None, 10)
        for serial, publish in enumerate(machine.history.topics["a"].publishes):
            assert publish.position is not None
            if serial in damaged:
                with pytest.raises(CorruptData, match=rf"entry 1:{serial} .* is damaged"):
                    log.read(publish.position)
            else:
                assert log.read(publish.position, entries_max=1)[0].payload == publish.payload
        with pytest.raises(CorruptData, match=r"takes no messages: messages \[\d, \d+\) are lost"):
            machine.publish("a", 1)

    def test_a_loss_of_the_journal_is_accepted_and_the_journal_is_not_kept_for_it(self) -> None:
        """Starts that come before it is accepted find the same; then it is over."""
        machine = self.crashed(2, flushed=False)
        machine.kill()
        (loss,) = machine.store.losses[1]
        assert "0001.journal: byte" in loss.reason
        machine.checkpoint()
        assert not machine.files.exists(file_name(1))
        machine.kill()
        assert machine.store.losses[1] == [loss]
        with pytest.raises(CorruptData, match="entry 1:2"):
            machine.logs["a"].read(Position(1, 2))
        assert machine.store.unfilled == {}, "its file has all that it should have"
        assert machine.catalog.accept_losses(1) == [loss]
        machine.store.losses_accepted(1)
        machine.publish("a", 1)
        machine.pump()
        machine.kill()
        assert (machine.store.losses, machine.logs["a"].end_index) == ({}, 11)

    def test_a_ledger_that_begins_behind_it_says_where_it_ends(self) -> None:
        """Though its headers are gone: how many entries it were does not matter there."""
        machine = self.crashed(flushed=False)
        machine.roll("a")
        machine.publish("a", 1)
        machine.pump()
        machine.publish("b", 1)
        machine.pump()
        payload = machine.history.topics["a"].publishes[4].payload
        place = machine.files.contents()[file_name(1)].index(payload) - 24  # the last index
        flip_bit(machine.files, file_name(1), 8 * place)
        machine.kill()
        log = machine.logs["a"]
        told = [(one.first_index, one.end_index) for one in machine.store.losses[1]]
        assert (told, log.damage, log.end_index) == ([(8, 10)], None, 11)
        assert log.read(Position(log.ledgers[-1].ledger_id, 0))[0].span.first_index == 10

    def test_one_at_the_end_whose_numbers_are_gone_closes_the_log(self) -> None:
        """Nothing shows where it ends, so nothing may be numbered behind it; the journal is kept."""
        machine = self.crashed(flushed=False)
        payload = machine.history.topics["a"].publishes[4].payload
        place = machine.files.contents()[file_name(1)].index(payload) - 8  # the count
        flip_bit(machine.files, file_name(1), 8 * place)
        machine.kill()
        assert machine.logs["a"].end_index == 8
        with pytest.raises(CorruptData, match="it cannot be told how many messages it held"):
            machine.publish("a", 1)
        machine.publish("b", 1)
        machine.pump()
        machine.checkpoint()
        assert machine.files.exists(file_name(1)), "it holds what is intact"
        machine.kill()
        assert machine.logs["a"].damage is not None
        assert machine.logs["b"].end_index == 2

    def test_what_a_checkpoint_has_is_not_lost(self) -> None:
        """The journal is kept for a ledger that cannot be written; a record of another one goes bad."""
        machine = Machine()
        for name in "ab":
            machine.create_topic(name)
            machine.publish(name, 1)
            machine.pump()
        machine.publish("a", 1)
        machine.pump()
        machine.files.faults.fail(
            "any", forever=True, error=errno.EACCES, under="ledgers/0000000000000002.ledger"
        )
        machine.checkpoint()
        machine.files.faults.heal()
        payload = machine.history.topics["a"].publishes[0].payload
        place = machine.files.contents()[file_name(1)].index(payload)
        flip_bit(machine.files, file_name(1), 8 * place)
        machine.kill()
        assert machine.problems() == []
        assert (machine.store.losses, machine.logs["a"].refusal) == ({}, None)


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
