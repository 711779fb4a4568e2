"""A topic: one log, its producers and its subscriptions. Owns the order of effects of a publish.

    sends ─▶ judge (dedup) ─▶ log.append ─▶ journal
                                              └▶ durable: visible to every cursor, then receipts out

Durable before visible, visible before receipt. A step here never suspends; the journal calls back on
the same loop. Addresses are resolved here, once: ledger and entry to indexes and back.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from struct import Struct

from milepost.broker.access import ProducerAccess
from milepost.broker.dedup import Dedup, Verdict
from milepost.broker.peer import Peer
from milepost.broker.producer import Producer
from milepost.broker.subscription import Subscription
from milepost.errors import CorruptData, IndexNotFound, NotFound, OutcomeUnknown, PersistenceError
from milepost.positions.ids import Position
from milepost.positions.names import TopicName
from milepost.positions.ranges import Range
from milepost.storage.catalog import TopicRow
from milepost.storage.entry import BATCH, CHUNK, LAST_CHUNK, MARKER, Block, Entry, NewEntry
from milepost.storage.log import Log
from milepost.wire import replies
from milepost.wire.encode import send_receipts
from milepost.wire.events import PLAIN, ChunkInfo, Send
from milepost.wire.metadata import chunk_info, split_entry

# Beside a chunk stands the position of its message's first chunk.
FIRST_CHUNK = Struct("<QQ")
# Chunked messages whose chunks are remembered; older ones are found by reading back.
CHUNKED_REMEMBERED_MAX = 1000
# A chunked message may span at most this many entries of its topic, others' included, when it has to
# be found by reading back.
CHUNK_SEARCH_ENTRIES_MAX = 10_000

_DUPLICATE = (-1, -1)


class Publication:
    """Consecutive sends of one producer, answered together and in order."""

    __slots__ = ("answers", "block", "count", "is_answered", "producer", "size_bytes")

    def __init__(self, producer: Producer) -> None:
        self.producer = producer
        self.answers: list[Send | bytes | tuple[Send, tuple[int, int]]] = []
        """In order: a send that is stored, a ready-made frame, or a send with the id to give it."""
        self.block: Block | None = None
        self.count = 0
        self.size_bytes = 0
        self.is_answered = False
        """Its fate is known; it waits only for those before it."""


class Topic:
    def __init__(
        self,
        row: TopicRow,
        log: Log,
        *,
        access: ProducerAccess[Producer],
        dedup: Dedup | None = None,
        now_ms: Callable[[], int],
    ) -> None:
        self.row = row
        self.name = TopicName.parse(row.name)
        self.log = log
        self.access = access
        self.dedup = dedup
        """None: duplicates are not looked for."""
        self.producers: dict[str, Producer] = {}
        self.subscriptions: dict[str, Subscription] = {}
        self.on_stored: Callable[[], None] = lambda: None
        """Called when sequence ids became durable."""
        self._now_ms = now_ms
        # Chunked messages on their way: uuid → ranges of their chunks so far, and of the finished
        # ones by the position of their last chunk.
        self._open_chunks: OrderedDict[str, tuple[Position, list[Range]]] = OrderedDict()
        self._chunked: OrderedDict[Position, list[Range]] = OrderedDict()
        self.messages_in = 0
        self.bytes_in = 0
        self.messages_out = 0
        self.bytes_out = 0
        self.chunks_in = 0

    def __repr__(self) -> str:
        return f"<Topic {self.name}>"

    # -- publish -----------------------------------------------------------------------------------

    def publish(self, producer: Producer, sends: Sequence[Send]) -> Publication:
        """Judge and number the sends, and send them to the journal as one block."""
        publication = Publication(producer)
        answers = publication.answers
        items: list[NewEntry] = []
        if self.dedup is None:
            for send in sends:
                if send.traits is PLAIN:
                    # A plain tuple has the shape of a NewEntry at a quarter of its price.
                    items.append((send.entry, send.count, 0, b""))  # type: ignore[arg-type]
                    answers.append(send)
                else:
                    self._take(send, producer, publication, items)
        else:
            for send in sends:
                self._take(send, producer, publication, items)
        producer.pending.append(publication)
        publication.size_bytes = sum(len(item[0]) for item in items)
        if not items:
            self._answered(publication)
            return publication

        def durable(error: PersistenceError | None) -> None:
            self._on_durable(publication, error)

        try:
            publication.block = block = self.log.append(items, self._now_ms(), durable)
        except CorruptData as error:
            if self.dedup is not None:
                self.dedup.refused()
            publication.answers = [
                replies.send_error(
                    producer.producer_id, send.sequence_id, error.wire_code, str(error)
                )
                for send in sends
            ]
            self._answered(publication)
            return publication
        publication.count = block.end_index - block.last_indexes[0] - 1 + items[0][1]
        return publication

    def _take(
        self, send: Send, producer: Producer, publication: Publication, items: list[NewEntry]
    ) -> None:
        """One send that is not plain, or one whose sequence id has to be judged."""
        traits = send.traits
        if traits.fault is not None:
            publication.answers.append(
                replies.send_error(
                    producer.producer_id, send.sequence_id, traits.fault.error, traits.fault.message
                )
            )
            return
        if self.dedup is not None and not traits.is_marker:
            verdict = self.dedup.judge(
                producer.name, send.sequence_id, send.highest_sequence_id, traits.chunk
            )
            if verdict is Verdict.DUPLICATE:
                publication.answers.append((send, _DUPLICATE))
                return
            if verdict is Verdict.UNKNOWN:
                publication.answers.append(
                    replies.send_error(
                        producer.producer_id,
                        send.sequence_id,
                        PersistenceError.wire_code,
                        f"sequence id {send.sequence_id} is on its way already",
                    )
                )
                return
        flags = MARKER if traits.is_marker else BATCH if traits.is_batch else 0
        beside = b""
        if traits.chunk is not None:
            flags |= CHUNK | (LAST_CHUNK if traits.chunk.is_last else 0)
            beside = self._beside(traits.chunk)
        items.append(NewEntry(send.entry, send.count, flags, beside))
        publication.answers.append(send)

    def _on_durable(self, publication: Publication, error: PersistenceError | None) -> None:
        producer = publication.producer
        block = publication.block
        assert block is not None
        if error is None:
            self.messages_in += publication.count
            self.bytes_in += publication.size_bytes
            producer.messages_in += publication.count
            producer.bytes_in += publication.size_bytes
            end_index = self.log.end_index
            for subscription in self.subscriptions.values():
                if subscription.cursor.end < end_index:
                    subscription.extend(end_index)
            self._remember(publication, block)
        else:
            self._refuse(publication, error)
        self._answered(publication)

    def _refuse(self, publication: Publication, error: PersistenceError) -> None:
        producer = publication.producer
        if self.dedup is not None and not isinstance(error, OutcomeUnknown):
            self.dedup.refused()
        if isinstance(error, OutcomeUnknown):
            # Neither a receipt nor an error would be true. The client resends what it has no
            # answer for, and the sequence ids decide.
            producer.peer.fail(f"the outcome of a publish to {self.name} is unknown: {error}")
        publication.answers = [
            answer
            if isinstance(answer, bytes)
            else replies.send_error(
                producer.producer_id,
                (answer if isinstance(answer, Send) else answer[0]).sequence_id,
                error.wire_code,
                str(error),
            )
            for answer in publication.answers
        ]

    def _answered(self, publication: Publication) -> None:
        """Send what is at the front of the producer's queue and decided."""
        publication.is_answered = True
        pending = publication.producer.pending
        while pending and pending[0].is_answered:
            self._send_receipts(pending.popleft())

    def _send_receipts(self, publication: Publication) -> None:
        producer, block = publication.producer, publication.block
        producer.peer.settled(len(publication.answers))
        if producer.is_closed:
            return
        ledger_id = entry_id = -1
        if block is not None:
            ledger_id, entry_id = block.ledger_id, block.first_entry_id
            if len(publication.answers) == block.entry_count:
                receipts = [
                    (send.sequence_id, send.highest_sequence_id, ledger_id, entry)
                    for entry, send in enumerate(publication.answers, entry_id)
                    if send.__class__ is Send
                ]
                if len(receipts) == block.entry_count:
                    producer.peer.write([send_receipts(producer.producer_id, receipts)])
                    return
        frames: list[bytes] = []
        for answer in publication.answers:
            if isinstance(answer, bytes):
                frames.append(answer)
                continue
            if isinstance(answer, Send):
                send, where = answer, (ledger_id, entry_id)
                entry_id += 1
            else:
                send, where = answer
            receipt = (send.sequence_id, send.highest_sequence_id, *where)
            frames.append(send_receipts(producer.producer_id, [receipt]))
        producer.peer.write(frames)

    def _remember(self, publication: Publication, block: Block) -> None:
        """Sequence ids that are durable now, and where the chunks lie."""
        producer = publication.producer
        if self.dedup is None and not any(flag & CHUNK for flag in block.flags):
            return
        entry_id = block.first_entry_id
        first_index = block.last_indexes[0] + 1
        stored = [answer for answer in publication.answers if isinstance(answer, Send)]
        first_index -= stored[0].count
        for send, last_index in zip(stored, block.last_indexes, strict=True):
            if self.dedup is not None and not send.traits.is_marker:
                self.dedup.persisted(
                    producer.name,
                    send.sequence_id,
                    send.highest_sequence_id,
                    send.traits.chunk,
                )
            if send.traits.chunk is not None:
                position = Position(block.ledger_id, entry_id)
                self._chunk_stored(send.traits.chunk, position, (first_index, last_index + 1))
            first_index = last_index + 1
            entry_id += 1
        self.on_stored()

    def last_sequence_id(self, producer_name: str) -> int:
        """What the producer last published; -1 if that is not known."""
        return -1 if self.dedup is None else self.dedup.last_sequence_id(producer_name)

    # -- chunked messages (PIP-107) ----------------------------------------------------------------

    def _beside(self, chunk: ChunkInfo) -> bytes:
        """The first chunk's position, to be kept next to a later one; empty for the first."""
        if chunk.is_first:
            return b""
        begun = self._open_chunks.get(chunk.uuid)
        return b"" if begun is None else FIRST_CHUNK.pack(*begun[0])

    def _chunk_stored(self, chunk: ChunkInfo, position: Position, indexes: Range) -> None:
        self.chunks_in += 1
        if chunk.is_first:
            self._open_chunks.pop(chunk.uuid, None)
            self._open_chunks[chunk.uuid] = (position, [indexes])
        elif chunk.uuid in self._open_chunks:
            self._open_chunks[chunk.uuid][1].append(indexes)
        if chunk.is_last and chunk.uuid in self._open_chunks:
            _, ranges = self._open_chunks.pop(chunk.uuid)
            self._chunked[position] = ranges
        for table in (self._open_chunks, self._chunked):
            while len(table) > CHUNKED_REMEMBERED_MAX:
                table.popitem(last=False)

    def chunk_ranges(self, ledger_id: int, entry_id: int) -> list[Range]:
        """The indexes of all chunks of the message whose last chunk lies there."""
        position = Position(ledger_id, entry_id)
        if position in self._chunked:
            return self._chunked[position]
        return [(e.span.first_index, e.span.end_index) for e in self._read_chunks(position)]

    def first_chunk_index(self, ledger_id: int, entry_id: int) -> int:
        """Where the chunked message begins whose chunk lies there."""
        position = Position(ledger_id, entry_id)
        if position in self._chunked:
            return self._chunked[position][0][0]
        chunks = self._read_chunks(position)
        return chunks[0].span.first_index if chunks else self.lookup(ledger_id, entry_id)[0]

    def _read_chunks(self, last: Position) -> list[Entry]:
        """Find a message's chunks by reading back from its first one. Rare: after a restart."""
        entry = self.log.read(last, entries_max=1)[0]
        info = _chunk_of(entry)
        if info is None or len(entry.beside) != FIRST_CHUNK.size:
            return [entry]
        at = Position(*FIRST_CHUNK.unpack(entry.beside))
        found: list[Entry] = []
        searched = 0
        while at <= last and searched < CHUNK_SEARCH_ENTRIES_MAX:
            try:
                entries = self.log.read(at)
            except NotFound:
                break
            for entry in entries:
                if entry.position > last:
                    break
                chunk = _chunk_of(entry) if entry.flags & CHUNK else None
                if chunk is not None and chunk.uuid == info.uuid:
                    found.append(entry)
            searched += len(entries)
            at = self._after(entries[-1].position)
        return found

    def _after(self, position: Position) -> Position:
        index = self.log.at(position).span.end_index
        try:
            return self.log.locate(index).position
        except IndexNotFound:
            return Position(position.ledger_id, position.entry_id + 1)

    # -- addresses ---------------------------------------------------------------------------------

    def lookup(self, ledger_id: int, entry_id: int) -> tuple[int, int, int]:
        """First index, end index and flags of the entry at a position."""
        return self.log.indexes_at(ledger_id, entry_id)

    def first_index_of(self, ledger_id: int) -> int:
        """The first index of a ledger, or of what followed it."""
        return self.log.index_from(Position(ledger_id, 0))

    def acked_position(self, mark_delete_index: int) -> Position:
        """The last entry with everything up to its end acked: of a batch that is acked in part, the
        one before it. (first ledger, -1) before all."""
        index = mark_delete_index
        if index >= self.log.first_index:
            located = self.log.locate(index)
            if located.span.end_index == index + 1:
                return located.position
            index = located.span.first_index - 1
        if index >= self.log.first_index:
            return self.log.locate(index).position
        ledgers = self.log.ledgers
        return Position(ledgers[0].ledger_id, -1) if ledgers else Position(-1, -1)

    def last_dispatchable(self) -> tuple[Position, int] | None:
        """The newest entry that is no marker, and its message count; None if there is none."""
        index = self.log.end_index - 1
        while index >= self.log.first_index:
            located = self.log.locate(index)
            if not located.flags & MARKER:
                batch = located.span.count if located.flags & BATCH else 0
                return located.position, batch
            index = located.span.first_index - 1
        return None

    # -- who is here -------------------------------------------------------------------------------

    def peers(self) -> set[Peer]:
        found = {producer.peer for producer in self.producers.values()}
        for subscription in self.subscriptions.values():
            found |= {consumer.peer for consumer in subscription.consumers}
        return found


def _chunk_of(entry: Entry) -> ChunkInfo | None:
    return chunk_info(split_entry(bytes(entry.payload)).metadata)
