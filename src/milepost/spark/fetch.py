"""Fetching a slice: from an index range to Arrow batches, in one tight loop over one connection.

    find the entry of the first index → read from there → decode groups of entries → stop at the end

Nothing is acked and nothing is kept between slices: reading one twice gives the same rows. What lies before
the range in the first entry, and behind it in the last, is dropped. When the range begins with messages
that are no longer there, that is `DataLoss`, with the exact range, unless it is to be passed over.

    for batch in fetch(connection, Slice(topic, 100, 200), columns=("index", "value")): ...
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

import pyarrow as pa

from milepost.errors import DataLoss, NotFound, ServiceNotReady
from milepost.spark.chunks import Chunk, SliceChunks
from milepost.spark.columns import COLUMNS
from milepost.spark.decode import Decoder
from milepost.spark.deliveries import TaskLink
from milepost.spark.entries import RawEntry, last_index, read_entry
from milepost.spark.link import Reading
from milepost.spark.offsets import Slice
from milepost.spark.options import Connection
from milepost.spark.patience import AWAY, Patience
from milepost.spark.places import Places
from milepost.wire.metadata import message_count

# Entries are decoded in groups: large enough to cost little each, small enough for an executor's memory.
GROUP_SIZE_MAX: Final = 4 << 20
GROUP_MESSAGES_MAX: Final = 32_768
# How many messages a group has is counted behind each entry, but for small ones: behind so many of them.
SMALL_ENTRY_SIZE: Final = 4096
SMALL_ENTRIES: Final = 16
# The first group is small, so that whoever wants ten rows need not wait for thousands.
FIRST_GROUP_SIZE: Final = 128 << 10

# Without a word for so long, the broker is asked whether there is anything at all.
QUIET_S: Final = 1.0
# A reader that gets nothing, though there is something, is opened anew; so many times before it is an error.
READERS_PER_PATIENCE: Final = 3
# How far behind the slice chunks are looked for at first; then four times as far, and so on.
LOOK_BACK_FIRST: Final = 256


class Feed(Protocol):
    """Where entries come from, in the order of the log."""

    def entries(self, first_index: int, end_index: int) -> Iterator[list[RawEntry]]:
        """The entries that hold the range, in lists as they come."""
        ...


class BrokerFeed:
    """Entries of one partition. Each range has a connection of its own: what one has in flight never
    piles up while another is read."""

    def __init__(
        self, connection: Connection, topic: str, *, fail_on_data_loss: bool = True
    ) -> None:
        self._connection = connection
        self._topic = topic
        self._fail_on_data_loss = fail_on_data_loss

    def entries(self, first_index: int, end_index: int) -> Iterator[list[RawEntry]]:
        """A connection that breaks is opened again and goes on where it was."""
        at, patience = first_index, Patience(self._connection.timeout_s)
        while at < end_index:
            try:
                for found in self._attempt(at, end_index):
                    yield found
                    if found:
                        at = last_index_of(found[-1]) + 1
                        patience.restart()
                return
            except AWAY:
                if not patience.wait():
                    raise

    def _attempt(self, first_index: int, end_index: int) -> Iterator[list[RawEntry]]:
        with TaskLink.open(self._connection, self._topic) as link:
            try:
                start = Places(link, self._topic).id_at(first_index)
                reading = Reading(link, self._topic, start)
            except NotFound as error:
                self._lost(first_index, end_index, str(error))
                return
            yield from self._read(reading, first_index, end_index)

    def _read(self, reading: Reading, first_index: int, end_index: int) -> Iterator[list[RawEntry]]:
        reading.allow(end_index - first_index)
        is_first = True
        quiet_s = 0.0
        while True:
            found = [
                RawEntry(one.ledger_id, one.entry_id, one.entry) for one in reading.entries(QUIET_S)
            ]
            if not found:
                quiet_s += QUIET_S
                if reading.last_id()[0] < 0:
                    self._lost(first_index, end_index, "the topic is empty")
                    return
                if quiet_s >= self._connection.timeout_s / READERS_PER_PATIENCE:
                    raise ServiceNotReady(
                        f"{self._topic}: nothing came for {quiet_s:g} s on the way from index "
                        f"{first_index} to {end_index}"
                    )
                reading.allow(1000)  # a batch may have more neighbours than were counted on
                continue
            quiet_s = 0.0
            if is_first:
                is_first = False
                first = self._first_index_of(found[0])
                if first > first_index and Places(reading.link, self._topic).is_trimmed(
                    first_index
                ):
                    self._lost(first_index, min(first, end_index), "trimmed by retention")
                elif first < first_index:
                    # Neighbours before the range took permits that were meant for it.
                    reading.allow(first_index - first)
            last = last_index_of(found[-1])
            if last < end_index - 1:
                yield found
                continue
            yield [one for one in found if self._begins_before(one, end_index)]
            return

    def _begins_before(self, entry: RawEntry, end_index: int) -> bool:
        return last_index_of(entry) < end_index or self._first_index_of(entry) < end_index

    def _first_index_of(self, entry: RawEntry) -> int:
        parts = read_entry(entry)
        return last_index(parts, entry) - message_count(parts.metadata) + 1

    def _lost(self, first_index: int, end_index: int, why: str) -> None:
        if self._fail_on_data_loss:
            raise DataLoss(
                f"{self._topic}: messages [{first_index}, {end_index}) are no longer there ({why}); "
                "failOnDataLoss=false goes on without them"
            )


def last_index_of(entry: RawEntry) -> int:
    """The index of an entry's last message, from its first bytes."""
    data = entry.data
    # Magic, size, then the two fields as brokers write them; anything else takes the long way.
    if data[:2] == b"\x0e\x02" and data[6] == 0x08:
        at = 7
        while data[at] > 127:
            at += 1
        at += 1
        if data[at] == 0x10:
            index = shift = 0
            while True:
                at += 1
                index |= (data[at] & 127) << shift
                if data[at] < 128:
                    return index
                shift += 7
    return last_index(read_entry(entry), entry)


