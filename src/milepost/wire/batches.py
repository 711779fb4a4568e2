"""Packs and unpacks batches.

    u32 size | SingleMessageMetadata | payload, repeated as often as the entry's metadata says

A batch is joined before it is compressed and split after it is decompressed. The size of each payload
stands in its metadata, so that nothing here is allocated by a number that does not fit the bytes.

    >>> one = SingleMessage(pb.SingleMessageMetadata(payload_size=3, partition_key="k"), b"one")
    >>> two = SingleMessage(pb.SingleMessageMetadata(payload_size=3), b"two")
    >>> [message.payload for message in split_batch(join_batch([one, two]), 2)]
    [b'one', b'two']
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

from milepost.errors import ProtocolError
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.reasons import Reason
from milepost.wire.scanners.varint import read_rest

# Tags of SingleMessageMetadata: payload_size and sequence_id.
_PAYLOAD_SIZE: Final = 3 << 3
_SEQUENCE_ID: Final = 8 << 3
_SEQUENCE_ID_SIZE_MAX: Final = 11
_unpack_size = struct.Struct(">I").unpack_from


class SingleMessage(NamedTuple):
    """One message of a batch. Its place in the batch is its batch index."""

    metadata: pb.SingleMessageMetadata
    """Invariant: `payload_size` is the payload's size."""
    payload: bytes


def split_batch(payload: bytes, count: int) -> list[SingleMessage]:
    """The messages of a batch of `count`; `ProtocolError` if the payload is not exactly that."""
    return list(walk_batch(payload, count))


def walk_batch(payload: bytes, count: int) -> Iterator[SingleMessage]:
    """The same one by one, for a caller that does something else in between. What is wrong is said when it is
    reached, in the end at the latest."""
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
        yield SingleMessage(metadata, payload[metadata_end:at])
    if at != len(payload):
        raise _bad(count, count, f"{len(payload) - at} bytes behind the last message")


def split_plain_batch(payload: bytes, count: int) -> list[tuple[bytes, bytes]] | None:
    """Metadata, not parsed, and payload of each message, if no message has more of it than a size and
    a sequence id: most batches, for a third of the time. None for any other, which `split_batch` reads
    or refuses.
    """
    messages: list[tuple[bytes, bytes]] = []
    at = 0
    end = len(payload)
    try:
        for _ in range(count):
            metadata_at = at + 4
            metadata_end = metadata_at + _unpack_size(payload, at)[0]
            if payload[metadata_at] != _PAYLOAD_SIZE:
                return None
            size = payload[metadata_at + 1]
            at = metadata_at + 2
            if size > 127:
                size, at = read_rest(payload, at, size)
            if at != metadata_end:
                if payload[at] != _SEQUENCE_ID or metadata_end - at > _SEQUENCE_ID_SIZE_MAX:
                    return None
                at += 1
                while payload[at] > 127:
                    at += 1
                at += 1
            if at != metadata_end:
                return None
            at += size
            messages.append((payload[metadata_at:metadata_end], payload[metadata_end:at]))
            if at > end:
                return None
    except (IndexError, struct.error):
        return None
    return messages if at == end else None


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
