"""Reads a slice: an index range to Arrow batches, over one connection.

    find the entry of the first index → read from there → decode groups of entries → stop at the end

Nothing is acked and nothing is kept between slices: reading one twice gives the same rows. What lies before
the range in the first entry, and behind it in the last, is dropped. When the range begins with messages
that are no longer there, that is `DataLoss`, with the exact range, unless it is to be passed over.

    for batch in fetch(connection, Slice(topic, 100, 200), columns=("index", "value")): ...
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from milepost.client.connection.endpoint import Endpoint
from milepost.errors import CorruptData, DataLoss, NotFound, ServiceNotReady
from milepost.spark.offsets import Slice
from milepost.spark.reading.blocks import Block, joined
from milepost.spark.reading.chunks import Chunk, SliceChunks
from milepost.spark.reading.decode import Decoder
from milepost.spark.reading.deliveries import TaskLink
from milepost.spark.reading.entries import RawEntry, last_index, read_entry
from milepost.spark.reading.link import Reading
from milepost.spark.reading.places import Places
from milepost.spark.retries import AWAY, Patience
from milepost.spark.values.columns import COLUMNS
from milepost.wire.metadata import message_count

# Entries are decoded in groups: large enough to cost little each, small enough for an executor's memory.
GROUP_SIZE_MAX: Final = 4 << 20
GROUP_MESSAGES_MAX: Final = 32_768
# The first group is small, so that a query of ten rows need not wait for thousands.
FIRST_GROUP_SIZE: Final = 128 << 10

# Without a word for so long, the broker is asked whether there is anything at all.
QUIET_S: Final = 1.0
# A reader that gets nothing, though there is something, is opened anew; so many times before it is an error.
READERS_PER_PATIENCE: Final = 3
# How far behind the slice chunks are looked for at first; then four times as far, and so on.
LOOK_BACK_FIRST: Final = 256


class Feed(Protocol):
    """Where entries come from, in the order of the log."""

    def entries(self, first_index: int, end_index: int) -> Iterator[Block]:
        """The entries that hold the range, in blocks as they come."""
        ...


class BrokerFeed:
    """Entries of one partition. Each range has a connection of its own: what one has in flight never
    piles up while another is read."""

    def __init__(self, connection: Endpoint, topic: str, *, fail_on_data_loss: bool = True) -> None:
        self._connection = connection
        self._topic = topic
        self._fail_on_data_loss = fail_on_data_loss
        # Entries may come as the log has them, until some came damaged.
        self._takes_stored = True

    def entries(self, first_index: int, end_index: int) -> Iterator[Block]:
        """A connection that breaks is opened again and goes on where it was."""
        at, patience = first_index, Patience(self._connection.timeout_s)
        while at < end_index:
            try:
                for found, last in self._attempt(at, end_index):
                    yield found
                    at = last + 1
                    patience.restart()
                return
            except CorruptData:
                if not self._takes_stored:
                    raise
                self._takes_stored = False
            except AWAY:
                if not patience.wait():
                    raise

    def _attempt(self, first_index: int, end_index: int) -> Iterator[tuple[Block, int]]:
        """Blocks, and the last index of each."""
        with TaskLink.open(self._connection, self._topic) as link:
            try:
                start = Places(link, self._topic).id_at(first_index)
                reading = Reading(link, self._topic, start, takes_stored=self._takes_stored)
            except NotFound as error:
                self._lost(first_index, end_index, str(error))
                return
            yield from self._read(reading, first_index, end_index)

    def _read(
        self, reading: Reading, first_index: int, end_index: int
    ) -> Iterator[tuple[Block, int]]:
        reading.allow(end_index - first_index)
        is_first = True
        quiet_s = 0.0
        while True:
            found = joined(reading.arrived(QUIET_S))
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
                self._check_first(reading, found[0][0], first_index, end_index)
            for block in found:
                lasts = block.last_indexes()
                if lasts[-1] < end_index - 1:
                    yield block, int(lasts[-1])
                    continue
                # The entry that reaches the end is wanted if it begins before it.
                count = int(np.searchsorted(lasts, end_index))
                if count < len(block) and self._first_index_of(block[count]) < end_index:
                    count += 1
                if count:
                    yield block.part(0, count), int(lasts[count - 1])
                return

    def _check_first(
        self, reading: Reading, entry: RawEntry, first_index: int, end_index: int
    ) -> None:
        """Say what is lost if the first entry begins behind the range; allow more if it begins before."""
        first = self._first_index_of(entry)
        if first > first_index and Places(reading.link, self._topic).is_trimmed(first_index):
            self._lost(first_index, min(first, end_index), "trimmed by retention")
        elif first < first_index:
            # Neighbours before the range took permits that were meant for it.
            reading.allow(first_index - first)

    def _first_index_of(self, entry: RawEntry) -> int:
        parts = read_entry(entry)
        return last_index(parts, entry) - message_count(parts.metadata) + 1

    def _lost(self, first_index: int, end_index: int, why: str) -> None:
        if self._fail_on_data_loss:
            raise DataLoss(
                f"{self._topic}: messages [{first_index}, {end_index}) are no longer there ({why}); "
                "failOnDataLoss=false goes on without them"
            )


def slice_batches(
    feed: Feed, part: Slice, columns: Sequence[str] = COLUMNS
) -> Iterator[pa.RecordBatch]:
    """The messages of a slice, from wherever its entries come."""

    def look_back(uuid: str) -> list[Chunk]:
        return chunks_before(feed, part.first_index, uuid)

    decoder = Decoder(part.topic, columns, SliceChunks(look_back))
    group: list[Block] = []
    size, size_max, begun = 0, FIRST_GROUP_SIZE, part.first_index
    for block in feed.entries(part.first_index, part.end_index):
        for one, last in _pieces(block):
            group.append(one)
            size += one.size
            if size >= size_max or last - begun >= GROUP_MESSAGES_MAX:
                yield from decoder.block_batches(group, part.first_index, part.end_index)
                group, size, size_max, begun = [], 0, GROUP_SIZE_MAX, last
    yield from decoder.block_batches(group, part.first_index, part.end_index)


def _pieces(block: Block) -> Iterator[tuple[Block, int]]:
    """A block in pieces of few enough messages, and the last index of each piece."""
    lasts = block.last_indexes()
    at = 0
    while at < len(block):
        end = max(int(np.searchsorted(lasts, lasts[at] + GROUP_MESSAGES_MAX)), at + 1)
        yield (block if end - at == len(block) else block.part(at, end)), int(lasts[end - 1])
        at = end


def chunks_before(feed: Feed, index: int, uuid: str) -> list[Chunk]:
    """The chunks of a uuid that lie before an index, from the newest chunk 0 on; none without one."""
    found: list[Chunk] = []
    end, reach = index, LOOK_BACK_FIRST
    while end > 0:
        begin = max(index - reach, 0)
        here = [
            chunk
            for block in feed.entries(begin, end)
            for entry, last in zip(block, block.last_indexes().tolist(), strict=True)
            if begin <= last < end and (chunk := _chunk_of(entry, uuid)) is not None
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
    connection: Endpoint,
    part: Slice,
    columns: Sequence[str] = COLUMNS,
    *,
    fail_on_data_loss: bool = True,
) -> Iterator[pa.RecordBatch]:
    """The messages of a slice, from a broker."""
    feed = BrokerFeed(connection, part.topic, fail_on_data_loss=fail_on_data_loss)
    yield from slice_batches(feed, part, columns)
