from __future__ import annotations

import pytest

from milepost.wire.scanners.varint import encode_varint, read_rest, read_varint, signed32

EXAMPLES = [
    (0, "00"),
    (127, "7f"),
    (128, "8001"),
    (300, "ac02"),
    (16383, "ff7f"),
    (16384, "808001"),
    (2097151, "ffff7f"),
    (2097152, "80808001"),
    (1794741333444, "c4dbadf79d34"),
    (2**63, "80808080808080808001"),
    (2**64 - 1, "ffffffffffffffffff01"),
]


@pytest.mark.parametrize(("value", "encoded"), EXAMPLES)
def test_there_and_back(value: int, encoded: str) -> None:
    assert encode_varint(value).hex() == encoded
    data = b"\xff" + bytes.fromhex(encoded) + b"\xff"
    assert read_varint(data, 1) == (value, len(data) - 1)


def test_a_negative_number_is_written_as_64_bits() -> None:
    assert encode_varint(-1) == encode_varint(2**64 - 1)
    assert encode_varint(-(2**63)) == encode_varint(2**63)


def test_bits_above_64_are_lost_as_in_the_library() -> None:
    assert read_varint(b"\xff" * 9 + b"\x7f", 0) == (2**64 - 1, 10)


def test_more_than_ten_bytes_are_no_varint() -> None:
    with pytest.raises(IndexError):
        read_varint(b"\xff" * 10 + b"\x01", 0)


@pytest.mark.parametrize("cut", ["", "80", "8080", "808080", "80808080808080808080"])
def test_a_varint_cut_short(cut: str) -> None:
    with pytest.raises(IndexError):
        read_varint(bytes.fromhex(cut), 0)


def test_the_rest_goes_on_where_the_first_byte_left() -> None:
    assert read_rest(bytes.fromhex("ac02"), 1, 0xAC) == (300, 2)


def test_int32_fields_keep_their_low_bits() -> None:
    assert signed32(2**64 - 1) == signed32(2**32 - 1) == -1
    assert signed32(2**31) == -(2**31)
    assert signed32(2**32 + 5) == 5
