"""Groups and merges acks, and drops those that a seek made void. Pure.

One group is what goes out as one round of ACK commands and is answered as one. Messages of one entry
share the entry's pending bits, so acking ten messages of a batch adds one id whose ack set has ten bits
less (PIP-54). Ids that did not come with a message (deserialised, or a producer's) are added by value: a
batched one acks its own message only, a chunk id all its chunks (PIP-107).

    group = AckGroup(epoch)
    group.add(message.entry, message.batch_index)
    group.add_id(MessageId.deserialize(data))
    for ids in group.individual(): ...          # one CommandAck each
    if group.cumulative is not None: ...

It never sends: a group is taken whole, and what becomes of it is the consumer's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from milepost.client.messages.message import DeliveredEntry
from milepost.errors import InvalidMessageId
from milepost.positions import AckSet, ChunkMessageId, MessageId, Position, unsigned64
from milepost.wire import pulsar_pb2 as pb

# Ids in one command. Official clients send a thousand; a broker reads more, but answers later.
IDS_MAX: Final = 1000


class AckGroup:
    __slots__ = ("_chunk_ids", "_entries", "_ids", "_positions", "cumulative", "epoch")

    def __init__(self, epoch: int) -> None:
        # The seek epoch in which it was begun: a later seek makes it void.
        self.epoch = epoch
        # The furthest cumulative ack, as it goes over the wire; None if there is none.
        self.cumulative: pb.MessageIdData | None = None
        # Entries of which messages were acked; their pending bits are read when the group is sent.
        self._entries: dict[DeliveredEntry, None] = {}
        # Acks by id: what is left to be acked of the batch, by position; None for the whole entry.
        self._ids: dict[Position, AckSet | None] = {}
        self._chunk_ids: dict[ChunkMessageId, None] = {}
        self._positions: dict[Position, None] = {}

    def __bool__(self) -> bool:
        return self.cumulative is not None or bool(len(self))

    def __len__(self) -> int:
        """Ids of individual acks, about."""
        return len(self._entries) + len(self._ids) + len(self._chunk_ids) + len(self._positions)

    @property
    def ids(self) -> list[MessageId]:
        """Acks by id, of which each may be refused for itself."""
        plain = [
            MessageId(*position) if pending is None else _named(position, pending)
            for position, pending in self._ids.items()
        ]
        return [*plain, *self._chunk_ids]

    @property
    def entries(self) -> Iterable[DeliveredEntry]:
        """Those of which messages were acked."""
        return self._entries

    # -- in ------------------------------------------------------------------------------------------

    def add(self, entry: DeliveredEntry) -> None:
        """Messages of this entry were acked: their bits are cleared already."""
        self._entries[entry] = None

    def add_position(self, position: Position) -> None:
        """A whole entry that no user will see."""
        self._positions[position] = None

    def add_id(self, message_id: MessageId) -> None:
        """An id that came from elsewhere; `InvalidMessageId` if it cannot be acked alone."""
        if isinstance(message_id, ChunkMessageId):
            self._chunk_ids[message_id] = None
            return
        position = message_id.position
        if message_id.batch_index < 0:
            self._ids[position] = None
            return
        pending = full_set(message_id).without(message_id.batch_index)
        known = self._ids.get(position, pending)
        # What was acked whole stays so; otherwise both acks together.
        self._ids[position] = None if known is None else known & pending

    def add_cumulative(self, wire_id: pb.MessageIdData) -> None:
        """Keep the furthest."""
        if self.cumulative is None or _reach(wire_id) > _reach(self.cumulative):
            self.cumulative = wire_id

    # -- out -----------------------------------------------------------------------------------------

    def individual(self) -> Iterator[list[pb.MessageIdData]]:
        """The ids as they go over the wire, at most `IDS_MAX` at a time."""
        ids: list[pb.MessageIdData] = []
        for wire_id in self._wire_ids():
            ids.append(wire_id)
            if len(ids) == IDS_MAX:
                yield ids
                ids = []
        if ids:
            yield ids

    def _wire_ids(self) -> Iterator[pb.MessageIdData]:
        for position in self._positions:
            yield data_of(*position)
        for entry in self._entries:
            if left := entry.not_acked_here:
                yield data_of(entry.ledger_id, entry.entry_id, AckSet(left, entry.batch_size))
            elif entry.chunks:
                # PIP-107: the message is all its chunks, and only those: others' entries may lie
                # between them.
                for position in entry.chunks:
                    yield data_of(*position)
            else:
                yield data_of(entry.ledger_id, entry.entry_id)
        for at, pending in self._ids.items():
            yield data_of(*at, pending)
        for chunk_id in self._chunk_ids:
            yield from chunk_data(chunk_id)


def full_set(message_id: MessageId) -> AckSet:
    """The ack set of a batch of which nothing is acked, by the id of one of its messages."""
    if message_id.batch_size <= message_id.batch_index:
        # Without the size it is unknown which bits are the others'.
        raise InvalidMessageId(
            f"{message_id} is in a batch of {message_id.batch_size or 'unknown size'}: ack the"
            " message itself, or an id that a consumer or producer of Milepost gave"
        )
    return AckSet.full(message_id.batch_size)


def data_of(ledger_id: int, entry_id: int, pending: AckSet | None = None) -> pb.MessageIdData:
    """An id for CommandAck; with an ack set unless all is acked."""
    data = pb.MessageIdData(ledgerId=unsigned64(ledger_id), entryId=unsigned64(entry_id))
    if pending is not None and not pending.is_empty:
        data.ack_set.extend(pending.to_ack_words())
        data.batch_size = pending.size
    return data


def chunk_data(chunk_id: ChunkMessageId) -> Iterator[pb.MessageIdData]:
    """A chunk id of which the chunks between are not known: Milepost finds them by the last one; a
    broker that does not is told of both ends at least."""
    first = chunk_id.first_chunk_message_id
    last = data_of(chunk_id.ledger_id, chunk_id.entry_id)
    last.first_chunk_message_id.CopyFrom(data_of(first.ledger_id, first.entry_id))
    yield last
    if first.position != chunk_id.position:
        yield data_of(first.ledger_id, first.entry_id)


def cumulative_data(message_id: MessageId, *, batch_index_ack: bool) -> pb.MessageIdData:
    """What a cumulative ack up to and with a message says (PIP-54)."""
    ledger_id, entry_id = message_id.position
    if message_id.batch_index < 0:
        return data_of(ledger_id, entry_id)
    pending = full_set(message_id).without_before(message_id.batch_index + 1)
    if pending.is_empty:
        return data_of(ledger_id, entry_id)
    if not batch_index_ack:
        # Everything before the batch, which stays whole until its last message is acked.
        return data_of(ledger_id, entry_id - 1)
    return data_of(ledger_id, entry_id, pending)


def _reach(wire_id: pb.MessageIdData) -> tuple[int, int, int]:
    """How far a cumulative ack goes: with an ack set less far than with the whole entry."""
    words = tuple(wire_id.ack_set)
    pending = AckSet.from_ack_words(words, wire_id.batch_size) if words else None
    within = 1 << 32 if pending is None else pending.acked_count
    return wire_id.ledgerId, wire_id.entryId, within


def _named(position: Position, pending: AckSet) -> MessageId:
    """For an error message: the first message of the batch that the acks name."""
    batch_index = pending.acked_runs()[0][0]
    return MessageId(*position, -1, batch_index, pending.size)
