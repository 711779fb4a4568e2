"""Dedup: each rule of the verdict by example."""

from __future__ import annotations

import zlib

import pytest

from milepost.broker.messages.send_verdict import SendVerdict
from milepost.broker.topic.dedup import Dedup
from milepost.errors import CorruptData, ProducerBusy, UnknownFormat
from milepost.wire.events import ChunkInfo

NEW, DUPLICATE, UNKNOWN = SendVerdict.NEW, SendVerdict.DUPLICATE, SendVerdict.UNKNOWN


def chunk(chunk_id: int, count: int = 3) -> ChunkInfo:
    return ChunkInfo("p-5", chunk_id, count, 1000)


def store(
    dedup: Dedup, sequence_id: int, highest: int = 0, part: ChunkInfo | None = None
) -> SendVerdict:
    """Judge a send of "p" and, if it is new, make it durable."""
    verdict = dedup.judge("p", sequence_id, highest, part)
    if verdict is NEW:
        dedup.persisted("p", sequence_id, highest, part)
    dedup.check()
    return verdict


# ── single messages ───────────────────────────────────────────────────────────────────────────────


def test_ids_of_a_fresh_name_are_new_and_those_stored_are_duplicates() -> None:
    dedup = Dedup()
    assert dedup.last_sequence_id("p") == -1
    assert [store(dedup, s) for s in (0, 1, 1, 0, 7, 3)] == [
        NEW,
        NEW,
        DUPLICATE,
        DUPLICATE,
        NEW,
        DUPLICATE,
    ]
    assert dedup.last_sequence_id("p") == 7


def test_what_is_on_its_way_is_unknown_until_it_is_durable() -> None:
    dedup = Dedup()
    assert dedup.judge("p", 4) is NEW
    assert dedup.judge("p", 4) is UNKNOWN
    assert dedup.judge("p", 5) is NEW
    assert dedup.last_sequence_id("p") == 5
    assert not dedup.is_settled("p")
    dedup.persisted("p", 4)
    assert dedup.judge("p", 4) is DUPLICATE
    assert dedup.judge("p", 5) is UNKNOWN
    dedup.persisted("p", 5)
    assert dedup.judge("p", 5) is DUPLICATE
    assert dedup.is_settled("p")


def test_producers_do_not_know_each_other() -> None:
    dedup = Dedup()
    store(dedup, 9)
    assert dedup.judge("q", 3) is NEW
    assert dedup.last_sequence_id("q") == 3
    assert dedup.is_settled("p")
    assert dedup.is_settled("never seen")


# ── batches ───────────────────────────────────────────────────────────────────────────────────────


def test_a_java_batch_is_recorded_with_its_highest_id() -> None:
    dedup = Dedup()
    assert store(dedup, 0, highest=9) is NEW
    assert dedup.last_sequence_id("p") == 9
    assert store(dedup, 0, highest=9) is DUPLICATE
    assert store(dedup, 9) is DUPLICATE
    assert store(dedup, 10, highest=12) is NEW


def test_all_ids_of_a_java_batch_on_its_way_are_unknown() -> None:
    dedup = Dedup()
    assert dedup.judge("p", 0, 9) is NEW
    assert dedup.judge("p", 9) is UNKNOWN
    assert dedup.last_sequence_id("p") == 9


def test_only_the_lowest_id_of_a_batch_is_compared() -> None:
    dedup = Dedup()
    store(dedup, 0, highest=5)
    assert store(dedup, 4, highest=9) is DUPLICATE


def test_key_based_cpp_batches_with_interleaved_ids_are_all_kept() -> None:
    """{0, 3, 4} says 0 and {1, 2} says 1: a guess from the count would drop the second."""
    dedup = Dedup()
    assert [store(dedup, 0), store(dedup, 1), store(dedup, 5)] == [NEW, NEW, NEW]
    assert [store(dedup, 0), store(dedup, 1), store(dedup, 5)] == [DUPLICATE] * 3


# ── refusals ──────────────────────────────────────────────────────────────────────────────────────


def test_after_a_refusal_pushed_falls_back_to_persisted() -> None:
    dedup = Dedup()
    store(dedup, 3)
    assert [dedup.judge("p", s) for s in (4, 5)] == [NEW, NEW]
    dedup.refused()
    dedup.check()
    assert dedup.last_sequence_id("p") == 3
    assert dedup.is_settled("p")


