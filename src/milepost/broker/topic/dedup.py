"""Deduplication: which sends are stored already, judged by sequence ids.

A producer numbers what it sends and resends whatever it has no answer for. Per producer name two
numbers decide: the highest id that was *pushed* to the journal and the highest that is *persisted*.

    s ≤ persisted            DUPLICATE   stored: a receipt without an id, nothing is stored again
    persisted < s ≤ pushed   UNKNOWN     on its way: an error, the client reconnects and resends
    pushed < s               NEW         pushed rises to it

Owns those numbers, their durable form, and nothing else: no entry, no file, no clock.

    >>> dedup = Dedup()
    >>> dedup.judge("p", 0), dedup.judge("p", 0)
    (<SendVerdict.NEW: 'new'>, <SendVerdict.UNKNOWN: 'unknown'>)
    >>> dedup.persisted("p", 0); dedup.judge("p", 0), dedup.last_sequence_id("p")
    (<SendVerdict.DUPLICATE: 'duplicate'>, 0)

**Nothing is skipped.** If ids 5 and 6 are on the wire, 5 is refused by the journal and 6 were then
stored, the resent 5 would pass for a duplicate and be lost. So after `refused()` a producer gets
nothing but UNKNOWN for what is new until it is `opened()` again: then it resends in order.

**Batches.** A batch is judged by its `sequence_id` and recorded with `highest_sequence_id` if the
client states it, as Java does. C++ does not, and nothing is guessed in its place. `sequence_id + count
− 1` would be right only for consecutive ids: with key-based batching C++ sends the ids {0, 3, 4} as a
batch that says 0, then {1, 2} as a batch that says 1, which that guess (2) would drop as a duplicate;
a user who gives two messages of a batch the same id would lose the next one. Even the true highest id
(4) drops the second batch. What is left is small: a resent batch is known by its first id, exactly;
but an application that resumes behind `last_sequence_id` after C++ batches may store the rest of the
last batch again. A reader can recognise a duplicate; no reader can recognise a lost message.

**Chunks** share one sequence id and are judged as one message (PIP-107). Once the last chunk is pushed
the rules above hold for each of them. Before that the message is *unfinished*: a chunk must be the
next one, or chunk 0, which starts the message over (its content may differ: the producer may be a new
process). A chunk in between that is stored already is a duplicate; one that leaves a gap is UNKNOWN.
Upstream looks at last chunks only, and stores the others of every resend again.

**Forgetting.** A producer that is gone for long is forgotten, and may count from 0 again. Forgetting must be
durable before the producer can see it: if a crash brought the old ids back, the broker would take its new
messages for duplicates. So `let_go` leaves a producer out of snapshots while its ids still count, and
`forget_let_go` forgets it once such a snapshot is durable. It is the same with those that make room for
others: they are let go when one more comes than are kept, and forgotten by the next checkpoint.

Bytes of a snapshot:

    u8       version = 1
    varints  end index of the log it speaks of, how many producers follow
    each     varint size and UTF-8 name, varint persisted + 1, varint sequence id of the unfinished
             message + 1 (0: none) and, if there is one, varint of its next chunk
    u32      CRC32 of all before, little-endian
"""

from __future__ import annotations

import zlib
from itertools import islice
from operator import itemgetter
from typing import Final, NamedTuple

from milepost.broker.messages.send_verdict import SendVerdict
from milepost.errors import CorruptData, ProducerBusy, UnknownFormat
from milepost.positions.varints import read_varint, write_varint
from milepost.wire.events import ChunkInfo

VERSION: Final = 1

# Producers kept. Past it the one that is gone for longest is let go. As many may wait to be forgotten.
PRODUCERS_MAX: Final = 10_000
# One in so many is let go before the rest of the broker is asked for a checkpoint that forgets them.
_CROWDED: Final = 100

# The id of nothing: what `last_sequence_id` answers for a name never seen.
NO_SEQUENCE_ID: Final = -1

# Sequence ids are signed 64-bit numbers from 0 on.
SEQUENCE_ID_MAX: Final = 2**63 - 1

_CHECKSUM_SIZE_BYTES: Final = 4


class _Unfinished(NamedTuple):
    """A chunked message whose last chunk has not come."""

    sequence_id: int
    next_chunk_id: int


