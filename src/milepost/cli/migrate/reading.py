"""A reader of entries as they are stored.

    async with EntryReader(source, topic) as reader:
        async for entry in reader.entries():        # from the first to the one that was last when it began
            ...

How far the broker may go ahead is counted in bytes, whatever the size of its messages.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Final, Self

from milepost.cli.migrate.entries import Entry, read_entry
from milepost.cli.migrate.side import Side
from milepost.client.connection.connection import Connection
from milepost.errors import MilepostError, Timeout
from milepost.positions import Position, unsigned64
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import Delivery
from milepost.wire.extensions import EVERY_CHUNK, extension

AHEAD_BYTES: Final = 16 << 20
PERMITS_FIRST: Final = 100
PERMITS_MAX: Final = 10_000

_EARLIEST: Final = pb.MessageIdData(ledgerId=unsigned64(-1), entryId=unsigned64(-1))


class EntryReader:
    def __init__(self, side: Side, topic: str, after: Position | None = None) -> None:
        """`after`: begin behind that entry; None begins at the first."""
        self._side = side
        self._topic = topic
        self._after = after
        self._consumer_id = side.next_id()
        self._connection: Connection | None = None
        self._arrived: deque[Delivery] = deque()
        self._something = asyncio.Event()
        self._error: MilepostError | None = None
        self.last: Position | None = None
        """The last entry that there was when the reader was opened; None if there was none."""
        # What the broker may still send, and what a message has been on average.
        self._permits = 0
        self._messages = self._bytes = 0

    async def __aenter__(self) -> Self:
        connection = await self._side.connection(self._topic)
        connection.consumers[self._consumer_id] = self
        start = _EARLIEST
        if self._after is not None:
            start = pb.MessageIdData(
                ledgerId=unsigned64(self._after.ledger_id), entryId=unsigned64(self._after.entry_id)
            )
        await self._side.request(
            connection,
            pb.CommandSubscribe(
                topic=self._topic,
                subscription=f"milepost-migrate-{uuid.uuid4().hex}",
                subType=pb.CommandSubscribe.Exclusive,
                consumer_id=self._consumer_id,
                consumer_name="milepost-migrate",
                durable=False,
                initialPosition=pb.CommandSubscribe.Earliest,
                force_topic_creation=False,
                start_message_id=start,
                metadata=[extension(EVERY_CHUNK)],
            ),
        )
        self._connection = connection
        answer = await self._side.request(
            connection, pb.CommandGetLastMessageId(consumer_id=self._consumer_id)
        )
        last = answer.last_message_id
        if last.ledgerId < 1 << 63 and last.entryId < 1 << 63:
            self.last = Position(last.ledgerId, last.entryId)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and connection.is_open and self._error is None:
            connection.consumers.pop(self._consumer_id, None)
            await self._side.request(
                connection, pb.CommandCloseConsumer(consumer_id=self._consumer_id)
            )

    async def entries(self) -> AsyncIterator[Entry]:
        """All entries up to the last one, in order."""
        at = self._after
        while self.last is not None and (at is None or at < self.last):
            if not self._arrived:
                await self._wait()
            delivery = self._arrived.popleft()
            entry = read_entry(delivery)
            self._count(entry)
            if at is not None and entry.position <= at:
                continue  # a broker may begin with the entry that was named
            if entry.position > self.last:
                return  # the last one is gone meanwhile, and newer ones have come
            at = entry.position
            yield entry

    async def _wait(self) -> None:
        """Wait until something has come."""
        self._allow()
        self._something.clear()
        if self._error is not None:
            raise self._error
        try:
            async with asyncio.timeout(self._side.timeout_s):
                await self._something.wait()
        except TimeoutError:
            raise Timeout(
                f"{self._topic}: the {self._side.word} sent nothing for {self._side.timeout_s:g} s, "
                f"and its last entry is {self.last}"
            ) from None
        if not self._arrived and self._error is not None:
            raise self._error

    def _count(self, entry: Entry) -> None:
        self._permits -= entry.count
        self._messages += entry.count
        self._bytes += entry.size_bytes
        self._allow()

    def _allow(self) -> None:
        """Let the broker send more, when half of what it may send is used."""
        size = self._bytes // self._messages + 1 if self._messages else AHEAD_BYTES // PERMITS_FIRST
        most = min(max(AHEAD_BYTES // size, 1), PERMITS_MAX)
        if self._connection is not None and self._permits * 2 <= most:
            more = most - max(self._permits, 0)
            self._permits = most
            self._connection.send(
                pb.CommandFlow(consumer_id=self._consumer_id, messagePermits=more)
            )

    # What the connection tells.

    def message(self, delivery: Delivery) -> None:
        self._arrived.append(delivery)
        self._something.set()

    def active_changed(self, is_active: bool) -> None:
        pass

    def end_of_topic(self) -> None:
        pass

    def reset(self, told: pb.CommandSeek) -> None:
        pass

    def detached(self, connection: Connection, reason: MilepostError, url: str | None) -> None:
        self._error = reason
        self._something.set()
