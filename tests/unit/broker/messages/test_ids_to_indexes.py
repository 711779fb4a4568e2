"""Addresses: what the ids in commands mean as indexes."""

from __future__ import annotations

from typing import Any

import pytest
from stage.frames import batch, chunk, marker, message
from stage.stage import Stage

from milepost.broker.messages import ids_to_indexes
from milepost.broker.messages.ids_to_indexes import (
    acked,
    acked_end,
    acked_ranges,
    released_ranges,
    start_index,
)
from milepost.broker.topic.topic import Topic
from milepost.errors import IndexNotFound, MilepostError, TooManyRequests
from milepost.positions.ackset import AckSet
from milepost.positions.ranges import IndexRanges, Range
from milepost.wire.events import Ack, WireId


def an_id(entry_id: int, *words: int) -> WireId:
    return WireId(3, entry_id, ack_set=words)


class TenEach:
    """Stands for a topic: entry n holds the indexes from 10n on."""

    name = "ten-each"

    def has_trimmed(self, ledger_id: int) -> bool:
        return False

    def lookup(self, ledger_id: int, entry_id: int) -> tuple[int, int, int]:
        if entry_id > 99:
            raise IndexNotFound(f"no entry {entry_id}")
        return 10 * entry_id, 10 * entry_id + 10, 0


TOPIC: Any = TenEach()


def acked_by(ids: list[WireId], end_index: int = 1000) -> tuple[list[Range], MilepostError | None]:
    return acked(TOPIC, Ack(0, False, ids, None), batch_index_ack=True, end_index=end_index)


def test_a_bad_id_costs_only_itself() -> None:
    ranges, failure = acked_by([an_id(1), an_id(500), an_id(3)])
    assert ranges == [(10, 20), (30, 40)]
    assert isinstance(failure, IndexNotFound)


def test_an_id_that_is_not_visible_costs_only_itself() -> None:
    ranges, failure = acked_by([an_id(1), an_id(3), an_id(2)], end_index=30)
    assert ranges == [(10, 20), (20, 30)]
    assert isinstance(failure, IndexNotFound)


def test_an_ack_has_so_many_ranges_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ids_to_indexes, "ACKED_RANGES_MAX", 5)
    every_second = 0b0101010101
    ranges, failure = acked_by([an_id(1, every_second)])
    assert ranges == [(11, 12), (13, 14), (15, 16), (17, 18), (19, 20)]
    assert failure is None
    ranges, failure = acked_by([an_id(0), an_id(1, every_second)])
    assert ranges == [(0, 10)]
    assert isinstance(failure, TooManyRequests)


@pytest.mark.parametrize(
    "bits", [0, 1, 0b10, 0b1000000000, 0b0101010101, 0b1010101010, 1023, 0b11011]
)
def test_ranges_are_counted_before_they_are_made(
    monkeypatch: pytest.MonkeyPatch, bits: int
) -> None:
    """Never above what they are, so that nothing allowed is refused; below by one at the most."""
    ranges = AckSet.from_ack_words([bits], 10).acked_runs(10)
    monkeypatch.setattr(ids_to_indexes, "ACKED_RANGES_MAX", len(ranges))
    assert acked_by([an_id(1, bits)]) == (ranges, None)
    monkeypatch.setattr(ids_to_indexes, "ACKED_RANGES_MAX", len(ranges) - 1)
    assert acked_by([an_id(1, bits)])[0] == []


# -- on a real topic -----------------------------------------------------------------------------------


@pytest.fixture
def real(stage: Stage) -> Topic:
    """Ledger 1: message 0; a batch of five, 1 to 5; a chunked message of three, 6 to 8; a marker, 9."""
    topic = stage.topic()
    frames = [message(0), batch(1, 5), *[chunk(2, number, 3) for number in range(3)], marker(3)]
    stage.publish(stage.producer(topic), *frames)
    return topic


