"""The checkpoint: every step of it may be the last one."""

from __future__ import annotations

import pytest
from crash.machine import Machine

from milepost.errors import PersistenceError
from milepost.storage.ledger import mileposts_path
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
        machine.files.faults.fail(call, nth, under="ledgers")  # type: ignore[arg-type]
        with pytest.raises(OSError, match="Input/output"):
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

    def test_a_ledger_that_shrank_is_named(self) -> None:
        machine = Machine()
        machine.create_topic("a")
        machine.publish("a", 1, size=100)
        machine.pump()
        machine.checkpoint()
        machine.publish("a", 1)
        machine.pump()
        path = "ledgers/0000000000000001.ledger"
        machine.files.damage(path, machine.files.contents()[path][:100])
        with pytest.raises(Exception, match=r"0001\.ledger: 100 bytes are left of the"):
            machine.checkpoint()


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

    def test_a_state_that_gives_no_snapshot_fails_the_checkpoint_and_nothing_else(self) -> None:
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
        with pytest.raises(PersistenceError, match="planned: no snapshot today"):
            machine.checkpoint()
        machine.store._open_states[state_id] = machine.subscriptions["a", "s"].take_snapshot
        machine.ack("a", "s", 2)
        machine.pump()
        machine.checkpoint()
        machine.kill()
        assert machine.problems() == []
