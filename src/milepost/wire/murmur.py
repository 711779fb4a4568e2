"""Murmur3, the hash of Key_Shared slots.

Official clients and brokers agree on it for routing and for key ranges; it protects against nothing.
Pure Python takes some microseconds for a key: callers keep the slot of a key they see often.

    >>> murmur3_32(b"hello") == 0x248BFA47, key_slot(b"hello")
    (True, 64071)
"""

from __future__ import annotations

from typing import Final

SLOT_COUNT: Final = 65536

_MASK: Final = 0xFFFF_FFFF


def murmur3_32(data: bytes, seed: int = 0) -> int:
    """The hash as an unsigned 32-bit number."""
    size = len(data)
    hashed = seed
    whole = size & ~3
    for at in range(0, whole, 4):
        block = int.from_bytes(data[at : at + 4], "little") * 0xCC9E2D51 & _MASK
        block = (block << 15 | block >> 17) * 0x1B873593 & _MASK
        hashed ^= block
        hashed = (hashed << 13 | hashed >> 19) & _MASK
        hashed = hashed * 5 + 0xE6546B64 & _MASK
    if whole < size:
        block = int.from_bytes(data[whole:], "little") * 0xCC9E2D51 & _MASK
        hashed ^= (block << 15 | block >> 17) * 0x1B873593 & _MASK
    hashed ^= size
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & _MASK
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & _MASK
    return hashed ^ hashed >> 16


def key_slot(key: bytes) -> int:
    """The slot of a sticky key, 1 to 65535: what ranges of Key_Shared consumers speak of.

    Slot 0 means "no key" upstream, so that a key that hashes to it is moved to 1.
    """
    return (murmur3_32(key) & 0x7FFF_FFFF) % SLOT_COUNT or 1
