"""A worker on a stage: the only one of its broker, with a registry beside its shard.

What workers ask each other needs processes (`compat/`, `unit/rest/workers/`); everything else that a worker
does otherwise than a broker alone is here.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from milepost.broker.directory.directory import load_namespaces
from milepost.broker.workers.placement import Address, Placement
from milepost.broker.workers.workers import Place, Workers
from milepost.storage.catalog.sqlite_catalog import SqliteCatalog


class StageRegistry:
    """What workers share; it outlives their processes."""

    def __init__(self) -> None:
        self._catalog = SqliteCatalog(None)
        with self._catalog.transaction():
            load_namespaces(self._catalog)

    def opened(self, tell: Callable[[], Awaitable[None]]) -> StageRegistry:
        """There is no other worker that would have to be told."""
        return self

    async def __call__(
        self,
        change: Callable[[Any], Any],
        then: Callable[[Any], None] | None = None,
        undo: Callable[[], None] | None = None,
    ) -> Any:
        try:
            with self._catalog.transaction():
                result = change(self._catalog)
        except BaseException:
            if undo is not None:
                undo()
            raise
        if then is not None:
            then(result)
        return result

    async def read(self, look: Callable[[Any], Any], then: Callable[[Any], None]) -> Any:
        return await self(look, then)

    async def has_changed(self) -> bool:
        return False

    def close(self) -> None:
        """The next process of the worker finds what is in it."""


def only_worker(registry: StageRegistry) -> Workers:
    place = Place(
        data=Path("unused"),
        placement=Placement(0, (Address(6650, -1, 7650),)),
        secret=bytes(32),
        link=socket.socket(),
        clients=(),
        tls_clients=(),
        http=(),
        https=(),
        restarts=0,
    )
    return Workers(place, registry.opened)


def leave(workers: Workers) -> None:
    workers.place.link.close()
    if workers._watching is not None:
        workers._watching.cancel()
