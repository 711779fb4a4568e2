"""A worker is killed over a change of a partitioned topic: it is there as a whole or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from stage.http import Request, call
from stage.worker_group import WorkerGroup, worker_group

from milepost.broker.broker import Broker
from milepost.broker.operations import partition_growth, topic_lifecycle
from milepost.broker.operations.topic_lifecycle import delete_partitioned, delete_topic
from milepost.broker.policies.policy import Level
from milepost.broker.policies.table import POLICIES
from milepost.errors import PreconditionFailed
from milepost.positions.names import TopicName
from milepost.rest.app import create_app
from milepost.schemas.types import SchemaInfo, SchemaType

PARTITIONS = 3
NAME = TopicName.parse("persistent://public/default/whole")
ALONE = TopicName.parse("persistent://public/default/alone")

Found = tuple[int | None, dict[str, list[str]]]
"""How many partitions there are said to be, and of each that is there its subscriptions, with their
properties, and whether it is terminated."""


def whole(partitions: int) -> Found:
    return partitions, {str(NAME.partition_name(one)): ["s"] for one in range(partitions)}


GONE: Found = None, {}


async def made(broker: Broker) -> None:
    await broker.create_partitioned_topic(NAME, PARTITIONS)
    for number in range(PARTITIONS):
        topic = await broker.topic(NAME.partition_name(number))
        await broker.create_subscription(topic, "s", 0, {})


async def found(broker: Broker) -> Found:
    names = sorted(name for name in broker.directory._rows if name.startswith(str(NAME)))
    topics = [await broker.topic(TopicName.parse(name), create=False) for name in names]
    return broker.directory.partitions(NAME), {
        str(topic.name): [
            *sorted(" ".join([one.name, *one.properties]) for one in topic.subscriptions.values()),
            *(["terminated"] if topic.is_terminated else []),
        ]
        for topic in topics
    }


def run(data: Path, play: Callable[[WorkerGroup], Awaitable[None]]) -> None:
    async def played() -> None:
        async with worker_group(data, 1) as group:
            await made(group.brokers[0])
            await play(group)

    asyncio.run(played())


def kill_at(group: WorkerGroup, number: int, *, is_made: bool) -> None:
    """Kill the worker over a change of its catalog, of a number from here on: before it, or when it is made
    and the broker has not heard of it."""
    queue: Any = group.brokers[0].engine._catalog_queue  # type: ignore[attr-defined]
    left = number

    class Watched:
        def put(self, call: Any) -> None:
            nonlocal left
            left -= 1
            if left == 0 and call is not None:  # None: the engine ends
                if is_made:
                    call.future.add_done_callback(lambda _: group.cut(0))
                else:
                    group.cut(0)
            queue.put(call)

        def __getattr__(self, name: str) -> Any:
            return getattr(queue, name)

    group.brokers[0].engine._catalog_queue = Watched()  # type: ignore[attr-defined]


Change = Callable[[Broker], Coroutine[Any, Any, None]]


def asked(method: str, target: str, body: bytes = b"") -> Change:
    async def ask(broker: Broker) -> None:
        path = f"/admin/v2/{str(NAME).replace('://', '/')}{target}"
        answer = await call(create_app(broker), Request(method, path, body))
        assert answer.status in (200, 204), answer

    return ask


def each(*held: str) -> Found:
    return PARTITIONS, {name: list(held) for name in whole(PARTITIONS)[1]}


CHANGES: dict[str, tuple[Change, Found]] = {
    "deletion": (lambda broker: delete_partitioned(broker, NAME, force=True), GONE),
    "growth": (lambda broker: partition_growth.grow(broker, NAME, 5), whole(5)),
    "another subscription": (asked("PUT", "/subscription/t", b"{}"), each("s", "t")),
    "deletion of the subscription": (asked("DELETE", "/subscription/s"), each()),
    "properties": (
        asked("PUT", "/subscription/s/properties", b'{"color": "red"}'),
        each("s color"),
    ),
    "termination": (asked("POST", "/terminate/partitions"), each("s", "terminated")),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("is_made", [False, True], ids=["before", "behind"])
def test_a_change_that_a_worker_is_killed_over_is_whole(
    tmp_path: Path, name: str, is_made: bool
) -> None:
    change, after = CHANGES[name]

    async def play(group: WorkerGroup) -> None:
        kills = 0
        while True:
            kill_at(group, kills + 1, is_made=is_made)
            (failure,) = await asyncio.gather(change(group.brokers[0]), return_exceptions=True)
            if 0 not in group.is_cut:
                assert failure is None
                break
            kills += 1
            broker = await group.restart(0)
            now = await found(broker)
            assert now in (whole(PARTITIONS), after), f"killed over change {kills}"
            if now == after:
                await delete_partitioned(broker, NAME, force=True) if after != GONE else None
                assert await found(broker) == GONE
                await made(broker)
        assert kills > 0
        assert await found(group.brokers[0]) == after

    run(tmp_path, play)


async def delete_alone(broker: Broker) -> None:
    topic = await broker.topic(ALONE, create=False)
    await delete_topic(broker, topic, force=True)


@pytest.mark.parametrize("name", [NAME, ALONE], ids=["partitioned", "alone"])
@pytest.mark.parametrize("is_made", [False, True], ids=["before", "behind"])
def test_what_is_set_for_a_topic_goes_with_it_or_stays_with_it(
    tmp_path: Path, name: TopicName, is_made: bool
) -> None:
    """A topic without its retention would lose messages; the next one of its name would begin with a
    schema that refuses its producers."""
    ttl = POLICIES["message_ttl"]

    async def set_up(broker: Broker) -> None:
        if name == ALONE:
            await broker.topic(ALONE)
        await broker.policies.book.set(Level.TOPIC, str(name), ttl, 60)
        await broker.schemas.admit_producer(name, SchemaInfo("s", SchemaType.STRING, b"", {}))

    async def told(broker: Broker) -> tuple[bool, bool, bool]:
        values = broker.policies.book.values(Level.TOPIC, str(name))
        has_schema = await broker.schemas.latest(name) is not None
        return broker.exists(name), values == {"message_ttl": 60}, has_schema

    async def delete(broker: Broker) -> None:
        if name == ALONE:
            await delete_alone(broker)
        else:
            await delete_partitioned(broker, name, force=True)

    async def play(group: WorkerGroup) -> None:
        await set_up(group.brokers[0])
        kills = 0
        while True:
            kill_at(group, kills + 1, is_made=is_made)
            (failure,) = await asyncio.gather(delete(group.brokers[0]), return_exceptions=True)
            if 0 not in group.is_cut:
                assert failure is None
                break
            kills += 1
            broker = await group.restart(0)
            now = await told(broker)
            assert now in ((True,) * 3, (False,) * 3), f"killed over change {kills}"
            if not any(now):
                if name == NAME:
                    await made(broker)
                await set_up(broker)
        assert kills > 0
        assert await told(group.brokers[0]) == (False,) * 3

    run(tmp_path, play)


def test_a_client_that_comes_while_partitions_are_closed_keeps_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(group: WorkerGroup) -> None:
        broker = group.brokers[0]
        last = await broker.topic(NAME.partition_name(PARTITIONS - 1))
        real = topic_lifecycle._drain

        async def drain(broker: Broker, topic: Any) -> None:
            await real(broker, topic)
            last.producers[0] = object()  # type: ignore[index, assignment]

        with monkeypatch.context() as patched:
            patched.setattr(topic_lifecycle, "_drain", drain)
            with pytest.raises(PreconditionFailed, match="has 1 producers"):
                await delete_partitioned(broker, NAME, force=False)
        last.producers.clear()
        assert await found(broker) == whole(PARTITIONS)
        await delete_partitioned(broker, NAME, force=False)
        assert await found(broker) == GONE

    run(tmp_path, play)