def test_nothing_is_stored_behind_what_was_refused_before_it_came_again() -> None:
    dedup = Dedup()
    store(dedup, 3)
    dedup.judge("p", 4)
    dedup.refused()
    assert dedup.judge("p", 5) is UNKNOWN  # was on the wire already
    assert dedup.judge("p", 3) is DUPLICATE
    dedup.opened("p")
    assert [store(dedup, s) for s in (4, 5)] == [NEW, NEW]


def test_a_refusal_does_not_concern_those_who_had_nothing_on_the_way() -> None:
    dedup = Dedup()
    store(dedup, 3)
    dedup.judge("q", 0)
    dedup.refused()
    assert store(dedup, 4) is NEW
    assert dedup.judge("q", 1) is UNKNOWN


# ── chunks ────────────────────────────────────────────────────────────────────────────────────────


def test_the_chunks_of_a_stored_message_are_all_duplicates() -> None:
    dedup = Dedup()
    assert [store(dedup, 5, part=chunk(i)) for i in range(3)] == [NEW, NEW, NEW]
    assert [store(dedup, 5, part=chunk(i)) for i in range(3)] == [DUPLICATE] * 3
    assert dedup.last_sequence_id("p") == 5
    assert store(dedup, 6) is NEW


def test_an_unfinished_message_is_no_last_sequence_id() -> None:
    dedup = Dedup()
    store(dedup, 4)
    store(dedup, 5, part=chunk(0))
    assert dedup.last_sequence_id("p") == 4


def test_a_partly_stored_message_is_accepted_from_chunk_0_on() -> None:
    dedup = Dedup()
    assert [store(dedup, 5, part=chunk(i)) for i in (0, 1)] == [NEW, NEW]
    assert [store(dedup, 5, part=chunk(i)) for i in (0, 1, 2)] == [NEW, NEW, NEW]
    assert store(dedup, 5, part=chunk(0)) is DUPLICATE


def test_a_stored_chunk_that_comes_alone_again_is_a_duplicate() -> None:
    """The client reconnected with the receipts of the chunks before it."""
    dedup = Dedup()
    assert [store(dedup, 5, part=chunk(i)) for i in (0, 1)] == [NEW, NEW]
    assert store(dedup, 5, part=chunk(1)) is DUPLICATE
    assert store(dedup, 5, part=chunk(2)) is NEW


def test_a_chunk_on_its_way_is_unknown() -> None:
    dedup = Dedup()
    store(dedup, 5, part=chunk(0))
    assert dedup.judge("p", 5, chunk=chunk(1)) is NEW
    assert dedup.judge("p", 5, chunk=chunk(1)) is UNKNOWN
    assert dedup.judge("p", 5, chunk=chunk(2)) is NEW
    assert dedup.judge("p", 5, chunk=chunk(0)) is UNKNOWN  # the last one is on its way
    assert dedup.judge("p", 5, chunk=chunk(2)) is UNKNOWN


def test_a_chunk_is_no_duplicate_by_a_chunk_of_an_earlier_attempt() -> None:
    dedup = Dedup()
    for i in (0, 1, 0, 1):
        assert dedup.judge("p", 5, chunk=chunk(i)) is NEW
    for i in (0, 1):  # of the first attempt; the second is still on its way
        dedup.persisted("p", 5, chunk=chunk(i))
    assert dedup.judge("p", 5, chunk=chunk(1)) is UNKNOWN


def test_a_gap_stops_the_producer_until_it_resends() -> None:
    dedup = Dedup()
    store(dedup, 5, part=chunk(0))
    assert store(dedup, 5, part=chunk(2)) is UNKNOWN
    assert store(dedup, 5, part=chunk(1)) is UNKNOWN
    assert store(dedup, 6) is UNKNOWN
    dedup.opened("p")
    assert [store(dedup, 5, part=chunk(i)) for i in (1, 2)] == [NEW, NEW]
    assert store(dedup, 6) is NEW


def test_a_refused_chunk_is_expected_again() -> None:
    dedup = Dedup()
    store(dedup, 5, part=chunk(0))
    assert [dedup.judge("p", 5, chunk=chunk(i)) for i in (1, 2)] == [NEW, NEW]
    dedup.refused()
    dedup.opened("p")
    dedup.check()
    assert [store(dedup, 5, part=chunk(i)) for i in (1, 2)] == [NEW, NEW]


def test_a_message_between_two_chunks_does_not_make_the_rest_a_duplicate() -> None:
    dedup = Dedup()
    store(dedup, 5, part=chunk(0))
    store(dedup, 6)
    assert [store(dedup, 5, part=chunk(i)) for i in (1, 2)] == [NEW, NEW]
    assert dedup.last_sequence_id("p") == 6
    assert store(dedup, 5, part=chunk(0)) is DUPLICATE


