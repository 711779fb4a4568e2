"""Deliveries to messages: unpacks batches and chunks, drops duplicates and what is stale.

Pure: no socket, no clock, no waiting.

A delivery is one entry. Before its messages reach the queue they pass, in this order: the epoch filter
(PIP-194), the checksum, decryption, the chunk assembler (PIP-107), decompression, the broker's ack set
(PIP-54), the place where reading was to start. What falls out on the way is accounted for: each message
that the broker took a permit for gives it back once, when the user takes it or when it is dropped here.
Messages hidden by the ack set gave none: the broker did not count them.

    inbox = Inbox(self, "persistent://public/default/orders", queue_size=1000)
    verdict = inbox.take(delivery, now_ms)     # what else is to be done about it; None for nothing
    message = inbox.pop()                      # None if there is none
    if permits := inbox.permits_due(): ...     # FLOW(permits)

The epoch: a message with a lower one than ours was sent before our last seek and is dropped; one with a
higher one was sent after an operator's reset, and everything older that is still here is dropped instead.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from milepost.client.messages.encryption import Opener
from milepost.client.messages.message import DeliveredEntry, Message
from milepost.client.schemas import Readings
from milepost.errors import CryptoError, InvalidInput, ProtocolError
from milepost.positions import AckSet, MessageId, Position, signed64
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.batches import SingleMessage, split_batch, split_plain_batch
from milepost.wire.chunks import ChunkAssembler, Orphan, Repeated, Waiting, Whole
from milepost.wire.compression import decompress
from milepost.wire.events import Delivery
from milepost.wire.metadata import EntryParts, chunk_info, is_batch, split_entry

log = logging.getLogger("milepost.client")

# The most that one message may unpack to; what claims more is not believed.
MESSAGE_SIZE_MAX: Final = 1 << 30

NOTHING: Final = (-1, -1, -1)

_Validation = pb.CommandAck.ValidationError


class Start(NamedTuple):
    """Where reading begins, for what the broker sends from before it."""

    message_id: MessageId
    is_inclusive: bool
    first_index: int | None = None
    """Of a broker that finds indexes by entry only: the first message wanted of that entry."""

    def admits(self, ledger_id: int, entry_id: int, batch_index: int) -> bool:
        first = self.message_id
        if (ledger_id, entry_id) != (first.ledger_id, first.entry_id):
            return (ledger_id, entry_id) > (first.ledger_id, first.entry_id)
        if first.batch_index < 0 or batch_index < 0:
            return self.is_inclusive
        return batch_index >= first.batch_index + (not self.is_inclusive)


class Verdict(NamedTuple):
    """What a delivery asks for beside its messages."""

    unreadable: int | None = None
    """`CommandAck.ValidationError`: ack the entry with it, or it would come again for ever."""
    acked: tuple[Position, ...] = ()
    """Chunks that no message will ever be made of: to be acked."""
    released: tuple[Position, ...] = ()
    """Chunks that had to be given up, and may be complete the next time: to be redelivered later."""
    skipped: tuple[Message, ...] = ()
    """Messages before the place where reading was to start."""
    dead: tuple[Message, ...] = ()
    """Messages that came too often: for the dead letter topic."""
    is_reset: bool = False
    """An operator moved the cursor: what was acked and not sent yet is void."""


class Inbox:
    def __init__(
        self,
        consumer: object,
        topic: str,
        *,
        queue_size: int,
        readings: Readings | None = None,
        start: Start | None = None,
        chunked_messages_max: int = 10,
        acks_given_up_chunks: bool = False,
        chunk_expiry_ms: int = 60_000,
        redeliveries_max: int | None = None,
        opener: Opener | None = None,
        hands_out_sealed: bool = False,
    ) -> None:
        self.queue: deque[Message] = deque()
        # PIP-194: grows at each seek and with each reset that is heard of; never falls.
        self.epoch = 0
        # The epoch of the latest seek or reset: acks of what came before it are void. Redelivering
        # everything (PIP-84) moves the epoch only.
        self.seek_epoch = 0
        self.start = start
        # The last message that a user took since the latest seek.
        self.last_taken: Message | None = None
        self._consumer = consumer
        self._topic = topic
        self._readings = readings
        self._queue_size = queue_size
        self._chunks = ChunkAssembler(chunked_messages_max, chunk_expiry_ms)
        self._acks_given_up_chunks = acks_given_up_chunks
        self._chunk_expiry_ms = chunk_expiry_ms
        self._redeliveries_max = redeliveries_max
        # None: there are no keys to read what is encrypted.
        self._opener = opener
        self._hands_out_sealed = hands_out_sealed
        # Entries with messages in the queue, the oldest delivery of each; later ones of the same entry
        # in order behind it. Invariant: what is in `_later` is in `_held` too.
        self._held: dict[tuple[int, int], DeliveredEntry] = {}
        self._later: dict[tuple[int, int], list[DeliveredEntry]] = {}
        # How far a cumulative ack of this epoch reached: ledger, entry, batch index.
        self._acked_through = NOTHING
        # Permits that the broker may have back. Invariant: freed + queued + with the broker is the
        # queue's size, unless a batch was larger than the permits that were left.
        self._freed = 0
        # Between a seek and its answer, and while detached: permits are not counted.
        self._is_suspended = True

    # -- permits -------------------------------------------------------------------------------------

    def restart_permits(self) -> int:
        """Both sides begin to count: after subscribing, and after a seek. What to send as FLOW."""
        self._is_suspended = False
        self._freed = 0
        return self._queue_size

    def suspend(self) -> None:
        """The broker's count is about to be void: give no permits until both begin anew."""
        self._is_suspended = True

    def permits_due(self) -> int:
        """Permits to give back now; 0 while it is not worth a command."""
        if self._is_suspended or self._freed * 2 < self._queue_size or not self._queue_size:
            return 0
        freed, self._freed = self._freed, 0
        return freed

    # -- out -----------------------------------------------------------------------------------------

    def pop(self) -> Message | None:
        """The next message, now the user's; None if there is none.

        A message that was redelivered and then acked all the same, by the copy that came before, is
        not handed out again.
        """
        queue = self.queue
        while queue:
            message = queue.popleft()
            self._freed += 1
            entry, batch_index = message.entry, message.batch_index
            if not queue or queue[0].entry is not entry:
                self._let_go((entry.ledger_id, entry.entry_id))
            if not entry.pending >> (batch_index if batch_index > 0 else 0) & 1:
                continue
            if self._acked_through >= (entry.ledger_id, entry.entry_id, batch_index):
                continue
            self.last_taken = message
            return message
        return None

    def settled(self, entry: DeliveredEntry) -> None:
        """Messages of this entry were acked, and may be here a second time."""
        for copy in self._copies((entry.ledger_id, entry.entry_id)):
            if copy is not entry:
                copy.pending &= entry.not_acked_here

    def acked(self, position: Position, batch_index: int) -> None:
        """A message was acked that may be here a second time; −1: the whole entry."""
        for copy in self._copies(position):
            copy.pending &= ~(1 << batch_index) if batch_index >= 0 else 0

    def hide(self, position: Position, batch_index: int) -> None:
        """A message was acked in a transaction: a second copy of it is not handed out, and not taken
        for acked either. After an abort it comes anew."""
        for copy in self._copies(position):
            bits = 1 << batch_index if batch_index >= 0 else copy.pending
            copy.hidden |= copy.pending & bits
            copy.pending &= ~bits

    def _copies(self, position: tuple[int, int]) -> Iterator[DeliveredEntry]:
        """Deliveries of one entry that have messages in the queue."""
        if (first := self._held.get(position)) is not None:
            yield first
            yield from self._later.get(position, ())

    def _let_go(self, position: tuple[int, int]) -> None:
        """The last message of the oldest delivery of an entry left the queue."""
        later = self._later.get(position)
        if later is None:
            self._held.pop(position, None)
            return
        self._held[position] = later.pop(0)
        if not later:
            del self._later[position]

    def acked_through(self, message_id: MessageId) -> None:
        """Everything up to and with a message was acked; without a batch index, all of its entry."""
        batch_index = message_id.batch_index
        reach = (*message_id.position, batch_index if batch_index >= 0 else 1 << 32)
        self._acked_through = max(self._acked_through, reach)

    # -- drops ---------------------------------------------------------------------------------------

    def begin_seek(self, start: Start | None) -> int:
        """Drop everything; the epoch that the SEEK command is to carry."""
        self.begin_redelivery()
        self._moved(start)
        self.suspend()
        return self.epoch

    def begin_redelivery(self) -> int:
        """Drop what no caller took yet, for it will come again; the epoch to ask with (PIP-84)."""
        self.epoch += 1
        self._drop()
        return self.epoch

    def follow(self, epoch: int) -> bool:
        """An operator has moved the cursor: drop everything older. Whether that is news.

        The epoch may be one that we have reached by asking for a redelivery at the same time; it is
        none of ours only if no seek of ours has it.
        """
        if epoch < self.epoch or epoch <= self.seek_epoch:
            return False
        self.epoch = epoch
        self._moved(None)
        self._drop()
        return True

    def _moved(self, start: Start | None) -> None:
        self.seek_epoch = self.epoch
        self.start = start
        self.last_taken = None
        self._acked_through = NOTHING

    def detach(self) -> None:
        """The broker knows us no more, and will send everything again that was not acked."""
        self._drop()
        self.suspend()

    def _drop(self) -> None:
        self._freed += len(self.queue)
        self.queue.clear()
        self._held.clear()
        self._later.clear()
        self._chunks.clear()

    def expire_chunks(self, now_ms: int) -> list[Position]:
        """Chunks of messages that will not become whole: to be acked."""
        return self._chunks.expire(now_ms)

    # -- in ------------------------------------------------------------------------------------------

    def take(self, delivery: Delivery, now_ms: int) -> Verdict | None:
        """Take an entry apart into the queue."""
        epoch = delivery.consumer_epoch
        is_reset = False
        if epoch != self.epoch and epoch != -1:
            if epoch < self.epoch:
                self._freed += self._permits_of(delivery)
                return None
            is_reset = self.follow(epoch)
        try:
            parts = split_entry(delivery.entry)
        except ProtocolError as error:
            return self._refuse(delivery, 1, _Validation.BatchDeSerializeError, str(error))
        metadata = parts.metadata
        if not parts.is_intact:
            count = self._permits_of(delivery, metadata)
            return self._refuse(delivery, count, _Validation.ChecksumMismatch, "wrong checksum")
        verdict: Verdict | None = None
        payload = parts.payload
        if metadata.encryption_keys:
            try:
                payload = self._opened(metadata, payload)
            except CryptoError as error:
                count = self._permits_of(delivery, metadata)
                if not self._hands_out_sealed:
                    return self._refuse(delivery, count, _Validation.DecryptionError, str(error))
                return self._add_sealed(delivery, parts, count, is_reset=is_reset)
        positions: tuple[Position, ...] = ()
        info = chunk_info(metadata)
        if info is not None and info.num_chunks > 1:
            position = Position(delivery.ledger_id, delivery.entry_id)
            outcome = self._chunks.add(info, position, payload, now_ms)
            verdict = self._given_up(outcome, position, metadata, now_ms)
            if not isinstance(outcome, Whole):
                self._freed += 1
                if verdict is None and not is_reset:
                    return None
                return (verdict or Verdict())._replace(is_reset=is_reset)
            payload, positions = outcome.payload, outcome.positions
        if metadata.compression:
            try:
                payload = decompress(
                    metadata.compression,
                    payload,
                    metadata.uncompressed_size,
                    size_max=MESSAGE_SIZE_MAX,
                )
            except InvalidInput as error:
                count = self._permits_of(delivery, metadata)
                return self._refuse(delivery, count, _Validation.DecompressionError, str(error))
        found = self._add(delivery, parts, payload, positions)
        if found is None and verdict is None and not is_reset:
            return None
        verdict = verdict or found or Verdict()
        if found is not None:
            verdict = verdict._replace(
                unreadable=found.unreadable, skipped=found.skipped, dead=found.dead
            )
        return verdict._replace(is_reset=is_reset)

    def _opened(self, metadata: pb.MessageMetadata, payload: bytes) -> bytes:
        if self._opener is None:
            raise CryptoError("it is encrypted, and there is no crypto_key_reader")
        return self._opener.open(metadata, payload)

    def _add_sealed(
        self, delivery: Delivery, parts: EntryParts, permits: int, *, is_reset: bool
    ) -> Verdict | None:
        """An entry that cannot be decrypted, as one message: what is in it cannot be told apart."""
        last_index = parts.broker.index if parts.broker is not None else None
        entry = DeliveredEntry(
            self._consumer,
            self._topic,
            delivery.ledger_id,
            delivery.entry_id,
            delivery.partition,
            parts.metadata,
            batch_size=0,
            pending=1,
            last_index=last_index,
            redelivery_count=delivery.redelivery_count,
            epoch=self.epoch,
            is_sealed=True,
        )
        self._freed += permits - 1
        found = self._sort_out(entry, [Message(entry, -1, None, parts.payload, self._readings)])
        if found is None and not is_reset:
            return None
        return (found or Verdict())._replace(is_reset=is_reset)

    def _add(
        self,
        delivery: Delivery,
        parts: EntryParts,
        payload: bytes,
        positions: tuple[Position, ...],
    ) -> Verdict | None:
        metadata = parts.metadata
        last_index = parts.broker.index if parts.broker is not None else None
        batched = is_batch(metadata)
        size = metadata.num_messages_in_batch if batched else 0
        plain: list[tuple[bytes, bytes]] | None = None
        singles: list[SingleMessage] = []
        if batched:
            try:
                if not delivery.ack_set:
                    plain = split_plain_batch(payload, size)
                if plain is None:
                    singles = split_batch(payload, size)
                pending = AckSet.from_message_words(delivery.ack_set, size).bits
            except (ProtocolError, InvalidInput) as error:
                return self._refuse(
                    delivery, max(size, 1), _Validation.BatchDeSerializeError, str(error)
                )
        else:
            pending = 1
        entry = DeliveredEntry(
            self._consumer,
            self._topic,
            delivery.ledger_id,
            delivery.entry_id,
            delivery.partition,
            metadata,
            batch_size=size,
            pending=pending,
            hidden=((1 << size) - 1) & ~pending if delivery.ack_set else 0,
            last_index=last_index,
            redelivery_count=delivery.redelivery_count,
            epoch=self.epoch,
            chunks=positions,
        )
        readings = self._readings
        if not batched:
            messages = [Message(entry, -1, None, payload, readings)]
        elif plain is not None:
            messages = [
                Message(entry, batch_index, single[0], single[1], readings)
                for batch_index, single in enumerate(plain)
            ]
        elif not delivery.ack_set and not any(single.metadata.compacted_out for single in singles):
            messages = [
                Message(entry, batch_index, single[0], single[1], readings)
                for batch_index, single in enumerate(singles)
            ]
        else:
            # PIP-54: "The client will filter out the batch index that has been acked."
            messages = [
                Message(entry, batch_index, single.metadata, single.payload, readings)
                for batch_index, single in enumerate(singles)
                if pending >> batch_index & 1 and not single.metadata.compacted_out
            ]
            self._freed += pending.bit_count() - len(messages)
        if self.start is None and (
            self._redeliveries_max is None or entry.redelivery_count <= self._redeliveries_max
        ):
            self._enqueue(entry, messages)
            return None
        return self._sort_out(entry, messages)

    def _sort_out(self, entry: DeliveredEntry, messages: list[Message]) -> Verdict | None:
        start = self.start
        skipped: list[Message] = []
        if start is not None:
            wanted: list[Message] = []
            for message in messages:
                at = (entry.ledger_id, entry.entry_id, message.batch_index)
                index = message.index() if start.first_index is not None else None
                is_early = index is not None and index < (start.first_index or 0)
                is_wanted = start.admits(*at) and not is_early
                (wanted if is_wanted else skipped).append(message)
            messages = wanted
        dead: list[Message] = []
        if self._redeliveries_max is not None and entry.redelivery_count > self._redeliveries_max:
            dead, messages = messages, []
        self._freed += len(skipped) + len(dead)
        self._enqueue(entry, messages)
        if not skipped and not dead:
            return None
        return Verdict(skipped=tuple(skipped), dead=tuple(dead))

    def _enqueue(self, entry: DeliveredEntry, messages: list[Message]) -> None:
        if messages:
            self.queue.extend(messages)
            first = self._held.setdefault((entry.ledger_id, entry.entry_id), entry)
            if first is not entry:
                self._later.setdefault((entry.ledger_id, entry.entry_id), []).append(entry)

    def _given_up(
        self,
        outcome: Waiting | Whole | Repeated | Orphan,
        position: Position,
        metadata: pb.MessageMetadata,
        now_ms: int,
    ) -> Verdict | None:
        """What becomes of chunks whose message is not to be, as the table in wire/chunks.py has it."""
        match outcome:
            case Repeated(is_same_entry):
                # A producer's resend lies in an entry of its own, that nothing else would ack.
                return None if is_same_entry else Verdict(acked=(position,))
            case Orphan(given_up):
                lost = (*given_up, position)
                if now_ms - signed64(metadata.publish_time) >= self._chunk_expiry_ms:
                    return Verdict(acked=lost)
                return Verdict(released=lost)
        if not outcome.given_up:
            return None
        if self._acks_given_up_chunks:
            return Verdict(acked=outcome.given_up)
        return Verdict(released=outcome.given_up)

    def _refuse(self, delivery: Delivery, permits: int, error: int, text: str) -> Verdict:
        log.warning(
            "%s: entry %d:%d cannot be read: %s",
            self._topic,
            delivery.ledger_id,
            delivery.entry_id,
            text,
        )
        self._freed += permits
        return Verdict(unreadable=error)

    @staticmethod
    def _permits_of(delivery: Delivery, metadata: pb.MessageMetadata | None = None) -> int:
        """What the broker took for an entry: one a message that is still to be acked."""
        if metadata is None:
            try:
                metadata = split_entry(delivery.entry).metadata
            except ProtocolError:
                return 1
        if not is_batch(metadata):
            return 1
        size = metadata.num_messages_in_batch
        if not delivery.ack_set:
            return max(size, 1)
        try:
            return AckSet.from_message_words(delivery.ack_set, size).pending_count
        except InvalidInput:
            return 1
