"""When receipts are sent: what a producer sent together waits until it is durable and visible, in order.

A publication is what one producer sent together. One block of the journal makes all of it durable, and one
write answers it.

    Topic.publish ─▶ journal ─▶ Publication.durable ─▶ Topic.on_durable: visible to cursors
                                                           └▶ Publication.answered: receipts leave

Receipts leave in the order of the sends. A duplicate is known at once, but its receipt waits behind those of
entries that are still on their way to the disk.

A client sends again what the disk has refused, and everything behind it, once it has opened its producer
anew. So from the first refusal on nothing of the producer is stored. When all that it sent is answered, its
client is told to open it again (CLOSE_PRODUCER), as upstream does.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING

from milepost.errors import MilepostError, PersistenceError
from milepost.storage.ledgers.entry import HEADER_SIZE, Block
from milepost.wire import replies
from milepost.wire.events import Send
from milepost.wire.scanners.encode import block_receipts, send_receipt

if TYPE_CHECKING:
    from milepost.broker.topic.producer import Producer
    from milepost.positions.transactions import TxnId

_SEQUENCE_IDS = itemgetter(0, 1)  # of a `Send`: its own and the highest of its batch


class Awaited:
    """What waits in a producer's queue until its receipts may leave."""

    __slots__ = ("block", "count", "is_answered", "producer")

    producer: Producer
    block: Block | None
    """None while nothing of it was given to the journal."""
    count: int
    """How many messages are in the block."""
    is_answered: bool
    """Its fate is known; it waits only for those before it."""

    @property
    def transactions(self) -> Sequence[tuple[int, TxnId | None]]:
        """Where, among what is stored, sends of another transaction begin, or of none; the first are of
        none unless it says so."""
        return ()

    def __len__(self) -> int:
        """How many sends."""
        raise NotImplementedError

    def durable(self, error: PersistenceError | None) -> None:
        """The journal's answer to its block."""
        self.producer.topic.on_durable(self, error)

    def visible(self) -> None:
        """It is durable, and subscriptions know: have it counted and answered."""
        raise NotImplementedError

    def refuse(self, error: MilepostError, sends: Sequence[Send] = ()) -> None:
        """Answer with an error what was to be stored, or all `sends`."""
        raise NotImplementedError

    def send_receipts(self) -> None:
        raise NotImplementedError

    def answered(self) -> None:
        """Its fate is known. Send what is at the front of the producer's queue and decided."""
        self.is_answered = True
        send_answered(self.producer)


def send_answered(producer: Producer) -> None:
    """Send what is at the front of a producer's queue and decided."""
    pending = producer.pending
    while pending and pending[0].is_answered:
        pending.popleft().send_receipts()
    if producer.must_resend and not pending:
        producer.peer.restart_producer(producer)


class Publication(Awaited):
    """Consecutive sends of one producer, answered together and in order."""

    __slots__ = (
        "answers",
        "began",
        "count",
        "has_chunks",
        "ids",
        "size_bytes",
        "transactions",
    )

    def __init__(self, producer: Producer) -> None:
        self.producer = producer
        self.answers: list[Send | bytes | tuple[Send, tuple[int, int]]] = []
        """In order: a send that is stored, a ready-made frame, or a send with the id to give it. None where
        `ids` say enough."""
        self.ids: list[tuple[int, int]] | None = None
        """Where every send is stored: the sequence id of each, and the highest of its batch."""
        self.began = 0.0
        """When its block was on its way to the journal, in seconds."""
        self.has_chunks = False
        self.transactions: list[tuple[int, TxnId | None]] = []
        """Where, among what is stored, sends of another transaction begin, or of none; the first are of
        none unless it says so."""
        self.block = None
        self.count = 0
        self.size_bytes = 0
        self.is_answered = False

    def belongs(self, place: int, txn_id: TxnId | None) -> None:
        """What is stored from this place on is of a transaction, or of none."""
        runs = self.transactions
        if txn_id != (runs[-1][1] if runs else None):
            runs.append((place, txn_id))

    def __len__(self) -> int:
        return len(self.answers if self.ids is None else self.ids)

    def all_are_stored(self, *, keep_sends: bool) -> None:
        """The block has every send. Unless deduplication or chunks ask for them when they are durable, only
        their ids wait for that: the entries are in the block, and a second copy of all that is on its way to
        a slow disk or a bucket would drive everything else out of the processor's cache."""
        self.ids = list(map(_SEQUENCE_IDS, self.answers))
        if not keep_sends:
            self.answers = []

    def stored_sends(self) -> list[Send]:
        return [answer for answer in self.answers if isinstance(answer, Send)]

    def entry_sizes(self, block: Block) -> list[int]:
        """Of the entries that are stored, as they were sent."""
        if self.has_chunks:
            return [len(send.entry) for send in self.stored_sends()]
        return [size - HEADER_SIZE for size in block.sizes]

    def refuse(self, error: MilepostError, sends: Sequence[Send] = ()) -> None:
        producer_id, code, text = self.producer.producer_id, error.wire_code, str(error)

        def refusal(sequence_id: int) -> bytes:
            return replies.send_error(producer_id, sequence_id, code, text)

        if sends:
            self.answers = [refusal(send.sequence_id) for send in sends]
        elif self.ids is not None:
            self.answers = [refusal(sequence_id) for sequence_id, _ in self.ids]
        else:
            self.answers = [
                answer
                if isinstance(answer, bytes)
                else refusal((answer if isinstance(answer, Send) else answer[0]).sequence_id)
                for answer in self.answers
            ]
        self.ids = None

    def visible(self) -> None:
        self.producer.topic.account_for(self)

    def send_receipts(self) -> None:
        producer, block, ids = self.producer, self.block, self.ids
        peer = producer.peer
        peer.settled(len(self))
        if producer.is_closed:
            return
        ledger_id = entry_id = -1
        if block is not None:
            ledger_id, entry_id = block.ledger_id, block.first_entry_id
            if ids is not None and len(ids) == 1:  # of many topics, or of a producer that waits
                sequence_id, highest = ids[0]
                frame = send_receipt(
                    producer.producer_id, sequence_id, ledger_id, entry_id, highest
                )
                peer.write((frame,))
                return
            if ids is not None:
                peer.write((block_receipts(producer.producer_id, ledger_id, entry_id, ids),))
                return
        frames: list[bytes] = []
        for answer in self.answers:
            if isinstance(answer, bytes):
                frames.append(answer)
                continue
            if isinstance(answer, Send):
                send, where = answer, (ledger_id, entry_id)
                entry_id += 1
            else:
                send, where = answer
            frames.append(
                send_receipt(
                    producer.producer_id, send.sequence_id, *where, send.highest_sequence_id
                )
            )
        peer.write(frames)
