"""The cache: files that only the bucket has look as if they were here, and come when they are read."""

from __future__ import annotations

import os
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from milepost.storage.bucket import cache
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
    assert files.use.fetched_bytes == 64 + len(BODY)
    assert files.names("ledgers") == ["1"]


def test_its_header_alone_does_not_bring_it(files: CacheFiles, tmp_path: Path) -> None:
    files.bring_heads(["ledgers/1", "ledgers/2"])
    assert files.read("ledgers/1", 0, 64) == HEAD
    assert files.use.fetched_bytes == 64
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


# -- the bound ---------------------------------------------------------------------------------------

BLOCK = 100


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "BLOCK", BLOCK)


def content(number: int, blocks: int = 4) -> bytes:
    return bytes([number]) * (blocks * BLOCK)


def several(tmp_path: Path, size_max: int, *, blocks: int = 4) -> tuple[CacheFiles, MemoryBucket]:
    """Three ledgers, each in a pack of its own."""
    bucket = MemoryBucket()
    extents = {}
    for number in range(3):
        bucket.objects[f"pack/{number}"] = content(number, blocks)
        extents[f"ledgers/{number}.ledger"] = [Extent(f"pack/{number}", 0, blocks * BLOCK)]
    files = CacheFiles(tmp_path, bucket, extents, size_max)
    files.make_folder("ledgers")
    return files, bucket


def here(tmp_path: Path) -> set[str]:
    return {path.stem for path in (tmp_path / "ledgers").iterdir()}


@pytest.mark.usefixtures("small_blocks")
def test_a_read_brings_the_blocks_that_it_needs(tmp_path: Path) -> None:
    files, bucket = several(tmp_path, 1 << 30, blocks=8)
    bucket.objects["pack/0"] = bytes(range(200)) * 4
    assert files.read("ledgers/0.ledger", 350, 100) == (bytes(range(200)) * 4)[350:450]
    assert files.use.fetched_bytes == 2 * BLOCK
    # One that goes on has the next ones follow.
    assert files.read("ledgers/0.ledger", 500, 10) == (bytes(range(200)) * 4)[500:510]
    assert files.read("ledgers/0.ledger", 600, 300) == (bytes(range(200)) * 4)[600:]
    files.close()
    assert files.use.fetched_bytes == 5 * BLOCK


@pytest.mark.usefixtures("small_blocks")
def test_a_reader_that_goes_on_finds_the_next_blocks_on_their_way(tmp_path: Path) -> None:
    files, _ = several(tmp_path, 1 << 30, blocks=8)
    for start in (0, BLOCK):
        files.read("ledgers/0.ledger", start, BLOCK)
    files._bringing.shutdown(wait=True)
    assert files.use.fetched_bytes == (2 + cache.AHEAD) * BLOCK


@pytest.mark.usefixtures("small_blocks")
def test_what_was_read_longest_ago_is_dropped_when_the_cache_is_full(tmp_path: Path) -> None:
    files, _ = several(tmp_path, 900)
    for number in (0, 1, 0):
        files.read(f"ledgers/{number}.ledger", 0, 4 * BLOCK)
    assert (here(tmp_path), files.use.size) == ({"0", "1"}, 800)
    files.read("ledgers/2.ledger", 0, 4 * BLOCK)
    assert here(tmp_path) == {"0", "2"}
    assert (files.use.size, files.use.dropped_bytes) == (800, 400)
    # It is there all the same, and comes again.
    assert files.size("ledgers/1.ledger") == 400
    assert files.read("ledgers/1.ledger", 100, 100) == content(1)[:100]
    files.close()


@pytest.mark.usefixtures("small_blocks")
def test_a_ledger_that_is_being_read_is_not_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, _ = several(tmp_path, 400)
    begun, may_go_on = threading.Event(), threading.Event()
    slow = str(tmp_path / "ledgers/0.ledger")
    real = os.pread

    def pread(fd: int, size: int, offset: int) -> bytes:
        if os.readlink(f"/proc/self/fd/{fd}") == slow and not begun.is_set():
            begun.set()
            assert may_go_on.wait(10)
        return real(fd, size, offset)

    monkeypatch.setattr(os, "pread", pread)
    with ThreadPoolExecutor(1) as thread:
        reading = thread.submit(files.read, "ledgers/0.ledger", 0, 400)
        assert begun.wait(10)
        for number in (1, 2):
            assert files.read(f"ledgers/{number}.ledger", 0, 400) == content(number)
        assert here(tmp_path) == {"0", "2"}
        may_go_on.set()
        assert reading.result() == content(0)
    files.close()


