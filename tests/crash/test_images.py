"""Every way to stop in the middle: crash images of a workload, each recovered and judged.

SQLite's method. A workload of appends, rolls, acks, seeks, trims, deletions, checkpoints and killed
processes runs once per seed; the disk after a crash at each operation, in each way in which volatile
bytes and names may survive, is one image. The catalog is as of its last commit before the crash, and
at the commit itself both ways. What `campaign.judge` demands of each: no receipt, ack or seek lost, no
index reused, recovery idempotent, and everything still works.

A failure prints the seed and the image; `milepost.testing.crash.image` builds that one alone.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from stage.acksets import is_clean

from crash.campaign import FACTOR, Tally, judge, scaled, use
from crash.checker import History
from crash.machine import Machine
from crash.workload import Workload
from milepost.testing import Image, images

# Many workloads with some images each find more than many images of a few workloads.
LOTS_LONG = 9
LOTS = range(scaled(LOTS_LONG))
SEEDS_PER_LOT = 6
OPERATIONS = 120
IMAGES = 100
# Recoveries that are stopped: of so many workloads, so many images, and of the recovery of each so many.
STOPPED, STOPPED_IMAGES, IMAGES_OF_EACH = 4, 30, 12
Summary = Callable[[str], None]


def run_workload(seed: int, operations: int = OPERATIONS) -> tuple[Machine, int]:
    machine = Machine()
    workload = Workload(machine, seed).run(operations)
    machine.pump()
    return machine, workload.operations


def test_the_campaign_is_as_long_as_promised() -> None:
    assert len(LOTS) * SEEDS_PER_LOT * IMAGES >= (5_000 * FACTOR or 1_800)


@pytest.mark.parametrize("lot", LOTS)
def test_nothing_is_lost_wherever_the_machine_stops(lot: int, summary: Summary) -> None:
    tally = Tally()
    for seed in range(lot * SEEDS_PER_LOT, (lot + 1) * SEEDS_PER_LOT):
        machine, operations = run_workload(seed)
        assert machine.problems() == [], seed
        tally.operations += operations
        for number, image in enumerate(images(machine.files.trace, seed, count=IMAGES)):
            # A checkpoint on top costs half as much again; every fourth image will do.
            tally.add(seed, image, judge(image, checkpoint=number % 4 == 0))
    summary(tally.summary())
    assert tally.images == SEEDS_PER_LOT * IMAGES
    assert tally.failures == []


@pytest.mark.parametrize("seed", range(scaled(STOPPED)))
def test_nothing_is_lost_when_recovery_itself_is_stopped(seed: int, summary: Summary) -> None:
    """A crash in the middle of opening, and of the first steps after it."""
    machine, operations = run_workload(seed)
    tally = Tally(operations)
    for image in images(machine.files.trace, seed, count=STOPPED_IMAGES):
        recovered = Machine.from_image(image)
        recovered.settle()
        use(recovered)
        for inner in images(recovered.files.trace, seed, count=IMAGES_OF_EACH):
            marks = (*image.marks, *inner.marks)
            both = Image(inner.point, inner.outcome, inner.description, marks, inner.files)
            tally.add(seed, both, judge(both))
    summary(tally.summary())
    assert tally.images > 200
    assert tally.failures == []


def test_a_machine_that_was_closed_has_nothing_to_replay() -> None:
    for seed in range(5):
        machine, _ = run_workload(seed)
        machine.close()
        for image in images(machine.files.trace, seed, first=len(machine.files.trace)):
            again = Machine.from_image(image)
            assert is_clean(again.store.report), image.description
            assert again.problems() == [], image.description


def test_recovery_is_deterministic() -> None:
    """The same disk twice gives the same state and leaves the same disk."""
    machine, _ = run_workload(3)
    for image in images(machine.files.trace, 3, count=40):
        twins = []
        for _ in range(2):
            files = type(image.files)(image.files.contents(), image.files.folders())
            history = History.of(image.payloads("event"))
            twins.append(Machine(files, image.last("catalog"), history))
        if image.last("catalog") is not None:  # else each makes an identity of its own
            assert twins[0].state() == twins[1].state()
            assert twins[0].files.contents() == twins[1].files.contents()
