"""The cache: files that only the bucket has look as if they were here, and come when they are read."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from milepost.storage.bucket.cache import CacheFiles
from milepost.storage.bucket.image import Extent
from milepost.testing.bucket import MemoryBucket

HEAD = bytes(range(64))
BODY = b"entries " * 50


@pytest.fixture
def bucket() -> MemoryBucket:
    bucket = MemoryBucket()
    bucket.objects["pack/a"] = b"...." + HEAD + BODY[:100]
    bucket.objects["pack/b"] = BODY[100:]
    return bucket


@pytest.fixture
def files(tmp_path: Path, bucket: MemoryBucket) -> Iterator[CacheFiles]:
    extents = {"ledgers/1": [Extent("pack/a", 4, 164), Extent("pack/b", 0, len(BODY) - 100)]}
    files = CacheFiles(tmp_path, bucket, extents)
    files.make_folder("ledgers")
    yield files
    files.close()


def test_a_file_in_the_bucket_is_there_with_its_size(files: CacheFiles, tmp_path: Path) -> None:
    assert files.exists("ledgers/1")
    assert files.size("ledgers/1") == 64 + len(BODY)
    assert files.names("ledgers") == ["1"]
    with pytest.raises(FileExistsError):
        files.create("ledgers/1")
    assert list((tmp_path / "ledgers").iterdir()) == []


def test_a_read_brings_it_whole_and_once(files: CacheFiles) -> None:
    with ThreadPoolExecutor(8) as threads:
        reads = threads.map(lambda n: files.read("ledgers/1", 64 + n, 20), range(40))
        assert list(reads) == [BODY[n : n + 20] for n in range(40)]
    assert files.fetched_bytes == 64 + len(BODY)
    assert files.names("ledgers") == ["1"]


def test_its_header_alone_does_not_bring_it(files: CacheFiles, tmp_path: Path) -> None:
    files.bring_heads(["ledgers/1", "ledgers/2"])
    assert files.read("ledgers/1", 0, 64) == HEAD
    assert files.fetched_bytes == 0
    assert list((tmp_path / "ledgers").iterdir()) == []


def test_appending_goes_on_behind_what_the_bucket_has(files: CacheFiles) -> None:
    file = files.open_append("ledgers/1", 64 + len(BODY))
    file.append([b"more"])
    file.sync()
    file.close()
    assert files.read("ledgers/1", 64 + len(BODY) - 2, 10) == BODY[-2:] + b"more"


def test_a_deleted_file_is_gone(files: CacheFiles) -> None:
    files.delete("ledgers/1")
    assert not files.exists("ledgers/1")
    with pytest.raises(FileNotFoundError):
        files.read("ledgers/1", 64, 10)


def test_a_pack_that_cannot_be_read_is_an_error_and_the_next_read_tries_again(
    files: CacheFiles, bucket: MemoryBucket
) -> None:
    pack = bucket.objects.pop("pack/b")
    with pytest.raises(OSError, match="pack/b"):
        files.read("ledgers/1", 64, 10)
    bucket.objects["pack/b"] = pack
    assert files.read("ledgers/1", 64, 10) == BODY[:10]
