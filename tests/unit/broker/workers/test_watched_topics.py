"""Clients that watch a namespace at one worker hear of the topics of all."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from stage.worker_group import WorkerGroup, worker_group

from milepost.broker.directory.topic_watchers import TopicPattern, topics_hash
from milepost.broker.operations.topic_lifecycle import delete_topic
from milepost.broker.workers import watched_topics
from milepost.errors import ServiceNotReady
from milepost.positions.names import TopicName
from milepost.wire import pulsar_pb2 as pb

NAMESPACE = "public/default"
WAIT_S = 120


class Client:
    """A connection that watches: what it knows by what it was told."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.digest = ""

    def write(self, buffers: tuple[bytes, ...]) -> None:
        for frame in buffers:
            update = pb.BaseCommand.FromString(frame[8:]).watchTopicUpdate
            self.names = self.names - set(update.deleted_topics) | set(update.new_topics)
            self.digest = update.topics_hash

    async def watch(self, group: WorkerGroup, number: int, pattern: str = ".*") -> None:
        broker = group.brokers[number]
        wanted = TopicPattern(pattern, length_max=50)
        async with broker.watched_topics.joining(NAMESPACE) as list_names:
            found = await broker.watchers.matching(wanted, list_names, broker.clock)
            broker.watchers.add(self, 1, NAMESPACE, wanted, found)
        self.names, self.digest = set(found), topics_hash(found)

    async def knows(self, *names: str) -> None:
        async with asyncio.timeout(WAIT_S):
            while self.names != set(names):
                await asyncio.sleep(0.01)  # sleep: between two looks
        assert self.digest == topics_hash(names)


def run(data: Path, play: Callable[[WorkerGroup], Awaitable[None]]) -> None:
    async def played() -> None:
        async with worker_group(data, 2) as group:
            await play(group)

    asyncio.run(played())


async def make(group: WorkerGroup, number: int, name: str) -> None:
    await group.brokers[number].topic(TopicName.parse(name))


async def delete(group: WorkerGroup, number: int, name: str) -> None:
    topic = await group.brokers[number].topic(TopicName.parse(name))
    await delete_topic(group.brokers[number], topic, force=True)


def test_a_watcher_hears_of_topics_that_come_and_go_at_any_worker(tmp_path: Path) -> None:
    async def play(group: WorkerGroup) -> None:
        near, far = group.names(0, 2), group.names(1, 3)
        await make(group, 1, far[0])
        first, second = Client(), Client()
        await first.watch(group, 0)
        assert first.names == {far[0]}
        await make(group, 0, near[0])
        await make(group, 1, far[1])
        await first.knows(near[0], *far[:2])
        await second.watch(group, 0, f".*{far[1].rpartition('/')[2]}")
        assert second.names == {far[1]}
        await delete(group, 1, far[0])
        await make(group, 1, far[2])
        await first.knows(near[0], *far[1:])
        await delete(group, 1, far[1])
        await first.knows(near[0], far[2])
        await second.knows()

    run(tmp_path, play)


def test_a_worker_that_was_away_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched_topics, "RETRY_S", 0.05)

    async def play(group: WorkerGroup) -> None:
        near, far = group.names(0, 1), group.names(1, 2)
        await make(group, 1, far[0])
        client = Client()
        await client.watch(group, 0)
        await group.stop(1)
        await make(group, 0, near[0])
        await client.knows(near[0], far[0])
        await group.start(1)
        await delete(group, 1, far[0])
        await make(group, 1, far[1])
        await client.knows(near[0], far[1])

    run(tmp_path, play)


def test_workers_are_not_asked_when_no_client_watches_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched_topics, "HOLD_S", 0.05)

    async def play(group: WorkerGroup) -> None:
        client, watched = Client(), group.brokers[0].watched_topics
        await client.watch(group, 0)
        assert list(watched._asking) == [1]
        group.brokers[0].watchers.forget(client)
        async with asyncio.timeout(WAIT_S):
            while watched._asking:
                await asyncio.sleep(0.01)  # sleep: between two looks
        await client.watch(group, 0)
        await make(group, 1, group.names(1)[0])
        await client.knows(group.names(1)[0])

    run(tmp_path, play)


def test_a_namespace_is_not_watched_while_a_worker_does_not_answer(tmp_path: Path) -> None:
    async def play(group: WorkerGroup) -> None:
        await group.stop(1)
        group.brokers[0].workers.link.ask = refused  # type: ignore[union-attr,method-assign]
        with pytest.raises(ServiceNotReady, match="worker 1"):
            await Client().watch(group, 0)
        assert not group.brokers[0].watched_topics._joining

    async def refused(number: int, *question: object, **options: object) -> None:
        raise ServiceNotReady(f"worker {number} does not answer")

    run(tmp_path, play)
