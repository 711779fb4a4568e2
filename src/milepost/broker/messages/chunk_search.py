"""Finds the chunks of a message in the log when memory has forgotten them.

Needed for what is rare: the first chunk after a restart, an ack or a seek by an id from long ago. Of each
chunk only its head is read, never the payload, and by the disk's threads: the loop goes on meanwhile. Owns
nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from milepost.broker.messages.chunked import ChunkedMessages, Tie
from milepost.errors import IndexNotFound, ProtocolError
from milepost.positions.ids import Position
from milepost.positions.transactions import TxnId
from milepost.storage.files import Files
from milepost.storage.interface import Disk, Log
from milepost.storage.ledgers.entry import CHUNK, Entry
from milepost.storage.ledgers.heads import HeadsPlan
from milepost.wire.events import ChunkInfo
from milepost.wire.markers import transaction_of
from milepost.wire.metadata import chunk_info, entry_metadata

# How far back the newest chunk of a message is looked for, in entries of all producers. A producer that
# was cut off comes back with the next chunk at once, so what it continues is near the end.
RECALL_ENTRIES_MAX: Final = 10_000

# Beginnings of messages that are remembered.
FIRSTS_MAX: Final = 1000

# Entries that are looked at for each read: chunks of a message mostly lie side by side.
STEP_ENTRIES: Final = 128


async def find_whole(
    log: Log, chunked: ChunkedMessages, position: Position, disk: Disk
) -> tuple[int, ...]:
    """Find the chunks of a message from its last one, and remember where they lie."""
    indexes = await message_indexes(log, position, disk)
    chunked.found_whole(indexes)
    return indexes


async def find_first(
    log: Log, firsts: OrderedDict[Position, int], position: Position, disk: Disk
) -> int:
    """Find where a message begins from any of its chunks, and remember it."""
    index = firsts[position] = await first_chunk_index(log, position, disk)
    if len(firsts) > FIRSTS_MAX:
        firsts.popitem(last=False)
    return index


async def first_chunk_index(log: Log, position: Position, disk: Disk) -> int:
    """Where the message begins of which this is a chunk; an orphan is on its own."""
    plan = await disk.look(lambda: log.plan_heads(position, CHUNK, 0))
    (entry,) = await disk.perform(plan.perform)
    tie = Tie.of(entry.beside)
    return entry.last_index if tie is None else tie.first_index


async def message_indexes(log: Log, position: Position, disk: Disk) -> tuple[int, ...]:
    """The indexes of this chunk and of those before it in its message, as far as they are retained."""
    heads = await _heads(log, position, disk)
    index = max(heads)
    indexes = [index]
    while (tie := Tie.of(heads[index].beside)) is not None and tie.previous_index < index:
        index = tie.previous_index
        if index not in heads:
            try:
                located = await disk.look(lambda wanted=index: log.locate(wanted))  # type: ignore[misc]
            except IndexNotFound:
                break
            heads = await _heads(log, located.position, disk)
        indexes.append(index)
    return tuple(reversed(indexes))


async def _heads(log: Log, position: Position, disk: Disk) -> dict[int, Entry]:
    """The chunk at a position and those shortly before it, by their indexes."""
    plan = await disk.look(lambda: log.plan_heads(position, CHUNK, STEP_ENTRIES))
    return {entry.last_index: entry for entry in await disk.perform(plan.perform)}


async def recall(
    log: Log,
    end_index: int,
    chunked: ChunkedMessages,
    has_ended: Callable[[TxnId], bool],
    disk: Disk,
) -> None:
    """Remember the newest chunk of each uuid that is near the end that a log had once. What a transaction
    that has ended left unfinished can never be finished, and is not remembered."""
    index = max(log.first_index, end_index - RECALL_ENTRIES_MAX)
    found: dict[str, _Found] = {}
    while index < end_index:
        stretch = await disk.look(lambda at=index: log.stretch(at, STEP_ENTRIES))  # type: ignore[misc]
        if stretch is None:
            break
        if any(flags & CHUNK for flags in stretch.flags):
            last = stretch.position(stretch.first_entry_id + stretch.entries - 1)
            plan = await disk.look(
                lambda at=last, count=stretch.entries - 1: log.plan_heads(at, CHUNK, count)  # type: ignore[misc]
            )
            for one in await disk.perform(lambda files, plan=plan: _chunks(plan, files)):  # type: ignore[misc]
                if one.index < end_index:
                    found.pop(one.chunk.uuid, None)  # so that the newest is last in the dict
                    found[one.chunk.uuid] = one
        index = stretch.end_index
    for one in found.values():
        is_given_up = (
            not one.chunk.is_last and one.transaction is not None and has_ended(one.transaction)
        )
        if not is_given_up and not chunked.knows(one.chunk):
            chunked.recalled(*one)
    chunked.is_recalled = True


class _Found(NamedTuple):
    """A chunk in the log."""

    chunk: ChunkInfo
    index: int  # type: ignore[assignment]  # in place of tuple.index, which has no use here
    beside: bytes
    transaction: TxnId | None


def _chunks(plan: HeadsPlan, files: Files) -> list[_Found]:
    """What each chunk says of itself, its index, and what stands beside it; in a file thread."""
    found = []
    for entry in plan.intact(files):
        try:
            metadata = entry_metadata(entry.payload)
        except ProtocolError:  # metadata that is longer than a head
            metadata = entry_metadata(plan.whole(entry.entry_id, files).payload)
        if (chunk := chunk_info(metadata)) is not None:
            found.append(_Found(chunk, entry.last_index, entry.beside, transaction_of(metadata)))
    return found
