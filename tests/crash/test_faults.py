"""A disk that says no: every call fails once, all fail for a while, some fail now and then.

What is answered well is there, what is refused is not; nothing is numbered twice; a descriptor whose
sync failed is never synced again; and when the disk is well again, so is everything else. Each run is
judged live, after a restart, and after crashes in the middle of it.
"""

from __future__ import annotations

import errno
import itertools
from collections import Counter
from collections.abc import Callable
from operator import methodcaller
from typing import NamedTuple

import pytest
from stage.acksets import is_clean

from crash.campaign import IS_SHORT, judge, scaled, use
from crash.checker import read_log
from crash.machine import Machine
from crash.workload import Workload
from milepost.errors import DiskFull, PersistenceError
from milepost.positions.ids import Position
from milepost.testing import images
from milepost.testing.faults import Call, Faults

Summary = Callable[[str], None]

# fmt: off
CALLS: list[Call] = [
    "append", "lay", "sync", "create", "open", "rename", "sync_dir", "delete", "read", "make_folder",
]
# fmt: on
OPERATIONS = 120
# A file is opened again by a second checkpoint of one ledger alone, and some workloads hardly need room laid
# out or a name changed: these are made longer.
OFTENER: dict[Call, int] = {"open": 4, "lay": 3, "rename": 3}
WORKLOADS = 3
SEED = 10
# Between two calls that fail; no multiple of WORKLOADS.
STRIDE = 2 if IS_SHORT else 1
# There are hundreds of these in a workload.
STRIDES: dict[Call, int] = {"read": 8, "open": 4} if IS_SHORT else {}


class Run(NamedTuple):
    met: Counter[str]
    """Errors that the caller met, by name; the others were answers."""
    fired: int
    """Calls that failed."""


def run(
    plan: Callable[[Faults], None],
    seed: int = SEED,
    crashes: int = 2,
    operations: int = OPERATIONS,
) -> Run:
    """The workload on a disk that fails as planned; judged in every way."""
    machine = Machine()
    faults = machine.files.faults
    plan(faults)
    workload = Workload(machine, seed, tolerant=True).run(operations)
    faults.heal()
    machine.pump()
    use(machine)
    assert machine.problems() == []
    machine.checkpoint()
    machine.kill()
    assert machine.problems() == []
    for image in images(machine.files.trace, seed, count=crashes):
        assert judge(image) == [], image.description
    return Run(workload.failures, len(faults.fired))


@pytest.mark.parametrize("seed", range(SEED, SEED + scaled(1)))
@pytest.mark.parametrize("call", CALLS)
def test_every_call_fails_once(call: Call, seed: int, summary: Summary) -> None:
    """The nth call fails, for n = 1, 2, 3, … until each of three workloads has passed untouched; every other
    one, or fewer of what is called often, unless there is time."""
    met: Counter[str] = Counter()
    failed = untouched = 0
    operations = OPERATIONS * OFTENER.get(call, 1)
    for nth in itertools.count(1, STRIDES.get(call, STRIDE)):
        keep = nth * 7 % 120  # short writes of every length, and no write at all
        plan = methodcaller("fail", call, nth, keep=keep)
        done = run(plan, seed=seed + nth % WORKLOADS, operations=operations)
        met += done.met
        failed += done.fired
        untouched = 0 if done.fired else untouched + 1
        if untouched == WORKLOADS:
            break
    summary(f"{failed} times one {call} failed; the caller met {dict(met)}")
    assert failed > 3


@pytest.mark.parametrize("call", ["any", "append", "sync", "create"])
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_everything_fails_from_the_nth_call_on(call: Call, error: int, summary: Summary) -> None:
    """A disk that dies, and comes back when somebody has looked at it."""
    points = fired = 0
    for nth in itertools.count(1, (8 if call == "any" else 5) * STRIDE):
        done = run(methodcaller("fail", call, nth, error=error, forever=True), crashes=1)
        if not done.fired:
            break
        points, fired = points + 1, fired + done.fired
    summary(f"from {points} moments on every {call} failed, {fired} in all")
    assert points > 2


@pytest.mark.parametrize("seed", range(scaled(30)))
def test_calls_fail_now_and_then(seed: int) -> None:
    share = (0.01, 0.05, 0.2)[seed % 3]
    done = run(methodcaller("fail_randomly", share, seed), seed, crashes=4)
    assert done.fired or share < 0.2


