"""Looks messages up by index, id or count, without consuming them (PIP-415). Changes nothing.

An index and an id are two names of one message; this file translates between them by bisection, without
reading a payload (PIP-415), and finds entries by count. What is in a backlog, `backlog_walk.py` knows.

    found = await message_at(topic, 4, engine)  # entry B of the proposal's table, batch index 1 of 2
    index_of(topic, found.position, found.batch_index) == 4

What is expired is answered with the earliest id, as the proposal wants it; everything that was never
there is an error that names it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from milepost.broker.messages.backlog_walk import nth_in_backlog
from milepost.errors import CorruptData, IndexNotFound, LedgerNotFound, PreconditionFailed
from milepost.positions.ids import EARLIEST, Position
from milepost.storage.ledgers.entry import BATCH, LAST_CHUNK, MARKER
from milepost.storage.ledgers.not_in_memory import NotInMemory
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.replies import message_id_data

if TYPE_CHECKING:
    from milepost.broker.limits.time_slices import TimeSlices
    from milepost.broker.topic.topic import Topic
    from milepost.positions.ranges import IndexRanges
    from milepost.storage.interface import Disk, Engine, Log
    from milepost.storage.ledgers.log import Located

# Entries looked at in one go, before others have their turn.
STEP_ENTRIES = 1024

NO_BATCH_INDEX = -1

# How a ledger says that it cannot be read.
UNREADABLE: Final = (CorruptData, OSError)


class FoundMessage(NamedTuple):
    """Where a message lies."""

    position: Position
    batch_index: int = NO_BATCH_INDEX
    """Its place in the batch that its entry is; -1 if the entry is no batch."""
    batch_size: int = 0
    """Messages of that batch; 0 without one."""
    is_last_chunk: bool = False
    """Is its entry the last chunk of a chunked message?"""


EXPIRED = FoundMessage(EARLIEST.position)


class IndexedMessage(NamedTuple):
    """The numbers of a message, and of the entry that it is part of."""

    index: int  # type: ignore[assignment]  # in place of tuple.index, which has no use here
    entry_first_index: int
    entry_last_index: int


async def message_at(topic: Topic, index: int, disk: Disk) -> FoundMessage:
    """The message with this index; behind a system message, or one of an aborted transaction, the
    first that is neither (PIP-415).

    `EXPIRED` below the first retained index, `IndexNotFound` where there is, or will be, no message.
    """
    found = await disk.look(lambda: user_message_at(topic, index))
    if found is None:
        located = await _next_message(topic, index, disk)
        return _found(located, located.span.first_index)
    return found


async def id_at(topic: Topic, index: int, disk: Disk) -> pb.MessageIdData:
    """The id of the message with an index, for the wire; that of a last chunk names the first chunk too."""
    found = await message_at(topic, index, disk)
    if found is EXPIRED:
        return message_id_data(*found.position)
    partition = topic.name.partition
    message_id = message_id_data(*found.position, partition)
    if found.batch_size:
        message_id.batch_index = found.batch_index
        message_id.batch_size = found.batch_size
    elif found.is_last_chunk:
        first = await disk.look(
            lambda: topic.log.locate(topic.first_chunk_index(*found.position)).position
        )
        message_id.first_chunk_message_id.CopyFrom(message_id_data(*first, partition))
    return message_id


def message_in_memory(topic: Topic, index: int, disk: Engine) -> FoundMessage | None:
    """The message with this index, at once: None for a system message, and where the disk has to be
    asked."""
    try:
        with disk.loop_files.strictly():
            return user_message_at(topic, index)
    except NotInMemory:
        return None


def user_message_at(topic: Topic, index: int) -> FoundMessage | None:
    """The message with this index, from one bisection: None for one that is never delivered."""
    log = topic.log
    if index < 0:
        raise IndexNotFound(f"{topic.name}: {index} is no index")
    if index < log.first_index:
        return EXPIRED
    if index >= topic.visible_end:
        raise IndexNotFound(
            f"{topic.name}: index {index} is not in [{log.first_index}, {topic.visible_end})"
        )
    located = log.locate(index)
    is_system = located.flags & MARKER or topic.is_hidden(index)
    return None if is_system else _found(located, index)


def _found(located: Located, index: int) -> FoundMessage:
    if not located.flags & BATCH:
        is_last_chunk = bool(located.flags & LAST_CHUNK)
        return FoundMessage(located.position, is_last_chunk=is_last_chunk)
    return FoundMessage(located.position, index - located.span.first_index, located.span.count)


async def _next_message(topic: Topic, index: int, disk: Disk) -> Located:
    asked = index

    def step() -> list[Located]:
        return topic.log.entries_from(index, STEP_ENTRIES)

    while entries := await disk.look(step):
        for located in entries:
            if located.span.first_index >= topic.visible_end:
                raise IndexNotFound(f"{topic.name}: no message from index {asked} on")
            if not located.flags & MARKER and not topic.is_hidden(located.span.first_index):
                return located
        index = entries[-1].span.end_index
        await asyncio.sleep(0)
        index = max(index, topic.log.first_index)  # the topic may have been trimmed meanwhile
    raise IndexNotFound(f"{topic.name}: only system messages from index {asked} on")


def index_of(topic: Topic, position: Position, batch_index: int = NO_BATCH_INDEX) -> IndexedMessage:
    """The index of a message: of a batch's first one if the id does not say which."""
    first, end, flags = check_visible(topic, position)
    size = end - first if flags & BATCH else 1
    if not NO_BATCH_INDEX <= batch_index < size:
        raise IndexNotFound(
            f"{topic.name}: entry {position} has {size} messages, none with batch index "
            f"{batch_index}"
        )
    return IndexedMessage(first + max(batch_index, 0), first, end - 1)


