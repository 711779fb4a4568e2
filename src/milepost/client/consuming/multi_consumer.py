"""`Consumer` of many topics or partitions.

Each topic keeps its own consumer; this one hands out what any of them has, in turn, and sends each ack
back to where its message came from. Topics come and go with `add` and `remove`.

    consumer = await client.subscribe(["orders", "returns"], "billing")

An id alone is sent to its topic if it knows one (`MessageId.deserialize(data, topic)`), else to its
partition; if neither says, it is refused, not guessed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from milepost.client.consuming.consumer import Acked, Consumer
from milepost.client.consuming.receiving import Done, Receiving
from milepost.client.consuming.subscribe_options import ConsumerOptions
from milepost.client.messages.message import Message
from milepost.client.statistics import ConsumerStatistics, total
from milepost.client.transactions.transaction import Transaction
from milepost.errors import (
    AlreadyClosed,
    InvalidInput,
    InvalidMessageId,
    MilepostError,
    NotAllowed,
)
from milepost.positions import EARLIEST, LATEST, MessageId, TopicName


class MultiConsumer(Receiving):
    def __init__(self, shown: str, options: ConsumerOptions) -> None:
        super().__init__(options.batch_receive_policy)
        self._shown = shown
        self._options = options
        # By full topic name, partitions by themselves.
        self._consumers: dict[str, Consumer] = {}
        # Whose turn it is. Invariant: the same consumers, in some order.
        self._turns: list[Consumer] = []
        self._turn = 0
        self._error: MilepostError | None = None

    # -- topics --------------------------------------------------------------------------------------

    @property
    def topics(self) -> list[str]:
        return list(self._consumers)

    async def add(self, consumers: Iterable[Consumer]) -> None:
        """Open these and take them in; all of them or none."""
        new = list(consumers)
        try:
            async with asyncio.TaskGroup() as group:
                for consumer in new:
                    consumer.waiters = self.waiters
                    group.create_task(consumer.open())
        except BaseExceptionGroup as failures:
            await asyncio.gather(*(consumer.close() for consumer in new))
            raise failures.exceptions[0] from None
        except BaseException:
            await asyncio.gather(*(consumer.close() for consumer in new))
            raise
        if self._error is not None:
            await asyncio.gather(*(consumer.close() for consumer in new))
            raise self._error
        for consumer in new:
            self._consumers[consumer.topic()] = consumer
        self._turns = list(self._consumers.values())
        self.waiters.wake_all()

    async def remove(self, topics: Iterable[str]) -> None:
        """Close the consumers of these topics, which are no more."""
        gone = [self._consumers.pop(topic) for topic in list(topics) if topic in self._consumers]
        self._turns = list(self._consumers.values())
        await asyncio.gather(*(consumer.close() for consumer in gone))

    # -- what it is ----------------------------------------------------------------------------------

    def __repr__(self) -> str:
        state = f"{len(self._turns)} topics" if self._error is None else "closed"
        return f"<Consumer of {self._shown} by {self.subscription_name()}, {state}>"

    def topic(self) -> str:
        return self._shown

    def subscription_name(self) -> str:
        return self._options.subscription_name

    def consumer_name(self) -> str:
        names = [consumer.consumer_name() for consumer in self._turns]
        return self._options.consumer_name or (names[0] if names else "")

    def is_connected(self) -> bool:
        return all(consumer.is_connected() for consumer in self._turns)

    @property
    def has_reached_end(self) -> bool:
        """Every topic is terminated, and the subscription has acked everything."""
        return bool(self._turns) and all(consumer.has_reached_end for consumer in self._turns)

    @property
    def stats(self) -> ConsumerStatistics:
        return total(ConsumerStatistics(), (consumer.stats for consumer in self._turns))

    # -- receive -------------------------------------------------------------------------------------

    def check(self) -> None:
        if self._error is not None:
            raise self._error
        for consumer in self._turns:
            consumer.check()

    def is_ready(self) -> bool:
        return any(consumer.is_ready() for consumer in self._turns)

    def poll(self) -> Message | None:
        turns = self._turns
        count = len(turns)
        for step in range(count):
            at = (self._turn + step) % count
            message = turns[at].poll()
            if message is not None:
                # Stay while it has more of the same batch; the next wait moves on.
                self._turn = at if turns[at].is_ready() and step == 0 else at + 1
                return message
        return None

    def lacks_schema(self, message: Message) -> bool:
        return self._options.schema is not None and self._home(message).lacks_schema(message)

    async def learn_schema(self, message: Message) -> None:
        await self._home(message).learn_schema(message)

    def demand(self) -> None:
        for consumer in self._turns:
            consumer.demand()

    # -- verdicts ------------------------------------------------------------------------------------

    async def acknowledge(
        self, message: Acked | Iterable[Acked], *, txn: Transaction | None = None
    ) -> None:
        """As `Consumer.acknowledge`, in whichever topics the messages are."""
        receipts = self._acknowledge(message, txn)
        if receipts:
            await asyncio.gather(*(asyncio.shield(receipt) for receipt in receipts))

    def acknowledge_nowait(
        self, message: Acked | Iterable[Acked], *, txn: Transaction | None = None
    ) -> asyncio.Future[Any]:
        receipts = self._acknowledge(message, txn)
        if len(receipts) == 1:
            return receipts[0]
        return asyncio.gather(*(asyncio.shield(one) for one in receipts), return_exceptions=True)

    def _acknowledge(
        self, message: Acked | Iterable[Acked], txn: Transaction | None
    ) -> list[asyncio.Future[None]]:
        self.check()
        if isinstance(message, Message | MessageId):
            return [self._home(message).acknowledge_nowait(message, txn=txn)]
        homes: dict[Consumer, list[Acked]] = {}
        for one in message:
            homes.setdefault(self._home(one), []).append(one)
        return [home.acknowledge_nowait(ones, txn=txn) for home, ones in homes.items()]

    async def acknowledge_cumulative(
        self,
        message: Acked | None = None,
        *,
        index: int | None = None,
        txn: Transaction | None = None,
    ) -> None:
        """Ack everything up to a message in its own topic or partition."""
        self.check()
        if message is None:
            raise InvalidInput(f"index {index} is of one partition: consume that one by itself")
        await self._home(message).acknowledge_cumulative(message, txn=txn)

    def negative_acknowledge(self, message: Acked) -> Done:
        self.check()
        return self._home(message).negative_acknowledge(message)

    def redeliver_unacknowledged_messages(self) -> None:
        self.check()
        for consumer in self._turns:
            consumer.redeliver_unacknowledged_messages()

    async def reconsume_later(self, message: Message, delay_ms: int) -> None:
        self.check()
        await self._home(message).reconsume_later(message, delay_ms)

    def _home(self, message: Acked) -> Consumer:
        """The consumer that a message or an id is of."""
        if isinstance(message, Message):
            home = message.entry.consumer
            if isinstance(home, Consumer) and self._consumers.get(home.topic()) is home:
                return home
            raise InvalidMessageId(
                f"{message.message_id()} of {message.topic_name()} was not received by this"
                f" consumer of {self._shown}"
            )
        if not isinstance(message, MessageId):
            raise InvalidMessageId(f"{type(message).__name__} is no message and no message id")
        if message.topic_name:
            found = self._consumers.get(str(TopicName.parse(message.topic_name)))
            if found is not None:
                return found
        candidates = [
            consumer
            for topic, consumer in self._consumers.items()
            if TopicName.parse(topic).partition == message.partition
        ]
        if len(candidates) != 1 or message.topic_name:
            raise InvalidMessageId(
                f"{message} is of no one topic of {self._shown}: deserialize it with its topic"
            )
        return candidates[0]

    # -- positions -----------------------------------------------------------------------------------

    async def seek(
        self,
        messageid: MessageId | int | None = None,
        *,
        timestamp: int | None = None,
        index: int | None = None,
    ) -> None:
        """Earliest, latest and a time are for all topics; an id is for the one that it is of."""
        self.check()
        if index is not None:
            raise InvalidInput(f"index {index} is of one partition: consume that one by itself")
        if isinstance(messageid, MessageId) and messageid not in (EARLIEST, LATEST):
            await self._home(messageid).seek(messageid)
            return
        await asyncio.gather(
            *(consumer.seek(messageid, timestamp=timestamp) for consumer in self._turns)
        )

    async def get_last_message_id(self) -> MessageId:
        raise NotAllowed(f"{self._shown} has no one last message: use get_last_message_ids")

    async def get_last_message_ids(self) -> list[MessageId]:
        """The newest message of each topic, each knowing its topic."""
        self.check()
        last = await asyncio.gather(*(consumer.get_last_message_id() for consumer in self._turns))
        return [
            one.of_topic(consumer.topic()) for one, consumer in zip(last, self._turns, strict=True)
        ]

    async def has_message_available(self) -> bool:
        self.check()
        found = await asyncio.gather(
            *(consumer.has_message_available() for consumer in self._turns)
        )
        return any(found)

    # -- close ---------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Its consumers are opened as they are added."""

    async def close(self) -> None:
        await self._end(AlreadyClosed(f"the consumer of {self._shown} is closed"))
        await asyncio.gather(*(consumer.close() for consumer in self._turns))

    async def unsubscribe(self, force: bool = False) -> None:
        self.check()
        await asyncio.gather(*(consumer.unsubscribe(force) for consumer in self._turns))
        await self._end(AlreadyClosed(f"the consumer of {self._shown} has unsubscribed"))

    async def _end(self, error: MilepostError) -> None:
        self._error = self._error or error
        await self.close_others()
        self.waiters.wake_all()
