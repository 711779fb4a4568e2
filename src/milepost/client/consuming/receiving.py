"""`receive` and `batch_receive`, for consumers of one topic and of many.

A consumer says where its next message is (`poll`) and when there may be one (`waiters`); waiting in turn,
timeouts and batches are the same for all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Self

from milepost.client.consuming.waiters import Waiters
from milepost.client.messages.message import Message
from milepost.client.policies import ConsumerBatchReceivePolicy
from milepost.errors import Timeout


class Done:
    """What is done already, for who awaits it all the same."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


DONE = Done()


class Receiving:
    def __init__(self, policy: ConsumerBatchReceivePolicy | None) -> None:
        self.waiters = Waiters()
        self._batch_policy = policy or ConsumerBatchReceivePolicy()
        self._closers: list[Callable[[], Awaitable[None]]] = []

    # -- what a consumer says ------------------------------------------------------------------------

    def topic(self) -> str:
        raise NotImplementedError

    def check(self) -> None:
        """Raise why nothing will come any more, if that is so."""
        raise NotImplementedError

    def poll(self) -> Message | None:
        """The next message, now the user's; None if there is none yet."""
        raise NotImplementedError

    def is_ready(self) -> bool:
        """Whether `poll` would give one."""
        raise NotImplementedError

    def lacks_schema(self, message: Message) -> bool:
        """Whether a message cannot be read before its writer's schema is known."""
        return False

    async def learn_schema(self, message: Message) -> None:
        """Have the broker say which schema wrote a message."""

    def demand(self) -> None:
        """A caller waits: ask for a message, where that is not done by itself."""

    # -- what a user calls ---------------------------------------------------------------------------

    async def receive(self, timeout_millis: int | None = None) -> Message:
        """The next message; `Timeout` if there is none in time."""
        self.check()
        if not self.waiters.turns and (message := self.poll()) is not None:
            if self.lacks_schema(message):
                await self.learn_schema(message)
            return message
        timeout_s = None if timeout_millis is None else timeout_millis / 1000
        try:
            async with asyncio.timeout(timeout_s):
                return await self._next()
        except TimeoutError:
            raise Timeout(f"no message of {self.topic()} in {timeout_millis} ms") from None

    def receive_nowait(self) -> Message | None:
        """The next message if one is here; None if not."""
        self.check()
        return self.poll()

    async def batch_receive(self) -> list[Message]:
        """Messages as the batch receive policy has it; none if its time is up before one came."""
        policy = self._batch_policy
        taken: list[Message] = []
        size = 0
        timeout_s = policy.timeout_ms / 1000 if policy.timeout_ms > 0 else None
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    message = await self._next()
                    taken.append(message)
                    size += len(message.data())
                    if 0 < policy.max_num_message <= len(taken):
                        return taken
                    if 0 < policy.max_num_bytes <= size:
                        return taken
        except TimeoutError:
            return taken

    async def _next(self) -> Message:
        while True:
            self.check()
            message = self.poll()
            if message is not None:
                if self.lacks_schema(message):
                    await self.learn_schema(message)
                return message
            self.demand()
            await self.waiters.wait(self.is_ready)

    def closes(self, close: Callable[[], Awaitable[None]]) -> None:
        """Have something closed with this consumer."""
        self._closers.append(close)

    async def close_others(self) -> None:
        """Close what is to be closed with this consumer, once."""
        closers, self._closers = self._closers, []
        for close in closers:
            await close()

    async def close(self) -> None:
        raise NotImplementedError

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        return await self.receive()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()
