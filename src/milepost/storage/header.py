"""The first 64 bytes of every file: kind, version, owner.

    magic "MPST" · kind 4 letters · version u16 · reserved u16 · incarnation 16 bytes
    · a u64 · b u64 · c u64 · d u64 · crc u32

`incarnation` names the data directory, so that a file copied from another one is refused. What a, b,
c and d mean depends on the kind (docs/format.md). A version this release does not know is refused by
name and the file left as it is.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

import google_crc32c

from milepost.errors import CorruptData, UnknownFormat

_LAYOUT = Struct("<4s4sHH16sQQQQI")
HEADER_SIZE = 64
assert _LAYOUT.size == HEADER_SIZE
MAGIC = b"MPST"

JOURNAL = b"JRNL"  # a: file number, b: previous file, c: its valid size, d: first sequence
LEDGER = b"LEDG"  # a: ledger, b: topic, c: first index, d: time of creation
MILEPOSTS = b"MILE"  # as the ledger they belong to

VERSION = 1


class FileHeader(NamedTuple):
    kind: bytes
    incarnation: bytes
    a: int
    b: int
    c: int
    d: int

    def encode(self) -> bytes:
        bare = _LAYOUT.pack(MAGIC, self.kind, VERSION, 0, *self[1:], 0)[:-4]
        return bare + int(google_crc32c.value(bare)).to_bytes(4, "little")

    @staticmethod
    def is_whole(data: bytes) -> bool:
        """Does `data` begin with a header, of whatever version, kind or directory?"""
        crc = int.from_bytes(data[HEADER_SIZE - 4 : HEADER_SIZE], "little")
        return data[:4] == MAGIC and google_crc32c.value(data[: HEADER_SIZE - 4]) == crc

    @classmethod
    def decode(
        cls, data: bytes, where: str, kind: bytes, incarnation: bytes | None = None
    ) -> FileHeader:
        """The header at the start of `data`, refused unless it is ours, whole and known.

        Without `incarnation` the caller has other means to tell that it is ours.
        """
        if len(data) < HEADER_SIZE:
            raise CorruptData(f"{where}: {len(data)} bytes are too few for a file header")
        if not cls.is_whole(data):
            raise CorruptData(f"{where}: no valid file header")
        _, found, version, _, owner, a, b, c, d, _ = _LAYOUT.unpack_from(data)
        if version != VERSION:
            raise UnknownFormat(f"{where}: format version {version}; this release reads {VERSION}")
        if found != kind:
            raise CorruptData(f"{where}: holds {found!r}, expected {kind!r}")
        if incarnation is not None and owner != incarnation:
            raise CorruptData(
                f"{where}: belongs to data directory {owner.hex()}, this is {incarnation.hex()}"
            )
        return cls(found, owner, a, b, c, d)
