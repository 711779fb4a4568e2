"""ChunkedMessages: chunks are tied to their message, whatever is resent, refused or forgotten."""

from __future__ import annotations

import pytest

from milepost.broker.messages.chunked import PATIENCE_S, ChunkedMessages, ChunkLimits, Tie
from milepost.broker.messages.send_verdict import SendVerdict
from milepost.storage.ledgers.entry import CHUNK, LAST_CHUNK
from milepost.wire.events import ChunkInfo


def chunk(chunk_id: int, count: int = 3, uuid: str = "p-1") -> ChunkInfo:
    return ChunkInfo(uuid, chunk_id, count, 1000)


def put(chunked: ChunkedMessages, one: ChunkInfo, index: int) -> tuple[int, Tie | None]:
    """Judge, tie and store a chunk that is new."""
    assert chunked.judge(one) is SendVerdict.NEW
    flags, beside = chunked.tie(one, index)
    chunked.stored(one, index)
    return flags, Tie.of(beside)


def test_chunks_are_tied_to_the_first_and_to_the_one_before() -> None:
    chunked = ChunkedMessages()
    assert put(chunked, chunk(0), 10) == (CHUNK, None)
    assert put(chunked, chunk(1), 13) == (CHUNK, Tie(10, 10))
    assert put(chunked, chunk(2), 14) == (CHUNK | LAST_CHUNK, Tie(10, 13))
    assert chunked.indexes_of(14) == (10, 13, 14)
    assert chunked.indexes_of(13) is None


def test_messages_do_not_mix() -> None:
    chunked = ChunkedMessages()
    put(chunked, chunk(0, 2, "a"), 0)
    put(chunked, chunk(0, 2, "b"), 1)
    assert put(chunked, chunk(1, 2, "a"), 2)[1] == Tie(0, 0)
    assert put(chunked, chunk(1, 2, "b"), 3)[1] == Tie(1, 1)
    assert (chunked.indexes_of(2), chunked.indexes_of(3)) == ((0, 2), (1, 3))


def test_a_message_of_one_chunk_is_whole() -> None:
    chunked = ChunkedMessages()
    assert put(chunked, chunk(0, 1), 5) == (CHUNK | LAST_CHUNK, None)
    assert chunked.indexes_of(5) == (5,)


@pytest.mark.parametrize("orphan", [chunk(1), chunk(2), chunk(1, 2)])
def test_an_orphan_is_tied_to_nothing_and_ends_nothing(orphan: ChunkInfo) -> None:
    chunked = ChunkedMessages()
    assert put(chunked, orphan, 7) == (CHUNK, None)
    assert chunked.indexes_of(7) is None


def test_a_gap_makes_an_orphan_and_leaves_the_message() -> None:
    chunked = ChunkedMessages()
    put(chunked, chunk(0), 0)
    assert put(chunked, chunk(2), 1) == (CHUNK, None)
    assert put(chunked, chunk(1), 2)[1] == Tie(0, 0)
    assert put(chunked, chunk(2), 3) == (CHUNK | LAST_CHUNK, Tie(0, 2))


def test_what_is_stored_is_a_duplicate() -> None:
    chunked = ChunkedMessages()
    for number in range(3):
        put(chunked, chunk(number), number)
        assert [chunked.judge(chunk(n)) for n in range(1, number + 1)] == (
            [SendVerdict.DUPLICATE] * number
        )
    assert [chunked.index_of(chunk(number)) for number in range(3)] == [0, 1, 2]


def test_what_is_on_its_way_is_unknown() -> None:
    chunked = ChunkedMessages()
    for number in range(3):
        chunked.tie(chunk(number), number)
    chunked.stored(chunk(0), 0)
    chunked.stored(chunk(1), 1)
    assert chunked.judge(chunk(1)) is SendVerdict.DUPLICATE
    assert chunked.judge(chunk(2)) is SendVerdict.UNKNOWN
    assert chunked.indexes_of(2) is None
    chunked.stored(chunk(2), 2)
    assert chunked.indexes_of(2) == (0, 1, 2)


def test_chunk_0_begins_anew() -> None:
    """A late answer for the older attempt means nothing to the newer one."""
    chunked = ChunkedMessages()
    chunked.tie(chunk(0), 0)
    chunked.tie(chunk(1), 1)
    assert chunked.judge(chunk(0)) is SendVerdict.NEW
    assert chunked.tie(chunk(0), 2) == (CHUNK, b"")
    chunked.stored(chunk(0), 0)
    chunked.stored(chunk(1), 1)
    assert chunked.judge(chunk(1)) is SendVerdict.NEW
    chunked.stored(chunk(0), 2)
    assert put(chunked, chunk(1), 3)[1] == Tie(2, 2)
    assert put(chunked, chunk(2), 4) == (CHUNK | LAST_CHUNK, Tie(2, 3))


def test_what_is_refused_was_never_there() -> None:
    chunked = ChunkedMessages()
    put(chunked, chunk(0), 0)
    put(chunked, chunk(0, uuid="whole"), 1)
    chunked.tie(chunk(1), 2)
    chunked.tie(chunk(2), 3)
    chunked.tie(chunk(0, uuid="lost"), 4)
    chunked.refused()
    assert not chunked.knows(chunk(0, uuid="lost"))
    assert chunked.judge(chunk(1)) is SendVerdict.NEW
    assert put(chunked, chunk(1), 2)[1] == Tie(0, 0)
    assert put(chunked, chunk(2), 3) == (CHUNK | LAST_CHUNK, Tie(0, 2))
    assert chunked.indexes_of(3) == (0, 2, 3)


