"""Creates the consumers of a subscription: of a topic, its partitions, a list, a pattern.

    made = await ConsumerMaker(context, options, create_producer).make()

A topic that is not partitioned, asked for by its name, gets a plain `Consumer`; everything else a
`MultiConsumer`, which grows as partitions and topics are added.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from milepost.client.connection.context import Context
from milepost.client.connection.poller import Poller
from milepost.client.consuming.consumer import Consumer
from milepost.client.consuming.dead_letters import CreateProducer, DeadLetters, retry_topic
from milepost.client.consuming.multi_consumer import MultiConsumer
from milepost.client.consuming.patterns import MODES, TopicPattern, partitioned
from milepost.client.consuming.subscribe_options import ConsumerOptions
from milepost.client.consuming.topic_watcher import TopicWatcher
from milepost.client.messages.inbox import Start
from milepost.client.messages.seek_target import Target
from milepost.client.policies import (
    ConsumerDeadLetterPolicy,
    InitialPosition,
    RegexSubscriptionMode,
)
from milepost.errors import InvalidInput, NotAllowed
from milepost.positions import EARLIEST, LATEST, TopicName

PARTITIONS_PERIOD_S: Final = 60.0

# How often a message may be sent to the retry topic, when no dead letter policy says.
RECONSUME_MAX: Final = 16

AnyConsumer = Consumer | MultiConsumer


class ConsumerMaker:
    def __init__(
        self,
        context: Context,
        options: ConsumerOptions,
        create_producer: CreateProducer,
        *,
        target: Target | None = None,
    ) -> None:
        self._context = context
        self._options = options
        self._create_producer = create_producer
        self._target = target
        # Retry topics, each with the topic that its messages are of.
        self._origins: dict[TopicName, TopicName] = {}
        # The options of one consumer among so many: they are the same for all.
        self._shares: dict[int, ConsumerOptions] = {}

    async def make(self) -> AnyConsumer:
        """Made and opened."""
        topic = self._options.topic
        if isinstance(topic, re.Pattern) or self._options.is_pattern_topic:
            return await self._by_pattern(TopicPattern.parse(topic))
        if isinstance(topic, str):
            names = [TopicName.parse(topic)]
        elif topic:
            names = [TopicName.parse(one) for one in topic]
        else:
            raise InvalidInput("a subscription to no topic")
        if self._options.retry_enabled:
            subscription = self._options.subscription_name
            for origin in list(names):
                retry = TopicName.parse(retry_topic(self._policy(), origin, subscription))
                self._origins[retry] = origin
                names.append(retry)
        counts = await self._partitions(names)
        if len(names) == 1 and not counts[names[0]]:
            letters = self._letters(names[0])
            consumer = self._consumer(names[0], letters, 1)
            if letters is not None:
                consumer.closes(letters.close)
            await consumer.open()
            return consumer
        return await self._many(counts)

    async def _many(self, counts: dict[TopicName, int]) -> MultiConsumer:
        many = MultiConsumer(", ".join(map(str, counts)), self._options)
        try:
            await many.add(self._consumers(many, counts))
        except BaseException:
            await many.close()
            raise

        self._begins_early()

        async def grow() -> None:
            await self._take_in(many, counts)

        poller = Poller(f"partitions of {many.topic()}", grow, PARTITIONS_PERIOD_S)
        many.closes(poller.stop)
        poller.start()
        return many

    async def _by_pattern(self, pattern: TopicPattern) -> MultiConsumer:
        mode = self._options.regex_subscription_mode
        many = MultiConsumer(pattern.expression.pattern, self._options)

        async def discover() -> None:
            topics = await self._context.lookup.topics(pattern.namespace, MODES[mode])
            names = [TopicName.parse(topic) for topic in pattern.select(topics)]
            divided = partitioned(topics)
            counts = dict.fromkeys(names, 0)
            counts |= await self._partitions(name for name in names if str(name) in divided)
            await many.add(self._consumers(many, counts))
            found = {str(name) for name in names}
            gone = [topic for topic in many.topics if str(TopicName.parse(topic).base) not in found]
            await many.remove(gone)

        try:
            await discover()
        except BaseException:
            await many.close()
            raise
        self._begins_early()
        period_s = self._options.pattern_auto_discovery_period
        poller = Poller(f"topics like {many.topic()}", discover, period_s)
        many.closes(poller.stop)
        poller.start()
        if mode == RegexSubscriptionMode.PersistentOnly:
            watcher = TopicWatcher(self._context, pattern, poller.wake)
            many.closes(watcher.stop)
            watcher.start()
        return many

    async def _take_in(self, many: MultiConsumer, names: Iterable[TopicName]) -> None:
        """Consume whatever of these topics is not consumed yet."""
        await many.add(self._consumers(many, await self._partitions(names)))

    async def _partitions(self, names: Iterable[TopicName]) -> dict[TopicName, int]:
        """How many each topic has."""
        names = list(names)
        partitions = self._context.lookup.partitions
        counts = await asyncio.gather(*(partitions(str(name)) for name in names))
        return dict(zip(names, counts, strict=True))

    def _begins_early(self) -> None:
        """What is found from now on was not there when its user said where to begin: all of it is new."""
        self._options = replace(self._options, initial_position=InitialPosition.Earliest)
        self._shares.clear()

    def _consumers(self, many: MultiConsumer, counts: dict[TopicName, int]) -> list[Consumer]:
        known = set(many.topics)
        total = sum(max(count, 1) for count in counts.values())
        made: list[Consumer] = []
        for name, count in counts.items():
            letters = self._letters(name)
            if letters is not None:
                many.closes(letters.close)
            parts = [name.partition_name(number) for number in range(count)] or [name]
            made += [
                self._consumer(part, letters, total) for part in parts if str(part) not in known
            ]
        return made

    def _consumer(self, topic: TopicName, letters: DeadLetters | None, total: int) -> Consumer:
        options = self._shares.get(total)
        if options is None:
            options = self._options
            room = max(options.max_total_receiver_queue_size_across_partitions // total, 1)
            if options.receiver_queue_size > room:
                options = replace(options, receiver_queue_size=room)
            self._shares = {total: options}
        start, target = self._begin(total)
        return Consumer(
            self._context, topic, options, start=start, target=target, dead_letters=letters
        )

    def _begin(self, total: int) -> tuple[Start | None, Target | None]:
        """Where a reader begins: an id or an index is of one topic, its ends and times of all."""
        target = self._target
        if target is None:
            return None, None
        if total > 1 and target.timestamp is None:
            is_edge = target.start is not None and target.start.message_id in (EARLIEST, LATEST)
            if not is_edge:
                raise NotAllowed(f"{target} is of one partition: read that one by itself")
        return target.start, None if target.start is not None else target

    def _policy(self) -> ConsumerDeadLetterPolicy:
        return self._options.dead_letter_policy or ConsumerDeadLetterPolicy(RECONSUME_MAX)

    def _letters(self, topic: TopicName) -> DeadLetters | None:
        options = self._options
        if options.dead_letter_policy is None and not options.retry_enabled:
            return None
        topic = self._origins.get(topic, topic)
        return DeadLetters(
            self._policy(),
            topic,
            options.subscription_name,
            self._create_producer,
            options.crypto_key_reader,
        )
