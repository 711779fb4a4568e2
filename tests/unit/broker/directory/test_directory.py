"""Directory: what exists, asked from memory, changed in the catalog first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from stage.changes import told

from milepost.broker.directory.directory import FIRST_NAMESPACES, Directory
from milepost.errors import (
    AlreadyExists,
    InvalidInput,
    NotAllowed,
    PersistenceError,
    ServiceNotReady,
    TooManyRequests,
    TopicNotFound,
)
from milepost.positions.names import NamespaceName, TopicName
from milepost.storage.catalog.sqlite_catalog import SqliteCatalog

NAME = TopicName.parse("persistent://public/default/t")
OTHER = TopicName.parse("persistent://public/default/other")


async def nowhere(namespace: NamespaceName) -> int:
    """There are no other workers."""
    return 0


class Bench:
    """A directory on a catalog in memory."""

    def __init__(self, *, topics_max: int = 0, partitions_max: int = 0, image: bytes | None = None):
        self.catalog = SqliteCatalog(None, image=image)
        self.failure: Exception | None = None
        self.directory = Directory(
            told(self.change),
            told(self.change),
            topics_max=lambda namespace: topics_max,
            partitions_max=partitions_max,
            on_topics=lambda namespace, came, gone: None,
            count_elsewhere=nowhere,
        )
        self.run(self.directory.load())

    async def change(self, change: Callable[[Any], Any]) -> Any:
        await asyncio.sleep(0)  # others have their turn, as with a real disk
        if self.failure is not None:
            raise self.failure
        with self.catalog.transaction():
            return change(self.catalog)

    def run(self, work: Any) -> Any:
        return asyncio.run(work)

    def again(self) -> Directory:
        """What another process finds."""
        return Bench(image=self.catalog.image()).directory


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_new_one_has_the_first_namespaces(bench: Bench) -> None:
    for namespace in FIRST_NAMESPACES:
        bench.directory.check_namespace(TopicName.parse(f"persistent://{namespace}/t"))
    with pytest.raises(TopicNotFound, match="public/nowhere"):
        bench.directory.check_namespace(TopicName.parse("persistent://public/nowhere/t"))


def test_a_topic_is_there_once_it_is_made(bench: Bench) -> None:
    assert bench.directory.row(NAME) is None
    row = bench.run(bench.directory.create_topic(NAME))
    assert bench.directory.row(NAME) == row == bench.again().row(NAME)
    assert bench.directory.topics("public/default") == [str(NAME)]
    assert bench.directory.topics("public/def") == []


def test_a_topic_that_cannot_be_stored_is_not_there(bench: Bench) -> None:
    bench.failure = PersistenceError("full")
    with pytest.raises(PersistenceError):
        bench.run(bench.directory.create_topic(NAME))
    assert bench.directory.row(NAME) is None


def test_a_namespace_holds_so_many() -> None:
    bench = Bench(topics_max=1)
    bench.run(bench.directory.create_topic(NAME))
    with pytest.raises(TooManyRequests, match="1 topics"):
        bench.run(bench.directory.create_topic(OTHER))
    bench.run(bench.directory.create_topic(TopicName.parse("persistent://pulsar/system/t")))


def test_many_at_once_do_not_pass_the_limit() -> None:
    bench = Bench(topics_max=2)
    names = [TopicName.parse(f"persistent://public/default/t{number}") for number in range(5)]

    async def all_of_them() -> list[Any]:
        made = (bench.directory.create_topic(name) for name in names)
        return await asyncio.gather(*made, return_exceptions=True)

    outcomes = bench.run(all_of_them())
    assert [isinstance(one, TooManyRequests) for one in outcomes] == [
        False,
        False,
        True,
        True,
        True,
    ]
    assert len(bench.again().topics("public/default")) == 2


def test_partitions_are_topics_of_their_own(bench: Bench) -> None:
    bench.run(bench.directory.create_partitioned(NAME, 3))
    for directory in (bench.directory, bench.again()):
        assert directory.partitions(NAME) == 3
        assert directory.partitions(OTHER) is None
        assert directory.topics("public/default") == [f"{NAME}-partition-{n}" for n in range(3)]
        with pytest.raises(NotAllowed, match="partitioned"):
            directory.check_partition(NAME)
        with pytest.raises(TopicNotFound, match="no partition 3"):
            directory.check_partition(TopicName.parse(f"{NAME}-partition-3"))
        directory.check_partition(TopicName.parse(f"{NAME}-partition-2"))
        directory.check_partition(OTHER)
        directory.check_partition(TopicName.parse(f"{OTHER}-partition-7"))  # a name like another


@pytest.mark.parametrize("partitions", [0, -1, 6])
def test_so_many_partitions(partitions: int) -> None:
    bench = Bench(partitions_max=5)
    with pytest.raises(InvalidInput, match=f"{partitions} partitions"):
        bench.run(bench.directory.create_partitioned(NAME, partitions))
    bench.run(bench.directory.create_partitioned(NAME, 5))


def test_what_cannot_be_partitioned(bench: Bench) -> None:
    bench.run(bench.directory.create_topic(NAME))
    bench.run(bench.directory.create_partitioned(OTHER, 2))
    for name, error in (
        (NAME, AlreadyExists),
        (OTHER, AlreadyExists),
        (TopicName.parse(f"{OTHER}-partition-1"), InvalidInput),
        (TopicName.parse("persistent://public/nowhere/t"), TopicNotFound),
    ):
        with pytest.raises(error):
            bench.run(bench.directory.create_partitioned(name, 2))


def test_two_at_once_are_one(bench: Bench) -> None:
    async def both() -> list[Any]:
        return await asyncio.gather(
            bench.directory.create_partitioned(NAME, 2),
            bench.directory.create_partitioned(NAME, 4),
            return_exceptions=True,
        )

    first, second = bench.run(both())
    assert first is None
    assert isinstance(second, AlreadyExists)
    assert bench.directory.partitions(NAME) == bench.again().partitions(NAME) == 2


def test_partitions_that_cannot_be_stored_are_not_there(bench: Bench) -> None:
    bench.failure = PersistenceError("full")
    with pytest.raises(PersistenceError):
        bench.run(bench.directory.create_partitioned(NAME, 2))
    assert bench.directory.partitions(NAME) is None


def test_what_is_known_beside_a_name(bench: Bench) -> None:
    row = bench.run(bench.directory.create_topic(NAME))
    (changed,) = bench.run(bench.directory.change_docs([row], lambda doc: {**doc, "epoch": 3}))
    assert changed.doc == {"epoch": 3}
    assert bench.directory.row(NAME) == changed == bench.again().row(NAME)
    bench.failure = PersistenceError("full")
    with pytest.raises(PersistenceError):
        bench.run(bench.directory.change_docs([changed], lambda doc: {"epoch": 4}))
    assert bench.directory.row(NAME) == changed


def test_a_topic_that_is_being_made_is_not_partitioned_meanwhile(bench: Bench) -> None:
    async def both() -> list[object]:
        made = bench.directory.create_topic(NAME), bench.directory.create_partitioned(NAME, 2)
        return await asyncio.gather(*made, return_exceptions=True)

    _, second = bench.run(both())
    assert isinstance(second, AlreadyExists)
    assert bench.directory.partitions(NAME) is None


def test_a_topic_that_is_being_deleted_while_others_are_counted_is_not_made() -> None:
    """Counting the topics of other workers takes a while, and an operator deletes the topic meanwhile."""
    name = TopicName.parse("persistent://public/default/t-partition-0")

    async def elsewhere(namespace: NamespaceName) -> int:
        stack.enter_context(bench.directory.deleting(name.base))
        return 0

    bench = Bench(topics_max=5)
    bench.directory._count_elsewhere = elsewhere
    with ExitStack() as stack, pytest.raises(ServiceNotReady, match="is being deleted"):
        bench.run(bench.directory.create_topic(name))
