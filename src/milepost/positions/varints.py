"""Whole numbers as varints: seven bits a byte.

The bricks of the durable forms of sets and cursors. The last byte of a number has its top bit
clear.
Reading is strict about what would make two byte strings mean one number or a number mean anything
past 64 bits; it never raises anything but `CorruptData`.

    >>> out = bytearray(); write_varint(out, 300); out.hex()
    'ac02'
    >>> read_varint(out, 0)                      # the number, and where the next one begins
    (300, 2)
    >>> varints(1, 300).hex()
    '01ac02'
"""

from __future__ import annotations

from milepost.errors import CorruptData

# Everything written this way is an index, a count or a size: an unsigned 64-bit number holds it.
VARINT_MAX = 2**64 - 1


def write_varint(out: bytearray, number: int) -> None:
    """Append one number."""
    assert 0 <= number <= VARINT_MAX, f"{number} is not an unsigned 64-bit number"
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def varints(*numbers: int) -> bytearray:
    """Numbers one behind the other: facts begin with several, and a call for each would cost most."""
    out = bytearray()
    append = out.append
    for number in numbers:
        assert 0 <= number <= VARINT_MAX, f"{number} is not an unsigned 64-bit number"
        while number > 0x7F:
            append(number & 0x7F | 0x80)
            number >>= 7
        append(number)
    return out


def read_varint(data: bytes | bytearray | memoryview, at: int) -> tuple[int, int]:
    """The number that begins at byte `at`, and where the next one begins."""
    number = shift = 0
    for end in range(at + 1, len(data) + 1):
        byte = data[end - 1]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if number > VARINT_MAX or (byte == 0 and shift):
                raise CorruptData(f"no 64-bit number in its shortest form at byte {at}")
            return number, end
        shift += 7
        if shift > 63:
            raise CorruptData(f"a number at byte {at} that does not end in ten bytes")
    raise CorruptData(f"a number at byte {at} of {len(data)} that does not end")
