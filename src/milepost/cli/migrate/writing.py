"""An exclusive producer of entries as they are.

While it is there no other producer can add to the topic, and an older run of `migrate` that is still
connected is fenced off. So the entries of a topic are a beginning of those that were given here, in order,
whenever one looks.

    async with EntryWriter(target, topic) as writer:
        await writer.write(entry)
        await writer.flush()
"""

from __future__ import annotations

import asyncio
from collections import deque
from types import TracebackType
from typing import Final, Self

from milepost.cli.migrate.entries import Entry
from milepost.cli.migrate.side import Side
from milepost.client.connection.connection import Connection
from milepost.client.connection.refusals import refusal
from milepost.errors import ConnectError, MilepostError, ProducerBusy, ProducerFenced, Timeout
from milepost.positions import Position
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import Receipt
from milepost.wire.scanners.encode import send_frame

PRODUCER: Final = "milepost-migrate"

UNANSWERED_BYTES_MAX: Final = 16 << 20
UNANSWERED_MAX: Final = 1000


class EntryWriter:
    def __init__(self, side: Side, topic: str) -> None:
        self._side = side
        self._topic = topic
        self._producer_id = side.next_id()
        self._connection: Connection | None = None
        # Sent, without a receipt.
        self._unanswered: deque[Entry] = deque()
        self._unanswered_bytes = 0
        self._heard = asyncio.Event()
        self._error: MilepostError | None = None
        self.stored_at = Position(-1, -1)
        """Where the target has stored the last entry."""
        self.stored_entries = 0
        self.stored_messages = 0
        """Indexes that the target has given to what this producer sent."""
        self.stored_until: Position | None = None
        """The last entry of the source that the target has; None before the first."""

    async def __aenter__(self) -> Self:
        try:
            await self._open(pb.Exclusive)
        except (ProducerFenced, ProducerBusy):
            stats = await self._side.admin.get_stats(self._topic)
            if any(one.get("producerName") != PRODUCER for one in stats["publishers"]):
                raise
            await self._open(pb.ExclusiveWithFencing)
        return self

    async def _open(self, mode: pb.ProducerAccessMode) -> None:
        connection = await self._side.connection(self._topic)
        await self._side.request(
            connection,
            pb.CommandProducer(
                topic=self._topic,
                producer_id=self._producer_id,
                producer_name=PRODUCER,
                user_provided_producer_name=True,
                producer_access_mode=pb.ProducerAccessMode.Name(mode),
            ),
        )
        connection.producers[self._producer_id] = self
        self._connection = connection

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and connection.is_open and self._error is None:
            connection.producers.pop(self._producer_id, None)
            await self._side.request(
                connection, pb.CommandCloseProducer(producer_id=self._producer_id)
            )

    async def write(self, entry: Entry) -> None:
        """Send an entry; waits while too many have no receipt."""
        while (
            len(self._unanswered) >= UNANSWERED_MAX
            or self._unanswered_bytes >= UNANSWERED_BYTES_MAX
        ):
            await self._hear()
        if self._error is not None:
            raise self._error
        assert self._connection is not None
        self._unanswered.append(entry)
        self._unanswered_bytes += entry.size_bytes
        self._connection.write(
            *send_frame(
                self._producer_id,
                entry.sequence_id,
                entry.metadata,
                entry.payload,
                num_messages=entry.count,
                highest_sequence_id=max(entry.highest_sequence_id, 0),
                is_chunk=entry.chunk is not None,
            )
        )
        await self._connection.drain()

    async def flush(self) -> None:
        """Wait until everything has its receipt."""
        while self._unanswered:
            await self._hear()

    async def _hear(self) -> None:
        self._heard.clear()
        if self._error is not None:
            raise self._error
        try:
            async with asyncio.timeout(self._side.timeout_s):
                await self._heard.wait()
        except TimeoutError:
            raise Timeout(
                f"{self._topic}: no receipt within {self._side.timeout_s:g} s; what was sent may be stored"
            ) from None
        if self._error is not None:
            raise self._error

    # What the connection tells.

    def receipt(self, receipt: Receipt) -> None:
        entry = self._unanswered.popleft()
        self._unanswered_bytes -= entry.size_bytes
        stored = Position(receipt.ledger_id, receipt.entry_id)
        if stored > self.stored_at:  # a chunk that is there already is answered with its older id
            self.stored_at = stored
            self.stored_entries += 1
            self.stored_messages += entry.count
        self.stored_until = entry.position
        self._heard.set()

    def send_error(self, error: pb.CommandSendError) -> None:
        entry = self._unanswered[0] if self._unanswered else None
        where = "" if entry is None else f" (entry {entry.position} of the source)"
        self._error = refusal(error.error, f"{self._topic}: {error.message}{where}")
        self._heard.set()

    def detached(self, connection: Connection, reason: MilepostError, url: str | None) -> None:
        self._error = ConnectError(f"{self._topic}: the target sent the producer away: {reason}")
        self._heard.set()
