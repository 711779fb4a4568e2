"""What all parts of one client share: lookup, clock, timeouts, and the check for forks.

Also the guard against two mistakes that would end in a hang: using a client on another event loop than
its own, and using it in a process that was forked after it was made.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from asyncio import get_running_loop
from collections.abc import Awaitable, Callable
from random import Random

from milepost.client.connection.backoff import FIRST_S, MAX_S, Backoff
from milepost.client.connection.connection import Connection
from milepost.client.connection.lookup import Lookup
from milepost.client.messages.inbox import Start
from milepost.client.messages.seek_target import Target
from milepost.clock import Clock
from milepost.errors import WrongContext
from milepost.positions import MessageId, TopicName

# Counts forks of this process, so that no call has to ask the system for its number.
_forks = 0


def _forked() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_forked)


class ForkGuard:
    __slots__ = ("_forks",)

    def __init__(self) -> None:
        self._forks = _forks

    @property
    def is_forked(self) -> bool:
        return self._forks != _forks

    def check(self) -> None:
        if self._forks != _forks:
            raise WrongContext("this client was made before the process forked: make a new one")


IdByIndex = Callable[[TopicName, int], Awaitable[MessageId]]


class Context:
    def __init__(
        self,
        lookup: Lookup,
        clock: Clock,
        *,
        operation_timeout_s: float,
        id_by_index: IdByIndex,
        random: Random | None = None,
        backoff_first_s: float = FIRST_S,
        backoff_max_s: float = MAX_S,
    ) -> None:
        self.lookup = lookup
        self.clock = clock
        self.operation_timeout_s = operation_timeout_s
        self.id_by_index = id_by_index
        self._loop = asyncio.get_running_loop()
        self._fork = ForkGuard()
        self._forks = _forks
        self._last_id = -1
        # Not for secrets: spreads clients that come back at once.
        self._random = random or Random()  # noqa: S311
        self._backoff = (backoff_first_s, backoff_max_s)

    def check(self) -> None:
        """`WrongContext` unless this is the client's own loop and process."""
        # With every message: no call that can be spared.
        if self._forks != _forks:
            self._fork.check()
        if get_running_loop() is not self._loop:
            raise WrongContext("a client belongs to the event loop in which it was made")

    @property
    def is_over(self) -> bool:
        """Whether the loop has ended, and everything on it."""
        return self._loop.is_closed()

    def abandon(self) -> None:
        """The client was forgotten: close its connections on their own loop, if there is one yet."""
        if not self._fork.is_forked and not self.is_over:
            with contextlib.suppress(RuntimeError):  # closed just now
                self._loop.call_soon_threadsafe(self.lookup.abandon)

    def next_id(self) -> int:
        """A number for a producer or consumer: unique in this client."""
        self._last_id += 1
        return self._last_id

    def random_name(self) -> str:
        return secrets.token_hex(5)

    def backoff(self) -> Backoff:
        first_s, max_s = self._backoff
        return Backoff(self._random, first_s=first_s, max_s=max_s)

    async def resolve(self, topic: TopicName, target: Target, connection: Connection) -> Target:
        """The target as this broker understands it: an index becomes an id where indexes are not."""
        peer = connection.protocol.peer
        if target.index is None or (peer is not None and peer.finds_indexes):
            return target
        found = await self.id_by_index(topic, target.index)
        return Target(start=Start(found, True, target.index))
