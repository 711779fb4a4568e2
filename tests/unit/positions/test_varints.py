"""Varints: short, strict, and never another exception."""

from __future__ import annotations

import pytest

from milepost.errors import CorruptData
from milepost.positions.varints import VARINT_MAX, read_varint, write_varint


@pytest.mark.parametrize(
    ("number", "written"),
    [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (VARINT_MAX, "ff" * 9 + "01")],
)
def test_a_number_takes_seven_bits_a_byte(number: int, written: str) -> None:
    out = bytearray(b"x")
    write_varint(out, number)
    assert out[1:].hex() == written
    assert read_varint(out, 1) == (number, len(out))


@pytest.mark.parametrize("number", [-1, VARINT_MAX + 1])
def test_what_is_no_64_bit_number_is_not_written(number: int) -> None:
    with pytest.raises(AssertionError, match=str(number)):
        write_varint(bytearray(), number)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ("", "byte 0 of 0 that does not end"),
        ("80", "byte 0 of 1 that does not end"),
        ("8000", "shortest form"),
        ("ff" * 9 + "02", "no 64-bit number"),
        ("ff" * 11, "does not end in ten bytes"),
    ],
)
def test_other_bytes_are_corrupt(data: str, why: str) -> None:
    with pytest.raises(CorruptData, match=why):
        read_varint(bytes.fromhex(data), 0)
