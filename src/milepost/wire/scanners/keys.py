r"""Finds the key of a message without parsing its metadata.

Compaction looks through a whole topic by key and needs two things of each message: its key, and whether it
has a value. Metadata that holds a key, sizes, a sequence id and times, in the order of their numbers, as
clients write it, is walked through byte by byte; any other is left to the caller to parse.

    >>> message = b"\0\0\0\5" b"\x12\1k" b"\x18\3" b"one"      # size, key, size of the value, value
    >>> found: list[KeyAndEmptiness] = []
    >>> plain_batch_keys(message, 0, 1, found), found
    (12, [(b'k', False)])

Pure; `tests/property/test_wire_keys.py` compares it with parsing.
"""

from __future__ import annotations

import struct
from typing import Final, TypeAlias

from milepost.wire.scanners.varint import read_rest

# Whether a value is empty, beside the key of its message.
KeyAndEmptiness: TypeAlias = tuple[bytes | None, bool]

NOT_PLAIN: Final = -1

# Tags of SingleMessageMetadata.
_KEY: Final = 2 << 3 | 2
_PAYLOAD_SIZE: Final = 3 << 3
_EVENT_TIME: Final = 5 << 3
_SEQUENCE_ID: Final = 8 << 3
# Tags of MessageMetadata.
_ENTRY_PRODUCER: Final = 1 << 3 | 2
_ENTRY_SEQUENCE_ID: Final = 2 << 3
_ENTRY_PUBLISH_TIME: Final = 3 << 3
_ENTRY_KEY: Final = 6 << 3 | 2
_ENTRY_UNCOMPRESSED_SIZE: Final = 9 << 3
_ENTRY_EVENT_TIME: Final = 12 << 3

_VARINT_SIZE_MAX: Final = 10
_CHECKSUM_MAGIC: Final = b"\x0e\x01"
_CHECKSUM_SIZE: Final = 6
_unpack_size = struct.Struct(">I").unpack_from


def plain_batch_keys(payload: bytes, at: int, count: int, found: list[KeyAndEmptiness]) -> int:
    """Add those of so many messages of a batch, from byte `at` on; where the next one begins.

    `NOT_PLAIN` if one of them has to be parsed; what was added then counts for nothing.
    """
    end = len(payload)
    try:
        for _ in range(count):
            metadata_end = at + 4 + _unpack_size(payload, at)[0]
            at += 4
            key = None
            if payload[at] == _KEY:
                size = payload[at + 1]
                at += 2
                if size > 127:
                    size, at = read_rest(payload, at, size)
                key = payload[at : at + size]
                at += size
            if payload[at] != _PAYLOAD_SIZE:
                return NOT_PLAIN
            size = payload[at + 1]
            at += 2
            if size > 127:
                size, at = read_rest(payload, at, size)
            while (
                at != metadata_end
            ):  # beyond it there is no way back, and sooner or later no such tag
                if payload[at] != _SEQUENCE_ID and payload[at] != _EVENT_TIME:
                    return NOT_PLAIN
                at = _behind_varint(payload, at + 1)
            at += size
            if at > end:
                return NOT_PLAIN
            found.append((key, not size))
    except (IndexError, struct.error):
        return NOT_PLAIN
    return at


def plain_entry_key(entry: bytes | memoryview) -> KeyAndEmptiness | None:
    """Those of a stored entry that is one message; None if its metadata has to be parsed."""
    at = _CHECKSUM_SIZE if entry[:2] == _CHECKSUM_MAGIC else 0
    try:
        metadata_end = at + 4 + _unpack_size(entry, at)[0]
        if entry[at + 4] != _ENTRY_PRODUCER or entry[at + 5] > 127:
            return None
        at += 6 + entry[at + 5]
        if entry[at] != _ENTRY_SEQUENCE_ID:
            return None
        at = _behind_varint(entry, at + 1)
        if entry[at] != _ENTRY_PUBLISH_TIME:
            return None
        at = _behind_varint(entry, at + 1)
        key = None
        if at != metadata_end and entry[at] == _ENTRY_KEY:
            size = entry[at + 1]
            if size > 127:
                return None
            at += 2 + size
            key = bytes(entry[at - size : at])
        while at != metadata_end:
            if entry[at] != _ENTRY_UNCOMPRESSED_SIZE and entry[at] != _ENTRY_EVENT_TIME:
                return None
            at = _behind_varint(entry, at + 1)
    except (IndexError, struct.error):
        return None
    return (key, at == len(entry)) if at <= len(entry) else None


def _behind_varint(data: bytes | memoryview, at: int) -> int:
    """Where the varint ends that begins here; `IndexError` for one that is too long to be one."""
    limit = at + _VARINT_SIZE_MAX
    while data[at] > 127:
        at += 1
        if at >= limit:
            raise IndexError("a varint of more than ten bytes")
    return at + 1
