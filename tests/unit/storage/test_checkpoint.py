"""The checkpoint: every step of it may be the last one."""

from __future__ import annotations

import errno

import pytest
from crash.machine import Machine

from milepost.errors import CorruptData, PersistenceError
from milepost.positions.ids import Position
from milepost.storage.ledgers.entry import NewEntry
from milepost.storage.ledgers.ledger import mileposts_path
from milepost.testing import power_loss


class TestFlush:
    @pytest.mark.parametrize(("call", "nth"), [("sync_dir", 1), ("sync", 1), ("append", 2)])
    def test_a_name_made_by_an_attempt_that_failed_is_made_durable_by_the_next(
        self, call: str, nth: int
    ) -> None:
        """The second attempt finds the file there; its name may still be lost with the power."""
        machine = Machine()
        machine.create_topic("a")
        machine.publish("a", 1)
        machine.pump()
        machine.begin_checkpoint()
        machine.pump()
        # An error that says nothing about the ledger fails the whole attempt.
        machine.files.faults.fail(call, nth, error=errno.ENOSPC, under="ledgers")  # type: ignore[arg-type]
        with pytest.raises(OSError, match="No space left"):
            machine.flush()
        machine.finish_checkpoint(OSError())
        machine.checkpoint()
        image = power_loss(machine.files)
        again = Machine(image, machine.catalog.image(), machine.history)
        assert again.problems() == []

    def test_a_ledger_trimmed_meanwhile_fails_nothing(self) -> None:
        machine = Machine()
        machine.create_topic("a")
        machine.publish("a", 1)
        machine.pump()
        machine.checkpoint()
        machine.publish("a", 1)
        machine.roll("a")
        machine.publish("a", 1)
        machine.pump()
        machine.begin_checkpoint()
        machine.pump()
        machine.publish("a", 1)
        assert machine.trim("a", 2) == 1
        machine.flush()
        machine.record()
        machine.finish_checkpoint()
        machine.kill()
        machine.settle()
        assert machine.problems() == []
        assert machine.logs["a"].first_index == 2

    def test_a_ledger_that_shrank_costs_its_own_topic(self) -> None:
        """It is remembered before the file is touched, and then everything else is stored."""
        machine = Machine()
        for name in "ab":
            machine.create_topic(name)
            machine.publish(name, 1, size=100)
            machine.pump()
        machine.checkpoint()
        for name in "ab":
            machine.publish(name, 1)
        machine.pump()
        path = "ledgers/0000000000000001.ledger"
        machine.files.damage(path, machine.files.contents()[path][:100])
        machine.checkpoint()
        (loss,) = machine.catalog.losses()[1]
        assert (loss.first_index, loss.end_index) == (0, 1)
        assert "0001.ledger: 100 bytes are left of the" in loss.reason
        assert len(machine.files.contents()[path]) == 100, "it is remembered first"
        with pytest.raises(CorruptData, match=r"a takes no messages: messages \[0, 1\) are lost"):
            machine.logs["a"].append([NewEntry(b"x")], 0, lambda error: None)
        with pytest.raises(CorruptData, match="a begins no ledger"):
            machine.logs["a"].roll(0, lambda error: None)
        assert not machine.logs["a"].is_full(10**15), "housekeeping has nothing to roll"
        machine.publish("b", 1)
        machine.pump()
        machine.checkpoint()
        assert len(machine.files.names("journal")) == 1, "the journal is not kept for it"
        machine.kill()
        for log in machine.logs.values():
            read = log.read(Position(log.ledgers[0].ledger_id, 1), entries_max=1)
            assert [entry.span.first_index for entry in read] == [1]
        with pytest.raises(CorruptData, match="entry 1:0"):
            machine.logs["a"].read(Position(1, 0))
        assert machine.logs["a"].loss is not None, "a restart does not forget it"
        assert machine.logs["b"].refusal is None

    @pytest.mark.parametrize("cut_to", [None, 0, 10, 40, 215, 216, 300])
    def test_a_loss_is_remembered_until_it_is_accepted(self, cut_to: int | None) -> None:
        machine = Machine()
        machine.create_topic("a")
        machine.publish("a", 1, size=100)
        machine.publish("a", 1, size=100)
        machine.pump()
        machine.checkpoint()
        path = "ledgers/0000000000000001.ledger"
        if cut_to is None:
            machine.files.delete(path)
        else:
            machine.files.damage(path, machine.files.contents()[path][:cut_to])
        for _ in range(3):  # starts, each with a checkpoint that fills the place up
            machine.kill()
            (loss,) = machine.store.losses[1]
            assert loss.end_index == 2
            assert loss.first_index == (1 if cut_to in (216, 300) else 0)
            assert machine.logs["a"].loss is not None
            machine.checkpoint()
        assert machine.store.unfilled == {}
        assert machine.catalog.accept_losses(1) == [loss]
        machine.store.losses_accepted(1)
        machine.publish("a", 1)
        machine.pump()
        machine.kill()
        assert machine.store.losses == {}
        log = machine.logs["a"]
        assert (log.end_index, log.refusal, len(log.ledgers)) == (3, None, 2)

    def test_a_ledger_that_cannot_be_written_holds_its_own_topic(self) -> None:
        """And the journal, which has what it lacks; it goes on when it can be written again."""
        machine = Machine()
        for name in "ab":
            machine.create_topic(name)
            machine.publish(name, 1)
            machine.pump()
        machine.files.faults.fail(
            "any", forever=True, error=errno.EACCES, under="ledgers/0000000000000001.ledger"
        )
        for _ in range(2):
            machine.checkpoint()
        assert "Permission denied" in str(machine.logs["a"].stall)
        assert machine.logs["b"].refusal is None
        assert not machine.logs["b"].ledgers[0].is_dirty
        machine.files.faults.heal()
        machine.checkpoint()
        assert machine.logs["a"].refusal is None
        machine.publish("a", 1)
        machine.publish("b", 1)
        machine.pump()
        machine.checkpoint()
        assert len(machine.files.names("journal")) == 1
        machine.kill()
        machine.settle()
        assert machine.problems() == []

    def test_mileposts_that_shrank_fail_nothing(self) -> None:
        machine = Machine()
        machine.create_topic("a")
        machine.publish("a", 3)
        machine.pump()
        machine.checkpoint()
        machine.files.damage(mileposts_path(1), b"")
        machine.publish("a", 1)
        machine.pump()
        machine.checkpoint()
        machine.kill()
        assert machine.problems() == []


