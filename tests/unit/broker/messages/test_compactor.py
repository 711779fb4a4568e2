"""Which message of each key is kept."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stage.frames import metadata

from milepost.broker.messages.chunked import Tie
from milepost.broker.messages.compacted import Compacted
from milepost.broker.messages.compactor import STEP, Compactor
from milepost.positions.ranges import IndexRanges, Range
from milepost.storage.ledgers.entry import BATCH, CHUNK, LAST_CHUNK, MARKER, Entry
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.batches import SingleMessage, join_batch
from milepost.wire.compression import compress


def entry(last_index: int, meta: pb.MessageMetadata, payload: bytes, flags: int = 0) -> Entry:
    head = meta.SerializeToString()
    data = len(head).to_bytes(4, "big") + head + payload
    count = meta.num_messages_in_batch if flags & BATCH else 1
    return Entry(1, last_index, last_index, count, 0, flags, b"", data)


def keyed(index: int, key: str | None, value: bytes = b"x", **fields: Any) -> Entry:
    if key is not None:
        fields["partition_key"] = key
    return entry(index, metadata(index, **fields), value)


def batched(
    last_index: int, *messages: tuple[str | None, bytes], kind: int = pb.NONE, **fields: Any
) -> Entry:
    singles = [
        SingleMessage(pb.SingleMessageMetadata(partition_key=key, payload_size=len(value)), value)
        for key, value in messages
    ]
    body = join_batch(singles)
    meta = metadata(
        last_index,
        num_messages_in_batch=len(singles),
        compression=kind,
        uncompressed_size=len(body),
        **fields,
    )
    return entry(last_index, meta, compress(kind, body), BATCH)


def no_chunks(entry: Entry) -> list[Range]:
    raise AssertionError(f"{entry} is no chunk")


def take(compactor: Compactor, entries: Sequence[Entry], chunk_ranges: Any = no_chunks) -> None:
    for _ in compactor.take_entries(entries, chunk_ranges):
        pass


def kept(*entries: Entry, before: Compacted | None = None) -> list[Range]:
    compactor = Compactor(before)
    take(compactor, entries)
    return list(compactor.compacted(entries[-1].last_index + 1).kept)


def test_the_last_of_each_key_is_kept() -> None:
    assert kept(keyed(0, "a"), keyed(1, "b"), keyed(2, "a"), keyed(3, "c")) == [(1, 4)]


@pytest.mark.parametrize(
    "nothing",
    [
        keyed(1, "a", b""),
        keyed(1, "a", b"", null_value=True),
        keyed(1, "a", compress(pb.ZLIB, b""), compression=pb.ZLIB, uncompressed_size=0),
        batched(1, ("a", b"")),
    ],
    ids=["empty", "null", "compressed", "in a batch"],
)
def test_an_empty_value_deletes_its_key(nothing: Entry) -> None:
    assert kept(keyed(0, "a"), nothing, keyed(2, "b")) == [(2, 3)]
    assert kept(keyed(0, "a"), nothing, keyed(2, "a")) == [(2, 3)]


def test_what_has_no_key_is_dropped() -> None:
    assert kept(keyed(0, None), keyed(1, "a"), batched(3, (None, b"x"), ("b", b"x"))) == [
        (1, 2),
        (3, 4),
    ]


@pytest.mark.parametrize("kind", [pb.NONE, pb.LZ4, pb.ZLIB, pb.ZSTD, pb.SNAPPY])
def test_a_batch_is_kept_in_part(kind: int) -> None:
    batch = batched(3, ("a", b"1"), ("b", b"2"), ("a", b"3"), kind=kind)
    assert kept(keyed(0, "b"), batch, keyed(4, "b")) == [(3, 5)]


@pytest.mark.parametrize(
    "unreadable",
    [
        batched(
            2, ("a", b"1"), ("a", b"2"), encryption_keys=[pb.EncryptionKeys(key="k", value=b"")]
        ),
        entry(2, metadata(2, num_messages_in_batch=2), b"no batch", BATCH),
        entry(2, metadata(2, num_messages_in_batch=2, compression=pb.LZ4), b"?", BATCH),
    ],
    ids=["encrypted", "broken", "not compressed"],
)
def test_what_cannot_be_looked_into_is_kept(unreadable: Entry) -> None:
    assert kept(keyed(0, "a"), unreadable, keyed(3, "a")) == [(1, 4)]


def test_a_chunked_message_is_kept_whole_or_not_at_all() -> None:
    """Chunks 0 and 2 are one message, 1 another's."""

    def chunks(last: Entry) -> list[Range]:
        return [(0, 1), (2, 3)] if last.last_index == 2 else [(1, 2), (3, 4)]

    def compacted(*more: Entry) -> list[Range]:
        compactor = Compactor()
        for index, key in enumerate("abab"):
            flags = CHUNK | LAST_CHUNK if index > 1 else CHUNK
            one = entry(index, metadata(index, partition_key=key), b"x", flags)
            take(compactor, [one], chunks)
        take(compactor, more, chunks)
        return list(compactor.compacted(9).kept)

    assert compacted() == [(0, 4)]
    assert compacted(keyed(4, "a")) == [(1, 2), (3, 5)]


