"""Messages and batches to metadata and payload: schema, compression, encryption.

Compresses, encrypts, and cuts what is too large into chunks (PIP-107), in the order of official clients:
a payload is compressed as a whole, and each chunk is encrypted by itself. Decides about sizes; gives no
sequence ids and sends nothing.

    packer = Packer(options, clock)
    packer.attached(name, schema_version, message_size_max)
    [packed] = packer.alone(outgoing)            # several are chunks
    packed = packer.batch(batch)
"""

from __future__ import annotations

from typing import Final, NamedTuple

from milepost.client.messages.encryption import TAG_SIZE, Sealer
from milepost.client.policies import CompressionType
from milepost.client.producing.batcher import Batch
from milepost.client.producing.chunker import chunks, describe_chunk, room_for_payload
from milepost.client.producing.outgoing import Outgoing, name_transaction
from milepost.client.producing.producer_options import ProducerOptions
from milepost.clock import Clock
from milepost.errors import MessageTooBig
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.frames import MESSAGE_SIZE_MAX_DEFAULT

# Room for what chunk fields add to the metadata, numbers at their longest.
_CHUNK_FIELDS_SIZE: Final = 64


class Packed(NamedTuple):
    metadata: bytes
    payload: bytes


class Packer:
    def __init__(self, options: ProducerOptions, clock: Clock) -> None:
        self._options = options
        self._clock = clock
        self._producer_name = options.producer_name or ""
        self._schema_version = b""
        # Bytes of metadata and payload that the broker takes.
        self.size_max = MESSAGE_SIZE_MAX_DEFAULT
        # None: payloads are not encrypted.
        self._sealer: Sealer | None = None
        if options.encryption_key is not None:
            assert options.crypto_key_reader is not None
            self._sealer = Sealer(
                options.encryption_key, options.crypto_key_reader, clock.monotonic()
            )

    def attached(self, producer_name: str, schema_version: bytes, size_max: int) -> None:
        """What the broker has said, each time anew."""
        self._producer_name = producer_name
        self._schema_version = schema_version
        self.size_max = size_max

    def check(self, size: int) -> None:
        """`MessageTooBig` for a payload that no batch could carry."""
        if size > self.size_max:
            raise self._too_big(size)

    def batch(self, batch: Batch) -> Packed:
        entry = batch.entry
        metadata = pb.MessageMetadata(
            producer_name=self._producer_name,
            sequence_id=entry.sequence_id,
            publish_time=self._clock.wall_ms(),
            num_messages_in_batch=entry.count,
        )
        if entry.transaction is not None:
            name_transaction(metadata, entry.transaction.id)
        if entry.highest_sequence_id > entry.sequence_id:
            metadata.highest_sequence_id = entry.highest_sequence_id
        if batch.key is not None:
            metadata.partition_key = batch.key
        if batch.ordering_key is not None:
            metadata.ordering_key = batch.ordering_key
        payload = self._described(metadata, batch.payload())
        if len(payload) + self._overhead(metadata) > self.size_max:
            raise self._too_big(len(payload))
        return self._sealed(metadata, payload)

    def alone(self, message: Outgoing) -> list[Packed]:
        """A message as an entry of its own, or as several: its chunks."""
        metadata = message.metadata(self._producer_name, self._clock.wall_ms())
        payload = self._described(metadata, message.payload)
        limit = self.size_max
        if self._options.chunking_enabled and self._options.chunk_max_size:
            limit = min(limit, self._options.chunk_max_size)
        if len(payload) + self._overhead(metadata) <= limit:
            return [self._sealed(metadata, payload)]
        if not self._options.chunking_enabled:
            raise self._too_big(len(payload))
        return self._chunks(metadata, payload, limit)

    def _chunks(self, metadata: pb.MessageMetadata, payload: bytes, limit: int) -> list[Packed]:
        describe_chunk(metadata, 0, 1, len(payload))
        size_max = room_for_payload(metadata, limit - (TAG_SIZE if self._sealer else 0))
        if size_max > 2 * _CHUNK_FIELDS_SIZE:
            size_max -= _CHUNK_FIELDS_SIZE
        parts = list(chunks(payload, size_max))
        packed: list[Packed] = []
        for chunk_id, part in parts:
            describe_chunk(metadata, chunk_id, len(parts), len(payload))
            packed.append(self._sealed(metadata, part))
        return packed

    def _described(self, metadata: pb.MessageMetadata, payload: bytes) -> bytes:
        """The payload compressed; the metadata says all that it is going to say."""
        if self._schema_version:
            metadata.schema_version = self._schema_version
        payload = compressed(metadata, payload, self._options.compression_type)
        if self._sealer is not None:
            self._sealer.describe(metadata, self._clock.monotonic())
        return payload

    def _overhead(self, metadata: pb.MessageMetadata) -> int:
        """Bytes of an entry beside its payload."""
        return metadata.ByteSize() + (TAG_SIZE if self._sealer is not None else 0)

    def _sealed(self, metadata: pb.MessageMetadata, payload: bytes) -> Packed:
        if self._sealer is not None:
            payload = self._sealer.seal(metadata, payload)
        return Packed(metadata.SerializeToString(), payload)

    def _too_big(self, size: int) -> MessageTooBig:
        return MessageTooBig(
            f"a message of {size} bytes to {self._options.topic}, which takes {self.size_max}"
            " with its metadata; chunking_enabled is off"
        )


def compressed(metadata: pb.MessageMetadata, payload: bytes, compression: CompressionType) -> bytes:
    """Compress, and say so. An empty payload stays as it is: not every client can unpack nothing."""
    if compression is CompressionType.NONE or not payload:
        return payload
    from milepost.wire.compression import compress

    metadata.compression = pb.CompressionType.Name(compression)  # type: ignore[assignment]
    metadata.uncompressed_size = len(payload)
    return compress(compression, payload)
