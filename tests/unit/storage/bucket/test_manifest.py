"""Manifests: what they say comes back, and a value that cannot be one is refused by name."""

from __future__ import annotations

import json

import pytest

from milepost.errors import BucketUnusable, UnknownFormat
from milepost.storage.bucket.manifest import Manifest, first_manifest

FIRST = first_manifest("c", "b", "00")


def test_a_manifest_comes_back_as_it_was() -> None:
    assert Manifest.decode(FIRST.encode()) == FIRST


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("cluster", None, "'cluster' is None, not text"),
        ("epoch", "3", "'epoch' is '3', not a whole number"),
        ("epoch", 0, "'epoch' is 0"),
        ("owner", 7, "'owner' is 7"),
        ("floor", "ab", "'floor' is 'ab', not a list"),
        ("floor", ["a", 0], "'epoch' is 'a'"),
        ("floor", [1], "number"),
        ("floor", [2, 0], r"'floor' is \[2, 0\], and the epoch is 1"),
        ("floor", [0, 0], r"'floor' is \[0, 0\]"),
        ("floor", [1, -1], r"'floor' is \[1, -1\]"),
        ("image", 1.5, "'image' is 1.5"),
        ("nonce", {}, "'nonce' is {}"),
        ("color", "red", "color"),
    ],
)
def test_a_manifest_with_a_wrong_value_is_refused_by_name(
    field: str, value: object, says: str
) -> None:
    data = json.dumps({**json.loads(FIRST.encode()), field: value}).encode()
    with pytest.raises(BucketUnusable, match=says):
        Manifest.decode(data)


def test_a_manifest_that_is_nested_without_end_is_refused() -> None:
    with pytest.raises(BucketUnusable, match="nested too deep"):
        Manifest.decode(b"[" * 99999)


def test_a_manifest_of_a_newer_format_is_refused_by_its_number() -> None:
    with pytest.raises(UnknownFormat, match="format 2; this release reads 1"):
        Manifest.decode(b'{"format": 2}')
