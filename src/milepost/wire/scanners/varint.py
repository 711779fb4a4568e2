"""Reads and writes varints.

Encoding is one call. Decoding is split so that hot loops pay nothing for the common case: they read
the first byte themselves, and only when its top bit is set ask `read_rest` for what follows.

    value = data[at]
    at += 1
    if value > 127:
        value, at = read_rest(data, at, value)

Reading past the end raises `IndexError` or runs into the next field; callers compare `at` with the end
of what they were given. Values are taken modulo 2^64 as the protobuf library takes them.

    >>> encode_varint(300)
    b'\\xac\\x02'
    >>> read_varint(b'\\xac\\x02', 0)
    (300, 2)
"""

from __future__ import annotations

from typing import Final

_MASK_64: Final = (1 << 64) - 1

# Seven bits as a byte: the last one of a varint, or one that more follow.
LAST_BYTES: Final = tuple(bytes((low,)) for low in range(128))
MORE_BYTES: Final = tuple(bytes((low | 128,)) for low in range(128))


def encode_varint(value: int) -> bytes:
    """The shortest form. A negative value is encoded as the 64-bit number it is in two's complement."""
    if 0 <= value < 0x80:
        return LAST_BYTES[value]
    if 0 <= value < 0x4000:
        return MORE_BYTES[value & 127] + LAST_BYTES[value >> 7]
    if 0 <= value < 0x20_0000:
        return MORE_BYTES[value & 127] + MORE_BYTES[value >> 7 & 127] + LAST_BYTES[value >> 14]
    value &= _MASK_64
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The value that begins at `at`, and where the next field begins."""
    first = data[at]
    if first < 128:
        return first, at + 1
    return read_rest(data, at + 1, first)


def read_rest(data: bytes, at: int, first: int) -> tuple[int, int]:
    """The rest of a varint whose first byte had its top bit set.

    `IndexError` when it does not end within ten bytes: such bytes are no protobuf at all.
    """
    byte = data[at]
    if byte < 128:
        return first - 128 + (byte << 7), at + 1
    value = first - 128 + (byte - 128 << 7)
    byte = data[at + 1]
    if byte < 128:
        return value + (byte << 14), at + 2
    value += byte - 128 << 14
    at += 2
    for shift in (21, 28, 35, 42, 49, 56, 63):
        byte = data[at]
        at += 1
        if byte < 128:
            return value + (byte << shift) & _MASK_64, at
        value += byte - 128 << shift
    raise IndexError("a varint of more than ten bytes")


def signed32(value: int) -> int:
    """The int32 that a varint stands for: its low 32 bits, whatever else a peer put above them."""
    value &= 0xFFFF_FFFF
    return value - 0x1_0000_0000 if value > 0x7FFF_FFFF else value
