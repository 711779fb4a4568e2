"""Chunk search: finds chunks in the log, for messages that nobody in memory remembers.

Everything here reads entries where they lie, and waits for it. That is meant for what is rare: the first
chunk after a restart, an ack or a seek by an id from long ago. Owns nothing.
"""

from __future__ import annotations

from typing import Final

from milepost.broker.chunked import ChunkedMessages, Tie
from milepost.errors import IndexNotFound
from milepost.positions.ids import Position
from milepost.storage.entry import CHUNK, Entry
from milepost.storage.log import Log
from milepost.wire.events import ChunkInfo
from milepost.wire.metadata import chunk_info, split_entry

# How far back the newest chunk of a message is looked for, in entries of everybody and in bytes of
# chunks. A producer that was cut off comes back with the next chunk at once, so what it continues is
# near the end.
RECALL_ENTRIES_MAX: Final = 10_000
RECALL_SIZE_MAX: Final = 256 * 1024 * 1024


def first_chunk_index(log: Log, position: Position) -> int:
    """Where the message begins of which this is a chunk; an orphan is on its own."""
    entry = log.read(position, entries_max=1)[0]
    tie = Tie.of(entry.beside)
    return entry.last_index if tie is None else tie.first_index


def message_indexes(log: Log, position: Position) -> tuple[int, ...]:
    """The indexes of this chunk and of those before it in its message, as far as they are retained."""
    entry = log.read(position, entries_max=1)[0]
    indexes = [entry.last_index]
    while (tie := Tie.of(entry.beside)) is not None and tie.previous_index < indexes[-1]:
        try:
            entry = log.read(log.locate(tie.previous_index).position, entries_max=1)[0]
        except IndexNotFound:
            break
        indexes.append(entry.last_index)
    return tuple(reversed(indexes))


def recall(log: Log, end_index: int, chunked: ChunkedMessages) -> None:
    """Remember the newest chunk of each uuid that is near the end that a log had once."""
    places: list[Position] = []
    index = max(log.first_index, end_index - RECALL_ENTRIES_MAX)
    while index < end_index:
        entries = log.entries_from(index, RECALL_ENTRIES_MAX)
        if not entries:
            break
        places += [entry.position for entry in entries if entry.flags & CHUNK]
        index = entries[-1].span.end_index
    seen: set[str] = set()
    size = 0
    found: list[tuple[ChunkInfo, Entry]] = []
    for position in reversed(places):
        entry = log.read(position, entries_max=1)[0]
        size += len(entry.payload)
        chunk = chunk_info(split_entry(bytes(entry.payload)).metadata)
        if chunk is not None and entry.last_index < end_index and chunk.uuid not in seen:
            seen.add(chunk.uuid)
            found.append((chunk, entry))
        if size >= RECALL_SIZE_MAX:
            break
    for chunk, entry in reversed(found):
        if not chunked.knows(chunk):
            chunked.recalled(chunk, entry.last_index, entry.beside)