class _Producer:
    __slots__ = (
        "must_resend",
        "persisted",
        "pushed",
        "unfinished",
        "unfinished_persisted",
        "unsettled_count",
    )

    # The highest sequence id on disk.
    persisted: int

    # The highest sequence id given to the journal.  Invariant: never below `persisted`.
    pushed: int

    # The chunked message that is being pushed, and what of it is on disk.
    unfinished: _Unfinished | None
    unfinished_persisted: _Unfinished | None

    # Sends pushed and not yet persisted or refused.
    # Invariant: when it is 0, what is pushed and what is persisted are the same.
    unsettled_count: int

    # Something it sent was not stored: nothing later may be before it has come again.
    must_resend: bool

    def __init__(self) -> None:
        self.persisted = self.pushed = NO_SEQUENCE_ID
        self.unfinished = self.unfinished_persisted = None
        self.unsettled_count = 0
        self.must_resend = False

    def judge_chunk(self, sequence_id: int, chunk: ChunkInfo) -> SendVerdict:
        unfinished = self.unfinished
        continues = unfinished is not None and unfinished.sequence_id == sequence_id
        if not continues and sequence_id <= self.persisted:
            return SendVerdict.DUPLICATE
        if self.must_resend:
            return SendVerdict.UNKNOWN
        if continues:
            assert unfinished is not None
            if 0 < chunk.chunk_id < unfinished.next_chunk_id:
                # The client has the receipts of the chunks before it: it is the same message. None of them
                # is of an earlier connection, whose message a chunk 0 has started over meanwhile.
                return SendVerdict.UNKNOWN if self.unsettled_count else SendVerdict.DUPLICATE
            if chunk.chunk_id > unfinished.next_chunk_id:
                self.must_resend = True
                return SendVerdict.UNKNOWN
        elif sequence_id <= self.pushed:
            return SendVerdict.UNKNOWN
        if not chunk.is_last:
            self.unfinished = _Unfinished(sequence_id, chunk.chunk_id + 1)
        else:
            self.pushed = max(self.pushed, sequence_id)
            if continues:
                self.unfinished = None
        self.unsettled_count += 1
        return SendVerdict.NEW

    def refused(self) -> None:
        """What is on its way is not stored, and never will be."""
        if self.unsettled_count:
            self.pushed = self.persisted
            self.unfinished = self.unfinished_persisted
            self.unsettled_count = 0
            self.must_resend = True