def check_visible(topic: Topic, position: Position) -> tuple[int, int, int]:
    """First index, end index and flags of an entry that consumers may see; the same error for one that
    they may not as for one that is not there."""
    first, end, flags = topic.lookup(*position)
    if first >= topic.visible_end or topic.is_hidden(first):
        raise LedgerNotFound(f"{topic.log.name} shows no entry {position}")
    return first, end, flags


# -- when it came, and what lies behind it ------------------------------------------------------------


def came_ms(log: Log, index: int) -> int:
    """When the message with this index came, which is retained; if the disk does not say, when its
    ledger was begun: it came no earlier."""
    try:
        return log.locate(index).timestamp_ms
    except UNREADABLE:
        return log.ledger_with(index).first_time_ms


def visible_size(topic: Topic, index: int) -> int:
    """Bytes from the entry on that holds an index, that consumers may see; if the disk does not say where
    that begins, from its ledger on: there are no more."""
    log = topic.log
    try:
        return topic.visible_size(index)
    except UNREADABLE:
        return log.size_from(log.ledger_with(max(index, log.first_index)).first_index)


# -- by count ----------------------------------------------------------------------------------------


async def examined(
    topic: Topic, from_earliest: bool, count: int, slices: TimeSlices, disk: Disk
) -> Located:
    """The `count`-th entry from one end that consumers may see, from 1; the farthest if there are
    fewer, `PreconditionFailed` if there are none."""
    log, number = topic.log, max(count, 1)
    if topic.transactions is None and log.entry_count:
        number = min(number, log.entry_count) - 1
        number = number if from_earliest else log.entry_count - 1 - number
        return await disk.look(lambda: _nth_entry(log, number))
    visible = topic.visible_ranges()
    if not visible:
        raise PreconditionFailed(f"{topic.name} is empty")
    if from_earliest:
        try:
            return await nth_in_backlog(log, visible, number, slices, disk)
        except IndexNotFound:  # there are not as many
            number = 1
    return await _nth_last(log, visible, number, slices, disk)


async def _nth_last(
    log: Log, visible: IndexRanges, number: int, slices: TimeSlices, disk: Disk
) -> Located:
    """The same from the end on; `visible` is used up on the way."""
    while True:
        assert visible.first is not None
        assert visible.end is not None
        last = visible.end - 1
        located = await disk.look(lambda last=last: log.locate(max(last, log.first_index)))  # type: ignore[misc]
        number -= 1
        if not number or visible.first >= located.span.first_index:
            return located
        visible.discard(located.span.first_index, visible.end)
        if slices.is_over:
            await slices.rest()


def _nth_entry(log: Log, number: int) -> Located:
    """The entry behind so many others; there are as many."""
    left = number
    for ledger in log.ledgers:
        if left < ledger.entries:
            return log.at(Position(ledger.ledger_id, left))
        left -= ledger.entries
    raise LedgerNotFound(f"{log.name}: {log.entry_count} entries, no entry {number}")
