"""Buckets by their address, and an object store as obstore reaches it."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from obstore.store import MemoryStore
from stage.s3 import S3Server

from milepost.clock import SystemClock
from milepost.errors import BucketUnusable
from milepost.storage.bucket.check import asked, probe, remedy, tried_out
from milepost.storage.bucket.folder import FolderObjects
from milepost.storage.bucket.objects import (
    Absent,
    Create,
    Delete,
    Done,
    Failed,
    Found,
    Get,
    Listed,
    Objects,
    Put,
    Refused,
    Replace,
    Scan,
)
from milepost.storage.bucket.stores import StoreObjects, failed, open_objects
from milepost.testing.bucket import MemoryBucket


@contextmanager
def every_kind(tmp_path: Path) -> Iterator[list[Objects]]:
    folder = open_objects((tmp_path / "bucket").as_uri())
    kinds: list[Objects] = [StoreObjects(MemoryStore()), folder, MemoryBucket()]
    yield kinds
    for one in kinds:
        asyncio.run(one.close())


def test_a_large_object_is_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores that have no uploads in parts are enough, and a kill leaves no parts behind."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "k")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    data = bytes(12 * 1024 * 1024)

    async def play(url: str) -> None:
        objects = open_objects("s3://bucket/p", endpoint=url, region="us-east-1")
        assert isinstance(await objects.answer(Put("pack/a", data)), Done)
        found = await objects.answer(Get("pack/a"))
        assert isinstance(found, Found)
        assert found.data == data
        await objects.close()

    with S3Server() as store:
        asyncio.run(play(store.url))


def test_all_kinds_answer_alike(tmp_path: Path) -> None:
    async def talk(objects: Objects) -> None:
        assert await objects.answer(Get("a/k")) == Absent()
        first = await objects.answer(Create("a/k", b"one"))
        assert isinstance(first, Done)
        assert await objects.answer(Create("a/k", b"two")) == Refused()
        found = await objects.answer(Get("a/k"))
        assert found == Found(b"one", first.tag)
        second = await objects.answer(Replace("a/k", b"three", first.tag))
        assert isinstance(second, Done)
        assert await objects.answer(Replace("a/k", b"four", first.tag)) == Refused()
        assert await objects.answer(Replace("a/none", b"x", first.tag)) != Done()
        assert isinstance(await objects.answer(Put("a/l", b"12345")), Done)
        assert await objects.answer(Scan("a/")) == Listed([("a/k", 5), ("a/l", 5)])
        assert await objects.answer(Scan("b/")) == Listed([])
        assert objects.read("a/l", 1, 3) == b"234"
        assert isinstance(await objects.answer(Delete("a/k")), Done)
        assert isinstance(await objects.answer(Delete("a/k")), Done)
        assert await objects.answer(Get("a/k")) == Absent()
        with pytest.raises(OSError, match="k"):
            objects.read("a/k", 0, 1)

    with every_kind(tmp_path) as kinds:
        for objects in kinds:
            asyncio.run(talk(objects))


def test_all_kinds_pass_the_trials(tmp_path: Path) -> None:
    with every_kind(tmp_path) as kinds:
        for objects in kinds:
            trials = asyncio.run(tried_out(objects, SystemClock()))
            assert [trial for trial in trials if not trial.is_good] == []
            assert asyncio.run(objects.answer(Scan("check/"))) == Listed([])


def test_a_store_that_ignores_conditions_is_found_out() -> None:
    class Careless(MemoryBucket):
        def apply(self, request):
            if isinstance(request, Create | Replace):
                request = Put(request.key, request.data)
            return super().apply(request)

    bad = {
        trial.name
        for trial in asyncio.run(tried_out(Careless(), SystemClock()))
        if not trial.is_good
    }
    assert bad == {
        "create only if absent",
        "replace only what was read",
        "one of many creators wins",
        "one of many replacers wins",
    }
    with pytest.raises(BucketUnusable, match="writes although the condition does not hold"):
        asyncio.run(probe(Careless(), "s3://b", "k", b"x"))


def test_a_bucket_that_cannot_be_written_is_refused() -> None:
    bucket = MemoryBucket()
    bucket.fault = lambda request: Failed("read-only", is_denied=True)
    with pytest.raises(BucketUnusable, match="cannot be written: read-only; the broker needs"):
        asyncio.run(probe(bucket, "s3://b", "k", b"x"))


def test_an_object_of_a_bucket_that_is_not_there_is_not_absent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker would take it for a new one."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    with S3Server() as store:
        objects = open_objects("s3://b/p", endpoint=store.url, region="r")
        assert asyncio.run(objects.answer(Get("manifest"))) == Absent()
        store.refusal = lambda method, path: (404, "NoSuchBucket")
        for request in (Get("manifest"), Delete("manifest"), Scan("board/")):
            reply = asyncio.run(objects.answer(request))
            assert isinstance(reply, Failed)
            assert reply.code == "NoSuchBucket"


def test_credentials_that_are_missing_are_told_as_such() -> None:
    """The machine of a cloud is asked for its role then, and that address says nothing to people."""
    said = (
        "Generic S3 error: Error performing PUT http://169.254.169.254/latest/api/token in 2ms - "
    )
    reply = failed(ValueError(said + "Server returned non-2xx status code: 403 Forbidden: no"))
    assert not reply.is_denied
    assert remedy(reply).startswith("there are no credentials in the environment")


def test_a_list_that_is_not_permitted_or_not_up_to_date_is_refused() -> None:
    bucket = MemoryBucket()
    bucket.fault = lambda request: (
        Failed("403", is_denied=True) if isinstance(request, Scan) else None
    )
    with pytest.raises(BucketUnusable, match="not permitted: 403; the broker needs to get, put, l"):
        asyncio.run(probe(bucket, "s3://b", "board/k", b"x"))

    class Forgetful(MemoryBucket):
        def apply(self, request):
            return Listed([]) if isinstance(request, Scan) else super().apply(request)

    with pytest.raises(BucketUnusable, match="a list does not show board/k"):
        asyncio.run(probe(Forgetful(), "s3://b", "board/k", b"x"))


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(BucketUnusable, match="the folder cannot be used: Not a directory; make it"):
        open_objects((tmp_path / "file" / "bucket").as_uri())


def test_a_folder_that_vanished_is_not_made_again(tmp_path: Path) -> None:
    objects = FolderObjects(tmp_path / "bucket")
    (tmp_path / "bucket").rename(tmp_path / "away")
    assert isinstance(asyncio.run(objects.answer(Put("a/k", b"x"))), Failed)
    assert not (tmp_path / "bucket").exists()
    asyncio.run(objects.close())


@pytest.mark.parametrize("is_unmounted", [False, True])
def test_an_object_of_a_folder_that_vanished_is_not_absent(
    tmp_path: Path, is_unmounted: bool
) -> None:
    """Brokers would take each other for gone, and shards for new ones."""
    objects = FolderObjects(tmp_path / "bucket")
    assert asyncio.run(objects.answer(Get("manifest"))) == Absent()
    assert asyncio.run(objects.answer(Scan("board/"))) == Listed([])
    (tmp_path / "bucket").rename(tmp_path / "away")
    if is_unmounted:
        (tmp_path / "bucket").mkdir()
    for request in (Get("manifest"), Scan("board/"), Delete("board/one")):
        reply = asyncio.run(objects.answer(request))
        assert isinstance(reply, Failed)
        assert "the folder of the bucket is gone" in reply.reason
    asyncio.run(objects.close())


def test_a_list_of_a_folder_that_cannot_be_read_is_not_an_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers would take each other for gone, and `verify` a bucket for an empty one."""
    objects = FolderObjects(tmp_path / "bucket")
    assert isinstance(asyncio.run(objects.answer(Put("board/one", b"x"))), Done)
    real = os.scandir

    def scandir(path: Path) -> object:
        if Path(path).name == "board":
            raise OSError(errno.ESTALE, "Stale file handle", str(path))
        return real(path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", scandir)
        for prefix in ("board/", ""):
            reply = asyncio.run(objects.answer(Scan(prefix)))
            assert isinstance(reply, Failed)
            assert "Stale file handle" in reply.reason
    assert asyncio.run(objects.answer(Scan("none/"))) == Listed([])
    asyncio.run(objects.close())


def test_an_object_that_is_deleted_while_a_folder_is_listed_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = FolderObjects(tmp_path / "bucket")
    for key in ("board/one", "board/two"):
        asyncio.run(objects.answer(Put(key, b"x")))
    real = Path.stat

    def stat(path: Path, **options: bool) -> os.stat_result:
        if path.name == "two":
            path.unlink(missing_ok=True)
        return real(path, **options)

    monkeypatch.setattr(Path, "stat", stat)
    assert asyncio.run(objects.answer(Scan("board/"))) == Listed([("board/one", 1)])
    asyncio.run(objects.close())


@pytest.mark.parametrize("key", ["board//x", "board/../x", "board/\x01"])
def test_a_key_that_keeps_others_from_being_listed_is_named(
    monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    """No checkpoint is made and no shard claimed while it is there, and only a person can delete it."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    with S3Server() as store:
        store.objects[f"b/p/{key}"] = b""
        objects = open_objects("s3://b/p", endpoint=store.url, region="r")
        reply = asyncio.run(objects.answer(Scan("board/")))
        assert isinstance(reply, Failed)
        assert f"p/{key}" in reply.reason
        assert "it is another program's: delete it" in reply.reason
        says = "delete it, for nothing can be listed with it; no other program may write below"
        with pytest.raises(BucketUnusable, match=says):
            asyncio.run(asked(objects, "s3://b/p", Scan("board/")))
