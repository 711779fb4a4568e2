"""The runway: how much is laid, when, and who keeps out of whose way."""

from __future__ import annotations

import errno
import threading

import pytest

from milepost.storage.journal.runway import (
    BLOCK_SIZE,
    INTERVAL_MAX_S,
    INTERVAL_S,
    PIECE_SIZE,
    Runway,
)

AHEAD = 4 * PIECE_SIZE


class Track:
    """A file as a runway knows it: where its records end, and what was laid."""

    def __init__(self, ahead: int = AHEAD) -> None:
        self.runway = Runway(ahead)
        self.size = 64
        self.laid: list[tuple[int, int]] = []
        self.failure: OSError | None = None

    def put(self, first: int, end: int) -> None:
        if self.failure is not None:
            raise self.failure
        self.laid.append((first, end))

    def lay(self, now: float = 0.0) -> None:
        assert self.runway.wants_more(self.size, now)
        self.runway.begin(self.size, now)
        self.runway.lay(self.put, lambda: self.size)


def test_pieces_follow_each_other_until_it_is_enough() -> None:
    track = Track()
    track.lay()
    firsts, ends = [first for first, _ in track.laid], [end for _, end in track.laid]
    assert firsts[1:] == ends[:-1]
    assert ends[-1] == track.runway.end
    assert track.size + AHEAD <= ends[-1] < track.size + AHEAD + PIECE_SIZE
    assert all(first % BLOCK_SIZE == 0 for first in firsts)
    # Records that came while the first piece was on its way had room before it.
    assert firsts[0] >= track.size + PIECE_SIZE


def test_it_goes_on_where_it_ended_when_half_of_it_is_used() -> None:
    track = Track()
    track.lay()
    end = track.runway.end
    assert not track.runway.wants_more(track.size, 10.0)
    track.size = end - AHEAD // 2
    assert not track.runway.wants_more(track.size, 10.0)
    track.size += 1
    track.lay(10.0)
    assert (end, end + PIECE_SIZE) in track.laid


def test_whoever_is_faster_than_it_is_laid_does_without() -> None:
    track = Track()
    track.lay(0.0)
    track.size = track.runway.end + 1
    assert not track.runway.wants_more(track.size, INTERVAL_S / 2)
    assert track.runway.wants_more(track.size, INTERVAL_S)


def test_whoever_overruns_it_again_and_again_is_given_the_next_one_later() -> None:
    track = Track()
    track.lay()
    now, intervals = 0.0, [INTERVAL_S]
    for _ in range(6):
        track.size = track.runway.end + 1
        interval = intervals[-1]
        assert not track.runway.wants_more(track.size, now + interval - 0.01)
        now += interval
        track.lay(now)
        intervals.append(min(2 * interval, INTERVAL_MAX_S))
    assert intervals[-1] == INTERVAL_MAX_S
    track.size = track.runway.end - 1  # not overrun: as before
    now += INTERVAL_MAX_S
    track.lay(now)
    track.size = track.runway.end - 1
    assert track.runway.wants_more(track.size, now + INTERVAL_S)


def test_records_that_overran_it_are_not_laid_over() -> None:
    track = Track()
    track.runway.begin(track.size, 0.0)
    track.size = track.runway.end + 1
    track.runway.lay(track.put, lambda: track.size)
    assert track.laid == []
    track.lay(INTERVAL_S)
    assert min(first for first, _ in track.laid) >= track.size


def test_while_it_is_laid_whoever_goes_beyond_its_end_waits_for_a_piece() -> None:
    track = Track()
    runway = track.runway
    assert runway.is_clear(1 << 40)
    met: list[bool] = []

    def put(first: int, end: int) -> None:
        met.append(runway.turn.acquire(blocking=False))
        met.append(runway.is_clear(first))
        met.append(runway.is_clear(first + 1))

    runway.begin(track.size, 0.0)
    runway.lay(put, lambda: track.size)
    assert met[:3] == [False, True, False]
    assert runway.is_clear(1 << 40)
    assert runway.turn.acquire(blocking=False)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_disk_without_room_for_it_is_no_reason_for_distrust(number: int) -> None:
    track = Track()
    track.failure = OSError(number, "no")
    track.lay()
    assert not track.runway.is_suspect
    assert track.runway.is_clear(1 << 40)
    assert not track.runway.wants_more(track.size, 100.0)  # of this file


def test_a_piece_that_cannot_be_synced_is_one() -> None:
    track = Track()
    track.failure = OSError(errno.EIO, "no")
    track.lay()
    assert track.runway.is_suspect


def test_of_a_file_that_is_finished_nothing_is_laid() -> None:
    track = Track()
    track.runway.begin(track.size, 0.0)
    track.runway.close()
    track.runway.lay(track.put, lambda: track.size)
    assert track.laid == []
    assert not Runway(0).wants_more(64, 0.0)


def test_two_threads_never_write_to_one_place() -> None:
    """One lays, one commits as journals do; every byte is written by one of them, or zeros come first."""
    track = Track(ahead=64 * BLOCK_SIZE)
    runway = Runway(64 * BLOCK_SIZE, BLOCK_SIZE)
    content = bytearray(400 * BLOCK_SIZE)
    spoilt: list[int] = []

    def put(first: int, end: int) -> None:
        if any(content[first:end]):
            spoilt.append(first)
        content[first:end] = bytes(end - first)

    thread: threading.Thread | None = None
    for number in range(900):
        if runway.wants_more(track.size, float(number)):
            runway.begin(track.size, float(number))
            thread = threading.Thread(target=runway.lay, args=(put, lambda: track.size))
            thread.start()
        end = track.size + 1 + (number * 7919) % 1700
        if runway.is_clear(end):
            content[track.size : end] = b"r" * (end - track.size)
            track.size = end
        else:
            with runway.turn:
                content[track.size : end] = b"r" * (end - track.size)
                track.size = end
    assert thread is not None
    thread.join()
    assert spoilt == []
    assert bytes(content[64 : track.size]) == b"r" * (track.size - 64)