class TestFullDisk:
    @pytest.mark.parametrize("seed", range(scaled(12)))
    def test_full_and_freed_again_and_again(self, seed: int) -> None:
        machine = Machine()
        workload = Workload(machine, seed, tolerant=True)
        for turn in range(6):
            machine.files.capacity = machine.files.used_bytes + 200 * turn if turn % 2 else None
            workload.run(12)
        machine.files.capacity = None
        machine.pump()
        use(machine)
        assert machine.problems() == []
        machine.kill()
        assert machine.problems() == []
        for image in images(machine.files.trace, seed, count=5):
            assert judge(image) == [], image.description

    def test_publishes_are_refused_by_name_and_reads_go_on(self) -> None:
        machine = Machine()
        machine.create_topic("a", "s")
        machine.publish("a", 3)
        machine.pump()
        machine.checkpoint()
        machine.files.capacity = machine.files.used_bytes + 30
        errors: list[PersistenceError | None] = []
        for _ in range(20):
            block = machine.publish("a", 1)
            machine.store.barrier(errors.append)
            machine.pump()
            assert (block.last_indexes, machine.logs["a"].end_index) == ([3], 3)
        assert all(error is not None for error in errors)
        assert [item.count for item in read_log(machine.logs["a"]).items] == [3]
        with pytest.raises(DiskFull, match="no space left for the journal"):
            machine.checkpoint()
        machine.files.capacity = None
        block = machine.publish("a", 1)
        machine.pump()
        # The lost numbers are given again, since nobody saw them; the positions are not.
        assert (block.last_indexes, machine.logs["a"].end_index) == ([3], 4)
        assert machine.logs["a"].locate(3).position == Position(block.ledger_id, 0)
        assert machine.problems() == []
        machine.kill()
        assert machine.problems() == []

    def test_a_checkpoint_that_finds_no_room_stops_nobody(self) -> None:
        machine = Machine()
        machine.create_topic("a", "s")
        for _ in range(4):
            machine.publish("a", 1, size=400)
            machine.pump()
        machine.files.capacity = machine.files.used_bytes + 900
        with pytest.raises(OSError, match="No space left"):
            machine.checkpoint()
        machine.publish("a", 1)
        machine.pump()
        assert machine.logs["a"].end_index == 5, "there was room for this one"
        machine.files.capacity = None
        machine.checkpoint()
        machine.kill()
        assert is_clean(machine.store.report)
        assert machine.problems() == []


class TestFailedGroups:
    @pytest.mark.parametrize("call", ["append", "sync"])
    def test_everything_behind_it_fails_and_the_next_ledger_begins_at_the_same_index(
        self, call: Call
    ) -> None:
        machine = Machine()
        machine.create_topic("a", "s")
        machine.create_topic("b")
        machine.publish("a", 4)
        machine.pump()
        machine.files.faults.fail(call)
        machine.publish("a", 2)
        machine.publish("b", 1)
        machine.commit()
        machine.publish("a", 3)  # numbered behind what is lost already, though nobody knows
        machine.finish()
        machine.pump()
        fates = [publish.fate.value for publish in machine.history.topics["a"].publishes]
        assert fates == ["stored", "refused", "refused"]
        assert (machine.logs["a"].end_index, machine.logs["b"].end_index) == (4, 0)
        block = machine.publish("a", 1)
        machine.publish("b", 1)
        machine.pump()
        assert block.last_indexes == [4]
        first, second = machine.logs["a"].ledgers
        assert (first.sealed, first.end_index, second.first_index) == (True, 4, 4)
        assert second.ledger_id == block.ledger_id != first.ledger_id
        assert machine.problems() == []
        machine.kill()
        assert machine.problems() == []

    def test_a_failed_sync_of_a_ledger_is_written_anew(self) -> None:
        """Its pages may be clean and not stored: the next checkpoint writes them again."""
        machine = Machine()
        machine.create_topic("a")
        machine.publish("a", 1)
        machine.pump()
        machine.files.faults.fail("sync", under="ledgers")
        machine.checkpoint()
        assert machine.logs["a"].ledgers[0].is_dirty  # the journal has it until then
        machine.checkpoint()
        assert not machine.logs["a"].ledgers[0].is_dirty
        for image in images(machine.files.trace, first=len(machine.files.trace)):
            assert judge(image) == [], image.description
        assert machine.files.violations == []
