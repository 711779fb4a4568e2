"""The regular jobs: expiry, quotas, trimming, compaction, deletion of what is unused.

The files named below decide what is due; this one does it.

    expire        acks what is older than its topic's `messageTTL`          (skipping.py)
    check quotas  closes producers, or acks the oldest messages             (backlog_quota.py)
    trim          drops ledgers that no subscription needs any more         (retention.py)
    compact       compacts topics that have grown past their threshold      (compaction_run.py)
    forget        forgets the sequence ids of producers that are gone for long  (topic/dedup.py)
    drop idle     deletes subscriptions that no consumer has used for as long as their policy says
    drop unused   deletes topics that no client has used for as long as their policy says

A topic that was not opened since the start is left alone until a client opens it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from milepost.broker.operations import (
    backlog_quota,
    compaction_run,
    retention,
    skipping,
    topic_lifecycle,
)
from milepost.broker.policies.effective import EVICT, NO_SUBSCRIPTIONS
from milepost.broker.subscription import documents
from milepost.broker.subscription.subscription import Subscription
from milepost.broker.topic.dedup import Dedup
from milepost.broker.topic.topic import Topic
from milepost.errors import MilepostError
from milepost.storage.ledgers.not_in_memory import NotInMemory

if TYPE_CHECKING:
    from milepost.broker.broker import Broker

logger = logging.getLogger(__name__)


# How often it is stored for how long a subscription has been idle, until it is deleted.
IDLE_PARTS = 10


class Housekeeping:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._loop = asyncio.get_running_loop()
        self._timers: dict[Callable[[], None], asyncio.TimerHandle] = {}
        # Topics that are being trimmed.
        self._trimming: set[Topic] = set()
        # A checkpoint is on its way that leaves producers out.
        self._forgetting = False
        # Topics that no client uses, and since when that has been seen.
        self._unused: dict[Topic, float] = {}
        # The same for subscriptions, with their counts at that time.
        self._idle: dict[Subscription, tuple[tuple[int, ...], float]] = {}

    def start(self) -> None:
        settings = self._broker.settings
        self._begin(self.expire, settings.expiry_check_interval_s)
        self._begin(self.drop_idle, settings.subscription_check_interval_s)
        self._begin(self.check_quotas, settings.quota_check_interval_s)
        self._begin(self.trim, settings.retention_check_interval_s)
        self._begin(self.compact, settings.compaction_check_interval_s)
        self._begin(self.drop_unused, settings.inactive_check_interval_s)
        self._begin(self.forget_producers, settings.deduplication_inactive_s / 3)

    def _begin(self, work: Callable[[], None], interval_s: float) -> None:
        def due() -> None:
            self._timers[work] = self._loop.call_later(interval_s, due)
            self._broker.attempt("housekeeping", work)

        self._timers[work] = self._loop.call_later(interval_s, due)

    def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()

    def _topics(self) -> list[Topic]:
        return [topic for topic in self._broker.topics.values() if topic.name.is_persistent]

    def _each(self, work: Callable[[Topic, int], None], *, looks: bool = False) -> None:
        """Do the work for every topic, with the time. If the ledgers of one topic cannot be read, the
        work goes on with the next. Work that `looks` finds out first where messages lie, and waits where
        that is on disk only."""
        now_ms = self._broker.clock.wall_ms()
        files = self._broker.engine.loop_files
        for topic in self._topics():
            try:
                if looks:
                    with files.strictly():
                        work(topic, now_ms)
                else:
                    work(topic, now_ms)
            except NotInMemory:
                self._broker.spawn(self._look(work, topic, now_ms))
            except (MilepostError, OSError) as error:
                logger.warning("%s is left alone this time: %s", topic, error)
            except Exception as error:
                self._broker.unexpected("housekeeping", error)

    async def _look(self, work: Callable[[Topic, int], None], topic: Topic, now_ms: int) -> None:
        """Do the work for one topic when what it needs was brought, if the topic is open still."""

        def step() -> None:
            if self._broker.topics.get(str(topic.name)) is topic:
                work(topic, now_ms)

        try:
            await self._broker.engine.look(step)
        except (MilepostError, OSError) as error:
            logger.warning("%s is left alone this time: %s", topic, error)

    # -- expiry ------------------------------------------------------------------------------------

    def expire(self) -> None:
        self._each(self._expire, looks=True)

    def _expire(self, topic: Topic, now_ms: int) -> None:
        ttl_s = topic.policies.message_ttl_s
        if ttl_s:
            self._skip(topic, topic.log.index_at(max(now_ms - ttl_s * 1000, 0)), expires=True)

    def _skip(self, topic: Topic, end_index: int, *, expires: bool) -> None:
        for subscription in topic.subscriptions.values():
            for part in subscription.parts():
                count = part.skip(end_index)
                if count and expires:
                    skipping.note_expired(part, count)
                elif count:
                    self._broker.counters.messages_evicted += count

    # -- quotas ------------------------------------------------------------------------------------

    def check_quotas(self) -> None:
        self._each(self._check_quota, looks=True)

    def _check_quota(self, topic: Topic, now_ms: int) -> None:
        past = backlog_quota.exceeded(topic, now_ms)
        if past is None:
            return
        if past.policy == EVICT:
            self._skip(topic, backlog_quota.evicted_index(topic, past, now_ms), expires=False)
        elif topic.producers:
            # The clients connect again, and are told then why they may not publish.
            self._broker.counters.quota_closes += len(topic.producers)
            topic_lifecycle.put_out_producers(self._broker, topic)

    # -- retention ---------------------------------------------------------------------------------

    def trim(self) -> None:
        self._each(self._begin_trim)

    def _begin_trim(self, topic: Topic, now_ms: int) -> None:
        if topic in self._trimming:
            return
        log = topic.log
        if log.is_full(now_ms):
            log.roll(now_ms, lambda error: None)
        index = retention.trim_index(
            retention.kept(log.ledgers),
            topic_lifecycle.trimmable_index(topic),
            topic.policies.retention,
            now_ms,
        )
        if log.trimmable(index):
            self._trimming.add(topic)
            self._broker.spawn(self._trim(topic, index))

    async def _trim(self, topic: Topic, index: int) -> None:
        try:
            dropped = await topic_lifecycle.trim_to(self._broker, topic, index)
            self._broker.counters.ledgers_trimmed += dropped
        except MilepostError as error:
            logger.warning("%s could not be trimmed, and will be later: %s", topic, error)
        finally:
            self._trimming.discard(topic)

    # -- compaction --------------------------------------------------------------------------------

    def compact(self) -> None:
        self._each(self._compact, looks=True)

    def _compact(self, topic: Topic, now_ms: int) -> None:
        threshold = topic.policies.compaction_threshold
        horizon = 0 if topic.compacted is None else topic.compacted.horizon
        if threshold and topic.log.size_from(horizon) > threshold:
            # A compaction that is under way goes on; the next round asks again.
            with suppress(MilepostError):
                compaction_run.start(self._broker, topic)

    # -- producers that are gone -------------------------------------------------------------------

    def forget_producers(self) -> None:
        """Forget their sequence ids, as soon as a checkpoint without them is durable."""
        if self._forgetting:
            return
        broker = self._broker
        gone_since = broker.clock.monotonic() - broker.settings.deduplication_inactive_s
        leaving: list[Dedup] = []
        for topic in self._topics():
            if topic.dedup is not None and topic.dedup.let_go(gone_since):
                assert topic.dedup_state_id is not None
                broker.store.mark_dirty(topic.dedup_state_id)
                leaving.append(topic.dedup)
        if leaving:
            self._forgetting = True
            broker.spawn(self._forget_producers(leaving))

    async def _forget_producers(self, leaving: list[Dedup]) -> None:
        try:
            await self._broker.engine.checkpoint()
        except (MilepostError, OSError) as error:
            logger.warning("producers that are gone will be forgotten later: %s", error)
        else:
            self._broker.counters.producers_forgotten += sum(one.forget_let_go() for one in leaving)
        finally:
            self._forgetting = False
            for one in leaving:
                one.keep_let_go()

    # -- idle subscriptions ------------------------------------------------------------------------

    def drop_idle(self) -> None:
        """Measured while it is seen idle, by a clock that does not jump. How long that was is stored
        now and then, so that a restart, or an unload, does not begin it anew; but what was found idle
        then is looked at twice before it goes, as its consumers may be on their way."""
        now = self._broker.clock.monotonic()
        idle: dict[Subscription, tuple[tuple[int, ...], float]] = {}
        changed: list[Subscription] = []
        for topic in self._topics():
            expires_s = topic.policies.subscription_expiration_s
            for one in topic.subscriptions.values() if expires_s else ():
                if not one.is_durable:
                    continue
                if one.consumers:
                    if one.idle_ms is not None:
                        one.idle_ms = None
                        changed.append(one)
                    continue
                seen = _trace(one)
                if one in self._idle:
                    before, since = self._idle[one]
                    idle[one] = (seen, since if before == seen else now)
                    if now - idle[one][1] >= expires_s:
                        self._broker.spawn(self._drop_subscription(one))
                else:
                    idle[one] = (seen, now - (one.idle_ms or 0) / 1000)
                idle_ms = int((now - idle[one][1]) * 1000)
                step_ms = expires_s * 1000 // IDLE_PARTS
                known = one.idle_ms
                if known is None or not known <= idle_ms < known + step_ms:
                    one.idle_ms = idle_ms
                    changed.append(one)
        self._idle = idle
        if changed:
            self._broker.spawn(self._save_idle(changed))

    async def _save_idle(self, subscriptions: list[Subscription]) -> None:
        try:
            await documents.save(self._broker.engine, subscriptions)
        except MilepostError as error:
            logger.warning("for how long subscriptions are idle could not be stored: %s", error)

    async def _drop_subscription(self, subscription: Subscription) -> None:
        if subscription.consumers:
            return  # a consumer has come in the meantime
        topic = subscription.topic
        try:
            await self._broker.delete_subscription(subscription)
        except MilepostError as error:
            logger.warning("%s could not be deleted, and will be later: %s", subscription, error)
            return
        self._broker.counters.subscriptions_expired += 1
        logger.info("%s: subscription %s has expired", topic, subscription.name)

    # -- unused topics -----------------------------------------------------------------------------

    def drop_unused(self) -> None:
        now = self._broker.clock.monotonic()
        unused = {
            topic: self._unused.get(topic, now) for topic in self._topics() if _is_unused(topic)
        }
        self._unused = unused
        for topic, since in unused.items():
            if now - since >= topic.policies.inactive_after_s:
                self._broker.spawn(self._drop(topic))

    async def _drop(self, topic: Topic) -> None:
        """Delete the topic, unless a client has come in the meantime."""
        if not _is_unused(topic):
            return
        try:
            await topic_lifecycle.delete_topic(self._broker, topic, force=False)
        except MilepostError as error:
            logger.info("%s is not deleted after all: %s", topic, error)


def _trace(subscription: Subscription) -> tuple[int, ...]:
    """Numbers that change when a consumer uses the subscription, and not when expiry or a quota moves it."""
    counts = subscription.counts
    return (counts.flowed_ms, counts.settled_ms, subscription.cursor.epoch)


def _is_unused(topic: Topic) -> bool:
    """Is it one of those that its policy deletes?"""
    if not topic.policies.inactive_after_s or topic.producers or topic.name.partition >= 0:
        return False
    if topic.transactions is not None and topic.transactions.has_open:
        return False  # its part would be missing from what is committed
    subscriptions = topic.subscriptions.values()
    if topic.policies.inactive_needs == NO_SUBSCRIPTIONS:
        return not subscriptions
    return not any(one.consumers or one.cursor.backlog for one in subscriptions)
