"""A compacted topic: of each key only the last message, and how that is found out.

Nothing is written anew. The result is a set of indexes: those below the horizon that are kept; the entries
stay where they lie, with their ids, and a consumer that reads compacted passes over the rest. A batch that
is kept in part goes out whole with an ack set, as one that was acked in part does.

    key      a  b  a  c  b(empty)  │ a
    index    0  1  2  3  4         │ 5      horizon 5: kept {2, 3}; from 5 on everything is sent

An empty value deletes its key. A message without a key is dropped, as upstream does. What cannot be looked
into (an encrypted batch) is kept: compaction may save too little, it never loses.

    >>> compactor = Compactor()
    >>> for index, (key, value) in enumerate([("a", b"1"), ("b", b"2"), ("a", b"3")]):
    ...     compactor.take(key, index, is_deleted=not value)
    >>> list(compactor.compacted(horizon=3).kept)
    [(1, 3)]
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from milepost.errors import CorruptData, MilepostError, UnknownFormat
from milepost.positions.ranges import IndexRanges, Range
from milepost.positions.varints import read_varint, write_varint
from milepost.storage.entry import BATCH, CHUNK, LAST_CHUNK, MARKER, Entry
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.batches import walk_batch
from milepost.wire.compression import decompress
from milepost.wire.metadata import entry_metadata_and_end

if TYPE_CHECKING:
    from milepost.broker.subscription import Subscription

VERSION = 1
# A batch that claims to unpack to more is not looked into.
UNPACKED_SIZE_MAX = 128 * 1024 * 1024

# Messages, or keys, that are dealt with in one go.
STEP = 32
# Keys are kept in so many dictionaries: one that grows moves all that it holds in one go, and so does one
# that is given up.
SHARDS = 256

_CHECKSUM_SIZE_BYTES = 4


class Compacted(NamedTuple):
    """What compaction has left of a topic."""

    horizon: int
    """Messages from here on were not looked at."""
    kept: IndexRanges
    """Invariant: all below the horizon."""

    def next_kept(self, index: int) -> int:
        """The first index at or behind this one that is to be sent."""
        if index >= self.horizon:
            return index
        found = self.kept.next_index(index)
        return self.horizon if found is None else found

    def gone(self, first: int, end: int) -> Iterator[Range]:
        """The parts of `[first, end)` that are not to be sent."""
        return self.kept.gaps(first, min(end, self.horizon))

    def encode(self) -> bytes:
        out = bytearray([VERSION])
        write_varint(out, self.horizon)
        out += self.kept.to_bytes()
        out += zlib.crc32(out).to_bytes(_CHECKSUM_SIZE_BYTES, "little")
        return bytes(out)

    @classmethod
    def decode(cls, data: bytes) -> Compacted:
        if not data or data[0] != VERSION:
            raise UnknownFormat(f"a compaction of version {data[:1].hex() or 'none'}")
        body, checksum = data[:-_CHECKSUM_SIZE_BYTES], data[-_CHECKSUM_SIZE_BYTES:]
        computed, stored = zlib.crc32(body), int.from_bytes(checksum, "little")
        if computed != stored:
            raise CorruptData(f"a compaction with checksum {stored:#x}, computed {computed:#x}")
        horizon, at = read_varint(body, 1)
        return cls(horizon, IndexRanges.from_bytes(body[at:]))


@dataclass
class CompactionRuns:
    """What is known of a topic's compactions in this process. Statuses by upstream's names."""

    status: str = "NOT_RUN"
    last_error: str = ""
    succeeded_ms: int = 0
    failed_ms: int = 0
    took_ms: int = 0
    removed: int = 0
    """Messages that the last run left out."""


class Compactor:
    """Looks at messages in the order of their indexes and remembers where each key's last one is.

    `before` is what an earlier run has left: what it left out is not looked at again, or a message whose
    successor was deleted would come back.
    """

    def __init__(self, before: Compacted | None = None) -> None:
        self._before = before or Compacted(0, IndexRanges())
        # The last index of each key's last message. Invariant: plain numbers, which the collector does
        # not look at; it would stop everybody for milliseconds, to look at a pair for each key.
        self._last: list[dict[str | bytes, int]] = [{} for _ in range(SHARDS)]
        # All indexes of the messages that are chunked, by the last. Invariant: each is some key's last.
        self._chunks: dict[int, Sequence[Range]] = {}
        self._unread: list[Range] = []
        self.messages = 0
        """Messages looked at."""

    def take(
        self,
        key: str | bytes | None,
        index: int,
        *,
        is_deleted: bool = False,
        chunks: Sequence[Range] = (),
    ) -> None:
        """One message; where it is chunked, `chunks` are all its indexes, and this is the last."""
        if index < self._before.horizon and self._before.next_kept(index) != index:
            return
        self.messages += 1
        if key is None:
            return
        last = self._last[hash(key) % SHARDS]
        if self._chunks and (replaced := last.get(key)) is not None:
            self._chunks.pop(replaced, None)
        if is_deleted:
            last.pop(key, None)
            return
        last[key] = index
        if chunks:
            self._chunks[index] = chunks

    def take_entry(self, entry: Entry, chunk_ranges: Callable[[Entry], Sequence[Range]]) -> None:
        """All messages of an entry. `chunk_ranges` finds the chunks of a message by its last one."""
        for _ in self.steps(entry, chunk_ranges):
            pass

    def steps(
        self, entry: Entry, chunk_ranges: Callable[[Entry], Sequence[Range]]
    ) -> Iterator[None]:
        """The same in steps of a few messages, however large the entry."""
        if entry.flags & MARKER or entry.flags & (CHUNK | LAST_CHUNK) == CHUNK:
            return
        first, end = entry.last_index - entry.count + 1, entry.last_index + 1
        try:
            metadata, at = entry_metadata_and_end(entry.payload)
            if entry.flags & BATCH:
                yield from self._take_batch(metadata, bytes(entry.payload[at:]), first)
            else:
                chunks = chunk_ranges(entry) if entry.flags & CHUNK else ()
                is_deleted = at == len(entry.payload) or _is_empty(metadata)
                self.take(_key(metadata), first, is_deleted=is_deleted, chunks=chunks)
                yield
        except MilepostError:
            self._unread.append((first, end))

    def _take_batch(
        self, metadata: pb.MessageMetadata, payload: bytes, first: int
    ) -> Iterator[None]:
        if metadata.encryption_keys:
            self._unread.append((first, first + metadata.num_messages_in_batch))
            return
        payload = decompress(
            metadata.compression,
            payload,
            metadata.uncompressed_size,
            size_max=UNPACKED_SIZE_MAX,
        )
        # All of it is looked at before any of it counts: a batch that cannot be read to its end is kept.
        found: list[tuple[int, str | bytes | None, bool]] = []
        for at, single in enumerate(walk_batch(payload, metadata.num_messages_in_batch), first):
            if not single.metadata.compacted_out:
                is_deleted = not single.payload or single.metadata.null_value
                found.append((at, _key(single.metadata), is_deleted))
            if not at % STEP:
                yield
        for at, key, is_deleted in found:
            self.take(key, at, is_deleted=is_deleted)
            if not at % STEP:
                yield
        yield

    def compacted(self, horizon: int) -> Compacted:
        """What is left of the messages below the horizon, which are all that were taken."""
        compacted = Compacted(horizon, IndexRanges())
        for _ in self.gather(compacted.kept):
            pass
        return compacted

    def gather(self, kept: IndexRanges) -> Iterator[None]:
        """Put what is kept into a set, in steps of a few keys, and forget the keys."""
        for first, end in self._unread:
            kept.add(first, end)
        number = 0
        while self._last:
            for index in self._last.pop().values():
                for first, end in self._chunks.get(index, ((index, index + 1),)):
                    kept.add(first, end)
                number += 1
                if not number % STEP:
                    yield


def _key(metadata: pb.MessageMetadata | pb.SingleMessageMetadata) -> str | bytes | None:
    return metadata.partition_key if metadata.HasField("partition_key") else None


def _is_empty(metadata: pb.MessageMetadata) -> bool:
    """Does the message say that it has no value, though something may be there?"""
    if metadata.null_value:
        return True
    return metadata.compression != pb.NONE and not metadata.uncompressed_size


# -- what a subscription that reads compacted passes over ------------------------------------------------


def skip(subscription: Subscription) -> None:
    """Up to the first message that is kept, however far that is."""
    view, cursor = subscription.topic.compacted, subscription.cursor
    while view is not None and (ready := cursor.next_ready(0, 1)) is not None:
        kept = view.next_kept(ready[0])
        if kept == ready[0]:
            return
        subscription.pass_over([(ready[0], min(kept, cursor.end))])


def skip_within(subscription: Subscription, entries: Sequence[Entry]) -> None:
    """What of these entries is not kept: so that a batch shows only what is."""
    if (view := subscription.topic.compacted) is not None:
        first, end = entries[0].span.first_index, entries[-1].last_index + 1
        subscription.pass_over(list(view.gone(first, end)))