def test_a_message_sent_in_one_piece_ends_the_chunked_attempt() -> None:
    dedup = Dedup()
    store(dedup, 5, part=chunk(0))
    assert store(dedup, 5) is NEW
    assert store(dedup, 5, part=chunk(0)) is DUPLICATE


def test_chunks_whose_beginning_is_not_known_are_accepted() -> None:
    """Duplicates are looked for since a moment ago, or the producer was forgotten."""
    dedup = Dedup()
    assert [store(dedup, 5, part=chunk(i)) for i in (1, 2)] == [NEW, NEW]
    assert store(dedup, 5, part=chunk(2)) is DUPLICATE


def test_a_message_of_one_chunk_is_a_message() -> None:
    dedup = Dedup()
    assert store(dedup, 5, part=chunk(0, 1)) is NEW
    assert store(dedup, 5, part=chunk(0, 1)) is DUPLICATE


# ── producers ─────────────────────────────────────────────────────────────────────────────────────


def let_go(dedup: Dedup, gone_since: float) -> int:
    """Forget those that are gone since then; how many."""
    found = dedup.let_go(gone_since)
    dedup.check()
    count = dedup.forget_let_go()
    assert found is (count > 0)
    dedup.check()
    return count


def test_a_producer_that_is_gone_for_long_is_forgotten() -> None:
    dedup = Dedup()
    store(dedup, 9)
    dedup.closed("p", 1000)
    assert let_go(dedup, 999.9) == 0
    assert dedup.judge("p", 9) is DUPLICATE
    assert let_go(dedup, 1000) == 1
    assert dedup.last_sequence_id("p") == -1


def test_a_connected_producer_is_never_forgotten() -> None:
    dedup = Dedup()
    store(dedup, 9)
    dedup.closed("p", 0)
    dedup.opened("p")
    assert let_go(dedup, 1e9) == 0
    assert dedup.last_sequence_id("p") == 9


def test_only_those_gone_for_long_enough_are_forgotten() -> None:
    dedup = Dedup()
    for at, name in enumerate("abc"):
        dedup.judge(name, 7)
        dedup.persisted(name, 7)
        dedup.closed(name, at)
    dedup.closed("a", 3)  # closed again: gone since then
    assert let_go(dedup, 2) == 2
    assert [dedup.last_sequence_id(name) for name in "abc"] == [7, -1, -1]


def test_what_is_on_its_way_keeps_a_producer_from_being_forgotten() -> None:
    dedup = Dedup()
    dedup.judge("p", 9)
    dedup.closed("p", 0)
    assert let_go(dedup, 1) == 0
    dedup.persisted("p", 9)
    assert let_go(dedup, 1) == 1


def test_a_producer_that_is_let_go_counts_but_is_in_no_snapshot() -> None:
    dedup = Dedup()
    store(dedup, 9)
    dedup.closed("p", 0)
    before = dedup.snapshot(1)
    assert dedup.let_go(0)
    assert dedup.snapshot(1) == Dedup().snapshot(1)
    assert dedup.judge("p", 9) is DUPLICATE
    dedup.keep_let_go()
    assert dedup.snapshot(1) == before
    assert dedup.forget_let_go() == 0


@pytest.mark.parametrize("leaves_again", [True, False])
def test_a_producer_that_comes_back_is_not_let_go(leaves_again: bool) -> None:
    dedup = Dedup()
    store(dedup, 9)
    dedup.closed("p", 0)
    assert dedup.let_go(0)
    dedup.opened("p")
    if leaves_again:
        dedup.closed("p", 5)
    dedup.check()
    assert dedup.forget_let_go() == 0
    assert dedup.last_sequence_id("p") == 9


def test_one_that_is_let_go_makes_room_and_is_forgotten_with_the_others() -> None:
    dedup = Dedup(producers_max=1)
    store(dedup, 9)
    dedup.closed("p", 0)
    assert dedup.let_go(0)
    dedup.opened("q")
    dedup.check()
    assert dedup.last_sequence_id("p") == 9
    assert dedup.forget_let_go() == 1
    dedup.check()


