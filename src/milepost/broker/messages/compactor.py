"""Finds the last message of each key, for compaction. It is given entries and reads none.

An empty value deletes its key. A message without a key is dropped, as upstream does. What cannot be looked
into (an encrypted batch) is kept, and so are the chunks of a message whose last one may still come:
compaction may save too little, it never loses.

    >>> compactor = Compactor()
    >>> for index, (key, value) in enumerate([(b"a", b"1"), (b"b", b"2"), (b"a", b"3")]):
    ...     compactor.take(key, index, is_deleted=not value)
    >>> list(compactor.compacted(horizon=3).kept)
    [(1, 3)]

It works in steps of a few messages, so that the caller may do something else in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from milepost.broker.messages.chunked import Tie
from milepost.broker.messages.compacted import Compacted
from milepost.errors import MilepostError
from milepost.positions.ranges import IndexRanges, Range, joined
from milepost.storage.ledgers.entry import BATCH, CHUNK, LAST_CHUNK, MARKER, Entry
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.batches import SingleMessage, walk_batch
from milepost.wire.compression import decompress
from milepost.wire.metadata import entry_metadata_and_end
from milepost.wire.scanners.keys import (
    NOT_PLAIN,
    KeyAndEmptiness,
    plain_batch_keys,
    plain_entry_key,
)

# A batch that claims to unpack to more is not looked into.
UNPACKED_SIZE_MAX = 128 * 1024 * 1024

# Messages, or keys, that are dealt with in one go.
STEP = 32
# Keys are kept in so many dictionaries: one that grows moves all that it holds in one go, and so does one
# that is given up.
SHARDS = 256

ChunkRanges = Callable[[Entry], Sequence[Range]]
"""Finds the chunks of a message by its last one."""


class Compactor:
    """Looks at messages in the order of their indexes and remembers where each key's last one is.

    `before` is what an earlier run has left: what it left out is not looked at again, or a message whose
    successor was deleted would come back.
    """

    def __init__(self, before: Compacted | None = None) -> None:
        self._before = before or Compacted(0, IndexRanges())
        # The last index of each key's last message. Invariant: plain numbers, which the collector does
        # not look at; it would stop the broker for milliseconds, to look at a pair for each key.
        self._last: list[dict[bytes, int]] = [{} for _ in range(SHARDS)]
        # All indexes of the messages that are chunked, by the last. Invariant: each is some key's last.
        self._chunks: dict[int, Sequence[Range]] = {}
        self._unread: list[Range] = []
        # First index → all indexes of a chunked message whose last chunk was not met, and when the newest
        # of them came.
        self._unfinished: dict[int, tuple[list[int], int]] = {}
        self.messages = 0
        """Messages looked at."""

    def take(
        self,
        key: bytes | None,
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

    def take_entries(self, entries: Sequence[Entry], chunk_ranges: ChunkRanges) -> Iterator[None]:
        """All messages of these entries, in steps of a few, however large an entry is."""
        work = 0
        for entry in entries:
            flags, last_index = entry.flags, entry.last_index
            if flags & MARKER:
                continue
            if flags & (CHUNK | LAST_CHUNK) == CHUNK:
                self._take_chunk(entry)
                continue
            try:
                if flags & BATCH:
                    yield from self._take_batch(entry)
                elif flags & CHUNK:
                    key, is_deleted = _parsed(entry)
                    chunks = chunk_ranges(entry)
                    if chunks:
                        self._unfinished.pop(chunks[0][0], None)
                    self.take(key, last_index, is_deleted=is_deleted, chunks=chunks)
                else:
                    key, is_deleted = plain_entry_key(entry.payload) or _parsed(entry)
                    self.take(key, last_index, is_deleted=is_deleted)
            except MilepostError:
                self._unread.append((last_index - entry.count + 1, last_index + 1))
            work += 1
            if not work % STEP:
                yield

    def _take_chunk(self, entry: Entry) -> None:
        """One that is not its message's last."""
        tie = Tie.of(entry.beside)
        first_index = entry.last_index if tie is None else tie.first_index
        indexes, _ = self._unfinished.get(first_index, ([], 0))
        indexes.append(entry.last_index)
        self._unfinished[first_index] = indexes, entry.timestamp_ms

    def _take_batch(self, entry: Entry) -> Iterator[None]:
        metadata, at = entry_metadata_and_end(entry.payload)
        first, count = entry.last_index - entry.count + 1, metadata.num_messages_in_batch
        if metadata.encryption_keys:
            self._unread.append((first, first + count))
            return
        payload = decompress(
            metadata.compression,
            bytes(entry.payload[at:]),
            metadata.uncompressed_size,
            size_max=UNPACKED_SIZE_MAX,
        )
        # All of it is looked at before any of it counts: a batch that cannot be read to its end is kept.
        found: list[KeyAndEmptiness] = []
        at = 0
        while at != NOT_PLAIN and len(found) < count:
            at = plain_batch_keys(payload, at, min(count - len(found), STEP), found)
            yield
        if at != len(payload):
            found.clear()
            for single in walk_batch(payload, count):
                found.append(_parsed_single(single))
                if not len(found) % STEP:
                    yield
        for index, (key, is_deleted) in enumerate(found, first):
            self.take(key, index, is_deleted=is_deleted)
            if not index % STEP:
                yield

    def compacted(self, horizon: int, *, oldest_ms: int = 0) -> Compacted:
        """What is left of the messages below the horizon, which are all that were taken."""
        compacted = Compacted(horizon, IndexRanges())
        for _ in self.gather(compacted.kept, oldest_ms=oldest_ms):
            pass
        return compacted

    def gather(self, kept: IndexRanges, *, oldest_ms: int = 0) -> Iterator[None]:
        """Put what is kept into a set, in steps of a few keys, and forget the keys. A chunked message
        that got nothing new since `oldest_ms` gets nothing more."""
        for first, end in self._unread:
            kept.add(first, end)
        number = 0
        while self._unfinished:
            indexes, newest_ms = self._unfinished.popitem()[1]
            for first, end in joined(indexes) if newest_ms >= oldest_ms else ():
                kept.add(first, end)
            number += len(indexes)
            if number >= STEP:
                number = 0
                yield
        while self._last:
            for index in self._last.pop().values():
                for first, end in self._chunks.get(index, ((index, index + 1),)):
                    kept.add(first, end)
                number += 1
                if not number % STEP:
                    yield


def _parsed(entry: Entry) -> KeyAndEmptiness:
    """Key and emptiness of a message that is an entry, or the last of its chunks."""
    metadata, at = entry_metadata_and_end(entry.payload)
    is_empty = (
        (at == len(entry.payload) and not metadata.total_chunk_msg_size)
        or metadata.null_value
        or (metadata.compression != pb.NONE and not metadata.uncompressed_size)
    )
    return _key(metadata), is_empty


def _parsed_single(single: SingleMessage) -> KeyAndEmptiness:
    """The same of a message of a batch. One that is not there any more has no key."""
    metadata = single.metadata
    key = None if metadata.compacted_out else _key(metadata)
    return key, not single.payload or metadata.null_value


def _key(metadata: pb.MessageMetadata | pb.SingleMessageMetadata) -> bytes | None:
    if not metadata.HasField("partition_key"):
        return None
    key: str | bytes = metadata.partition_key  # bytes if it is no text
    return key if isinstance(key, bytes) else key.encode()
