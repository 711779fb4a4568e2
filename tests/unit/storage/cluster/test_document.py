"""The document of a cluster: made once, and refused where it does not fit."""

from __future__ import annotations

import asyncio
import json

import pytest

from milepost.errors import BucketUnusable, CorruptData, UnknownFormat, WrongBucket
from milepost.storage.bucket.manifest import first_manifest
from milepost.storage.bucket.objects import Request, Scan, perform
from milepost.storage.cluster.document import SECRET_SIZE, ClusterDocument, joined
from milepost.storage.cluster.part import PartObjects
from milepost.testing.bucket import MemoryBucket

SECRET, OTHER = "aa" * SECRET_SIZE, "bb" * SECRET_SIZE


def test_the_first_broker_decides_and_the_others_find_it() -> None:
    bucket = MemoryBucket()
    first = asyncio.run(perform(bucket, joined("c", None, 8, SECRET)))
    assert first == ClusterDocument("c", 8, SECRET)
    assert asyncio.run(perform(bucket, joined("c", None, 4, OTHER))) == first
    assert asyncio.run(perform(bucket, joined("c", 8, 4, OTHER))) == first


@pytest.mark.parametrize(
    ("name", "shards", "says"),
    [("d", None, "cluster 'c'"), ("c", 4, "8 shards, not 4: start with --shards 8")],
)
def test_another_cluster_or_number_is_refused(name: str, shards: int | None, says: str) -> None:
    bucket = MemoryBucket()
    asyncio.run(perform(bucket, joined("c", 8, 8, SECRET)))
    with pytest.raises(WrongBucket, match=says):
        asyncio.run(perform(bucket, joined(name, shards, 8, OTHER)))


def test_a_bucket_of_one_broker_is_refused() -> None:
    bucket = MemoryBucket()
    bucket.objects["manifest"] = first_manifest("c", "b", "00").encode()
    with pytest.raises(WrongBucket, match="start without --shards"):
        asyncio.run(perform(bucket, joined("c", 8, 8, SECRET)))
    assert "cluster" not in bucket.objects


def test_none_is_made_in_the_place_of_one_that_was_deleted() -> None:
    """Another number of shards would have the topics elsewhere, and another secret keep brokers apart."""
    bucket = MemoryBucket()
    asyncio.run(perform(bucket, joined("c", 8, 8, SECRET)))
    bucket.objects["shards/3/manifest"] = first_manifest("c", "b", "00").encode()
    del bucket.objects["cluster"]
    with pytest.raises(
        CorruptData, match="cluster: is missing, and 1 objects that need it are there"
    ):
        asyncio.run(perform(bucket, joined("c", None, 4, OTHER)))
    assert "cluster" not in bucket.objects


def test_one_that_another_broker_creates_meanwhile_is_found() -> None:
    bucket = MemoryBucket()
    made = ClusterDocument("c", 8, SECRET).encode()

    def fault(request: Request) -> None:
        if isinstance(request, Scan):
            bucket.objects |= {"cluster": made, "shards/0/manifest": b"{}"}

    bucket.fault = fault
    assert asyncio.run(perform(bucket, joined("c", None, 4, OTHER))).secret == SECRET


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"{", BucketUnusable),
        (b"[]", BucketUnusable),
        (b"[" * 99999, BucketUnusable),
        (b'{"format": 2}', UnknownFormat),
        (b'{"format": 1}', BucketUnusable),
    ],
)
def test_an_object_that_is_no_document_is_refused(data: bytes, error: type[Exception]) -> None:
    bucket = MemoryBucket()
    bucket.objects["cluster"] = data
    with pytest.raises(error):
        asyncio.run(perform(bucket, joined("c", 8, 8, SECRET)))


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("name", 7, "'name' is 7, not text"),
        ("shards", "x", "'shards' is 'x', not a whole number"),
        ("shards", True, "'shards' is True"),
        ("shards", 0, "'shards' is 0, and there are 1 to 64"),
        ("shards", 65, "'shards' is 65, and there are 1 to 64"),
        ("secret", None, "'secret' is not of 64 hexadecimal digits"),
        ("secret", "geheim", "'secret' is not of 64 hexadecimal digits"),
        ("secret", "aa" * 31, "'secret' is not of 64 hexadecimal digits"),
        ("color", "red", "color"),
    ],
)
def test_a_document_with_a_wrong_value_is_refused_by_name(
    field: str, value: object, says: str
) -> None:
    bucket = MemoryBucket()
    doc = json.loads(ClusterDocument("c", 8, SECRET).encode())
    bucket.objects["cluster"] = json.dumps({**doc, field: value}).encode()
    with pytest.raises(BucketUnusable, match=says) as refused:
        asyncio.run(perform(bucket, joined("c", 8, 8, SECRET)))
    assert "geheim" not in str(refused.value)


def test_a_part_of_a_bucket_has_keys_of_its_own() -> None:
    bucket = MemoryBucket()
    part = PartObjects(bucket, "shards/3/")
    bucket.objects |= {"shards/3/journal/1": b"xyz", "shards/30/journal/1": b"", "journal/1": b""}
    assert asyncio.run(part.answer(Scan("journal/"))) == ([("journal/1", 3)],)
    assert part.read("journal/1", 1, 1) == b"y"
