"""Media damage: bytes that change on disk by themselves.

Owns the ways in which a medium lies: a bit flips, a file is shorter, a stretch is zero, a block was
written in the wrong place. Never goes through a descriptor: the change is durable at once, and no
sync or trace order protects from it.

    flip_bit(files, "ledgers/7", 8 * 100 + 3)       # bit 3 of byte 100
    swap_blocks(files, ("ledgers/7", 0), ("ledgers/8", 4096), 512)
"""

from __future__ import annotations

import random

from milepost.testing.files import MemoryFiles

# A file and a byte offset in it.
Place = tuple[str, int]


def flip_bit(files: MemoryFiles, path: str, bit: int) -> None:
    """Flip one bit, counted from the first byte's lowest."""
    content = bytearray(files.contents()[path])
    offset, shift = divmod(bit, 8)
    _require(path, content, offset, 1)
    content[offset] ^= 1 << shift
    files.damage(path, bytes(content))


def flip_random_bit(files: MemoryFiles, path: str, seed: int) -> int:
    """Flip one bit anywhere in the file; which one."""
    bit = random.Random(seed).randrange(8 * len(files.contents()[path]))  # noqa: S311
    flip_bit(files, path, bit)
    return bit


def cut(files: MemoryFiles, path: str, size: int) -> None:
    """Leave only the first `size` bytes."""
    content = files.contents()[path]
    _require(path, content, 0, size)
    files.damage(path, content[:size])


def zero(files: MemoryFiles, path: str, offset: int, size: int) -> None:
    """Zero a stretch."""
    overwrite(files, (path, offset), bytes(size))


def overwrite(files: MemoryFiles, place: Place, data: bytes) -> None:
    """Put other bytes in place; the file keeps its length."""
    path, offset = place
    content = bytearray(files.contents()[path])
    _require(path, content, offset, len(data))
    content[offset : offset + len(data)] = data
    files.damage(path, bytes(content))


def block(files: MemoryFiles, place: Place, size: int) -> bytes:
    """The bytes in place."""
    path, offset = place
    content = files.contents()[path]
    _require(path, content, offset, size)
    return content[offset : offset + size]


def copy_block(files: MemoryFiles, source: Place, target: Place, size: int) -> None:
    """A duplicated block or a stale sector: the target holds what belongs to the source."""
    overwrite(files, target, block(files, source, size))


def swap_blocks(files: MemoryFiles, one: Place, other: Place, size: int) -> None:
    """Two misdirected writes: each block where the other belongs."""
    of_one, of_other = block(files, one, size), block(files, other, size)
    overwrite(files, one, of_other)
    overwrite(files, other, of_one)


def _require(path: str, content: bytes | bytearray, offset: int, size: int) -> None:
    if offset < 0 or size < 0 or offset + size > len(content):
        raise ValueError(f"{path} has {len(content)} bytes, not [{offset}, {offset + size})")
