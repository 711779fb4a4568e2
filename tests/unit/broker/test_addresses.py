from __future__ import annotations

from typing import Any

import pytest

from milepost.broker import addresses
from milepost.broker.addresses import acked, distinct
from milepost.errors import IndexNotFound, TooManyRequests
from milepost.positions.ackset import AckSet
from milepost.wire.events import WireId


def an_id(entry_id: int, *words: int) -> WireId:
    return WireId(3, entry_id, ack_set=words)


def test_the_same_id_again_and_again_is_one() -> None:
    assert distinct([an_id(5)] * 1000 + [an_id(6)] * 1000) == [an_id(5), an_id(6)]


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([an_id(5, 0b110), an_id(5, 0b011)], [an_id(5, 0b010)]),
        ([an_id(5, -1, 0b110), an_id(5, 7)], [an_id(5, 7)]),  # a missing word is acked
        ([an_id(5, 0b110), an_id(5)], [an_id(5)]),  # no words: the whole entry
        ([an_id(5), an_id(5, 0b110)], [an_id(5)]),
        ([an_id(5, 1), an_id(6, 2), an_id(5, 2)], [an_id(5, 0), an_id(6, 2)]),
        ([an_id(6), an_id(5, 1)], [an_id(6), an_id(5, 1)]),
    ],
)
def test_sets_of_one_entry_are_merged(ids: list[WireId], expected: list[WireId]) -> None:
    assert distinct(ids) == expected


def test_merging_is_acking_one_after_the_other() -> None:
    words = [(-1, 0b1011), (0b1101, -1), (-2, 0b11)]
    (merged,) = distinct([an_id(5, *one) for one in words])
    one_by_one = AckSet.full(70)
    for one in words:
        one_by_one &= AckSet.from_ack_words(one, 70)
    assert AckSet.from_ack_words(merged.ack_set, 70) == one_by_one


class TenEach:
    """Stands for a topic: entry n holds the indexes from 10n on."""

    def lookup(self, ledger_id: int, entry_id: int) -> tuple[int, int, int]:
        if entry_id > 99:
            raise IndexNotFound(f"no entry {entry_id}")
        return 10 * entry_id, 10 * entry_id + 10, 0


TOPIC: Any = TenEach()


def test_a_bad_id_costs_only_itself() -> None:
    ranges, failure = acked(TOPIC, [an_id(1), an_id(500), an_id(3)], batch_index_ack=True)
    assert ranges == [(10, 20), (30, 40)]
    assert isinstance(failure, IndexNotFound)


def test_an_ack_has_so_many_ranges_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "ACKED_RANGES_MAX", 5)
    every_second = 0b0101010101
    ranges, failure = acked(TOPIC, [an_id(1, every_second)], batch_index_ack=True)
    assert ranges == [(11, 12), (13, 14), (15, 16), (17, 18), (19, 20)]
    assert failure is None
    ranges, failure = acked(TOPIC, [an_id(0), an_id(1, every_second)], batch_index_ack=True)
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
    monkeypatch.setattr(addresses, "ACKED_RANGES_MAX", len(ranges))
    assert acked(TOPIC, [an_id(1, bits)], batch_index_ack=True) == (ranges, None)
    monkeypatch.setattr(addresses, "ACKED_RANGES_MAX", len(ranges) - 1)
    assert acked(TOPIC, [an_id(1, bits)], batch_index_ack=True)[0] == []
