"""Cuts a large message into chunks (PIP-107). Pure.

>>> [(chunk_id, len(part)) for chunk_id, part in chunks(b"x" * 25, size_max=10)]
[(0, 10), (1, 10), (2, 5)]
"""

from __future__ import annotations

from collections.abc import Iterator

from milepost.errors import MessageTooBig
from milepost.wire import pulsar_pb2 as pb


def chunk_count(payload_size: int, size_max: int) -> int:
    assert size_max > 0
    return max(1, -(-payload_size // size_max))


def chunks(payload: bytes, size_max: int) -> Iterator[tuple[int, bytes]]:
    """Parts of at most `size_max` bytes, numbered from 0."""
    for chunk_id in range(chunk_count(len(payload), size_max)):
        first = chunk_id * size_max
        yield chunk_id, payload[first : first + size_max]


def room_for_payload(metadata: pb.MessageMetadata, message_size_max: int) -> int:
    """Bytes of payload that fit beside the metadata, chunk fields and all."""
    room = message_size_max - metadata.ByteSize()
    if room <= 0:
        raise MessageTooBig(
            f"{metadata.ByteSize()} bytes of metadata where {message_size_max} bytes are allowed"
        )
    return room


def describe_chunk(
    metadata: pb.MessageMetadata, chunk_id: int, num_chunks: int, total_size: int
) -> None:
    """Write into the metadata which chunk of what it is. All chunks of a message share their uuid,
    made as official clients make it."""
    metadata.uuid = f"{metadata.producer_name}-{metadata.sequence_id}"
    metadata.num_chunks_from_msg = num_chunks
    metadata.total_chunk_msg_size = total_size
    metadata.chunk_id = chunk_id