class TestRecording:
    def test_one_that_may_have_been_recorded_is_not_tried_again(self) -> None:
        """Trying again would cut ledgers that the catalog may count on after the next start."""
        machine = Machine()
        machine.create_topic("a")
        machine.publish("a", 3)
        machine.pump()
        before = machine.catalog.image()
        machine.catalog._failure = "disk I/O error"
        machine.files.faults.fail("any", under="ledgers")
        for _ in range(2):
            with pytest.raises(PersistenceError, match="no changes until a restart"):
                machine.checkpoint()
        assert machine.files.faults.fired == [], "no ledger was touched"
        machine.files.faults.heal()
        machine.publish("a", 1)
        machine.pump()
        assert machine.logs["a"].end_index == 4, "the journal goes on"
        machine._catalog_image = before
        machine.kill()
        assert machine.problems() == []


class TestStates:
    """A state may be closed and opened at any moment of a checkpoint."""

    def begun(self) -> Machine:
        machine = Machine()
        machine.create_topic("a", "s")
        machine.publish("a", 9)
        machine.pump()
        machine.ack("a", "s", 3)
        machine.pump()
        return machine

    def test_closed_before_and_opened_during(self) -> None:
        machine = self.begun()
        machine.close_subscription("a", "s")
        machine.begin_checkpoint()
        machine.pump()
        machine.open_subscription("a", "s")
        assert machine.problems() == []

    @pytest.mark.parametrize("recorded", [False, True])
    def test_closed_and_opened_during(self, recorded: bool) -> None:
        machine = self.begun()
        machine.begin_checkpoint()
        machine.pump()
        if recorded:
            machine.flush()
            machine.record()
        machine.close_subscription("a", "s")
        machine.open_subscription("a", "s")
        assert machine.problems() == []
        machine.ack("a", "s", 1)
        machine.finish_checkpoint(None if recorded else OSError())
        machine.checkpoint()
        machine.kill()
        machine.settle()
        assert machine.problems() == []

    def test_closed_during_one_that_fails(self) -> None:
        machine = self.begun()
        machine.begin_checkpoint()
        machine.pump()
        machine.close_subscription("a", "s")
        machine.finish_checkpoint(OSError())
        machine.checkpoint()
        machine.kill()
        assert machine.problems() == []


class TestPlanning:
    def test_sealing_a_ledger_that_nobody_read_touches_no_file(self) -> None:
        """Whatever is wrong with its files must not keep the others from their checkpoint."""
        machine = Machine()
        machine.create_topic("a")
        machine.create_topic("b")
        machine.publish("a", 3)
        machine.pump()
        machine.checkpoint()
        machine.kill()
        machine.roll("a")
        machine.publish("b", 1)
        machine.pump()
        machine.files.faults.fail("read", forever=True, under="ledgers")
        machine.begin_checkpoint()
        machine.pump()
        machine.flush()
        machine.record()
        machine.finish_checkpoint()
        machine.files.faults.heal()
        machine.kill()
        assert machine.logs["a"].ledgers[0].stored.sealed
        assert machine.problems() == []

    def test_mileposts_made_again_while_a_checkpoint_runs_are_written_by_the_next(self) -> None:
        machine = Machine()
        machine.create_topic("a")
        machine.publish("a", 3)
        machine.pump()
        machine.checkpoint()
        machine.files.delete(mileposts_path(1))
        machine.kill()
        machine.roll("a")
        machine.begin_checkpoint()
        machine.pump()
        assert machine.logs["a"].locate(0).span.count == 3
        machine.flush()
        machine.record()
        machine.finish_checkpoint()
        assert machine.problems() == []
        machine.kill()
        assert machine.problems() == []

    def test_a_state_that_gives_no_snapshot_costs_nothing_else(self) -> None:
        machine = Machine()
        machine.create_topic("a", "s")
        machine.publish("a", 3)
        machine.pump()
        machine.ack("a", "s", 1)
        machine.pump()
        state_id = machine.subscriptions["a", "s"].state_id

        def broken() -> bytes:
            raise RuntimeError("no snapshot today")

        machine.store._open_states[state_id] = broken
        machine.publish("a", 1)
        machine.pump()
        machine.checkpoint()
        assert not machine.logs["a"].ledgers[0].is_dirty
        assert len(machine.files.names("journal")) > 1, "the journal has what it knows"
        machine.store._open_states[state_id] = machine.subscriptions["a", "s"].take_snapshot
        machine.ack("a", "s", 2)
        machine.pump()
        machine.checkpoint()
        machine.kill()
        assert machine.problems() == []