@pytest.mark.parametrize(
    ("message_id", "ranges"),
    [
        (WireId(1, 0), [(0, 1)]),
        (WireId(1, 1), [(1, 6)]),
        (WireId(1, 1, ack_set=(0b10110,)), [(1, 2), (4, 5)]),
        (WireId(1, 1, ack_set=(-1,)), []),
        (WireId(1, 1, ack_set=(-32,)), [(1, 6)]),  # only bits beyond the batch: they mean nothing
        (WireId(1, 1, ack_set=(0, -1)), [(1, 6)]),
        (WireId(1, 2), []),  # half a message is never done
        (WireId(1, 4), [(6, 7), (7, 8), (8, 9)]),
        (WireId(1, 4, batch_index=0), [(6, 7), (7, 8), (8, 9)]),
    ],
)
def test_what_an_individual_ack_covers(
    real: Topic, message_id: WireId, ranges: list[tuple[int, int]]
) -> None:
    found = acked_ranges(real, message_id, batch_index_ack=True)
    assert IndexRanges(found) == IndexRanges(ranges)


@pytest.mark.parametrize(
    ("message_id", "end"),
    [
        (WireId(1, -1), 0),
        (WireId(1, 0), 1),
        (WireId(1, 1), 6),
        (WireId(1, 1, ack_set=(0b11000,)), 4),
        (WireId(1, 1, ack_set=(0b11010,)), 2),  # up to the first that is left
        (WireId(1, 1, ack_set=(0b11111,)), 1),
        (WireId(1, 1, ack_set=(0,)), 6),
        (WireId(1, 4), 9),
        (WireId(2, -1), 10),
        (WireId(0, -1), 0),
        (WireId(-1, -1), 0),
    ],
)
def test_where_a_cumulative_ack_ends(real: Topic, message_id: WireId, end: int) -> None:
    assert acked_end(real, message_id, batch_index_ack=True) == end


def test_without_batch_index_acks_sets_say_nothing(real: Topic) -> None:
    part = WireId(1, 1, ack_set=(0b11000,))
    assert acked_ranges(real, part, batch_index_ack=False) == []
    assert acked_end(real, part, batch_index_ack=False) == 1


def test_what_is_released_is_whole_entries(real: Topic) -> None:
    ids = [WireId(1, 1, batch_index=2), WireId(9, 9), WireId(1, 4)]
    assert IndexRanges(released_ranges(real, ids)) == IndexRanges([(1, 6), (8, 9)])


@pytest.mark.parametrize(
    ("position", "fields", "index"),
    [
        ((1, 1), {}, 1),
        ((1, 1), {"batch_index": 0}, 1),
        ((1, 1), {"batch_index": 4}, 5),
        ((1, 1), {"batch_index": 5}, 1),
        ((1, 1), {"ack_set": [0b11000]}, 4),
        ((1, 1), {"ack_set": [0]}, 6),
        ((1, 1), {"ack_set": [0b11000], "whole_entry": True}, 1),
        ((1, 0), {"batch_index": 0}, 0),
        ((1, 2), {}, 6),
        ((1, 3), {}, 6),
        ((1, 4), {}, 6),
        ((1, 4), {"whole_entry": True}, 8),
        ((1, 5), {}, 9),
        ((1, 6), {}, 10),
        ((-1, -1), {}, 0),
        ((-1, 5), {}, 0),
        ((2**63 - 1, 2**63 - 1), {}, 10),
        ((7, 0), {}, 10),
        ((0, 0), {}, 0),
        ((1, -1), {}, 0),
    ],
)
def test_where_an_id_starts(
    real: Topic, position: tuple[int, int], fields: dict[str, Any], index: int
) -> None:
    assert start_index(real, *position, **fields) == index


def test_ids_mean_the_same_after_a_restart(stage: Stage, real: Topic) -> None:
    """Trap 15, and promise 6: from the id of the last chunk alone."""
    again = stage.restarted().topic()
    assert acked_ranges(again, WireId(1, 4), batch_index_ack=True)
    for topic in (real, again):
        found = acked_ranges(topic, WireId(1, 4), batch_index_ack=True)
        assert IndexRanges(found) == IndexRanges([(6, 9)])
    assert start_index(again, 1, 4) == 6
