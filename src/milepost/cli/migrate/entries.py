"""One entry of either side: its parts, and which chunks a broker does not store twice."""

from __future__ import annotations

from typing import NamedTuple

from milepost.errors import CorruptData
from milepost.positions import Position, signed64
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import ChunkInfo, Delivery
from milepost.wire.frames import CHECKSUM_MAGIC, crc32c
from milepost.wire.metadata import chunk_info, message_count, parse_metadata, split_broker_entry

_CHECKSUM_MAGIC = CHECKSUM_MAGIC.to_bytes(2, "big")

# A transaction that has ended means nothing to another broker: its messages are plain ones there.
_OF_A_TRANSACTION = ("txnid_least_bits", "txnid_most_bits")

# Messages whose chunks are remembered, as many as a broker does.
_MESSAGES_MAX = 10_000


class Entry(NamedTuple):
    """A message, a batch or a chunk, as it is stored."""

    position: Position
    index: int | None  # type: ignore[assignment]  # in place of tuple.index, which has no use here
    """Of its last message; None if the broker does not tell it."""
    metadata: bytes
    payload: bytes
    count: int  # type: ignore[assignment]  # in place of tuple.count, which has no use here
    """Messages in it."""
    is_batch: bool
    sequence_id: int
    highest_sequence_id: int
    chunk: ChunkInfo | None

    @property
    def size_bytes(self) -> int:
        return len(self.metadata) + len(self.payload)

    def is_same(self, other: Entry) -> bool:
        """Whether every byte that the producer sent is the same."""
        return self.metadata == other.metadata and self.payload == other.payload


def read_entry(delivery: Delivery) -> Entry:
    """The parts of an entry; `CorruptData` if its checksum is wrong."""
    position = Position(delivery.ledger_id, delivery.entry_id)
    data = delivery.entry
    broker, at = split_broker_entry(data)
    if data.startswith(_CHECKSUM_MAGIC, at):
        checksum = int.from_bytes(data[at + 2 : at + 6], "big")
        at += 6
        if crc32c(data[at:]) != checksum:
            raise CorruptData(f"entry {position}: its checksum is not {checksum:#010x}")
    payload_at = at + 4 + int.from_bytes(data[at : at + 4], "big")
    raw = data[at + 4 : payload_at]
    metadata = parse_metadata(raw)
    if any(map(metadata.HasField, _OF_A_TRANSACTION)):
        raw = _without_transaction(metadata)
    return Entry(
        position,
        None if broker is None else broker.index,
        raw,
        data[payload_at:],
        message_count(metadata),
        metadata.HasField("num_messages_in_batch"),
        signed64(metadata.sequence_id),
        signed64(metadata.highest_sequence_id),
        chunk_info(metadata),
    )


def _without_transaction(metadata: pb.MessageMetadata) -> bytes:
    for name in _OF_A_TRANSACTION:
        metadata.ClearField(name)
    return metadata.SerializeToString()


class RepeatedChunks:
    """Which chunks a producer has sent again. Apache Pulsar stores those twice, Milepost does not.

    >>> seen = RepeatedChunks()
    >>> [seen.has(ChunkInfo("p-7", number, 3, 100)) for number in (0, 1, 1, 2, 2, 0, 1)]
    [False, False, True, False, True, False, False]
    """

    def __init__(self) -> None:
        # uuid → the chunk that is next.
        self._next: dict[str, int] = {}

    def has(self, chunk: ChunkInfo | None) -> bool:
        """Whether it is there already; from now on it is."""
        if chunk is None:
            return False
        if chunk.is_first:
            self._next.pop(chunk.uuid, None)
            self._next[chunk.uuid] = 1
            if len(self._next) > _MESSAGES_MAX:
                del self._next[next(iter(self._next))]
            return False
        following = self._next.get(chunk.uuid)
        if following is None or chunk.chunk_id > following:
            return False  # of no message: it is stored by itself
        if chunk.chunk_id < following:
            return True
        self._next[chunk.uuid] = following + 1
        return False
