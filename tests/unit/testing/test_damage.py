"""Damage: exactly the bytes that were meant, and no others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from milepost.testing import damage
from milepost.testing.crash import power_loss
from milepost.testing.files import MemoryFiles


def two_files() -> MemoryFiles:
    return MemoryFiles({"a": b"abcdefgh", "b": b"12345678"})


def test_flip_bit() -> None:
    files = two_files()
    damage.flip_bit(files, "a", 8 * 2 + 1)
    assert files.contents() == {"a": b"abadefgh", "b": b"12345678"}
    damage.flip_bit(files, "a", 8 * 2 + 1)
    assert files.contents() == two_files().contents()


def test_flip_random_bit_says_which() -> None:
    files = two_files()
    bit = damage.flip_random_bit(files, "a", seed=3)
    assert files.contents() != two_files().contents()
    damage.flip_bit(files, "a", bit)
    assert files.contents() == two_files().contents()


@pytest.mark.parametrize(("size", "left"), [(0, b""), (3, b"abc"), (8, b"abcdefgh")])
def test_cut(size: int, left: bytes) -> None:
    files = two_files()
    damage.cut(files, "a", size)
    assert files.contents()["a"] == left


def test_zero() -> None:
    files = two_files()
    damage.zero(files, "b", 2, 3)
    assert files.contents()["b"] == b"12\0\0\x00678"


def test_swap_blocks_between_files() -> None:
    files = two_files()
    damage.swap_blocks(files, ("a", 0), ("b", 4), 3)
    assert files.contents() == {"a": b"567defgh", "b": b"1234abc8"}


def test_swap_blocks_in_one_file() -> None:
    files = two_files()
    damage.swap_blocks(files, ("a", 0), ("a", 4), 2)
    assert files.contents()["a"] == b"efcdabgh"


def test_copy_block_duplicates() -> None:
    files = two_files()
    damage.copy_block(files, ("a", 0), ("a", 4), 4)
    assert files.contents()["a"] == b"abcdabcd"


def test_overwrite_reads_back_as_a_block() -> None:
    files = two_files()
    damage.overwrite(files, ("a", 1), b"XY")
    assert damage.block(files, ("a", 0), 4) == b"aXYd"


def test_a_crash_does_not_heal_it() -> None:
    files = two_files()
    damage.zero(files, "a", 0, 8)
    assert power_loss(files, "dropped").contents()["a"] == bytes(8)


def test_damage_outside_the_file_is_a_mistake_of_the_test() -> None:
    files = two_files()
    attempts: list[Callable[[], object]] = [
        lambda: damage.flip_bit(files, "a", 64),
        lambda: damage.cut(files, "a", 9),
        lambda: damage.zero(files, "a", 7, 2),
        lambda: damage.overwrite(files, ("a", -1), b"x"),
    ]
    for attempt in attempts:
        with pytest.raises(ValueError, match="a has 8 bytes"):
            attempt()
