"""Changes of a catalog for objects that are tested without an engine (`ChangeCatalog`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from milepost.storage.catalog.catalog import ChangeCatalog


def told(make: Callable[[Callable[[Any], Any]], Coroutine[Any, Any, Any]]) -> ChangeCatalog:
    """Make each change by `make`, to its end, and tell what came of it even if its caller has left."""
    running: set[asyncio.Task[Any]] = set()

    async def run(
        change: Callable[[Any], Any],
        then: Callable[[Any], None] | None,
        undo: Callable[[], None] | None,
    ) -> Any:
        try:
            result = await make(change)
        except BaseException:
            if undo is not None:
                undo()
            raise
        if then is not None:
            then(result)
        return result

    async def tell(
        change: Callable[[Any], Any],
        then: Callable[[Any], None] | None = None,
        undo: Callable[[], None] | None = None,
    ) -> Any:
        task = asyncio.get_running_loop().create_task(run(change, then, undo))
        running.add(task)
        task.add_done_callback(running.discard)
        return await asyncio.shield(task)

    return tell