def slice_batches(
    feed: Feed, part: Slice, columns: Sequence[str] = COLUMNS
) -> Iterator[pa.RecordBatch]:
    """The messages of a slice, from wherever its entries come."""

    def look_back(uuid: str) -> list[Chunk]:
        return chunks_before(feed, part.first_index, uuid)

    decoder = Decoder(part.topic, columns, SliceChunks(look_back))
    group: list[RawEntry] = []
    size, size_max, begun = 0, FIRST_GROUP_SIZE, part.first_index
    for entries in feed.entries(part.first_index, part.end_index):
        for entry in entries:
            group.append(entry)
            entry_size = len(entry.data)
            size += entry_size
            # Small entries hold few messages, and there are many of them: they are looked at now and then.
            is_due = entry_size >= SMALL_ENTRY_SIZE or not len(group) % SMALL_ENTRIES
            if size >= size_max or (is_due and last_index_of(entry) - begun >= GROUP_MESSAGES_MAX):
                yield from decoder.batches(group, part.first_index, part.end_index)
                begun = last_index_of(entry)
                group, size, size_max = [], 0, GROUP_SIZE_MAX
    yield from decoder.batches(group, part.first_index, part.end_index)


def chunks_before(feed: Feed, index: int, uuid: str) -> list[Chunk]:
    """The chunks of a uuid that lie before an index, from the newest chunk 0 on; none without one."""
    found: list[Chunk] = []
    end, reach = index, LOOK_BACK_FIRST
    while end > 0:
        begin = max(index - reach, 0)
        here = [
            chunk
            for entries in feed.entries(begin, end)
            for entry in entries
            if begin <= last_index_of(entry) < end and (chunk := _chunk_of(entry, uuid)) is not None
        ]
        found = here + found
        firsts = [at for at, one in enumerate(here) if one.parts.metadata.chunk_id == 0]
        if firsts:
            return found[firsts[-1] :]
        end, reach = begin, reach * 4
    return []


def _chunk_of(entry: RawEntry, uuid: str) -> Chunk | None:
    if uuid.encode() not in entry.data:
        return None
    parts = read_entry(entry)
    if parts.metadata.HasField("num_chunks_from_msg") and parts.metadata.uuid == uuid:
        return Chunk(entry, parts)
    return None


def fetch(
    connection: Connection,
    part: Slice,
    columns: Sequence[str] = COLUMNS,
    *,
    fail_on_data_loss: bool = True,
) -> Iterator[pa.RecordBatch]:
    """The messages of a slice, from a broker."""
    feed = BrokerFeed(connection, part.topic, fail_on_data_loss=fail_on_data_loss)
    yield from slice_batches(feed, part, columns)
