"""The owner's side of a hand-over: it comes to rest once, and ends whatever becomes of its successor."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from stage.worker_group import WorkerGroup, worker_group

from milepost.broker.workers import hand_over
from milepost.broker.workers.hand_over import HandOver
from milepost.broker.workers.link import ask_at
from milepost.broker.workers.placement import Address, ClusterPlacement
from milepost.broker.workers.workers import ClusterSeat, Place
from milepost.errors import ServiceNotReady, ShardAway
from milepost.positions.names import TopicName
from milepost.storage.cluster import owners
from milepost.storage.cluster.load import SharedLoads
from milepost.storage.cluster.notice import Notice, Seat
from milepost.storage.cluster.right import SharedRight

WAIT_S = 120
TO = {"broker": "b", "host": "h", "port": 6651, "tls_port": -1}


class Side:
    """A worker that can hand its shard over."""

    def __init__(self, group: WorkerGroup) -> None:
        self.broker = group.brokers[0]
        self.told: list[str] = []
        self.failure: Exception | None = None
        self.handing = HandOver(self.broker, self.stop, lambda: self.told.append("begins"))
        self.handing.listen()

    async def stop(self) -> None:
        self.told.append("listens no more")
        if self.failure is not None:
            raise self.failure

    async def call(self, call: str) -> dict[str, object]:
        assert self.broker.workers is not None
        said, _ = await self.broker.workers.link.answers[call](dict(TO), b"")
        return said


def run(data: Path, play: Callable[[Side], Awaitable[None]]) -> None:
    async def played() -> None:
        async with worker_group(data, 1) as group:
            await play(Side(group))

    asyncio.run(played())


def test_a_shard_is_handed_over_once_and_topics_are_refused_meanwhile(tmp_path: Path) -> None:
    async def play(side: Side) -> None:
        await side.broker.topic(TopicName.parse("t"))
        with pytest.raises(ServiceNotReady, match="nothing is being handed over"):
            await side.call("handed_over")
        assert await side.call("hand_over") == {"epoch": 0}
        assert side.told == ["begins", "listens no more"]
        with pytest.raises(ServiceNotReady, match="shard 0 is being handed over"):
            await side.call("hand_over")
        with pytest.raises(ServiceNotReady, match="shutting down"):
            await side.broker.topic(TopicName.parse("other"))
        assert not side.handing.is_over.is_set()
        assert await side.call("handed_over") == {}
        assert side.handing.is_over.is_set()

    run(tmp_path, play)


def test_what_others_ask_of_the_shard_is_refused_from_then_on(tmp_path: Path) -> None:
    """The next owner knows more: "there is no such topic" and "that has ended" would be believed."""

    async def play(side: Side) -> None:
        workers = side.broker.workers
        assert workers is not None
        asked = sorted(workers.link.answers.keys() - {"alive", "hand_over", "handed_over", "http"})
        await side.call("hand_over")
        for call in asked:
            with pytest.raises(ShardAway, match="shard 0 is on its way to another broker"):
                await workers.link.ask(0, call, {})
        assert await workers.link.ask(0, "alive", {}) == ({}, b"")
        assert await workers.link.ask(0, "handed_over", {}) == ({}, b"")

    run(tmp_path, play)


def test_a_process_of_an_earlier_claim_does_not_hand_the_shard_over(tmp_path: Path) -> None:
    async def play(side: Side) -> None:
        workers = side.broker.workers
        assert workers is not None
        later = workers.placement.link_of(0)._replace(epoch=side.broker.engine.epoch + 1)
        with pytest.raises(ShardAway, match="shard 0 is served elsewhere"):
            await ask_at(later, 0, workers.place.secret, "hand_over", dict(TO), WAIT_S)
        assert not side.handing.is_under_way
        assert side.told == []

    run(tmp_path, play)


def test_a_successor_that_does_not_serve_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hand_over, "WAIT_S", 0.05)

    async def play(side: Side) -> None:
        await side.call("hand_over")
        await asyncio.wait_for(side.handing.is_over.wait(), WAIT_S)

    run(tmp_path, play)


def test_a_worker_that_cannot_come_to_rest_ends(tmp_path: Path) -> None:
    async def play(side: Side) -> None:
        side.failure = OSError("no")
        with pytest.raises(OSError, match="no"):
            await side.call("hand_over")
        assert side.handing.is_over.is_set()

    run(tmp_path, play)


def test_an_owner_that_is_lost_without_a_sign_is_not_waited_for(tmp_path: Path) -> None:
    """Its machine is gone: the connection stays as it is, and the agent takes the broker for dead."""

    async def play() -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent, socket.socket() as link:
            seat = Seat(3, "127.0.0.1", 1, -1, silent.getsockname()[1])
            owner = Notice("one", "h", "m", 1, 1, 9, "", "", "", False, {0: seat})
            owners.write(tmp_path, [owner])
            place = Place(
                data=tmp_path,
                placement=ClusterPlacement(0, 1, "other", Address(2, -1, 3), tmp_path),
                secret=bytes(32),
                link=link,
                clients=(),
                tls_clients=(),
                http=(),
                https=(),
                restarts=0,
                seat=ClusterSeat("other", None, SharedRight(), SharedLoads(1)),
            )
            fetching = asyncio.ensure_future(hand_over.fetched(place, "h"))
            heard, _ = await asyncio.get_running_loop().run_in_executor(None, silent.accept)
            with heard:
                assert not fetching.done()
                owners.write(tmp_path, [])
                with pytest.raises(
                    ServiceNotReady, match="broker one is gone, and shard 0 with it"
                ):
                    await asyncio.wait_for(fetching, WAIT_S)

    asyncio.run(play())
