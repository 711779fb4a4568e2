"""One call: the messages that a client sends, those that it gets, its time and its end.

A message is a byte that says whether it is packed, four with its length, and itself. What has come and was
not read is counted by the server, for all calls together.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from milepost.rocketmq.grpc import statuses
from milepost.rocketmq.grpc.frames import ErrorCode
from milepost.rocketmq.grpc.headers import Headers
from milepost.rocketmq.grpc.statuses import Ended, Status

if TYPE_CHECKING:
    from milepost.rocketmq.grpc.connection import Connection
    from milepost.rocketmq.grpc.server import Method

# A client that does not read its answers for so long loses the call.
READ_S: Final = 30.0
# Messages of a stream that its method reads before other clients have their turn.
MESSAGES_A_TURN: Final = 64
# What a message takes beside its bytes.
MESSAGE_SIZE: Final = 64

_HEAD_SIZE: Final = 5


class Unread(Exception):
    """The client does not read its answer."""


class GrpcCall:
    __slots__ = (
        "_connection",
        "_has_begun",
        "_messages",
        "_messages_size",
        "_partial",
        "_read_in_turn",
        "_waiter",
        "_went",
        "began",
        "deadline",
        "headers",
        "is_at_work",
        "is_last",
        "kept_size",
        "method",
        "stream",
        "task",
    )

    def __init__(
        self,
        connection: Connection,
        stream: int,
        method: Method,
        headers: Headers,
        now: float,
    ) -> None:
        self._connection = connection
        self.stream = stream
        self.method = method
        self.headers = headers
        self.began = now
        given_s = statuses.time_s(headers.get("grpc-timeout", ""))
        self.deadline = None if given_s is None else now + given_s
        self.task: asyncio.Task[None] | None = None
        self.is_last = False
        """The client says nothing more."""
        self.is_at_work = False
        """It is one of the calls that the server works on."""
        self.kept_size = 0
        """Bytes that have come and were not read."""
        self._partial: bytearray | None = None
        self._messages: deque[bytes] = deque()
        # What they take: thousands of small ones may wait, and their sum is asked for at each.
        self._messages_size = 0
        self._read_in_turn = 0
        self._has_begun = False
        # Who waits for the next message, and who for the client to read.
        self._waiter: asyncio.Future[None] | None = None
        self._went: asyncio.Future[None] | None = None

    @property
    def address(self) -> str:
        """The host of the client."""
        return self._connection.host

    @property
    def is_encrypted(self) -> bool:
        return self._connection.is_encrypted

    @property
    def remaining_s(self) -> float | None:
        """How long the client waits for the answer; None: for ever."""
        if self.deadline is None:
            return None
        return max(self.deadline - self._connection.now(), 0.0)

    # -- what comes --------------------------------------------------------------------------------

    def came(self, data: bytes, *, is_last: bool, size_max: int) -> None:
        """Bytes have come; `Ended` if they cannot be messages."""
        self.is_last = is_last
        partial = self._partial
        if partial is None and len(data) >= _HEAD_SIZE:
            size = int.from_bytes(data[1:5], "big")
            if not data[0] and size == len(data) - _HEAD_SIZE and size <= size_max:
                self._add(data[_HEAD_SIZE:])  # as nearly always: one frame, one message
                self._wake()
                return
        if partial is None:
            partial = self._partial = bytearray()
        partial += data
        while len(partial) >= _HEAD_SIZE:
            size = int.from_bytes(partial[1:5], "big")
            if partial[0]:
                raise Ended(Status.UNIMPLEMENTED, "packed messages are not understood")
            if size > size_max:
                raise Ended(
                    Status.RESOURCE_EXHAUSTED, f"a message of {size} bytes; {size_max} are allowed"
                )
            if len(partial) - _HEAD_SIZE < size:
                break
            self._add(bytes(partial[_HEAD_SIZE : _HEAD_SIZE + size]))
            del partial[: _HEAD_SIZE + size]
        if not partial:
            self._partial = None
        if is_last and self._partial is not None:
            raise Ended(Status.INTERNAL, "the last message is not whole")
        self._wake()

    def size(self) -> int:
        """Bytes that are kept of it."""
        size = self._messages_size
        return size if self._partial is None else size + len(self._partial)

    def _add(self, message: bytes) -> None:
        self._messages.append(message)
        self._messages_size += len(message) + MESSAGE_SIZE

    def _pop(self) -> bytes:
        message = self._messages.popleft()
        self._messages_size -= len(message) + MESSAGE_SIZE
        return message

    @property
    def has_unread(self) -> bool:
        return bool(self._messages)

    def only(self) -> bytes:
        """The one message of a call that has one; `Ended` if it has another number of them."""
        if len(self._messages) != 1:
            raise Ended(Status.INTERNAL, f"{len(self._messages)} messages; the call has one")
        return self._pop()

    def put_back(self, message: bytes) -> None:
        """It is not the time for it yet."""
        self._messages.appendleft(message)
        self._messages_size += len(message) + MESSAGE_SIZE

    async def read(self) -> bytes | None:
        """The next message; None if no more come."""
        self._read_in_turn += 1
        if self._read_in_turn >= MESSAGES_A_TURN:
            self._read_in_turn = 0
            await asyncio.sleep(0)  # sleep: a turn for others, where thousands have come at once
        while not self._messages:
            if self.is_last:
                return None
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
            self._read_in_turn = 0
        message = self._pop()
        self._connection.was_read(self)
        return message

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # -- what goes ---------------------------------------------------------------------------------

    def answer(self, message: bytes) -> None:
        """The one message of the answer, and its end. While the client does not take it, the connection keeps
        these bytes alone: the request, the task and the place among the calls are free."""
        self._connection.answer(self.stream, b"\x00" + len(message).to_bytes(4, "big") + message)

    async def write(self, message: bytes) -> None:
        """A message of the answer; return when there is room for the next. `Unread` if the client does
        not read."""
        data = b"\x00" + len(message).to_bytes(4, "big") + message
        is_first, self._has_begun = not self._has_begun, True
        if not self._connection.write(self.stream, data, begins=is_first):
            await self._taken()

    def finish(self, status: Status, text: str = "") -> None:
        """The end of the answer."""
        self._connection.finish(self.stream, status, text, has_begun=self._has_begun)

    def end(self, status: Status, text: str) -> None:
        """End it from outside, wherever it is."""
        self._connection.end(self, status, text)

    def drop(self, code: ErrorCode = ErrorCode.CANCEL) -> None:
        """End it, with all that the client has not read."""
        self._connection.reset(self.stream, code)

    async def _taken(self) -> None:
        try:
            async with asyncio.timeout(READ_S):
                while not self._connection.is_taken(self.stream):
                    self._went = asyncio.get_running_loop().create_future()
                    await self._went
        except TimeoutError:
            raise Unread from None

    def went(self) -> None:
        """There may be room again."""
        if self._went is not None and not self._went.done():
            self._went.set_result(None)
