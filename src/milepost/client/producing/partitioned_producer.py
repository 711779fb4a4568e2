"""`Producer` of a partitioned topic.

The number of partitions may grow while it runs: it looks every minute.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any, Final, Self

from milepost.client.connection.context import Context
from milepost.client.connection.poller import Poller
from milepost.client.producing.outgoing import Sent
from milepost.client.producing.producer import Producer
from milepost.client.producing.producer_options import ProducerOptions
from milepost.client.producing.routing import RoutedMessage, Router
from milepost.client.signatures import like
from milepost.client.statistics import ProducerStatistics, total
from milepost.errors import AlreadyClosed
from milepost.positions import MessageId, TopicName

PARTITIONS_PERIOD_S: Final = 60.0

# What a router may ask for, by its place behind the content.
_FIELDS: Final = ("properties", "partition_key", "ordering_key")


class PartitionedProducer:
    def __init__(
        self, context: Context, topic: TopicName, partitions: int, options: ProducerOptions
    ) -> None:
        self._context = context
        self._topic = topic
        self._options = options
        # Invariant: one for each partition that is known, in order.
        self._producers = [self._producer(number) for number in range(partitions)]
        self._is_closed = False
        batching = options.batches
        self._router = Router(
            options.message_routing_mode,
            random=Random(),  # noqa: S311  # spreads load, keeps no secret
            custom=options.message_router,
            stays_for=options.batching_max_messages if batching else 1,
            stays_s=options.batching_max_publish_delay_ms / 1000 if batching else 0.0,
        )
        self._poller = Poller(f"partitions of {topic}", self._grow, PARTITIONS_PERIOD_S)

    def _producer(self, number: int) -> Producer:
        return Producer(self._context, self._topic.partition_name(number), self._options)

    async def open(self) -> None:
        try:
            # A group: when one is refused, the others are not left half open.
            async with asyncio.TaskGroup() as group:
                for producer in self._producers:
                    group.create_task(producer.open())
        except BaseExceptionGroup as failures:
            await self.close()
            raise failures.exceptions[0] from None
        except BaseException:
            await self.close()
            raise
        self._poller.start()

    async def _grow(self) -> None:
        partitions = await self._context.lookup.partitions(str(self._topic))
        for number in range(len(self._producers), partitions):
            producer = self._producer(number)
            await producer.open()
            self._producers.append(producer)

    async def close(self) -> None:
        self._is_closed = True
        await self._poller.stop()
        await asyncio.gather(*(one.close() for one in self._producers))

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else f"{len(self._producers)} partitions"
        return f"<Producer {self.producer_name()} of {self._topic}, {state}>"

    def topic(self) -> str:
        return str(self._topic)

    def producer_name(self) -> str:
        return self._producers[0].producer_name()

    def last_sequence_id(self) -> int:
        return max(one.last_sequence_id() for one in self._producers)

    def is_connected(self) -> bool:
        return all(one.is_connected() for one in self._producers)

    @property
    def stats(self) -> ProducerStatistics:
        return total(ProducerStatistics(), (one.stats for one in self._producers))

    @like(Producer.send)
    async def send(self, content: Any, *args: Any, **fields: Any) -> MessageId:
        return await (await self.enqueue(content, *args, **fields))

    @like(Producer.enqueue)
    async def enqueue(self, content: Any, *args: Any, **fields: Any) -> Sent:
        producer = self._producers[self._route(content, args, fields)]
        return await producer.enqueue(content, *args, **fields)

    @like(Producer.send_nowait)
    def send_nowait(self, content: Any, *args: Any, **fields: Any) -> Sent:
        producer = self._producers[self._route(content, args, fields)]
        return producer.send_nowait(content, *args, **fields)

    def _route(self, content: Any, args: tuple[Any, ...], fields: dict[str, Any]) -> int:
        if self._is_closed:
            raise AlreadyClosed(f"the producer of {self._topic} is closed")
        self._context.check()
        now_s = self._context.clock.monotonic()
        if args:  # by place: as Producer.send_nowait has them
            fields = dict(zip(_FIELDS, args, strict=False)) | fields
        return self._router.route(RoutedMessage(content, fields), len(self._producers), now_s)

    async def flush(self) -> None:
        await asyncio.gather(*(one.flush() for one in self._producers))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()