@pytest.mark.usefixtures("small_blocks")
def test_a_ledger_that_was_written_here_is_dropped_only_when_an_image_has_all_of_it(
    tmp_path: Path,
) -> None:
    files, bucket = several(tmp_path, 400)
    written = files.create("ledgers/9.ledger")
    written.append([content(9)])
    written.close()
    files.read("ledgers/0.ledger", 0, 400)
    files.read("ledgers/1.ledger", 0, 400)
    assert here(tmp_path) == {"1", "9"}, "it is in no pack yet"
    bucket.objects["pack/9"] = content(9)
    files.recorded({"ledgers/9.ledger": [Extent("pack/9", 0, 400)]}, ["ledgers/9.ledger"])
    assert here(tmp_path) == {"9"}
    files.read("ledgers/0.ledger", 0, 400)
    assert here(tmp_path) == {"0"}
    assert files.read("ledgers/9.ledger", 0, 400) == content(9)
    files.close()


@pytest.mark.usefixtures("small_blocks")
def test_a_ledger_that_grows_is_kept(tmp_path: Path) -> None:
    files, _ = several(tmp_path, 400)
    file = files.open_append("ledgers/0.ledger", 400)
    file.append([b"more"])
    file.close()
    for number in (1, 2):
        files.read(f"ledgers/{number}.ledger", 0, 400)
    assert files.read("ledgers/0.ledger", 398, 10) == b"\0\0more"
    assert files.use.size == 400
    files.delete("ledgers/2.ledger")
    assert files.use.size == 0
    files.close()


@pytest.mark.usefixtures("small_blocks")
def test_readers_and_a_full_cache_side_by_side(tmp_path: Path) -> None:
    files, _ = several(tmp_path, 400)
    with ThreadPoolExecutor(8) as threads:
        numbers = [n % 3 for n in range(600)]
        found = threads.map(lambda n: (n, files.read(f"ledgers/{n}.ledger", 37 * n, 300)), numbers)
        assert all(data == content(n)[:300] for n, data in found)
    assert files.use.size <= 400
    assert files.use.dropped_bytes > 0
    files.close()


@pytest.mark.usefixtures("small_blocks")
def test_packs_that_are_merged_while_a_block_is_read(tmp_path: Path) -> None:
    files, bucket = several(tmp_path, 400)
    real = bucket.read

    def read(key: str, start: int, size: int) -> bytes:
        if key == "pack/0":
            bucket.objects["pack/new"] = b"xx" + content(0)
            files.relocate({"ledgers/0.ledger": [Extent("pack/new", 2, 400)]})
            raise OSError("pack/0 is not in the bucket")
        return real(key, start, size)

    bucket.read = read  # type: ignore[method-assign]
    assert files.read("ledgers/0.ledger", 150, 100) == content(0)[:100]
    files.close()


# -- what a cache loses ------------------------------------------------------------------------------


def cut(file: Path, size: int) -> None:
    with file.open("r+b") as one:
        one.truncate(size)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(
    "harm",
    [
        lambda file: file.unlink(),
        lambda file: cut(file, 0),
        lambda file: cut(file, BLOCK + 7),
    ],
    ids=["deleted", "emptied", "cut"],
)
def test_a_file_that_another_program_harmed_is_brought_again(
    tmp_path: Path, harm: Callable[[Path], object], caplog: pytest.LogCaptureFixture
) -> None:
    files, _ = several(tmp_path, 10_000)
    path = "ledgers/1.ledger"
    assert files.read(path, 0, 4 * BLOCK) == content(1)
    harm(tmp_path / path)
    assert files.read(path, BLOCK + 50, BLOCK) == content(1)[:BLOCK]
    assert files.read(path, 0, 4 * BLOCK) == content(1)
    assert files.use.size == 4 * BLOCK
    assert f"{path} in the cache was deleted or cut short" in caplog.text
    files.close()


