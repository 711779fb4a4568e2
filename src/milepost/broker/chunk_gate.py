"""ChunkGate: which chunks of a subscription may be delivered. Those of whole messages, and no others.

A chunked message is one message (PIP-107), delivered whole or not at all, at the place of its last chunk:
until that is there its chunks are *held*. They stay ready in the cursor, but nobody is given them. So a
consumer never has to wait for the rest of a message, or to remember half of one through a reconnect, when
it is the producer or the broker that was cut off.

    a chunk of an unfinished message    held
    its last chunk                      opens the message: all of it may go, the first chunk first
    an orphan                           given up: tied to no message, it goes to nobody
    chunk 0 of a uuid that is held      the producer began again: the older attempt is given up
    a last chunk, others being acked    given up with the rest: it is no message any more
    nothing new for an hour             given up

What is given up is acked by whoever asked: it would keep everything behind it from being forgotten, and
nobody could use it.

The gate meets every ready chunk at least once, in the order of the log, before it meets those behind it.
It looks at its cursor and never moves it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from milepost.broker.chunk_affinity import short_uuid
from milepost.broker.chunked import Tie
from milepost.cursor.cursor import Cursor
from milepost.positions.ranges import IndexRanges, Range
from milepost.positions.spans import Span
from milepost.storage.entry import LAST_CHUNK, Entry
from milepost.wire.events import ChunkInfo
from milepost.wire.metadata import chunk_info, split_entry

# A message that got no chunk for so long will get none.
PATIENCE_MS: Final = 60 * 60 * 1000

# Open messages remembered; past it the oldest is forgotten, and found again when it is met again.
OPEN_MAX: Final = 10_000


class Met(NamedTuple):
    """What the meeting of a chunk came to."""

    goes_on: int
    """Where delivery goes on: at the chunk, behind it, or where the message begins that it made
    whole."""
    given_up: tuple[int, ...] = ()
    """Indexes of chunks that nobody will get."""


class _Message:
    __slots__ = ("indexes", "newest_ms", "uuid")

    def __init__(self, uuid: str) -> None:
        self.uuid = uuid
        self.indexes: list[int] = []
        """Of the chunks that were met, in order."""
        self.newest_ms = 0


class ChunkGate:
    """The chunked messages of one subscription, by the index of their first chunk."""

    __slots__ = ("_cursor", "_find", "_first_indexes", "_open", "_unfinished", "held")

    # Chunks that were met and may not go.
    held: IndexRanges

    # Messages that may not go; the one without a new chunk for longest first.
    # Invariant: their indexes are what is held.
    _unfinished: OrderedDict[int, _Message]

    # uuid → first index of the unfinished message.
    _first_indexes: dict[str, int]

    # First index → indexes of all chunks of messages that may go.
    _open: OrderedDict[int, tuple[int, ...]]

    def __init__(self, cursor: Cursor, find: Callable[[int, int], tuple[int, ...]]) -> None:
        """`find` gives the indexes of all chunks of the message whose last one lies at a ledger's
        entry; it may have to read them."""
        self.held = IndexRanges()
        self._cursor = cursor
        self._find = find
        self._unfinished = OrderedDict()
        self._first_indexes = {}
        self._open = OrderedDict()

    def meet(self, entry: Entry) -> Met:
        """A chunk, read from the log. An error says that another chunk of its message cannot be: then
        nothing may go, and the chunk can be met again."""
        index = entry.last_index
        chunk = chunk_info(split_entry(bytes(entry.payload)).metadata)
        if chunk is None or self._cursor.ready_set(Span(index, 1)) is not None:
            return Met(index)  # it is not the gate that stops it
        tie = Tie.of(entry.beside)
        first_index = index if tie is None else tie.first_index
        if first_index in self._open:
            return Met(index)
        if tie is None and not chunk.is_first:
            return Met(index + 1, (index,))
        given_up: tuple[int, ...] = ()
        older = self._first_indexes.get(short_uuid(chunk.uuid), first_index)
        if older != first_index:
            given_up = self._give_up(older)
        if not entry.flags & LAST_CHUNK:
            self._hold(entry, chunk, first_index)
            return Met(index + 1, given_up)
        message = self._unfinished.get(first_index)
        met = (*(message.indexes if message else ()), index)
        if len(met) != chunk.num_chunks:
            met = self._find(entry.ledger_id, entry.entry_id)
            if any(self._cursor.is_acked(Span(one, 1)) for one in met):
                return Met(index + 1, (*given_up, *self._give_up(first_index), index))
        self._let_go(met)
        return Met(first_index, given_up)

    def ack_ranges(self, end: int) -> list[Range] | None:
        """What a cumulative ack up to `end` covers: not the chunks of messages that end later. None
        if there are none, and it covers everything."""
        later = IndexRanges(self.held.within(0, end))
        for indexes in self._open.values():
            if indexes[0] < end <= indexes[-1]:
                for index in indexes:
                    if index < end:
                        later.add(index, index + 1)
        return list(later.gaps(self._cursor.first, end)) if later else None

    def settled(self) -> None:
        """Something was acked: what is done with need not be remembered."""
        if self._open:
            mark_delete_index = self._cursor.mark_delete_index
            while self._open and next(iter(self._open.values()))[-1] <= mark_delete_index:
                self._open.popitem(last=False)

    def expired(self, now_ms: int) -> tuple[int, ...]:
        """Hold no longer what got nothing new for so long; the chunks that nobody will get. To be asked
        only when all that time its producer could have come."""
        given_up: tuple[int, ...] = ()
        while self._unfinished:
            first_index, message = next(iter(self._unfinished.items()))
            if now_ms - message.newest_ms < PATIENCE_MS:
                break
            given_up += self._give_up(first_index)
        return given_up

    def clear(self) -> None:
        """The cursor was moved: everything is met anew."""
        self.held.clear()
        self._unfinished.clear()
        self._first_indexes.clear()
        self._open.clear()

    def _hold(self, entry: Entry, chunk: ChunkInfo, first_index: int) -> None:
        """One more chunk of a message whose last one is still to come."""
        message = self._unfinished.get(first_index)
        if message is None:
            message = self._unfinished[first_index] = _Message(short_uuid(chunk.uuid))
            self._first_indexes[message.uuid] = first_index
        index = entry.last_index
        if not message.indexes or message.indexes[-1] < index:
            message.indexes.append(index)
        message.newest_ms = entry.timestamp_ms
        self._unfinished.move_to_end(first_index)
        self.held.add(index, index + 1)

    def _let_go(self, indexes: tuple[int, ...]) -> None:
        self._give_up(indexes[0])
        self._open[indexes[0]] = indexes
        if len(self._open) > OPEN_MAX:
            self._open.popitem(last=False)

    def _give_up(self, first_index: int) -> tuple[int, ...]:
        """Hold the message no longer; what was met of it."""
        message = self._unfinished.pop(first_index, None)
        if message is None:
            return ()
        if self._first_indexes.get(message.uuid) == first_index:
            del self._first_indexes[message.uuid]
        for index in message.indexes:
            self.held.discard(index, index + 1)
        return tuple(message.indexes)


class OpenGate(ChunkGate):
    """For who reads a part of a topic and puts messages together itself: every chunk where it lies,
    also those of messages that began before that part."""

    __slots__ = ()

    def meet(self, entry: Entry) -> Met:
        return Met(entry.last_index)
