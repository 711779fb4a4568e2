"""No half transaction, wherever the machine stops: crash images of a broker at work with transactions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from crash.campaign import scaled
from crash.transactions import Workload, judge, problems_of
from milepost.testing import images

LOTS_LONG = 4
LOTS = range(scaled(LOTS_LONG))
SEEDS_PER_LOT = 3
OPERATIONS = 90
IMAGES = 25
Summary = Callable[[str], None]


def failures(seed: int, *, faults: bool, count: int = IMAGES) -> tuple[list[str], int]:
    """What is wrong with the images of one workload, and how many there were."""
    workload = Workload(seed, faults=faults)
    try:
        workload.run(OPERATIONS)
        trace = workload.stage.files.trace
        found = [f"seed {seed}: {one}" for one in problems_of(workload.stage, workload.story)]
    finally:
        workload.stage.close()
    number = 0
    for number, image in enumerate(images(trace, seed, count=count), 1):
        if problems := judge(image, ends=number % 3 == 0):
            found.append(f"seed {seed}: {image.description}: {'; '.join(problems[:3])}")
    return found, number


@pytest.mark.parametrize("faults", [False, True])
@pytest.mark.parametrize("lot", LOTS)
def test_a_transaction_is_there_whole_or_not_at_all(
    lot: int, faults: bool, summary: Summary
) -> None:
    total = 0
    for seed in range(lot * SEEDS_PER_LOT, (lot + 1) * SEEDS_PER_LOT):
        found, count = failures(seed, faults=faults)
        assert found == []
        total += count
    summary(f"{total} crash images of transactions: 0 anomalies")
