"""Several workers in one process: each a whole broker on its own shard, all with one registry.

async with worker_group(tmp_path, 2) as group:
    await group.call(0, "GET", "/admin/v2/tenants")
"""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from milepost.broker.broker import Broker
from milepost.broker.directory.directory import load_namespaces
from milepost.broker.settings.settings import Settings
from milepost.broker.workers.link import Answer as LinkAnswer
from milepost.broker.workers.link import Doc, Where
from milepost.broker.workers.placement import Address, Placement
from milepost.broker.workers.workers import Place, Workers
from milepost.clock import SystemClock
from milepost.errors import ShardAway
from milepost.positions.names import TopicName
from milepost.rest.app import create_app
from milepost.storage import registry
from milepost.storage.engine import StorageEngine, open_store
from milepost.storage.shards import first_ledger_id, shard_path
from stage.http import Answer, Request, call

SECRET = bytes(range(32))


def _nowhere(number: int) -> Where:
    raise ShardAway("the worker that asks is dead")


async def _no_answer(values: Doc, body: bytes) -> LinkAnswer:
    raise EOFError("the worker that is asked is dead")


class WorkerGroup:
    def __init__(self, data: Path, count: int, **settings: Any) -> None:
        data.mkdir(parents=True, exist_ok=True)
        registry.create(data, load_namespaces)
        self._data = data
        self._settings = settings
        self._links = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
        for one in self._links:
            one.setblocking(False)
        self.addresses = tuple(
            Address(6650 + number, 7650 + number, one.getsockname()[1])
            for number, one in enumerate(self._links)
        )
        self.brokers: dict[int, Broker] = {}
        self.apps: dict[int, Any] = {}
        self.is_cut: set[int] = set()
        """Workers that were killed, and not started again."""

    async def start(self, number: int) -> Broker:
        data = shard_path(self._data, number)
        store, lock = open_store(data, SystemClock(), first_ledger_id=first_ledger_id(number))
        place = Place(
            data=self._data,
            placement=Placement(number, self.addresses),
            secret=SECRET,
            link=self._links[number].dup(),
            clients=(),
            tls_clients=(),
            http=(),
            https=(),
            restarts=0,
        )
        settings = Settings(data=data, **self._settings)
        broker = Broker(settings, StorageEngine(store, lock), SystemClock(), Workers(place))
        await broker.start()
        self.brokers[number], self.apps[number] = broker, create_app(broker)
        assert broker.workers is not None
        await broker.workers.listen()
        return broker

    async def stop(self, number: int) -> None:
        await self.brokers.pop(number).close()
        del self.apps[number]

    def cut(self, number: int) -> None:
        """Let a worker be killed now: what it does from here on reaches neither its disk nor the others, and
        they do not reach it."""
        data = shard_path(self._data, number)
        shutil.copytree(data, data.with_suffix(".cut"))
        workers = self.brokers[number].workers
        assert workers is not None
        workers.link._where = _nowhere  # what it asks
        workers.link._answer = _no_answer  # type: ignore[method-assign]  # what it is asked
        self.is_cut.add(number)

    async def restart(self, number: int) -> Broker:
        """Start a worker again, one that was cut off with what its disk had then."""
        await self.stop(number)
        if number in self.is_cut:
            self.is_cut.discard(number)
            data = shard_path(self._data, number)
            shutil.rmtree(data)
            data.with_suffix(".cut").rename(data)
        return await self.start(number)

    async def call(self, number: int, method: str, target: str, body: object = None) -> Answer:
        data = b"" if body is None else json.dumps(body).encode()
        return await call(self.apps[number], Request(method, target, data))

    def names(self, number: int, count: int = 2, namespace: str = "public/default") -> list[str]:
        """Topics of one worker."""
        placement = Placement(number, self.addresses)
        likes = (f"persistent://{namespace}/topic-{one}" for one in range(1000))
        return [one for one in likes if placement.has(TopicName.parse(one))][:count]

    async def close(self) -> None:
        for number in list(self.brokers):
            await self.stop(number)
        for one in self._links:
            one.close()


@asynccontextmanager
async def worker_group(data: Path, count: int, **settings: Any) -> AsyncIterator[WorkerGroup]:
    group = WorkerGroup(data, count, **settings)
    try:
        for number in range(count):
            await group.start(number)
        yield group
    finally:
        await group.close()
