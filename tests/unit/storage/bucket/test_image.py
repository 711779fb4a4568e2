"""Images: what they hold comes back; extents grow, and packs that nothing names are known."""

from __future__ import annotations

import pytest

from milepost.errors import CorruptData, UnknownFormat
from milepost.storage.bucket.image import Extent, Image, Piece, extended, packed, packs_of, size_of


def test_an_image_comes_back_as_it_was() -> None:
    extents = {"ledgers/1.ledger": [Extent("pack/a", 0, 9), Extent("pack/b", 5, 7)], "x": []}
    image = Image(b"SQLite format 3\0" * 100, extents)
    assert Image.decode(image.encode(), "image/1") == image


@pytest.mark.parametrize("cut", range(50))
def test_one_that_is_cut_is_damage(cut: int) -> None:
    data = Image(b"catalog" * 50, {}).encode()
    with pytest.raises(CorruptData, match="image/1"):
        Image.decode(data[:cut], "image/1")


def test_one_of_a_newer_format_is_refused_by_name() -> None:
    data = bytearray(Image(b"", {}).encode())
    data[7] = 9
    with pytest.raises(UnknownFormat, match="image/1: format 9; this release reads 1"):
        Image.decode(bytes(data), "image/1")


def test_pieces_from_the_first_byte_replace_what_was_there() -> None:
    extents = {"rows": [Extent("old", 0, 4)], "ledger": [Extent("old", 4, 6)]}
    grown = extended(extents, {"new": [Piece("rows", 0, b"123456"), Piece("ledger", 6, b"78")]})
    assert grown["rows"] == [Extent("new", 0, 6)]
    assert grown["ledger"] == [Extent("old", 4, 6), Extent("new", 6, 2)]
    assert size_of(grown["ledger"]) == 8
    assert packs_of(grown) == {"old", "new"}
    assert extents == {"rows": [Extent("old", 0, 4)], "ledger": [Extent("old", 4, 6)]}


def test_a_piece_larger_than_a_pack_has_one_of_its_own() -> None:
    pieces = [
        Piece(name, 0, bytes(size)) for name, size in (("a", 3), ("b", 30), ("c", 2), ("d", 9))
    ]
    assert [[one.path for one in pack] for pack in packed(pieces, 10)] == [
        ["a"],
        ["b"],
        ["c"],
        ["d"],
    ]
    assert packed([], 10) == []