def test_a_message_is_continued_after_a_restart() -> None:
    chunked = ChunkedMessages()
    chunked.recalled(chunk(1, 4), 8, Tie(5, 5).to_bytes())
    assert chunked.judge(chunk(1, 4)) is SendVerdict.DUPLICATE
    assert (chunked.index_of(chunk(1, 4)), chunked.index_of(chunk(0, 4))) == (8, None)
    assert put(chunked, chunk(2, 4), 9)[1] == Tie(5, 8)
    assert put(chunked, chunk(3, 4), 10) == (CHUNK | LAST_CHUNK, Tie(5, 9))
    # Not all of it was seen in this life: whoever needs the places reads them.
    assert chunked.indexes_of(10) is None


def test_what_is_recalled_may_be_whole_a_beginning_or_an_orphan() -> None:
    chunked = ChunkedMessages()
    chunked.recalled(chunk(2, 3, "whole"), 8, Tie(5, 6).to_bytes())
    assert chunked.judge(chunk(2, 3, "whole")) is SendVerdict.DUPLICATE
    chunked.recalled(chunk(0, 3, "begun"), 9, b"")
    assert put(chunked, chunk(1, 3, "begun"), 10)[1] == Tie(9, 9)
    chunked.recalled(chunk(1, 3, "orphan"), 11, b"")
    assert not chunked.knows(chunk(1, 3, "orphan"))


def test_so_many_are_remembered() -> None:
    chunked = ChunkedMessages(messages_max=2)
    for number, uuid in enumerate("abc"):
        put(chunked, chunk(0, 2, uuid), number)
    assert [chunked.knows(chunk(0, 2, uuid)) for uuid in "abc"] == [False, True, True]
    put(chunked, chunk(1, 2, "b"), 3)
    put(chunked, chunk(0, 2, "d"), 4)
    put(chunked, chunk(0, 2, "e"), 5)
    # Those that are finished do not push out those that are not.
    assert [chunked.knows(chunk(0, 2, uuid)) for uuid in "bcde"] == [True, False, True, True]
    for last_index in (10, 11, 12):
        chunked.found_whole((9, last_index))
    assert [chunked.indexes_of(index) for index in (10, 11, 12)] == [None, (9, 11), (9, 12)]


def test_a_long_uuid_is_not_kept_as_it_is() -> None:
    chunked = ChunkedMessages()
    long_ones = ["x" * 100_000, "x" * 99_999 + "y"]
    for number, uuid in enumerate(long_ones):
        put(chunked, chunk(0, 2, uuid), number)
    assert put(chunked, chunk(1, 2, long_ones[0]), 2)[1] == Tie(0, 0)
    kept = [*chunked._unfinished, *chunked._finished]
    assert [len(uuid) for uuid in kept] == [64, 64]


# -- limits ----------------------------------------------------------------------------------------


def begin(chunked: ChunkedMessages, uuid: str, index: int, producer: str = "p") -> None:
    chunked.tie(chunk(0, 3, uuid), index, producer)
    chunked.stored(chunk(0, 3, uuid), index)


def test_a_producer_that_leaves_too_many_unfinished_is_refused_and_others_are_not() -> None:
    chunked, limits = ChunkedMessages(), ChunkLimits(0, 2, 0)
    for number in range(2):
        assert chunked.refusal(chunk(0, 3, f"u{number}"), "p", limits) is None
        begin(chunked, f"u{number}", number)
    refusal = chunked.refusal(chunk(0, 3, "u2"), "p", limits)
    assert refusal is not None
    assert "2 chunked messages of producer p" in str(refusal)
    assert chunked.refusal(chunk(0, 3, "u2"), "q", limits) is None
    assert chunked.unfinished_count == 2


@pytest.mark.parametrize(
    "allowed",
    [
        chunk(1, 3, "u0"),  # goes on
        chunk(0, 3, "u0"),  # begins again
        chunk(1, 3, "other"),  # an orphan, which nobody waits for
        chunk(0, 1, "other"),  # is whole at once
    ],
)
def test_past_the_limit_what_leaves_no_more_unfinished_is_taken(allowed: ChunkInfo) -> None:
    chunked, limits = ChunkedMessages(), ChunkLimits(1, 1, 0)
    begin(chunked, "u0", 0)
    assert chunked.refusal(allowed, "p", limits) is None
    assert chunked.refusal(chunk(0, 3, "u1"), "p", limits) is not None


def test_a_message_that_is_finished_makes_room() -> None:
    chunked, limits = ChunkedMessages(), ChunkLimits(1, 1, 0)
    begin(chunked, "u0", 0)
    chunked.tie(chunk(1, 3, "u0"), 1)
    chunked.tie(chunk(2, 3, "u0"), 2)
    assert chunked.refusal(chunk(0, 3, "u1"), "p", limits) is None
    chunked.refused()  # the disk did not take its end
    assert chunked.refusal(chunk(0, 3, "u1"), "p", limits) is not None


def test_what_got_nothing_new_for_an_hour_does_not_count() -> None:
    now = 0.0
    chunked, limits = ChunkedMessages(now_s=lambda: now), ChunkLimits(2, 0, 0)
    begin(chunked, "u0", 0)
    begin(chunked, "u1", 1)
    now = PATIENCE_S - 1.0
    chunked.tie(chunk(1, 3, "u1"), 2)
    assert chunked.refusal(chunk(0, 3, "u2"), "p", limits) is not None
    now = float(PATIENCE_S)
    assert chunked.refusal(chunk(0, 3, "u2"), "p", limits) is None
    assert chunked.unfinished_count == 1


def test_a_message_of_too_many_chunks_is_refused() -> None:
    refusal = ChunkedMessages().refusal(chunk(0, 6), "p", ChunkLimits(0, 0, 5))
    assert refusal is not None
    assert "6 chunks; 5 is the most" in str(refusal)