@pytest.mark.usefixtures("small_blocks")
def test_blocks_of_a_deleted_file_are_not_taken_for_those_of_the_next(tmp_path: Path) -> None:
    """A block that comes makes the file anew, with holes where others were."""
    files, _ = several(tmp_path, 10_000)
    path = "ledgers/1.ledger"
    assert files.read(path, 64, 10) == content(1)[:10]
    (tmp_path / path).unlink()
    assert files.read(path, 3 * BLOCK, 10) == content(1)[:10]
    assert files.read(path, 64, 10) == content(1)[:10]
    files.close()


@pytest.mark.usefixtures("small_blocks")
def test_a_harmed_file_grows_on_behind_all_that_the_bucket_has(tmp_path: Path) -> None:
    files, _ = several(tmp_path, 10_000)
    path = "ledgers/1.ledger"
    assert files.read(path, 0, 4 * BLOCK) == content(1)
    cut(tmp_path / path, 10)
    file = files.open_append(path, 4 * BLOCK)
    file.append([b"more"])
    file.close()
    assert files.read(path, 0, 5 * BLOCK) == content(1) + b"more"
    files.close()


@pytest.mark.usefixtures("small_blocks")
def test_a_folder_that_is_gone_costs_reads_of_the_bucket_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files, _ = several(tmp_path, 10_000)
    (tmp_path / "ledgers").rmdir()
    for _ in range(3):
        assert files.read("ledgers/1.ledger", 0, 4 * BLOCK) == content(1)
    assert caplog.text.count("the cache cannot keep ledgers/1.ledger: No such file") == 1
    assert files.use.size == 0
    while files._cached["ledgers/1.ledger"].coming:
        time.sleep(
            0.001
        )  # sleep: a read does not wait for all of its blocks when one cannot be kept
    files.make_folder("ledgers")
    assert files.read("ledgers/1.ledger", 0, 4 * BLOCK) == content(1)
    assert files.use.size == 4 * BLOCK
    files.close()


@pytest.mark.usefixtures("small_blocks")
def test_a_full_disk_costs_reads_of_the_bucket_and_gives_room_to_ledgers_that_grow(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A limit of the process on the size of files refuses writes as a full disk does."""
    files, _ = several(tmp_path, 10_000)
    assert files.read("ledgers/0.ledger", 0, 4 * BLOCK) == content(0)
    kept = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (BLOCK + 30, kept[1]))
    try:
        for _ in range(2):
            assert files.read("ledgers/1.ledger", 0, 4 * BLOCK) == content(1)
            assert files.read("ledgers/1.ledger", 2 * BLOCK + 7, 10) == content(1)[:10]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, kept)
        signal.signal(signal.SIGXFSZ, handler)
    assert "the cache cannot keep ledgers/1.ledger: File too large" in caplog.text
    assert not (tmp_path / "ledgers/0.ledger").exists()
    for number in range(3):
        assert files.read(f"ledgers/{number}.ledger", 0, 4 * BLOCK) == content(number)
    files.close()


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("left", [None, 0, 30, 150])
def test_a_harmed_ledger_that_grows_is_mended_as_far_as_packs_have_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, left: int | None
) -> None:
    """It was deleted, or `left` bytes of it are there."""
    files, bucket = several(tmp_path, 10_000)
    path, data = "ledgers/9.ledger", bytes(range(200))
    file = files.create(path)
    file.append([data])
    file.close()
    bucket.objects["pack/9"] = data
    files.grown({path: [Extent("pack/9", 0, 120), Extent("pack/9", 120, 80)]})
    assert files.read(path, 10, 50) == data[10:60]

    def harm() -> None:
        if left is None:
            (tmp_path / path).unlink()
        else:
            cut(tmp_path / path, left)

    harm()
    assert (files.exists(path), files.size(path)) == (True, 200)
    assert files.read(path, 100, 100) == data[100:]
    assert caplog.text.count("was deleted or cut short") == 1
    harm()
    file = files.open_append(path, 200)
    file.append([b"more"])
    file.close()
    assert files.read(path, 0, 300) == data + b"more"
    assert files.read(path, 300, 10) == b""
    files.delete(path)
    with pytest.raises(FileNotFoundError):
        files.read(path, 0, 10)
    assert not files.exists(path)
    files.close()