def test_past_the_maximum_the_one_gone_for_longest_makes_room() -> None:
    dedup = Dedup(producers_max=2)
    for at, name in enumerate("ab"):
        dedup.judge(name, 7)
        dedup.persisted(name, 7)
        dedup.closed(name, at)
    dedup.opened("c")
    dedup.check()
    assert dedup.is_crowded
    assert let_go(dedup, -1) == 1
    assert not dedup.is_crowded
    assert [dedup.last_sequence_id(name) for name in "abc"] == [-1, 7, -1]
    dedup.persisted("a", 7)  # a late word about a producer that is forgotten
    assert dedup.last_sequence_id("a") == -1


def test_room_is_not_made_by_a_producer_whose_sends_are_on_their_way() -> None:
    dedup = Dedup(producers_max=2)
    dedup.judge("a", 7)
    dedup.closed("a", 0)
    dedup.judge("b", 7)
    dedup.persisted("b", 7)
    dedup.closed("b", 1)
    dedup.opened("c")
    dedup.check()
    assert let_go(dedup, -1) == 1
    assert [dedup.last_sequence_id(name) for name in "ab"] == [7, -1]
    with pytest.raises(ProducerBusy, match="producer d: 2 producers"):
        dedup.opened("d")


@pytest.mark.parametrize("is_durable", [False, True])
def test_a_crash_does_not_bring_back_ids_of_a_producer_that_counts_from_0_again(
    is_durable: bool,
) -> None:
    """It made room for another one. Until that is durable its ids count, or they would count after a
    crash only, and what it stored meanwhile would hide what it sends next."""
    dedup = Dedup(producers_max=1)
    store(dedup, 9)
    kept = dedup.snapshot(1)
    dedup.closed("p", 0)
    dedup.opened("q")
    assert dedup.let_go(-1)
    if is_durable:
        kept = dedup.snapshot(1)
        dedup.forget_let_go()
    dedup.closed("q", 1)
    dedup.opened("p")
    stored: list[int] = []
    for sequence_id in range(3):
        if dedup.judge("p", sequence_id) is NEW:
            dedup.persisted("p", sequence_id)
            stored.append(sequence_id)
    assert stored == ([0, 1, 2] if is_durable else [])
    # The broker is killed, and reads what is on disk.
    again, _ = Dedup.restore(kept, 5, producers_max=1)
    for sequence_id in stored:
        again.replay("p", sequence_id, now=5)
    assert again.last_sequence_id("p") == dedup.last_sequence_id("p")
    again.opened("p")
    assert again.judge("p", 3) is (NEW if is_durable else DUPLICATE)


def test_one_that_was_let_go_behind_a_snapshot_is_not_forgotten_with_it() -> None:
    dedup = Dedup(producers_max=2)
    for at, name in enumerate("ab"):
        dedup.judge(name, 7)
        dedup.persisted(name, 7)
        dedup.closed(name, at)
    assert dedup.let_go(0)  # a
    dedup.opened("c")
    dedup.opened("d")  # makes b go
    dedup.check()
    assert dedup.forget_let_go() == 1
    assert [dedup.last_sequence_id(name) for name in "ab"] == [-1, 7]
    dedup.keep_let_go()
    dedup.check()
    assert let_go(dedup, -1) == 1


def test_no_more_are_let_go_than_are_kept() -> None:
    """As long as no checkpoint succeeds."""
    dedup = Dedup(producers_max=2)
    for name in "abcd":
        dedup.opened(name)
        dedup.closed(name, 0)
    dedup.check()
    with pytest.raises(ProducerBusy, match="producer e"):
        dedup.opened("e")
    dedup.check()


def test_when_all_are_connected_the_next_one_is_refused() -> None:
    dedup = Dedup(producers_max=2)
    dedup.opened("a")
    dedup.opened("b")
    with pytest.raises(ProducerBusy, match="producer c: 2 producers"):
        dedup.opened("c")
    dedup.opened("a")
    dedup.check()


def test_closing_a_stranger_changes_nothing() -> None:
    dedup = Dedup()
    dedup.closed("p", 0)
    dedup.check()
    assert not dedup.let_go(0)


# ── restart ───────────────────────────────────────────────────────────────────────────────────────


def lived() -> Dedup:
    dedup = Dedup()
    store(dedup, 9)
    store(dedup, 10, part=chunk(0))
    store(dedup, 10, part=chunk(1))
    dedup.judge("q", 3)
    dedup.closed("q", 17)
    dedup.opened("ünï")
    return dedup


