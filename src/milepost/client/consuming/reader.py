"""`Reader`: reads from a position, without a durable subscription.

    reader = await client.create_reader("orders", MessageId.earliest)
    while await reader.has_message_available():
        message = await reader.read_next()

It is a consumer whose cursor the broker forgets. What was read is acked as it goes, without waiting, so
that the broker need not remember it; after a reconnect it goes on behind the last message that was read.
"""

from __future__ import annotations

from milepost.client.consuming.consumers import AnyConsumer
from milepost.client.messages.message import Message
from milepost.client.statistics import ConsumerStatistics
from milepost.positions import MessageId


class Reader:
    def __init__(self, consumer: AnyConsumer) -> None:
        self._consumer = consumer

    def __repr__(self) -> str:
        return f"<Reader of {self.topic()}>"

    def topic(self) -> str:
        return self._consumer.topic()

    def is_connected(self) -> bool:
        return self._consumer.is_connected()

    @property
    def has_reached_end(self) -> bool:
        """The topic is terminated, and everything was read."""
        return self._consumer.has_reached_end

    @property
    def stats(self) -> ConsumerStatistics:
        return self._consumer.stats

    async def read_next(self, timeout_millis: int | None = None) -> Message:
        """The next message; `Timeout` if there is none in time."""
        message = await self._consumer.receive(timeout_millis)
        self._consumer.acknowledge_nowait(message)
        return message

    async def has_message_available(self) -> bool:
        """Whether there is a message between here and the end of the topic."""
        return await self._consumer.has_message_available()

    async def seek(
        self,
        messageid: MessageId | int | None = None,
        *,
        timestamp: int | None = None,
        index: int | None = None,
    ) -> None:
        """Go to a message id, a publish time in milliseconds, or an index: as `Consumer.seek`."""
        await self._consumer.seek(messageid, timestamp=timestamp, index=index)

    async def get_last_message_id(self) -> MessageId:
        return await self._consumer.get_last_message_id()

    async def close(self) -> None:
        await self._consumer.close()

    def __aiter__(self) -> Reader:
        return self

    async def __anext__(self) -> Message:
        return await self.read_next()

    async def __aenter__(self) -> Reader:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()
