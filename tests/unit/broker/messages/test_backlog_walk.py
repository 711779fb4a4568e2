"""A walk through a backlog with holes: what it finds, where it rests, what it does not trip over."""

from __future__ import annotations

import random

import pytest
from stage.frames import batch, message
from stage.stage import Stage

from milepost.broker.limits.time_slices import TimeSlices
from milepost.broker.messages import backlog_walk
from milepost.broker.messages.backlog_walk import entries_in, nth_in_backlog, walk
from milepost.errors import IndexNotFound
from milepost.positions.ranges import IndexRanges
from milepost.storage.ledgers.log import Log
from milepost.storage.ledgers.stretch import Stretch


def filled(stage: Stage, sizes: list[int]) -> tuple[Log, list[int]]:
    """A log with entries of so many messages, and which entry each index is in."""
    topic = stage.topic()
    producer = stage.producer(topic)
    owners: list[int] = []
    for number, size in enumerate(sizes):
        frame = batch(len(owners), size) if size > 1 else message(len(owners))
        stage.publish(producer, frame)
        owners += [number] * size
    return topic.log, owners


@pytest.mark.parametrize("sizes_max", [1, 4])
@pytest.mark.parametrize("stored", [False, True])
def test_against_counting_by_hand(
    make_stage: type[Stage], monkeypatch: pytest.MonkeyPatch, sizes_max: int, stored: bool
) -> None:
    monkeypatch.setattr(backlog_walk, "STEP_ENTRIES", 7)
    rng = random.Random(sizes_max)
    stage = make_stage(ledger_entries_max=60)
    slices = TimeSlices(stage.clock)
    log, owners = filled(stage, [rng.randint(1, sizes_max) for _ in range(150)])
    if stored:
        stage.checkpoint()
    for part in (0.02, 0.5, 0.98, 1.0):
        left = [index for index in range(len(owners)) if rng.random() < part]
        ranges = IndexRanges([(index, index + 1) for index in left])
        entries = sorted({owners[index] for index in left})
        assert stage.run(entries_in(log, ranges, slices, stage.engine)) == len(entries)
        for number in {1, len(entries) // 2, len(entries)} - {0}:
            found = stage.run(nth_in_backlog(log, ranges, number, slices, stage.engine))
            assert owners[found.span.first_index] == entries[number - 1]
        with pytest.raises(IndexNotFound, match=f"{len(entries)} entries in the backlog"):
            stage.run(nth_in_backlog(log, ranges, len(entries) + 1, slices, stage.engine))


def test_an_entry_of_two_holes_is_one_entry_of_the_backlog(stage: Stage) -> None:
    log, _ = filled(stage, [1, 3, 1, 2, 1, 4])
    slices = TimeSlices(stage.clock)
    holes = IndexRanges([(0, 1), (1, 2), (3, 4), (8, 9), (10, 12)])
    assert stage.run(entries_in(log, holes, slices, stage.engine)) == 3
    found = [
        stage.run(nth_in_backlog(log, holes, n, slices, stage.engine)).position.entry_id
        for n in (1, 2, 3)
    ]
    assert found == [0, 1, 5]


def test_nothing_is_nothing(stage: Stage) -> None:
    log, slices = stage.topic().log, TimeSlices(stage.clock)
    assert stage.run(entries_in(log, IndexRanges(), slices, stage.engine)) == 0
    with pytest.raises(IndexNotFound, match="0 entries"):
        stage.run(nth_in_backlog(log, IndexRanges([(0, 5)]), 1, slices, stage.engine))


def test_what_is_trimmed_in_a_rest_is_passed_over(
    make_stage: type[Stage], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog_walk, "STEP_ENTRIES", 2)
    stage = make_stage(ledger_entries_max=10)
    log, _ = filled(stage, [1] * 40)
    seen: list[int] = []

    def take(stretch: Stretch, count: int) -> bool:
        seen.append(stretch.first_index)
        return stretch.first_index >= 24

    async def rest(slices: TimeSlices) -> None:
        if seen[-1] == 2:
            stage.store.trim(log, 20)

    monkeypatch.setattr(TimeSlices, "is_over", property(lambda slices: True))
    monkeypatch.setattr(TimeSlices, "rest", rest)
    stage.run(walk(log, IndexRanges([(0, 40)]), take, TimeSlices(stage.clock), stage.engine))
    assert seen == [0, 2, 20, 22, 24]