class Dedup:
    """The sequence ids of one topic's producers."""

    __slots__ = ("_inactive", "_leaving", "_let_go", "_producers", "_producers_max")

    # By producer name.  Invariant: at most twice `_producers_max`, for those that are let go.
    _producers: dict[str, _Producer]

    # Names of producers that are not connected and since when, in seconds of a clock that does not
    # jump; gone for longest first.
    # Invariant: all of them are in `_producers`.
    _inactive: dict[str, float]

    # The same for producers that snapshots leave out.
    # Invariant: all of them are in `_producers`, none in `_inactive`.
    _let_go: dict[str, float]

    # Of these, those that the snapshot leaves out which is to become durable: a producer that is let go
    # later may be in it.  Invariant: all of them are in `_let_go`.
    _leaving: set[str]

    def __init__(self, *, producers_max: int = PRODUCERS_MAX) -> None:
        """Nothing known: right for a topic that begins to look for duplicates now. Ids of entries
        stored before mean nothing: the producers were not held to their order then."""
        assert producers_max > 0, producers_max
        self._producers = {}
        self._inactive = {}
        self._let_go = {}
        self._leaving = set()
        self._producers_max = producers_max

    # ── a send's way ──────────────────────────────────────────────────────────────────────────

    def judge(
        self,
        producer: str,
        sequence_id: int,
        highest_sequence_id: int = 0,
        chunk: ChunkInfo | None = None,
    ) -> SendVerdict:
        """What to do with a send. NEW means that it is pushed: judge last, append at once, and tell
        what became of it by `persisted` in the order of judging, or by `refused`.

        `highest_sequence_id` is 0 when the client sent none.
        """
        assert 0 <= sequence_id <= SEQUENCE_ID_MAX, f"sequence id {sequence_id} of {producer}"
        state = self._producers.get(producer)
        if state is None:
            state = self._open(producer)
        if chunk is not None:
            return state.judge_chunk(sequence_id, chunk)
        if sequence_id <= state.pushed or state.must_resend:
            return SendVerdict.DUPLICATE if sequence_id <= state.persisted else SendVerdict.UNKNOWN
        highest = max(sequence_id, highest_sequence_id)
        if state.unfinished is not None and sequence_id <= state.unfinished.sequence_id <= highest:
            state.unfinished = None  # sent in one piece this time
        state.pushed = highest
        state.unsettled_count += 1
        return SendVerdict.NEW

    def persisted(
        self,
        producer: str,
        sequence_id: int,
        highest_sequence_id: int = 0,
        chunk: ChunkInfo | None = None,
    ) -> None:
        """A send that was judged NEW is on disk."""
        state = self._producers.get(producer)
        if state is None:
            return  # forgotten meanwhile, for want of room
        if state.unsettled_count:
            state.unsettled_count -= 1
        if chunk is not None and not chunk.is_last:
            state.unfinished_persisted = _Unfinished(sequence_id, chunk.chunk_id + 1)
            return
        highest = max(sequence_id, highest_sequence_id)
        state.persisted = max(state.persisted, highest)
        state.pushed = max(state.pushed, state.persisted)
        unfinished = state.unfinished_persisted
        if unfinished is not None and sequence_id <= unfinished.sequence_id <= highest:
            state.unfinished_persisted = None

    def refused(self) -> None:
        """The journal refused everything pushed and not persisted: it is not stored.

        Not for an unknown outcome: there ids above `persisted` stay UNKNOWN until the journal has
        been read again.
        """
        for state in self._producers.values():
            state.refused()

    def disowned(self, producer: str) -> None:
        """The same for one producer, whose sends had an unknown outcome that is known by now."""
        self._producers[producer].refused()

    # ── producers ─────────────────────────────────────────────────────────────────────────────

    def opened(self, producer: str) -> None:
        """A producer connected, for the first time or again: it begins with what it has no answer
        for. `ProducerBusy` when there is room for no more of them."""
        state = self._producers.get(producer)
        if state is None:
            state = self._open(producer)
        state.must_resend = False
        if producer in self._let_go:
            self._make_room(1)  # it is kept again
        self._return(producer)

    def closed(self, producer: str, now: float) -> None:
        """A producer is gone. What it sent may still be on its way."""
        if producer in self._producers:
            self._return(producer)
            self._inactive[producer] = now

    def let_go(self, gone_since: float) -> bool:
        """Leave the producers that are gone since then, or longer, out of snapshots. Return whether
        the next one leaves out any, these or those that made room."""
        going: list[str] = []
        for producer, since in self._inactive.items():
            if since > gone_since:
                break
            if self.is_settled(producer):
                going.append(producer)
        for producer in going:
            self._let_go[producer] = self._inactive.pop(producer)
        self._leaving = set(self._let_go)
        return bool(self._leaving)

    def forget_let_go(self) -> int:
        """Forget those that were let go before: a snapshot without them is durable. Return how many."""
        count = len(self._leaving)
        for producer in list(self._leaving):
            self._forget(producer)
        return count

    def keep_let_go(self) -> None:
        """Put those that were let go into snapshots again, as many as are kept."""
        gone = [*self._let_go.items(), *self._inactive.items()]
        self._inactive = dict(sorted(gone, key=itemgetter(1)))
        self._let_go.clear()
        self._leaving.clear()
        self._make_room(0)

    @property
    def is_crowded(self) -> bool:
        """Did so many make room for others that it is time to forget them?"""
        return len(self._let_go) > self._producers_max // _CROWDED

    def last_sequence_id(self, producer: str) -> int:
        """What PRODUCER_SUCCESS says: the highest id pushed, -1 for a name never seen.

        A client numbers on from it, so it must not be lower than what may yet be persisted; an
        application resumes behind it, so it must not be higher than what is. Answer when the
        producer `is_settled`, and it is neither.
        """
        state = self._producers.get(producer)
        return NO_SEQUENCE_ID if state is None else state.pushed

    def is_settled(self, producer: str) -> bool:
        """Is nothing of this producer on its way to the disk?"""
        state = self._producers.get(producer)
        return state is None or not state.unsettled_count

    # ── restart ───────────────────────────────────────────────────────────────────────────────

    def snapshot(self, end_index: int) -> bytes:
        """What is persisted, as bytes. `end_index` is the end of the log whose entries have all
        been reported; those from it on are to be replayed on top."""
        out = bytearray([VERSION])
        connected = self._producers.keys() - self._inactive.keys() - self._let_go.keys()
        names = [*self._inactive, *sorted(connected)]
        for number in (end_index, len(names)):
            write_varint(out, number)
        for name in names:
            state, encoded = self._producers[name], name.encode()
            write_varint(out, len(encoded))
            out += encoded
            write_varint(out, state.persisted + 1)
            if state.unfinished_persisted is None:
                write_varint(out, 0)
            else:
                write_varint(out, state.unfinished_persisted.sequence_id + 1)
                write_varint(out, state.unfinished_persisted.next_chunk_id)
        out += zlib.crc32(out).to_bytes(_CHECKSUM_SIZE_BYTES, "little")
        return bytes(out)

    @classmethod
    def restore(
        cls, data: bytes | memoryview, now: float, *, producers_max: int = PRODUCERS_MAX
    ) -> tuple[Dedup, int]:
        """The state in these bytes and the end index it speaks of. No producer is connected.
        How long each is gone counts from now, for it could not come while the broker was away."""
        data = memoryview(data)
        if not data:
            raise CorruptData("a dedup snapshot of no bytes")
        if data[0] != VERSION:
            raise UnknownFormat(
                f"a dedup snapshot of version {data[0]}; this release knows {VERSION}"
            )
        body, checksum = data[:-_CHECKSUM_SIZE_BYTES], data[-_CHECKSUM_SIZE_BYTES:]
        computed, stored = zlib.crc32(body), int.from_bytes(checksum, "little")
        if computed != stored:
            raise CorruptData(f"a dedup snapshot with checksum {stored:#x}, computed {computed:#x}")
        end_index, at = read_varint(body, 1)
        count, at = read_varint(body, at)
        dedup = cls(producers_max=producers_max)
        for _ in range(count):
            at = dedup._read_producer(body, at, now)
        if at != len(body):
            raise CorruptData(f"a dedup snapshot of {count} producers in {at} of {len(body)} bytes")
        return dedup, end_index

    def replay(
        self,
        producer: str,
        sequence_id: int,
        highest_sequence_id: int = 0,
        chunk: ChunkInfo | None = None,
        *,
        now: float,
    ) -> None:
        """An entry of the log, from the snapshot's end index on, in order and to the end. Those that
        the snapshot has already may come again."""
        if not 0 <= sequence_id <= SEQUENCE_ID_MAX or highest_sequence_id > SEQUENCE_ID_MAX:
            return  # not what was judged: the producer wrote something else into the entry
        state = self._remember(producer, now)
        self.persisted(producer, sequence_id, highest_sequence_id, chunk)
        state.unfinished = state.unfinished_persisted

    def check(self) -> None:
        """Assert every `Invariant:` above."""
        assert len(self._producers) <= 2 * self._producers_max, len(self._producers)
        assert self._inactive.keys() <= self._producers.keys(), self._inactive
        assert self._let_go.keys() <= self._producers.keys(), self._let_go
        assert not self._let_go.keys() & self._inactive.keys(), self._let_go
        assert self._leaving <= self._let_go.keys(), self._leaving
        for name, state in self._producers.items():
            assert state.persisted <= state.pushed, name
            if not state.unsettled_count:
                assert state.persisted == state.pushed, name
                assert state.unfinished == state.unfinished_persisted, name

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _open(self, producer: str) -> _Producer:
        """A name seen for the first time, connected."""
        self._make_room(1)
        kept_count = len(self._producers) - len(self._let_go)
        if kept_count >= self._producers_max or len(self._producers) >= 2 * self._producers_max:
            raise ProducerBusy(
                f"producer {producer}: {self._producers_max} producers are connected or wait for the "
                "disk, and the sequence ids of no more are kept"
            )
        state = self._producers[producer] = _Producer()
        return state

    def _make_room(self, count: int) -> None:
        """Let go those that are gone for longest, until so many more can be kept."""
        over = len(self._producers) - len(self._let_go) + count - self._producers_max
        if over > 0:
            for producer in self._settled_gone(over):
                self._let_go[producer] = self._inactive.pop(producer)

    def _settled_gone(self, count: int) -> list[str]:
        """So many of the producers that are gone for longest; none with sends on their way."""
        return list(islice(filter(self.is_settled, self._inactive), count))

    def _return(self, producer: str) -> None:
        """A producer is not gone, and in snapshots."""
        self._inactive.pop(producer, None)
        self._let_go.pop(producer, None)
        self._leaving.discard(producer)

    def _forget(self, producer: str) -> None:
        self._return(producer)
        del self._producers[producer]

    def _remember(self, producer: str, now: float) -> _Producer:
        """A name of the past: known, and not connected. To make room for it, the one that is gone for
        longest is forgotten at once: the same snapshot and entries will forget it again."""
        state = self._producers.get(producer)
        if state is None:
            if len(self._producers) >= self._producers_max:
                self._forget(next(iter(self._inactive)))
            state = self._producers[producer] = _Producer()
        self.closed(producer, now)
        return state

    def _read_producer(self, body: memoryview, at: int, now: float) -> int:
        size_bytes, at = read_varint(body, at)
        if size_bytes > len(body) - at:
            raise CorruptData(f"a producer name of {size_bytes} bytes at byte {at} of {len(body)}")
        try:
            name = str(body[at : at + size_bytes], "utf-8")
        except UnicodeDecodeError:
            raise CorruptData(f"a producer name that is no UTF-8 at byte {at}") from None
        persisted, at = read_varint(body, at + size_bytes)
        unfinished_sequence, at = read_varint(body, at)
        state = self._remember(name, now)
        state.persisted = state.pushed = persisted - 1
        if unfinished_sequence:
            next_chunk_id, at = read_varint(body, at)
            state.unfinished = _Unfinished(unfinished_sequence - 1, next_chunk_id)
            state.unfinished_persisted = state.unfinished
        return at
