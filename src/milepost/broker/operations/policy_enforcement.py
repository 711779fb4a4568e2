"""Hands policies to topics when they open or change, and starts the regular jobs.

Others decide what is to be done (`policies/`, `retention.py`, `subscription_limits.py`); here it is carried
out. A change of a policy reaches every open topic it holds for, and its connected clients, in the step in
which it becomes known.

    enforcement.adopt(topic)  a topic was opened
    enforcement.tick(now)     once a second, and as the intervals in the settings say
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from milepost.broker.directory.directory import check_stored
from milepost.broker.dispatch.chunk_gate import PATIENCE_MS
from milepost.broker.limits.publish_rate import PublishThrottle
from milepost.broker.limits.resource_groups import ResourceGroups
from milepost.broker.limits.subscribe_rate import SubscribeGate
from milepost.broker.limits.subscription_limits import SubscriptionLimits
from milepost.broker.limits.token_bucket import Throttle
from milepost.broker.messages.chunked import ChunkLimits
from milepost.broker.operations import topic_lifecycle
from milepost.broker.policies.book import PolicyBook
from milepost.broker.policies.effective import Rate
from milepost.broker.policies.policy import Level
from milepost.broker.settings.settings import Settings
from milepost.broker.subscription import delayed
from milepost.broker.subscription.subscription import Subscription
from milepost.broker.topic import dedup_switch
from milepost.broker.topic.topic import Topic
from milepost.errors import MilepostError
from milepost.positions.names import NamespaceName, TopicName
from milepost.positions.ranges import joined

if TYPE_CHECKING:
    from milepost.broker.broker import Broker

logger = logging.getLogger(__name__)


class PolicyEnforcement:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.book = PolicyBook(
            broker.engine.catalog,
            broker.registry,
            broker.settings,
            check_namespace=check_stored,
            on_change=self._changed,
        )
        self.groups = ResourceGroups(broker.registry, broker.clock.monotonic, self._held)
        # Topics whose deduplication is being switched, and the future that callers wait for.
        self._switching: dict[Topic, asyncio.Future[None]] = {}

    async def _changed(self, level: Level, name: str) -> None:
        def known_as(topic: Topic) -> TopicName | NamespaceName:
            return topic.name.base if level is Level.TOPIC else topic.name.namespace

        topics = self._broker.topics.values()
        await self._adopt_all([one for one in topics if str(known_as(one)) == name])

    async def use(self, settings: Settings) -> None:
        """What no level has set follows from these now."""
        self.book.use(settings)
        await self._adopt_all(list(self._broker.topics.values()))

    async def _adopt_all(self, topics: list[Topic]) -> None:
        """Give them the policies that hold now; done when that is so."""
        for topic in topics:
            self.adopt(topic)
        switching = [self._switching[topic] for topic in topics if topic in self._switching]
        if switching:
            # The request may be cancelled; the switch goes on.
            await asyncio.wait(switching)
            for one in switching:
                one.result()

    async def settled(self, topic: Topic) -> None:
        """Return when deduplication is not being switched: that opens and closes a state of the topic."""
        if (switching := self._switching.get(topic)) is not None:
            await asyncio.wait([switching])

    def tick(self, now_ms: int, topic: Topic) -> None:
        """Once a second, for what waits: clocks jump, and timers do not jump with them."""
        for subscription in topic.subscriptions.values():
            for part in subscription.parts():
                if part.cursor.next_due_ms is not None:
                    delayed.release_due(part, now_ms)
                # While the topic was closed no producer could go on with its message.
                if part.gate.unfinished_count and now_ms - topic.opened_ms >= PATIENCE_MS:
                    part.pass_over(joined(part.gate.expired(now_ms)))

    # -- handing them out --------------------------------------------------------------------------

    def adopt(self, topic: Topic) -> None:
        """Give a topic, and all who use it, the policies that hold for it now."""
        policies = topic.policies = self.book.of(topic.name)
        topic.chunk_limits = ChunkLimits.of(self._broker.settings)
        self._set_publish_rate(topic, policies.publish_rate)
        topic.group_throttle = self.groups.publish_throttle(self._group_of(topic))
        if policies.subscribe_rate is None:
            topic.subscribe_gate = None
        elif topic.subscribe_gate is None or topic.subscribe_gate.rate != policies.subscribe_rate:
            topic.subscribe_gate = SubscribeGate(
                policies.subscribe_rate, self._broker.clock.monotonic
            )
        topic.dispatch_throttle = self._throttle(
            topic, topic.dispatch_throttle, policies.dispatch_rate
        )
        for subscription in list(topic.subscriptions.values()):
            for part in subscription.parts():
                self.join(part)
        if policies.encryption_required:
            topic_lifecycle.put_out_producers(
                self._broker, topic, [one for one in topic.producers.values() if not one.encrypts]
            )
        is_other = policies.deduplication is (topic.dedup is None)
        if topic.name.is_persistent and is_other and topic not in self._switching:
            self._switching[topic] = done = asyncio.get_running_loop().create_future()
            self._broker.spawn(self._switch_deduplication(topic, done))

    def join(self, subscription: Subscription) -> None:
        """Give a subscription what of its topic's policies holds for it."""
        topic = subscription.topic
        policies = topic.policies
        subscription.use_limits(SubscriptionLimits.of(self._broker.settings, policies))
        delayed.obey(subscription)
        own = subscription.own_throttle = self._throttle(
            topic,
            subscription.own_throttle,
            policies.dispatch_rate_of(subscription.owner.name),
        )
        shared = self.groups.dispatch_throttle(self._group_of(topic))
        throttles = [one for one in (topic.dispatch_throttle, shared, own) if one is not None]
        if throttles != list(subscription.throttles):
            subscription.throttles = throttles
            subscription.rescan()

    def _held(self) -> None:
        self._broker.counters.group_publishes_held += 1

    def _group_of(self, topic: Topic) -> str | None:
        namespace = self.book.values(Level.NAMESPACE, str(topic.name.namespace))
        group: str | None = namespace.get("resource_group")
        return group

    def _throttle(self, topic: Topic, found: Throttle | None, rate: Rate | None) -> Throttle | None:
        """The throttle for a rate: the one that is there, with its debts, if it is of that rate."""
        if rate is None or (found is not None and found.rate == rate):
            return found if rate is not None else None
        return Throttle(
            rate, self._broker.clock.monotonic, lambda: (topic.messages_in, topic.bytes_in)
        )

    def _set_publish_rate(self, topic: Topic, rate: Rate | None) -> None:
        throttle = topic.throttle
        if throttle is not None and throttle.rate != rate:
            throttle.end()
            topic.throttle = throttle = None
        if throttle is None and rate is not None:

            def held() -> None:
                topic.publishes_held += 1

            topic.throttle = PublishThrottle(rate, self._broker.clock.monotonic, held)

    async def _switch_deduplication(self, topic: Topic, done: asyncio.Future[None]) -> None:
        try:
            await dedup_switch.switch(self._broker, topic)
        except MilepostError as error:
            logger.error("%s: deduplication could not be switched: %s", topic, error)
            done.set_exception(error)
            done.exception()  # so that asyncio does not warn if no request waits
        else:
            done.set_result(None)
        finally:
            del self._switching[topic]
            done.cancel()  # has an effect only if this task was cancelled
