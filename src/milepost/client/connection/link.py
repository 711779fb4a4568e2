"""Connects a producer or consumer to its broker, and connects it again.

One task per link. It finds the broker, opens (PRODUCER, SUBSCRIBE), then sleeps until the connection is
lost or the broker sends it away, and begins again, each attempt later than the last (backoff.py). What
opening means, and what is sent again afterwards, is the owner's business.

                  open                     connection lost, CLOSE_PRODUCER, CLOSE_CONSUMER
    CONNECTING ──────────► ATTACHED ─────────────────────────────────────────────► CONNECTING
        │ refused for good     │ close                                                 │
        ▼                      ▼                                                       ▼
      FAILED                 CLOSED                                            (the same again)

The first time a refusal goes to the caller that opens; later on only what can never get better ends the link.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from enum import Enum
from logging import INFO, WARNING
from typing import Final

from milepost.client.connection.backoff import Backoff
from milepost.client.connection.connection import Connection
from milepost.client.connection.lookup import BrokerAddress, Lookup
from milepost.client.connection.refusals import RETRIED, RETRIED_LATER
from milepost.clock import Clock
from milepost.errors import (
    AlreadyClosed,
    BrokerError,
    ConnectError,
    InvalidInput,
    MilepostError,
    NotAllowed,
    NotAuthenticated,
    NotAuthorized,
    PersistenceError,
    ProducerFenced,
    SubscriptionNotFound,
    Timeout,
    TopicNotFound,
)

log = logging.getLogger("milepost.client")

# A link that held this long has come back for good: the next loss is another story.
STEADY_S: Final = 1.0
# A broker whose disk is full takes the connection and no message: it is not asked all the time.
DISK_PAUSE_S: Final = 0.25

# A refusal that no later attempt changes.
_FINAL: Final = (
    AlreadyClosed,
    ProducerFenced,
    TopicNotFound,
    SubscriptionNotFound,
    InvalidInput,
    NotAllowed,
    NotAuthenticated,
    NotAuthorized,
    BrokerError,
)


class LinkState(Enum):
    CONNECTING = "connecting"
    ATTACHED = "attached"
    FAILED = "failed"
    CLOSED = "closed"


class Link:
    def __init__(
        self,
        lookup: Lookup,
        topic: str,
        what: str,
        open_on: Callable[[Connection], Awaitable[None]],
        failed: Callable[[MilepostError], None],
        *,
        backoff: Backoff,
        clock: Clock,
    ) -> None:
        """`what` is attached by it, in the words of the log: "producer of orders"."""
        self.topic = topic
        self._what = what
        self.state = LinkState.CONNECTING
        # Invariant: set exactly while ATTACHED.
        self.connection: Connection | None = None
        # What refused it for good; set exactly when FAILED.
        self.error: MilepostError | None = None
        self._lookup = lookup
        self._open_on = open_on
        self._failed = failed
        self._backoff = backoff
        self._clock = clock
        self._task: asyncio.Task[None] | None = None
        # The latest trouble and when it was, for the caller that waited in vain.
        self._trouble: MilepostError | None = None
        self._trouble_s = 0.0
        # Since when it has been away; None while it is attached, or before it first was.
        self._away_since_s: float | None = None
        self._detached = asyncio.Event()
        self._first: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Where the broker said to go, for the next attempt only.
        self._hint: BrokerAddress | None = None

    async def open(self, timeout_s: float) -> None:
        """Attach for the first time; raises the refusal, or the last trouble when time is up."""
        self._task = asyncio.create_task(self._run(), name=f"link {self.topic}")
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.shield(self._first)
        except TimeoutError:
            await self.close()
            raise self._trouble or Timeout(
                f"no broker took {self.topic} in {timeout_s:g} s"
            ) from None
        except BaseException:
            await self.close()
            raise

    def detached(self, connection: Connection, reason: MilepostError, url: str | None) -> None:
        """The connection is lost, or the broker sent us away (perhaps with an address)."""
        if self.connection is not connection:
            return
        # A broker that sends us away is at work; one that is gone is news.
        lost = isinstance(connection.error, ConnectError)
        log.log(WARNING if lost else INFO, "%s detached: %s", self._what, reason)
        self._note(reason)
        self._away_since_s = self._trouble_s
        self.connection = None
        if self.state is LinkState.ATTACHED:
            self.state = LinkState.CONNECTING
        self._hint = None if url is None else BrokerAddress(url)
        self._detached.set()

    async def close(self) -> None:
        """Attach no more. The owner says good-bye to the broker itself."""
        if self.state is not LinkState.FAILED:
            self.state = LinkState.CLOSED
        self.connection = None
        task, self._task = self._task, None
        if task is not None and task is not asyncio.current_task():
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(asyncio.wait([task]))
        if not self._first.done():
            self._first.cancel()

    async def _run(self) -> None:
        while True:
            try:
                await self._attach()
            except MilepostError as error:
                if self._is_final(error):
                    self._fail(error)
                    return
                self._note(error)
                wait_s = self._backoff.next_s()
                log.info("%s: %s; trying again in %.2f s", self._what, error, wait_s)
                await asyncio.sleep(wait_s)
                continue
            if not self._first.done():
                self._first.set_result(None)
            since = self._clock.monotonic()
            if self._away_since_s is not None:
                log.info("%s attached again after %.1f s", self._what, since - self._away_since_s)
                self._away_since_s = None
            await self._detached.wait()
            if self._clock.monotonic() - since >= STEADY_S:
                self._backoff.reset()
            if isinstance(self._trouble, PersistenceError):
                await asyncio.sleep(DISK_PAUSE_S)

    def _note(self, trouble: MilepostError) -> None:
        self._trouble, self._trouble_s = trouble, self._clock.monotonic()

    def trouble_since(self, since_s: float) -> MilepostError | None:
        """What went wrong last, unless that was before."""
        return self._trouble if self._trouble_s >= since_s else None

    async def _attach(self) -> None:
        self._detached.clear()
        where, self._hint = self._hint, None
        if where is None:
            where = await self._lookup.broker_of(self.topic)
        connection = await self._lookup.connect(where)
        # Set before opening: what the broker says from now on is for us.
        self.connection = connection
        try:
            await self._open_on(connection)
        except BaseException:
            self.connection = None
            raise
        if self.connection is not connection or connection.error is not None:
            self.connection = None
            raise connection.error or ConnectError(f"{self.topic} was closed while it was opened")
        self.state = LinkState.ATTACHED

    def _is_final(self, error: MilepostError) -> bool:
        if isinstance(error, RETRIED):
            return False
        if not self._first.done():
            return True
        return isinstance(error, _FINAL) and not isinstance(error, RETRIED_LATER)

    def _fail(self, error: MilepostError) -> None:
        self.state = LinkState.FAILED
        self.error = error
        if not self._first.done():
            self._first.set_exception(error)
            self._first.exception()  # seen, in case no caller waits any more
        else:
            if not isinstance(error, AlreadyClosed):
                log.warning("%s is given up: %s", self._what, error)
            self._failed(error)
