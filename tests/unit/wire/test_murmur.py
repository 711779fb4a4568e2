from __future__ import annotations

import pytest

from milepost.wire.murmur import SLOT_COUNT, key_slot, murmur3_32

# Published test values of the hash.
EXAMPLES = [
    (b"", 0, 0x00000000),
    (b"", 1, 0x514E28B7),
    (b"", 0xFFFFFFFF, 0x81F16F39),
    (b"\xff\xff\xff\xff", 0, 0x76293B50),
    (b"\x21\x43\x65\x87", 0, 0xF55B516B),
    (b"\x21\x43\x65\x87", 0x5082EDEE, 0x2362F9DE),
    (b"\x21\x43\x65", 0, 0x7E4A8634),
    (b"\x21\x43", 0, 0xA0F7B07A),
    (b"\x21", 0, 0x72661CF4),
    (b"\0\0\0\0", 0, 0x2362F9DE),
    (b"\0\0\0", 0, 0x85F0B427),
    (b"\0\0", 0, 0x30F4C306),
    (b"\0", 0, 0x514E28B7),
    (b"hello", 0, 0x248BFA47),
    (b"hello, world", 0, 0x149BBB7F),
    (b"The quick brown fox jumps over the lazy dog", 0, 0x2E4FF723),
]


@pytest.mark.parametrize(("data", "seed", "expected"), EXAMPLES)
def test_published_values(data: bytes, seed: int, expected: int) -> None:
    assert murmur3_32(data, seed) == expected


def test_slots() -> None:
    assert key_slot(b"hello") == (0x248BFA47 & 0x7FFFFFFF) % 65536
    assert key_slot(b"\xff\xff\xff\xff") == 0x3B50
    assert all(0 < key_slot(b"%d" % n) < SLOT_COUNT for n in range(1000))


def test_slot_0_is_nobodys() -> None:
    assert murmur3_32(b"") == 0
    assert key_slot(b"") == 1