def test_a_snapshot_keeps_what_is_persisted_and_forgets_what_is_pushed() -> None:
    dedup, end_index = Dedup.restore(lived().snapshot(1234), now=50)
    dedup.check()
    assert end_index == 1234
    assert dedup.last_sequence_id("p") == 9
    assert dedup.last_sequence_id("q") == -1
    assert store(dedup, 9) is DUPLICATE
    assert store(dedup, 10, part=chunk(1)) is DUPLICATE
    assert store(dedup, 10, part=chunk(2)) is NEW


def test_a_snapshot_of_a_snapshot_is_the_same() -> None:
    written = lived().snapshot(1234)
    dedup, _ = Dedup.restore(written, now=50)
    assert dedup.snapshot(1234) == written


def test_after_a_restart_all_are_gone_since_then() -> None:
    dedup, _ = Dedup.restore(lived().snapshot(0), now=1000)
    assert let_go(dedup, 999) == 0
    assert let_go(dedup, 1000) == 3


def test_replay_goes_on_where_the_snapshot_ends() -> None:
    dedup, _ = Dedup.restore(lived().snapshot(1234), now=0)
    dedup.replay("p", 10, chunk=chunk(1), now=0)  # the snapshot has it
    dedup.replay("p", 10, chunk=chunk(2), now=0)
    dedup.replay("new", 0, 4, now=0)
    dedup.replay("new", 5, chunk=chunk(0), now=0)
    dedup.check()
    assert dedup.last_sequence_id("p") == 10
    assert dedup.last_sequence_id("new") == 4
    assert store(dedup, 10, part=chunk(0)) is DUPLICATE
    assert dedup.judge("new", 5, chunk=chunk(1)) is NEW
    assert dedup.judge("new", 5, chunk=chunk(2)) is NEW


@pytest.mark.parametrize("ids", [(2**64 - 1, 0), (-1, 0), (7, 2**64 - 1)])
def test_an_entry_that_says_impossible_ids_is_not_believed(ids: tuple[int, int]) -> None:
    dedup = Dedup()
    dedup.replay("p", 3, now=0)
    dedup.replay("p", *ids, now=0)
    assert dedup.last_sequence_id("p") == 3
    assert Dedup.restore(dedup.snapshot(0), 0)[0].last_sequence_id("p") == 3


def test_the_highest_id_there_is_survives_a_snapshot() -> None:
    dedup = Dedup()
    store(dedup, 2**63 - 1)
    assert Dedup.restore(dedup.snapshot(0), 0)[0].last_sequence_id("p") == 2**63 - 1


def test_a_replay_of_many_producers_keeps_the_latest() -> None:
    dedup = Dedup(producers_max=3)
    for number in range(10):
        dedup.replay(f"p{number}", number, now=number)
    dedup.replay("p7", 70, now=10)
    dedup.replay("p10", 10, now=11)
    dedup.check()
    assert [dedup.last_sequence_id(f"p{number}") for number in range(7, 11)] == [70, -1, 9, 10]


def sealed(body: bytes) -> bytes:
    return body + zlib.crc32(body).to_bytes(4, "little")


@pytest.mark.parametrize(
    ("data", "error", "says"),
    [
        (b"", CorruptData, "no bytes"),
        (b"\x02abcd", UnknownFormat, "version 2"),
        (b"\x01\x00\x00abcd", CorruptData, "checksum"),
        (sealed(b"\x01\x00\x01\x05ab"), CorruptData, "name of 5 bytes"),
        (sealed(b"\x01\x00\x01\x02\xff\xff\x00\x00"), CorruptData, "no UTF-8"),
        (sealed(b"\x01\x00\x01\x01a\x00"), CorruptData, "does not end"),
        (sealed(b"\x01\x00\x01\x01a\x00\x02"), CorruptData, "does not end"),
        (sealed(b"\x01\x00\x00\x00"), CorruptData, "0 producers in 3 of 4 bytes"),
    ],
)
def test_bytes_that_are_no_snapshot_are_refused(data: bytes, error: type, says: str) -> None:
    with pytest.raises(error, match=says):
        Dedup.restore(data, now=0)


def test_what_one_producer_never_stored_says_nothing_of_another() -> None:
    dedup = Dedup()
    for name in ("a", "b"):
        dedup.opened(name)
        assert dedup.judge(name, 0) is SendVerdict.NEW
    dedup.disowned("a")
    assert (dedup.is_settled("a"), dedup.is_settled("b")) == (True, False)
    assert dedup.judge("b", 0) is SendVerdict.UNKNOWN
    dedup.opened("a")
    assert dedup.judge("a", 0) is SendVerdict.NEW
    dedup.check()
