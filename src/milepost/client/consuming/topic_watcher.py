"""Hears from the broker which topics come or go (PIP-145).

What there is then is asked anew (patterns.py), so that there is one way to know it; the watch only says
when to look. It is kept by a task of its own, on the connection to the service URL, and set again when
that is lost. Where the broker refuses the pattern (it is too long, or Python's own), all of the namespace
is watched, and compared here. A broker that knows no watches is looked at from time to time.

    watcher = TopicWatcher(context, pattern, poller.wake)
    watcher.start()
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from milepost.client.connection.connection import Connection
from milepost.client.connection.context import Context
from milepost.client.connection.refusals import RETRIED
from milepost.client.consuming.patterns import TopicPattern
from milepost.errors import MilepostError, Timeout
from milepost.wire import pulsar_pb2 as pb

log = logging.getLogger("milepost.client")


class TopicWatcher:
    def __init__(
        self, context: Context, pattern: TopicPattern, changed: Callable[[], None]
    ) -> None:
        self._context = context
        self._pattern = pattern
        self._changed = changed
        self._id = context.next_id()
        # What may be watched, the best first.
        self._expressions = [f"{pattern.namespace}/.*"]
        if pattern.is_portable:
            self._expressions.insert(0, pattern.expression.pattern)
        # Where the watch is set; None while it is not.
        self._connection: Connection | None = None
        self._lost = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"watch {self._pattern.namespace}")

    async def stop(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        connection, self._connection = self._connection, None
        if connection is None or connection.error is not None:
            return
        del connection.watchers[self._id]
        close = pb.CommandWatchTopicListClose(watcher_id=self._id, request_id=0)
        try:
            await connection.request(close, self._context.operation_timeout_s)
        except MilepostError as error:
            log.info("closing the watch on %s: %s", self._pattern.namespace, error)

    # -- what the connection tells -------------------------------------------------------------------

    def topics_changed(self, names: Iterable[str]) -> None:
        if self._pattern.select(list(names)):
            self._changed()

    def detached(self, connection: Connection, reason: MilepostError, url: str | None) -> None:
        if self._connection is connection:
            self._connection = None
            self._lost.set()

    # -- the task ------------------------------------------------------------------------------------

    async def _run(self) -> None:
        backoff = self._context.backoff()
        while self._expressions:
            self._lost.clear()
            try:
                if not await self._watch():
                    return
            except (*RETRIED, Timeout) as error:
                wait_s = backoff.next_s()
                log.info("watch on %s: %s; again in %.2f s", self._pattern.namespace, error, wait_s)
                await asyncio.sleep(wait_s)
                continue
            except MilepostError as error:
                log.info("no watch on %s: %s", self._expressions.pop(0), error)
                continue
            self._changed()  # there was no watch until now
            backoff.reset()
            await self._lost.wait()

    async def _watch(self) -> bool:
        """Set the watch; False where the broker knows none."""
        connection = await self._context.lookup.service()
        peer = connection.protocol.peer
        if peer is None or not peer.watches_topics:
            return False
        connection.watchers[self._id] = self
        self._connection = connection
        command = pb.CommandWatchTopicList(
            request_id=0,
            watcher_id=self._id,
            namespace=self._pattern.namespace,
            topics_pattern=f"persistent://{self._expressions[0]}",
        )
        try:
            await connection.request(command, self._context.operation_timeout_s)
        except BaseException:
            connection.watchers.pop(self._id, None)
            self._connection = None
            raise
        return True
