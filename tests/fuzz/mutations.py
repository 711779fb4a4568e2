"""Mutations: bytes that are nearly what somebody would send.

A mutant is made from one or two seeds by a few random edits: flipped bits, cuts, copies, splices, numbers
that lie about a length, varints with another value or another size. Everything follows from the
`random.Random` that is given.

    >>> mutant = mutate(b"hello world", [b"hello world"], random.Random(1))
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from milepost.wire.scanners.varint import encode_varint

SIZE_MAX = 1 << 16

# Numbers at which something changes: signs, widths, sizes that are named somewhere.
NUMBERS = (
    *(0, 1, 2, 3, 4, 5, 6, 7, 8, 15, 16, 63, 64, 65, 127, 128, 129, 255, 256, 1000, 1024),
    *(2**14 - 1, 2**14, 2**15, 2**16 - 1, 2**16, 2**20, 2**20 + 1, 2**21, 2**24, 5 * 2**20),
    *(2**28, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1),
)

Edit = Callable[[bytearray, random.Random], None]


def _flip_bit(data: bytearray, dice: random.Random) -> None:
    at = dice.randrange(len(data))
    data[at] ^= 1 << dice.randrange(8)


def _set_byte(data: bytearray, dice: random.Random) -> None:
    data[dice.randrange(len(data))] = dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))


def _add_small(data: bytearray, dice: random.Random) -> None:
    at = dice.randrange(len(data))
    data[at] = (data[at] + dice.choice((-2, -1, 1, 2))) % 256


def _insert(data: bytearray, dice: random.Random) -> None:
    at = dice.randrange(len(data) + 1)
    data[at:at] = dice.randbytes(dice.choice((1, 1, 2, 4, 8, 40)))


def _remove(data: bytearray, dice: random.Random) -> None:
    at = dice.randrange(len(data))
    del data[at : at + dice.choice((1, 1, 2, 4, 8, 40))]


def _truncate(data: bytearray, dice: random.Random) -> None:
    del data[dice.randrange(len(data)) :]


def _copy_part(data: bytearray, dice: random.Random) -> None:
    """The same bytes again, here or elsewhere: repeated fields, nested messages."""
    first = dice.randrange(len(data))
    part = data[first : first + dice.randrange(1, 64)]
    at = dice.choice((first, dice.randrange(len(data) + 1)))
    data[at:at] = bytes(part) * dice.choice((1, 1, 1, 2, 30))


def _lie_about_a_size(data: bytearray, dice: random.Random) -> None:
    """Another number where a size may stand: four or eight bytes, either way round."""
    width = dice.choice((2, 4, 4, 4, 8))
    if len(data) < width:
        return
    at = dice.randrange(len(data) - width + 1)
    order = dice.choice(("big", "big", "little"))
    if dice.random() < 0.5:
        value = int.from_bytes(data[at : at + width], order)  # type: ignore[arg-type]
        value += dice.choice((-8, -4, -1, 1, 4, 8))
    else:
        value = dice.choice((*NUMBERS, len(data), len(data) - at, len(data) - at - width))
    data[at : at + width] = (value % 256**width).to_bytes(width, order)


def _edit_varint(data: bytearray, dice: random.Random) -> None:
    """Another value where a varint may stand, in its shortest form or with bytes it did not need."""
    at = dice.randrange(len(data))
    end = at + 1
    while end < len(data) and data[end - 1] > 127 and end - at < 10:
        end += 1
    value = encode_varint(dice.choice((*NUMBERS, len(data), dice.randrange(256))))
    if dice.random() < 0.2:
        value = bytes((*(byte | 0x80 for byte in value), *(0x80,) * dice.randrange(5), 0))
    data[at:end] = value


def _swap(data: bytearray, dice: random.Random) -> None:
    first, second = sorted(dice.randrange(len(data)) for _ in range(2))
    size = dice.randrange(1, 16)
    one, two = bytes(data[first : first + size]), bytes(data[second : second + size])
    data[second : second + size] = one
    data[first : first + size] = two


EDITS: tuple[Edit, ...] = (
    *(_flip_bit, _flip_bit, _set_byte, _add_small, _insert, _remove, _truncate, _copy_part),
    *(_lie_about_a_size, _lie_about_a_size, _edit_varint, _edit_varint, _swap),
)


def mutate(seed: bytes, others: Sequence[bytes], dice: random.Random) -> bytes:
    """A mutant of a seed; parts of the others may come into it."""
    data = bytearray(seed)
    if dice.random() < 0.15:
        other = dice.choice(others)
        at = dice.randrange(len(data) + 1)
        data[at:] = other[dice.randrange(len(other) + 1) :]
    for _ in range(dice.choice((1, 1, 1, 2, 3, 6))):
        if not data:
            data += dice.randbytes(dice.randrange(1, 16))
        dice.choice(EDITS)(data, dice)
    return bytes(data[:SIZE_MAX])