def test_markers_are_nobodys() -> None:
    assert kept(keyed(0, "a"), entry(1, metadata(1, partition_key="a"), b"x", MARKER)) == [(0, 1)]


def test_a_second_run_brings_nothing_back() -> None:
    """The batch holds an old `a`; its successor was deleted, and the deletion is gone too."""
    first = [batched(1, ("a", b"1"), ("b", b"2")), keyed(2, "a"), keyed(3, "a", b"")]
    assert kept(*first) == [(1, 2)]
    before = Compacted(4, IndexRanges([(1, 2)]))
    assert kept(first[0], keyed(4, "c"), before=before) == [(1, 2), (4, 5)]


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b", "c", None]), st.sampled_from([b"", b"x"]))),
    st.integers(0, 30),
)
def test_one_run_or_two_make_the_same_table(
    messages: list[tuple[str | None, bytes]], cut: int
) -> None:
    """Against the dumb way: a dict."""
    table: dict[str, int] = {}
    for index, (key, value) in enumerate(messages):
        if key is not None:
            table.pop(key, None)
            if value:
                table[key] = index
    entries = [keyed(index, key, value) for index, (key, value) in enumerate(messages)]
    early = Compactor()
    take(early, entries[:cut])
    before = early.compacted(min(cut, len(entries)))
    late = Compactor(before)
    take(late, entries)
    found = [
        index for first, end in late.compacted(len(entries)).kept for index in range(first, end)
    ]
    assert found == sorted(table.values())


def test_a_large_batch_is_looked_at_in_steps() -> None:
    compactor = Compactor()
    large = batched(999, *((f"k{number % 700}", b"x") for number in range(1000)))
    taken = [compactor.messages for _ in compactor.take_entries([large], no_chunks)]
    assert len(taken) > 1000 / STEP
    assert max(after - before for before, after in pairwise(taken)) <= STEP
    kept_ranges = IndexRanges()
    counts = [kept_ranges.count for _ in compactor.gather(kept_ranges)]
    assert max(after - before for before, after in pairwise(counts)) <= STEP
    assert list(kept_ranges) == [(300, 1000)]


def test_a_batch_that_breaks_off_counts_for_nothing_and_is_kept() -> None:
    """Its keys do not hide what came before them."""
    whole = batched(3, ("a", b"1"), ("b", b""), ("c", b"3"))
    assert kept(keyed(0, "a"), whole) == [(1, 2), (3, 4)]
    shorter = whole._replace(payload=whole.payload[:-1])
    assert kept(keyed(0, "a"), shorter) == [(0, 4)]
    longer = whole._replace(payload=bytes(whole.payload) + b"?")
    assert kept(keyed(0, "a"), longer) == [(0, 4)]


def test_nothing_of_a_key_is_the_collectors() -> None:
    """A hundred thousand pairs would be looked at again and again, while everybody waits."""
    compactor = Compactor()
    for number in range(1000):
        compactor.take(b"key-%d" % number, number)
    held = [one for shard in compactor._last for one in (*shard, *shard.values())]
    assert len(held) == 2000
    assert not any(map(gc.is_tracked, held))


