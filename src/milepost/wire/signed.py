"""Ids are signed numbers in unsigned fields: the one place that converts them.

Pulsar declares ledger, entry, epoch and request ids as uint64 and sends Java's signed longs in them:
-1 travels as 2^64 − 1. Everything inside Milepost is signed; everything handed to protobuf is unsigned.

    >>> signed(2**64 - 1), unsigned(-1) == 2**64 - 1
    (-1, True)
"""

from __future__ import annotations

_TWO_63 = 1 << 63
_TWO_64 = 1 << 64
_MASK_64 = _TWO_64 - 1


def signed(value: int) -> int:
    """The number meant by what an unsigned 64-bit field holds."""
    return value - _TWO_64 if value >= _TWO_63 else value


def unsigned(value: int) -> int:
    """What an unsigned 64-bit field must hold to mean `value`."""
    return value & _MASK_64


def signed_32(value: int) -> int:
    """The int32 that a varint of up to 64 bits stands for: its low 32 bits, as protobuf reads it."""
    value &= 0xFFFF_FFFF
    return value - 0x1_0000_0000 if value >= 0x8000_0000 else value
