"""The image: the catalog at a checkpoint, and where the bytes of the ledgers lie.

A ledger is *extents*: stretches of its files that checkpoints have put into packs, in order. The image
names them, so that a pack which no image names any more can be deleted. Ledgers are files of the local
directory otherwise, by the same names.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from milepost.errors import CorruptData, UnknownFormat
from milepost.storage.documents import read_document

FOLDER = "image/"
PACKS = "pack/"
FORMAT = 1
_MAGIC = b"MPSTIMG"


class Extent(NamedTuple):
    """Consecutive bytes of a file, and where they lie in a pack."""

    pack: str
    start: int
    size: int


Extents = Mapping[str, Sequence[Extent]]
"""By the file's path: its bytes from the first to the last."""


class Image(NamedTuple):
    catalog: bytes
    """The SQLite database."""
    extents: Extents

    def encode(self) -> bytes:
        packs = sorted(packs_of(self.extents))
        numbers = {pack: number for number, pack in enumerate(packs)}
        files = {
            path: [[numbers[one.pack], one.start, one.size] for one in extents]
            for path, extents in self.extents.items()
        }
        doc = json.dumps({"packs": packs, "files": files}).encode()
        body = len(doc).to_bytes(8, "little") + doc + self.catalog
        return b"%s%c" % (_MAGIC, FORMAT) + zlib.compress(body, 1)

    @classmethod
    def decode(cls, data: bytes, key: str) -> Image:
        if data[: len(_MAGIC)] != _MAGIC:
            raise CorruptData(f"{key}: not an image of Milepost")
        if len(data) == len(_MAGIC):
            raise CorruptData(f"{key}: it ends behind its first {len(data)} bytes")
        if data[len(_MAGIC)] != FORMAT:
            raise UnknownFormat(f"{key}: format {data[len(_MAGIC)]}; this release reads {FORMAT}")
        try:
            body = zlib.decompress(data[len(_MAGIC) + 1 :])
            end = 8 + int.from_bytes(body[:8], "little")
            doc = read_document(body[8:end])
            packs = doc["packs"]
            extents = {
                path: [Extent(packs[number], start, size) for number, start, size in rows]
                for path, rows in doc["files"].items()
            }
        except (zlib.error, ValueError, LookupError, TypeError, AttributeError) as failure:
            raise CorruptData(f"{key}: {failure}") from failure
        return cls(body[end:], extents)


def packs_of(extents: Extents) -> set[str]:
    """The packs that extents lie in."""
    return {one.pack for rows in extents.values() for one in rows}


def size_of(extents: Sequence[Extent]) -> int:
    return sum(one.size for one in extents)


class Piece(NamedTuple):
    """Bytes of a file that are to be put into a pack."""

    path: str
    first: int
    """Where they begin in the file. 0 replaces everything that was there."""
    data: bytes


def packed(pieces: Iterable[Piece], size_max: int) -> list[list[Piece]]:
    """Pieces by the pack they go to: as few packs as a size allows, in order.

    >>> [[piece.path for piece in pack] for pack in packed(
    ...     [Piece("a", 0, b"123"), Piece("b", 0, b"12"), Piece("c", 0, b"12345678")], 5)]
    [['a', 'b'], ['c']]
    """
    packs: list[list[Piece]] = []
    room = 0
    for piece in pieces:
        if not packs or len(piece.data) > room:
            packs.append([])
            room = size_max
        packs[-1].append(piece)
        room -= len(piece.data)
    return packs


def extended(extents: Extents, packs: Mapping[str, Sequence[Piece]]) -> dict[str, list[Extent]]:
    """The extents with those of new packs, by key.

    >>> grown = extended({"a": [Extent("p", 0, 3)]}, {"q": [Piece("b", 0, b"12"), Piece("a", 3, b"456")]})
    >>> grown["a"]
    [Extent(pack='p', start=0, size=3), Extent(pack='q', start=2, size=3)]
    """
    grown = {path: list(rows) for path, rows in extents.items()}
    for key, pieces in packs.items():
        start = 0
        for piece in pieces:
            rows = grown.setdefault(piece.path, [])
            if not piece.first:
                rows.clear()
            assert size_of(rows) == piece.first, (piece.path, size_of(rows), piece.first)
            rows.append(Extent(key, start, len(piece.data)))
            start += len(piece.data)
    return grown
