"""Holds back the chunks of messages that are not complete.

A chunked message is one message (PIP-107). It is delivered whole or not at all, at the place of its last
chunk. Until all its chunks are there the cursor *withholds* them: they are ready, and no consumer is given
them. So no consumer waits for the rest of a message, or remembers half of one through a reconnect, because
its producer or the broker was cut off.

    unfinished   a chunk is missing       every chunk is withheld
    whole        waits for a consumer     all but the last chunk are withheld; who meets that one may begin
    begun        has an owner             every chunk is inflight with that consumer (chunk_handover.py)
    given up     can never be whole       an orphan, an older attempt, a message of which a chunk was
                                          skipped, one that got nothing new for an hour

What is given up is acked by the caller: it would keep everything behind it from being forgotten, and no
consumer could use it.

The gate meets every ready chunk in the order of the log. It withholds and admits what it knows in its
cursor, and reads nothing. Each step costs the chunks of one message at most, however many are unfinished.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from milepost.broker.messages.chunked import PATIENCE_S, Tie, short_uuid
from milepost.cursor.cursor import Cursor
from milepost.positions.ranges import IndexRanges, Range, joined
from milepost.positions.spans import Span
from milepost.storage.ledgers.entry import Entry
from milepost.wire.metadata import chunk_info, entry_metadata

PATIENCE_MS: Final = PATIENCE_S * 1000

# Chunks that are given up, and messages that are forgotten, in one step: others have their turn.
EXPIRED_CHUNKS_MAX: Final = 10_000
FORGOTTEN_MAX: Final = 1000


class ChunkedMessage:
    """One message, as far as it was met."""

    __slots__ = ("indexes", "is_begun", "newest_ms", "num_chunks", "uuid")

    def __init__(self, uuid: str, num_chunks: int) -> None:
        self.uuid = uuid
        self.num_chunks = num_chunks
        self.indexes: list[int] = []
        """Of its chunks that were met, ascending."""
        self.newest_ms = 0
        """When the newest of them was stored."""
        self.is_begun = False
        """It was given to a consumer. When that consumer gives it back, it is met again."""

    def __repr__(self) -> str:
        return f"<ChunkedMessage {self.uuid}: {len(self.indexes)} of {self.num_chunks} chunks>"

    @property
    def is_whole(self) -> bool:
        return len(self.indexes) == self.num_chunks

    @property
    def last_index(self) -> int:
        return self.indexes[-1]

    @property
    def ranges(self) -> list[Range]:
        """The indexes as ranges: mostly one, since chunks mostly lie side by side."""
        return joined(self.indexes)


class Met(NamedTuple):
    """What the meeting of a chunk came to."""

    message: ChunkedMessage | None = None
    """The chunk is the last one of this message, which may go now."""
    given_up: Sequence[int] = ()
    """Indexes of chunks that no consumer will get."""
    is_entry: bool = False
    """The chunk goes as an entry of its own."""
    looks_again: bool = False
    """A message is whole whose last chunk was passed before."""


class ChunkGate:
    """The chunked messages of one subscription."""

    __slots__ = (
        "_acked_end",
        "_by_uuid",
        "_cursor",
        "_firsts",
        "_lasts",
        "_messages",
        "_parts",
        "_unfinished",
        "_unreadable",
    )

    # First index → unfinished message; the one without a new chunk for longest first.
    _unfinished: OrderedDict[int, ChunkedMessage]

    # Its keys, in order.
    _firsts: IndexRanges

    # uuid → first index of the unfinished message.
    _by_uuid: dict[str, int]

    # Index of any chunk that was met → its message, whole or not.
    _messages: dict[int, ChunkedMessage]

    # The last indexes of whole messages.
    _lasts: IndexRanges

    # All other chunks of messages that are known: a cumulative ack passes them until it comes to the last.
    _parts: IndexRanges

    # Entries that could not be read.
    _unreadable: IndexRanges

    # Cumulative acks have come so far.  Invariant: what is in the backlog below is in `_parts`.
    _acked_end: int

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._unfinished = OrderedDict()
        self._firsts = IndexRanges()
        self._by_uuid = {}
        self._messages = {}
        self._lasts = IndexRanges()
        self._parts = IndexRanges()
        self._unreadable = IndexRanges()
        self._acked_end = 0

    @property
    def knows_chunks(self) -> bool:
        """Was any chunk met that is not settled?"""
        return bool(self._parts or self._lasts)

    @property
    def unfinished_count(self) -> int:
        """Messages that wait for a chunk."""
        return len(self._unfinished)

    # -- meeting chunks ----------------------------------------------------------------------------

    def meet(self, entry: Entry) -> Met:
        """A chunk was read from the log and is next. To be told of every one."""
        index = entry.last_index
        cursor = self._cursor
        if self._unreadable:
            self._unreadable.discard(index, index + 1)
        if not cursor.is_ready(index):
            return Met()  # it was acked, or given to a consumer, since it was read
        known = self._messages.get(index)
        if known is not None and known.is_whole:
            return self._meet_whole(known, index)
        chunk = chunk_info(entry_metadata(entry.payload))
        if chunk is None:
            return Met(is_entry=True)
        tie = Tie.of(entry.beside)
        if tie is None and not chunk.is_first:
            return Met(given_up=[index])
        first_index = index if tie is None else tie.first_index
        uuid = short_uuid(chunk.uuid)
        given_up: list[int] = []
        older = self._by_uuid.get(uuid, first_index)
        if older != first_index:
            given_up += self._give_up(older)  # its producer began again
        if tie is not None and any(cursor.is_acked(Span(one, 1)) for one in tie):
            given_up += self._give_up(first_index)
            return Met(given_up=[*given_up, index])
        message = self._unfinished.get(first_index)
        if message is None:
            message = self._unfinished[first_index] = ChunkedMessage(uuid, chunk.num_chunks)
            self._firsts.add(first_index, first_index + 1)
            self._by_uuid[uuid] = first_index
        self._unfinished.move_to_end(first_index)
        message.newest_ms = max(message.newest_ms, entry.timestamp_ms)
        if known is not message:  # else a transaction had acked it, and was aborted
            message.indexes.append(index)
            self._messages[index] = message
        if len(message.indexes) > 1 and message.indexes[-2] > index:
            message.indexes.sort()  # a delayed chunk comes out of order
        if not message.is_whole:
            cursor.withhold(index, index + 1)
            self._parts.add(index, index + 1)
            return Met(given_up=given_up)
        self._forget_unfinished(first_index)
        last_index = message.last_index
        self._lasts.add(last_index, last_index + 1)
        if index == last_index:
            return Met(message, given_up)
        cursor.withhold(index, index + 1)
        self._parts.add(index, index + 1)
        self._parts.discard(last_index, last_index + 1)
        cursor.admit(last_index, last_index + 1)
        return Met(given_up=given_up, looks_again=True)

    def _meet_whole(self, message: ChunkedMessage, index: int) -> Met:
        """A chunk of a message that was met whole before: now it waits, or it was given back."""
        # While a message waits, its last chunk alone is ready. A transaction that has acked it, and is
        # aborted, gives all of it back.
        if message.is_begun or index != message.last_index:
            others = [one for one in message.indexes if not self._cursor.is_ready(one)]
            if others and any(self._cursor.is_acked(Span(one, 1)) for one in others):
                return Met(given_up=self.end(message))
            if others:
                return Met()  # a consumer still holds some of its chunks
            message.is_begun = False
            for first, end in joined(message.indexes[:-1]):
                self._cursor.withhold(first, end)
        if index != message.last_index:
            return Met()
        # What is skipped is skipped from the front: its first chunk says whether anything was.
        first_index = message.indexes[0]
        if first_index == index or self._cursor.is_withheld(first_index):
            return Met(message)
        return Met(given_up=self.end(message))

    # -- what becomes of messages ------------------------------------------------------------------

    def begin(self, message: ChunkedMessage) -> bool:
        """Admit all chunks of a message that is about to be given to a consumer. False: a part of it
        was acked meanwhile, and the rest is to be given up (`end`)."""
        early = joined(message.indexes[:-1])
        cursor = self._cursor
        if not cursor.is_ready(message.last_index) or not cursor.are_withheld(early):
            return False
        for first, end in early:
            cursor.admit(first, end)
        message.is_begun = True
        return True

    def end(self, message: ChunkedMessage) -> list[int]:
        """Know a whole message no longer; what of it is ready and can go to no consumer."""
        self._forget_whole(message)
        return [one for one in message.indexes if self._cursor.is_waiting(one)]

    def forget(self, message: ChunkedMessage) -> None:
        """A chunk of a message that was given back cannot be read: all of it is met anew."""
        self._forget_whole(message)
        self._acked_end = min(self._acked_end, message.indexes[0])

    def message_of(self, index: int) -> ChunkedMessage | None:
        """The whole message that a chunk belongs to; None if none is known."""
        message = self._messages.get(index)
        return message if message is not None and message.is_whole else None

    def settled(self, ranges: Iterable[Range]) -> list[int]:
        """These were acked: messages that are done need not be remembered. What can go to no consumer
        any more, because its message lost its beginning."""
        given_up: list[int] = []
        if not self._lasts.count and not self._firsts.count:
            return given_up  # most topics have no chunks
        left = FORGOTTEN_MAX
        for first, end in ranges:
            if not (self._lasts or self._firsts) or not left:
                break
            for last_index in self._each(self._lasts, first, end, left):
                self._forget_whole(self._messages[last_index])
                left -= 1
            for first_index in self._each(self._firsts, first, end, left):
                given_up += self._give_up(first_index)
                left -= 1
        # What is left of an ack of very many ranges.
        if left and self._lasts:
            behind = self._cursor.mark_delete_index + 1
            for last_index in self._each(self._lasts, 0, behind, left):
                self._forget_whole(self._messages[last_index])
        return given_up

    def known_within(self, indexes: IndexRanges) -> list[Range]:
        """What of a set `settled` has to be told of."""
        return [*(self._lasts & indexes), *(self._firsts & indexes)]

    @staticmethod
    def _each(indexes: IndexRanges, first: int, end: int, limit: int) -> list[int]:
        """The indexes in `[first, end)`, at most so many."""
        found: list[int] = []
        while len(found) < limit and (index := indexes.next_index(first)) is not None:
            if index >= end:
                break
            found.append(index)
            first = index + 1
        return found

    def ack_ranges(self, end: int, hidden: IndexRanges | None = None) -> list[Range] | None:
        """What a cumulative ack up to `end` covers: not the chunks of messages that end later. None
        if no chunk is known, and it covers everything. It will leave what is `hidden`."""
        ranges = self.ranges_up_to(end, max(self._acked_end, self._cursor.first))
        if ranges is not None:
            left = None if hidden is None else hidden.first
            self._acked_end = max(self._acked_end, end if left is None else min(end, left))
        return ranges

    def ranges_up_to(self, end: int, first: int = 0) -> list[Range] | None:
        """The same for an ack that does not count yet, from an index on."""
        if not self.knows_chunks:
            return None
        first = max(first, self._cursor.first)
        if first >= end:
            return []
        ranges = list(self._parts.gaps(first, end))
        for last_first, last_end in self._lasts.within(first, end):
            for last_index in range(last_first, last_end):
                ranges += self._messages[last_index].ranges
        return ranges

    @property
    def unsure_from(self) -> int | None:
        """From here on there may be chunks that were not met: the end of a message that is unfinished, or
        of any message where something is ready. What cumulative acks covered was looked at. None if there
        are none."""
        ready = self._cursor.next_ready(0, 1)
        firsts = [self._firsts.first, None if ready is None else ready[0]]
        first = min((one for one in firsts if one is not None), default=None)
        return None if first is None else max(first, self._acked_end)

    def note_parts(self, ranges: Iterable[Range]) -> None:
        """Chunks that were not met, of messages that end later: a cumulative ack passes them."""
        for first, end in ranges:
            self._parts.add(first, end)

    def expired(self, now_ms: int) -> list[int]:
        """Give up messages that got nothing new for so long, some at a time; their chunks. To be asked
        only when their producers could have come all that time."""
        given_up: list[int] = []
        while self._unfinished and len(given_up) < EXPIRED_CHUNKS_MAX:
            first_index, message = next(iter(self._unfinished.items()))
            if now_ms - message.newest_ms < PATIENCE_MS:
                break
            if self._unreadable.next_index(first_index) is not None:
                # What cannot be read may be the chunk that it lacks: acked, it would be lost without a word.
                message.newest_ms = now_ms
                self._unfinished.move_to_end(first_index)
                continue
            given_up += self._give_up(first_index)
        return given_up

    def cannot_read(self, index: int) -> None:
        """An entry is damaged. A message that began before it and lacks a chunk is not given up: the chunk
        may be there."""
        self._unreadable.add(index, index + 1)

    def clear(self) -> None:
        """The cursor was moved: everything is met anew."""
        self._unreadable.clear()
        self._unfinished.clear()
        self._firsts.clear()
        self._by_uuid.clear()
        self._messages.clear()
        self._lasts.clear()
        self._parts.clear()
        self._acked_end = 0

    # -- inside ------------------------------------------------------------------------------------

    def _give_up(self, first_index: int) -> list[int]:
        """Know an unfinished message no longer; what of it waits."""
        message = self._forget_unfinished(first_index)
        if message is None:
            return []
        for index in message.indexes:
            self._messages.pop(index, None)
        for first, end in message.ranges:
            self._parts.discard(first, end)
        return [one for one in message.indexes if self._cursor.is_waiting(one)]

    def _forget_unfinished(self, first_index: int) -> ChunkedMessage | None:
        message = self._unfinished.pop(first_index, None)
        if message is None:
            return None
        self._firsts.discard(first_index, first_index + 1)
        if self._by_uuid.get(message.uuid) == first_index:
            del self._by_uuid[message.uuid]
        return message

    def _forget_whole(self, message: ChunkedMessage) -> None:
        for index in message.indexes:
            self._messages.pop(index, None)
        for first, end in message.ranges:
            self._parts.discard(first, end)
            self._lasts.discard(first, end)


class OpenGate(ChunkGate):
    """For a reader of a part of a topic that puts messages together itself: every chunk where it lies,
    also those of messages that began before that part."""

    __slots__ = ()

    def meet(self, entry: Entry) -> Met:
        return Met(is_entry=True)
