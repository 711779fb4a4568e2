"""The header of a file: ours, whole, known; or refused by name."""

from __future__ import annotations

import google_crc32c
import pytest

from milepost.errors import CorruptData, UnknownFormat
from milepost.storage.header import HEADER_SIZE, JOURNAL, LEDGER, VERSION, FileHeader

MINE, OTHER = bytes(range(16)), bytes(16)
HEADER = FileHeader(JOURNAL, MINE, 2**64 - 1, 3, 4, 5)


def with_crc(data: bytes) -> bytes:
    return data[:60] + int(google_crc32c.value(data[:60])).to_bytes(4, "little")


def test_a_header_comes_back() -> None:
    data = HEADER.encode()
    assert len(data) == HEADER_SIZE
    assert FileHeader.decode(data + b"records", "j", JOURNAL, MINE) == HEADER


def test_a_newer_version_is_refused_with_both_numbers() -> None:
    data = with_crc(HEADER.encode()[:8] + b"\x02\x00" + HEADER.encode()[10:])
    with pytest.raises(UnknownFormat, match=f"j: format version 2; this release reads {VERSION}"):
        FileHeader.decode(data, "j", JOURNAL, MINE)


def test_a_file_of_another_kind_is_refused() -> None:
    with pytest.raises(CorruptData, match="j: holds b'JRNL', expected b'LEDG'"):
        FileHeader.decode(HEADER.encode(), "j", LEDGER, MINE)


def test_a_file_of_another_directory_is_refused() -> None:
    with pytest.raises(CorruptData, match=f"belongs to data directory {MINE.hex()}, this is 0000"):
        FileHeader.decode(HEADER.encode(), "j", JOURNAL, OTHER)
    assert FileHeader.decode(HEADER.encode(), "j", JOURNAL) == HEADER  # not asked


def test_every_cut_and_every_flipped_bit_is_noticed() -> None:
    data = HEADER.encode()
    for size in range(HEADER_SIZE):
        assert not FileHeader.is_whole(data[:size])
        with pytest.raises(CorruptData, match="too few"):
            FileHeader.decode(data[:size], "j", JOURNAL, MINE)
    for bit in range(8 * HEADER_SIZE):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        assert not FileHeader.is_whole(bytes(damaged))
        with pytest.raises(CorruptData, match="no valid file header"):
            FileHeader.decode(bytes(damaged), "j", JOURNAL, MINE)


def test_zeros_are_no_header() -> None:
    assert not FileHeader.is_whole(bytes(HEADER_SIZE))
