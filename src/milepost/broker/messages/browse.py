"""Reads single messages of a topic for people, from an index on, with a filter; consumes none.

    found = await browse(topic, 1000, Filter(key="a"), count=50, slices=slices, disk=engine)
    found.messages, found.next_index        # go on there; None: there are no more

What consumers never see (system messages, what a transaction aborted or has not ended) is left out. A chunked
message is one, found at its last chunk. One call looks at a limited number of entries and bytes, so a filter
that fits little may find nothing in it: the caller goes on at `next_index`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from milepost.broker.limits.time_slices import TimeSlices
from milepost.broker.messages.message_view import UNPACKED_SIZE_MAX, MessageView, views
from milepost.errors import MilepostError, NotAllowed
from milepost.positions.ranges import Range
from milepost.storage.ledgers.entry import CHUNK, LAST_CHUNK, MARKER, Entry
from milepost.wire.metadata import entry_metadata_and_end

if TYPE_CHECKING:
    from milepost.broker.topic.topic import Topic
    from milepost.storage.interface import Engine

# Read in one go.
STEP_ENTRIES: Final = 64
STEP_SIZE: Final = 1024 * 1024

# What one call looks at, whether or not it fits.
ENTRIES_MAX: Final = 20_000
SIZE_MAX: Final = 64 * 1024 * 1024


class Filter(NamedTuple):
    """What all must fit; an empty text fits everything."""

    key: str = ""
    """A part of the key."""
    property: str = ""
    """A property's name, or `name=` and a part of its value."""
    content: str = ""
    """A part of the payload, as UTF-8."""

    def fits(self, message: MessageView) -> bool:
        """
        >>> Filter(property="a=1")
        Filter(key='', property='a=1', content='')
        """
        if self.key and self.key not in (message.key or ""):
            return False
        if self.property:
            name, equals, value = self.property.partition("=")
            own = message.properties.get(name)
            if own is None or (equals and value not in own):
                return False
        return not self.content or self.content.encode() in message.payload


class Browsed(NamedTuple):
    messages: list[MessageView]
    next_index: int | None
    """Where to go on; None at the end."""
    looked_at: int
    """Entries."""


async def browse(
    topic: Topic,
    index: int,
    wanted: Filter,
    *,
    count: int,
    slices: TimeSlices,
    disk: Engine,
    size_max: int = SIZE_MAX,
) -> Browsed:
    """Up to `count` messages that fit, from an index on; entries of `size_max` bytes are looked at."""
    log, found = topic.log, list[MessageView]()
    looked_at = size = 0
    index = max(index, log.first_index)
    while index < topic.visible_end and looked_at < ENTRIES_MAX and size < size_max:
        at, end = index, topic.visible_end
        plan = await disk.look(
            lambda at=at, end=end: log.plan_read_from(  # type: ignore[misc]
                max(at, log.first_index), end, entries_max=STEP_ENTRIES, size_max=STEP_SIZE
            )
        )
        for entry in await disk.read(plan):
            looked_at += 1
            size += len(entry.payload)
            for message in await _messages(topic, entry, disk):
                if message.index >= index and wanted.fits(message):
                    found.append(message)
                    if len(found) == count:
                        return Browsed(found, _next(topic, message.index + 1), looked_at)
            index = entry.last_index + 1
            if slices.is_over:
                await slices.rest()
    return Browsed(found, _next(topic, index), looked_at)


async def message_of(topic: Topic, index: int, disk: Engine) -> MessageView | None:
    """The message with an index; None if consumers do not see one there."""
    if not topic.log.first_index <= index < topic.visible_end:
        return None
    plan = await disk.look(
        lambda: topic.log.plan_read_from(index, index + 1, entries_max=1, size_max=STEP_SIZE)
    )
    for entry in await disk.read(plan):
        for message in await _messages(topic, entry, disk):
            if message.index == index:
                return message
    return None


async def stored_bytes(
    topic: Topic, ranges: Sequence[Range], disk: Engine, size_max: int
) -> list[bytes]:
    """The entries of these indexes as producers sent them, each once, in order; `NotAllowed` for more than
    `size_max` bytes."""
    found: list[Entry] = []
    size = 0
    for first, end in ranges:
        index = first
        while index < end:
            if found and index <= found[-1].last_index:
                index = found[-1].last_index + 1
                continue
            at = index
            plan = await disk.look(
                lambda at=at: topic.log.plan_read_from(  # type: ignore[misc]
                    at, at + 1, entries_max=1, size_max=STEP_SIZE
                )
            )
            found += await disk.read(plan)
            index = found[-1].last_index + 1
            size += len(found[-1].payload)
            if size > size_max:
                raise NotAllowed(f"messages of more than {size_max} bytes cannot be read at once")
    return [bytes(entry.payload) for entry in found]


def _next(topic: Topic, index: int) -> int | None:
    return index if index < topic.visible_end else None


async def _messages(topic: Topic, entry: Entry, disk: Engine) -> list[MessageView]:
    partition = topic.name.partition
    if entry.flags & MARKER or topic.is_hidden(entry.last_index):
        return []
    if not entry.flags & CHUNK:
        return views(entry, partition)
    if not entry.flags & LAST_CHUNK:
        return []
    indexes = await disk.look(lambda: topic.chunk_indexes(*entry.position))
    metadata, _ = entry_metadata_and_end(entry.payload)
    size = metadata.total_chunk_msg_size
    if size > UNPACKED_SIZE_MAX:
        fault = f"its {len(indexes)} chunks are {size} bytes; this is the last one"
        return views(entry, partition, chunks=len(indexes), fault=fault)
    try:
        joined = await _joined(topic, indexes, disk)
    except MilepostError as error:
        return views(entry, partition, chunks=len(indexes), fault=str(error))
    return views(entry, partition, chunks=len(indexes), joined=joined)


async def _joined(topic: Topic, indexes: Sequence[int], disk: Engine) -> bytes:
    """The body of a chunked message; `NotAllowed` if it is larger than its producer said and than may be."""
    parts, size = [], 0
    for index in indexes:
        parts.append(await _chunk(topic, index, disk))
        size += len(parts[-1])
        if size > UNPACKED_SIZE_MAX:
            raise NotAllowed(f"its {len(indexes)} chunks are more than {UNPACKED_SIZE_MAX} bytes")
    return b"".join(parts)


async def _chunk(topic: Topic, index: int, disk: Engine) -> bytes:
    plan = await disk.look(
        lambda: topic.log.plan_read_from(index, index + 1, entries_max=1, size_max=STEP_SIZE)
    )
    (entry,) = await disk.read(plan)
    _, at = entry_metadata_and_end(entry.payload)
    return bytes(entry.payload[at:])
