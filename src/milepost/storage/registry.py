"""The registry of several workers: one SQLite database for what all of them share.

Tenants, namespaces, their policies and grants, and settings that were changed at run time. Every worker has
the database open; SQLite keeps their transactions apart, and a worker that is killed leaves nothing half
done. A change is in the database first; then the others are told and read it (`on_change`); then its caller
returns. A worker that could not be told looks once in a while by itself (`has_changed`).

    registry = Registry(data, on_change=tell_the_others)
    await registry(lambda catalog: catalog.put_doc("tenants", "acme", {}))     # a `ChangeCatalog`
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from milepost.errors import CorruptData
from milepost.storage import shards
from milepost.storage.catalog.catalog import Catalog
from milepost.storage.catalog.sqlite_catalog import SqliteCatalog
from milepost.storage.engine import CatalogCall, settle

FILE: Final = "registry.sqlite"
T = TypeVar("T")


def create(data: Path, furnish: Callable[[Catalog], object]) -> None:
    """Make the database if it is not there, before the first worker opens it; `furnish` puts into it what
    has to be there. `CorruptData` if it was there: the policies and grants of all namespaces are gone with
    it. Blocks."""
    if shards.are_begun(data) and not (data / FILE).exists():
        raise CorruptData(f"{data / FILE}: it is missing, and {data / shards.FOLDER} is there")
    catalog = SqliteCatalog(data / FILE)
    try:
        with catalog.transaction():
            furnish(catalog)
    finally:
        catalog.close()


class Registry:
    """Made and used on the loop; its thread does the waiting."""

    def __init__(self, data: Path, on_change: Callable[[], Awaitable[None]]) -> None:
        """`on_change` is awaited when a change of this worker is in the database."""
        self._catalog = SqliteCatalog(data / FILE)
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="registry")
        self._seen = self._catalog.changes_of_others
        # A change failed: what is in memory may lack what another worker has made meanwhile.
        self._is_doubtful = False

    async def __call__(
        self,
        change: Callable[[Catalog], T],
        then: Callable[[T], None] | None = None,
        undo: Callable[[], None] | None = None,
    ) -> T:
        """Run `change` in a transaction of its own; durable, and known to the others, when this returns
        (`ChangeCatalog`)."""
        call = CatalogCall(change, self._loop.create_future(), then, undo)
        before = self._catalog.changes
        self._thread.submit(self._perform, call)
        try:
            result: T = await call.future
        except Exception:
            self._is_doubtful = True
            raise
        if self._catalog.changes != before:
            await self._on_change()
        return result

    async def read(self, look: Callable[[Catalog], T], then: Callable[[T], None]) -> T:
        """Run `look`, which changes nothing; behind `then` memory has all that the database has."""
        return await self(look, then)

    def _perform(self, call: CatalogCall) -> None:
        result: Any = None
        failure: BaseException | None = None
        try:
            with self._catalog.transaction():
                result = call.change(self._catalog)
        except Exception as error:
            failure = error
        with suppress(RuntimeError):  # the loop is gone, and with it the caller
            self._loop.call_soon_threadsafe(settle, [(call, result, failure)])

    async def has_changed(self) -> bool:
        """Has another worker changed something since this was last asked, or is memory in doubt?"""
        seen = await self._loop.run_in_executor(
            self._thread, lambda: self._catalog.changes_of_others
        )
        before, self._seen = self._seen, seen
        doubtful, self._is_doubtful = self._is_doubtful, False
        return seen != before or doubtful

    def close(self) -> None:
        self._thread.shutdown()
        self._catalog.close()
