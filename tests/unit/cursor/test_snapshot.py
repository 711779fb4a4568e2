"""Snapshots: the same cursor, inflight released; anything else is refused."""

from __future__ import annotations

import zlib

import pytest

from milepost.cursor import snapshot
from milepost.cursor.cursor import Cursor
from milepost.cursor.outcomes import Counts
from milepost.cursor.state import CursorState
from milepost.errors import CorruptData, UnknownFormat
from milepost.positions.ranges import IndexRanges
from milepost.positions.spans import INDEX_MAX, Span
from milepost.positions.varints import write_varint


@pytest.fixture
def lived() -> Cursor:
    """A cursor with something of everything."""
    cursor = Cursor(3, 100)
    cursor.deliver(3, 60, holder=1)
    cursor.ack([(3, 10), (20, 25)], holder=1)
    cursor.seek(15)
    cursor.deliver(15, 30, holder=2)
    cursor.ack([(15, 16), (18, 20)], holder=2)
    cursor.release([(22, 26)], count=True)
    cursor.release([(24, 26)], count=True)
    cursor.delay(80, 90, due_ms=1000)
    cursor.check()
    return cursor


def sealed(body: bytes) -> bytes:
    return body + zlib.crc32(body).to_bytes(4, "little")


def test_reopened_it_is_the_same_cursor_with_inflight_released(lived: Cursor) -> None:
    assert lived.counts() == Counts(ready=64, inflight=8, delayed=10, acked=15)
    reopened = snapshot.decode(snapshot.encode(lived))
    reopened.check()
    assert reopened.counts() == Counts(ready=82, inflight=0, delayed=0, acked=15)
    assert (reopened.first, reopened.end, reopened.epoch) == (3, 100, 1)
    assert reopened.backlog_ranges() == lived.backlog_ranges()
    assert [reopened.is_stale(index) for index in (29, 30, 59, 60)] == [False, True, True, False]
    assert reopened.redelivery_count(Span(20, 10)) == lived.redelivery_count(Span(20, 10)) == 1


def test_the_same_cursor_gives_the_same_bytes(lived: Cursor) -> None:
    written = snapshot.encode(lived)
    assert snapshot.encode(snapshot.decode(written)) == written


def test_the_format_does_not_move() -> None:
    """Snapshots of this version must be readable for ever."""
    cursor = Cursor(3, 300)
    cursor.deliver(3, 60, holder=1)
    cursor.seek(8)
    cursor.deliver(8, 12, holder=2)
    cursor.ack([(8, 9)], holder=2)
    cursor.release([(10, 12)], count=True)
    sets = "03 09 c6 04" + "02 09 06" + "02 0c 60" + "02 0a 04"
    body = bytes.fromhex("01" + "03 ac 02 01" + "04" + sets)
    assert snapshot.encode(cursor) == sealed(body)


def test_what_was_inflight_is_known_to_have_been_delivered(lived: Cursor) -> None:
    """A seek after the restart makes it stale: its ack may still be on its way."""
    reopened = snapshot.decode(snapshot.encode(lived))
    reopened.seek(0)
    assert reopened.is_stale(28)
    assert reopened.is_stale(23)
    assert not reopened.is_stale(95)


def test_a_snapshot_is_a_copy(lived: Cursor) -> None:
    state = lived.state()
    before = snapshot.encode(lived)
    for indexes in (state.backlog, state.returned, state.stale, *state.redeliveries):
        indexes.clear()
    assert snapshot.encode(lived) == before


def test_a_newer_version_is_refused_with_both_numbers(lived: Cursor) -> None:
    written = bytearray(snapshot.encode(lived))
    written[0] = 7
    with pytest.raises(UnknownFormat, match="version 7; this release knows 1"):
        snapshot.decode(bytes(written))


def test_every_flipped_bit_and_every_cut_is_found(lived: Cursor) -> None:
    written = snapshot.encode(lived)
    for bit in range(8 * len(written)):
        damaged = bytearray(written)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptData):
            snapshot.decode(bytes(damaged))
    for size in range(len(written)):
        with pytest.raises(CorruptData):
            snapshot.decode(written[:size])


def numbers(*values: int) -> bytes:
    out = bytearray([snapshot.VERSION])
    for value in values:
        write_varint(out, value)
    return bytes(out)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (numbers(), "a number at byte 1"),
        (numbers(0, 5, 0, 2, 0, 0), "of 2 sets"),
        (numbers(0, 5, 0, 3, 0, 0, 0, 0), "of 3 sets in 8 of 9 bytes"),
        (numbers(0, 5, 0, 3, 0, 0, 9), "a set of 9 bytes at byte 8 of 8"),
        (numbers(0, 5, 0, 2**60, 0, 0, 0), "a number at byte"),
        (numbers(6, 5, 0, 3, 0, 0, 0), r"a cursor of \[6, 5\)"),
        (numbers(0, 2**63, 0, 3, 0, 0, 0), "a cursor of"),
        # Index 5 in the backlog of [0, 5); index 1 returned, stale or counted, yet not in it.
        (numbers(0, 5, 0, 3, 2, 5, 2, 0, 0), "in the backlog"),
        (numbers(0, 5, 0, 3, 0, 2, 1, 2, 0), "returned"),
        (numbers(0, 5, 0, 3, 0, 0, 2, 1, 2), "stale"),
        (numbers(0, 5, 0, 3, 2, 1, 2, 2, 1, 2, 2, 1, 2), "overlap"),
        (numbers(0, 5, 0, 4, 2, 1, 2, 0, 0, 2, 1, 2), "redelivery counts"),
        (numbers(0, 5, 0, 36, *[0] * 36), "counts of 33 bits"),
    ],
)
def test_no_cursor_has_this_state(body: bytes, why: str) -> None:
    with pytest.raises(CorruptData, match=why):
        snapshot.decode(sealed(body))


def test_the_largest_end_there_is() -> None:
    cursor = Cursor(0, INDEX_MAX)
    assert snapshot.decode(snapshot.encode(cursor)).counts().ready == INDEX_MAX


def test_no_bytes_at_all_are_corrupt() -> None:
    with pytest.raises(CorruptData, match="no bytes"):
        snapshot.decode(b"")


def test_a_state_with_a_negative_epoch_is_refused() -> None:
    none = IndexRanges()
    with pytest.raises(CorruptData, match="epoch -1"):
        Cursor.from_state(CursorState(0, 0, -1, none, none.copy(), none.copy(), []))
