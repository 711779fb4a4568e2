"""The registry in a bucket: changes of several processes, each decided by what the last one left."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from milepost.broker.directory.directory import load_namespaces
from milepost.errors import AlreadyExists, BucketUnusable, UnknownFormat
from milepost.storage.bucket.objects import Failed, Replace, Reply, Request
from milepost.storage.catalog.catalog import Catalog
from milepost.storage.cluster.registry import EMPTY, KEY, BucketRegistry, Content
from milepost.testing.bucket import MemoryBucket


def begun() -> MemoryBucket:
    """The bucket of a cluster that has just been made."""
    bucket = MemoryBucket()
    bucket.objects[KEY] = EMPTY.encode()
    return bucket


def run(play: Callable[[MemoryBucket, BucketRegistry, BucketRegistry], Awaitable[None]]) -> None:
    async def played() -> None:
        async def quiet() -> None: ...

        bucket = begun()
        await play(bucket, BucketRegistry(bucket, quiet), BucketRegistry(bucket, quiet))

    asyncio.run(played())


def make(name: str) -> Callable[[Catalog], None]:
    def change(catalog: Catalog) -> None:
        if catalog.doc("tenants", name) is not None:
            raise AlreadyExists(name)
        catalog.put_doc("tenants", name, {"n": 1})

    return change


def names(catalog: Catalog) -> list[str]:
    return list(catalog.docs("tenants"))


def ignored(found: list[str]) -> None: ...


def test_a_new_registry_is_furnished_once() -> None:
    async def play(bucket: MemoryBucket, one: BucketRegistry, other: BucketRegistry) -> None:
        first = await one(load_namespaces)
        data = bucket.objects[KEY]
        assert await other(load_namespaces) == first
        assert bucket.objects[KEY] == data
        assert "public/default" in first[1]

    run(play)


def test_one_of_two_that_make_the_same_is_refused() -> None:
    async def play(bucket: MemoryBucket, one: BucketRegistry, other: BucketRegistry) -> None:
        random = Random(3)
        bucket.turns = lambda: random.randrange(4)
        for number in range(20):
            made = await asyncio.gather(
                one(make(f"t{number}")), other(make(f"t{number}")), return_exceptions=True
            )
            assert sorted(type(each).__name__ for each in made) == ["AlreadyExists", "NoneType"]
        assert len(await one(names)) == 20

    run(play)


def test_changes_of_many_are_all_there_though_answers_are_lost() -> None:
    async def play(bucket: MemoryBucket, one: BucketRegistry, other: BucketRegistry) -> None:
        random = Random(7)  # of which some changes are answered late, and others are built on them
        bucket.lose = lambda request: random.random() < 0.3
        bucket.turns = lambda: random.randrange(3)

        def fault(request: Request) -> Failed | None:
            return Failed("no") if random.random() < 0.2 else None

        bucket.fault = fault
        both = [(one, other)[number % 2](make(f"t{number}")) for number in range(12)]
        await asyncio.gather(*both)
        assert await one(names) == sorted(f"t{number}" for number in range(12))

    run(play)


class Overtaken(MemoryBucket):
    """Loses the answer of a replacement that it has carried out, and lets another writer come before the
    object is read."""

    def __init__(self) -> None:
        super().__init__()
        self.overtake: Callable[[], Awaitable[None]] | None = None

    async def answer(self, request: Request) -> Reply:
        reply = await super().answer(request)
        if isinstance(request, Replace) and self.overtake is not None:
            overtake, self.overtake = self.overtake, None
            await overtake()
            return Failed("the answer is lost")
        return reply


def test_a_change_that_finds_itself_under_another_has_that_one_read() -> None:
    """It is durable, and memory lacks what was built on it."""

    async def play() -> None:
        async def quiet() -> None: ...

        bucket = Overtaken()
        bucket.objects[KEY] = EMPTY.encode()
        one, other = BucketRegistry(bucket, quiet), BucketRegistry(bucket, quiet)
        await one(make("a"))
        bucket.overtake = lambda: other(make("c"))
        await one(make("b"))
        assert await one.has_changed()
        assert await one.read(names, ignored) == ["a", "b", "c"]
        assert not await one.has_changed()

    asyncio.run(play())


@pytest.mark.parametrize("is_new", [True, False])
def test_what_another_process_has_changed_is_read_also_behind_a_change_of_ones_own(
    is_new: bool,
) -> None:
    """The other one was killed before it told of it, or is not reached."""

    async def play(bucket: MemoryBucket, one: BucketRegistry, other: BucketRegistry) -> None:
        await one(make("a"))
        assert await other.read(names, ignored) == ["a"]
        assert not await other.has_changed()
        await one(make("b"))
        if is_new:
            await other(make("c"))
        else:
            await other(lambda catalog: catalog.put_doc("tenants", "a", {"n": 1}))
        assert await other.has_changed(), "its memory lacks b"
        assert "b" in await other.read(names, ignored)
        assert not await other.has_changed()
        await other(make("d"))
        assert not await other.has_changed(), "its memory has all that the change was built on"

    run(play)


def test_what_is_read_in_pieces_is_read_again_as_a_whole() -> None:
    """A process that starts reads tenants, then grants: what is changed in between it would never know."""

    async def play(bucket: MemoryBucket, one: BucketRegistry, other: BucketRegistry) -> None:
        await one(make("a"))
        assert await other(names) == ["a"]
        await one(make("b"))
        assert await other(lambda catalog: catalog.docs("grants")) == {}
        assert await other.has_changed()

    run(play)


def test_a_refused_change_leaves_nothing_and_is_undone() -> None:
    async def play(bucket: MemoryBucket, one: BucketRegistry, other: BucketRegistry) -> None:
        await one(make("a"))
        data, undone, used = bucket.objects[KEY], [], []
        with pytest.raises(AlreadyExists):
            await one(make("a"), used.append, lambda: undone.append(True))
        assert (bucket.objects[KEY], undone, used) == (data, [True], [])
        assert await one.has_changed(), "memory is in doubt until it was read"
        assert await one.read(names, used.append) == ["a"]
        assert used == [["a"]]
        assert not await one.has_changed()
        assert await other.has_changed()
        assert await other.read(names, ignored) == ["a"]
        assert await other(lambda catalog: catalog.delete_doc("tenants", "a"))
        assert not await other.has_changed()
        assert await one.has_changed()

    run(play)


def test_the_others_are_told_of_changes_and_of_nothing_else() -> None:
    async def play() -> None:
        told = []

        async def tell() -> None:
            told.append(True)

        bucket = begun()
        registry = BucketRegistry(bucket, tell)
        await registry(make("a"))
        await registry(names)
        await registry(lambda catalog: catalog.put_doc("tenants", "a", {"n": 1}))
        assert told == [True]
        assert sum(isinstance(one, Replace) for one in bucket.requests) == 1

    asyncio.run(play())


def test_other_objects_are_refused() -> None:
    for data in (b"{", b"[]", b"{}"):
        with pytest.raises(BucketUnusable):
            Content.decode(data)
    for field, value in (
        ("folders", "x"),
        ("folders", {"tenants": "x"}),
        ("folders", {"tenants": {"acme": 7}}),
        ("recent", "x"),
    ):
        doc = {"format": 1, "folders": {}, "recent": [], field: value}
        with pytest.raises(BucketUnusable, match=r"is 'x', not|'acme' is 7, not text"):
            Content.decode(json.dumps(doc).encode())
    with pytest.raises(UnknownFormat):
        Content.decode(b'{"format": 9, "folders": {}, "recent": []}')


def test_none_is_made_in_the_place_of_one_that_was_deleted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It would have no policy and no grant, and every process would forget those that it knows."""

    async def play(bucket: MemoryBucket, one: BucketRegistry, other: BucketRegistry) -> None:
        await one(make("acme"))
        kept = bucket.objects.pop(KEY)
        for registry in (one, other):
            with pytest.raises(BucketUnusable, match=r"`registry` is missing.*restore it"):
                await registry(make("other"))
            with pytest.raises(BucketUnusable, match="`registry` is missing"):
                await registry.read(names, ignored)
        assert KEY not in bucket.objects
        assert [await one.has_changed() for _ in range(3)] == [False] * 3
        assert [record.message.partition(":")[0] for record in caplog.records] == [
            "the object `registry` is missing"
        ]
        bucket.objects[KEY] = kept
        assert await one.has_changed()  # what is in memory was in doubt
        assert await other.read(names, ignored) == ["acme"]

    run(play)
