"""Batches: many messages in one payload.

    u32 size | SingleMessageMetadata | payload, repeated as often as the entry's metadata says

A batch is joined before it is compressed and split after it is decompressed. The size of each payload
stands in its metadata, so that nothing here is allocated by a number that does not fit the bytes.

    >>> payload = join_batch([single(b"one", key="k"), single(b"two")])
    >>> [message.payload for message in split_batch(payload, 2)]
    [b'one', b'two']
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from google.protobuf.message import DecodeError

from milepost.errors import ProtocolError
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.reasons import Reason


class SingleMessage(NamedTuple):
    """One message of a batch. Its place in the batch is its batch index."""

    metadata: pb.SingleMessageMetadata
    """Invariant: `payload_size` is the payload's size."""
    payload: bytes


def split_batch(payload: bytes, count: int) -> list[SingleMessage]:
    """The messages of a batch of `count`; `ProtocolError` if the payload is not exactly that."""
    messages: list[SingleMessage] = []
    at = 0
    for batch_index in range(count):
        metadata_at = at + 4
        metadata_end = metadata_at + int.from_bytes(payload[at:metadata_at], "big")
        if metadata_at > len(payload) or metadata_end > len(payload):
            raise _bad(batch_index, count, f"metadata up to byte {metadata_end} of {len(payload)}")
        try:
            metadata = pb.SingleMessageMetadata.FromString(payload[metadata_at:metadata_end])
        except DecodeError:
            raise _bad(batch_index, count, "metadata that is no protobuf") from None
        if not metadata.IsInitialized():
            raise _bad(batch_index, count, "metadata without a payload size, key or value")
        at = metadata_end + metadata.payload_size
        if metadata.payload_size < 0 or at > len(payload):
            raise _bad(batch_index, count, f"a payload of {metadata.payload_size} bytes")
        messages.append(SingleMessage(metadata, payload[metadata_end:at]))
    if at != len(payload):
        raise _bad(count, count, f"{len(payload) - at} bytes behind the last message")
    return messages


def join_batch(messages: Iterable[SingleMessage]) -> bytes:
    """The payload of a batch, neither compressed nor encrypted."""
    parts: list[bytes] = []
    for metadata, payload in messages:
        assert metadata.payload_size == len(payload), "metadata of another payload"
        encoded = metadata.SerializeToString()
        parts += (len(encoded).to_bytes(4, "big"), encoded, payload)
    return b"".join(parts)


def _bad(batch_index: int, count: int, message: str) -> ProtocolError:
    return ProtocolError(
        Reason.BAD_BATCH, f"message {batch_index} of a batch of {count}: {message}"
    )