def test_chunks_of_a_message_that_was_replaced_are_forgotten() -> None:
    compactor = Compactor()
    compactor.take(b"a", 2, chunks=[(0, 1), (2, 3)])
    compactor.take(b"b", 3, chunks=[(1, 2), (3, 4)])
    compactor.take(b"a", 4)
    compactor.take(b"b", 5, is_deleted=True)
    assert not compactor._chunks
    assert list(compactor.compacted(6).kept) == [(4, 5)]


def test_plain_and_parsed_keys_are_the_same_key() -> None:
    """A property makes the parser look at a message; its key is text there, or bytes that are none."""
    more = [pb.KeyValue(key="k", value="v")]
    for one, other in (("ä", "ä"), ("k" * 300, "k" * 300)):
        assert kept(keyed(0, one), keyed(1, other, properties=more)) == [(1, 2)]
        assert kept(keyed(0, one, properties=more), batched(1, (other, b"x"))) == [(1, 2)]
    odd = keyed(0, "??")
    odd = odd._replace(payload=odd.payload.replace(b"??", b"\xff\xfe"))
    again = keyed(1, "??", properties=more)
    assert kept(odd, again._replace(payload=again.payload.replace(b"??", b"\xff\xfe"))) == [(1, 2)]


def test_a_message_that_is_compacted_out_is_nobodys() -> None:
    gone = pb.SingleMessageMetadata(partition_key="a", payload_size=0, compacted_out=True)
    body = join_batch([SingleMessage(gone, b"")])
    batch = entry(1, metadata(1, num_messages_in_batch=1), body, BATCH)
    assert kept(keyed(0, "a"), batch) == [(0, 1)]


def test_single_messages_are_looked_at_in_steps() -> None:
    compactor = Compactor()
    entries = [keyed(number, f"k{number}") for number in range(10 * STEP)]
    taken = [compactor.messages for _ in compactor.take_entries(entries, no_chunks)]
    assert taken == [STEP * number for number in range(1, 11)]


def _chunk(index: int, first_index: int, flags: int = CHUNK, payload: bytes = b"x") -> Entry:
    beside = b"" if index == first_index else Tie(first_index, first_index).to_bytes()
    meta = metadata(index, partition_key="k", total_chunk_msg_size=2)
    return entry(index, meta, payload, flags)._replace(beside=beside, timestamp_ms=1000 + index)


def test_chunks_of_a_message_whose_last_one_may_still_come_are_kept() -> None:
    """Without them a reader would lose the message when it came."""
    entries = [keyed(0, "a"), _chunk(1, 1), keyed(2, "a"), _chunk(3, 1)]
    assert kept(*entries) == [(1, 4)]
    compactor = Compactor(Compacted(4, IndexRanges([(1, 4)])))
    take(compactor, entries)
    last = _chunk(4, 1, CHUNK | LAST_CHUNK)
    take(compactor, [last, keyed(5, "k")], lambda entry: [(1, 2), (3, 5)])
    assert list(compactor.compacted(6).kept) == [(2, 3), (5, 6)]


def test_chunks_that_got_nothing_new_for_long_are_not_kept() -> None:
    entries = [_chunk(0, 0), _chunk(1, 1), _chunk(2, 0)]
    for oldest_ms, expected in ((1000, [(0, 3)]), (1002, [(0, 1), (2, 3)]), (1003, [])):
        compactor = Compactor()
        take(compactor, entries)
        assert list(compactor.compacted(3, oldest_ms=oldest_ms).kept) == expected


def test_a_chunked_message_whose_last_chunk_is_empty_is_not_empty() -> None:
    compactor = Compactor()
    take(
        compactor,
        [_chunk(0, 0), _chunk(1, 0, CHUNK | LAST_CHUNK, b"")],
        lambda entry: [(0, 2)],
    )
    assert list(compactor.compacted(2).kept) == [(0, 2)]
