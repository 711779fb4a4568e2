"""The limits of one subscription: unacked messages, and how far ahead it looks.

How many messages may be inflight is a decision about the subscription and its consumers; it is made here and
kept there. Half of a limit must be free again before what it stopped goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from milepost.broker.policies.effective import TopicPolicies
from milepost.positions.ranges import Range

if TYPE_CHECKING:
    from milepost.broker.dispatch.consumer import Consumer
    from milepost.broker.settings.settings import Settings
    from milepost.broker.subscription.subscription import Subscription

NO_LIMIT = 1 << 62


class Limits(NamedTuple):
    unacked_per_consumer: int = 50_000
    unacked_per_subscription: int = 200_000
    batch_index_ack: bool = True
    expose_broker_entry: bool = True
    round_robin_entries: int = 20
    """Entries that one of several consumers gets in one turn."""
    key_ring: bool = True
    """Key_Shared: does a ring share out the keys, or are ranges halved?"""
    look_ahead_per_consumer: int = 2000
    """Messages that may be passed over for each consumer that is connected; 0: no limit."""
    look_ahead_per_subscription: int = 20_000
    """The same for all of them together."""

    @classmethod
    def of(cls, settings: Settings, policies: TopicPolicies) -> Limits:
        return cls(
            unacked_per_consumer=policies.max_unacked_per_consumer or NO_LIMIT,
            unacked_per_subscription=policies.max_unacked_per_subscription or NO_LIMIT,
            batch_index_ack=settings.batch_index_ack,
            expose_broker_entry=settings.broker_entry_metadata
            and settings.expose_broker_entry_metadata,
            round_robin_entries=settings.dispatch_round_robin_entries,
            key_ring=settings.key_shared_consistent_hashing,
            look_ahead_per_consumer=settings.key_shared_look_ahead_per_consumer,
            look_ahead_per_subscription=settings.key_shared_look_ahead_per_subscription,
        )

    def look_ahead(self, consumers: int) -> int:
        """Messages that may be passed over while so many consumers are connected."""
        per_consumer = self.look_ahead_per_consumer * consumers or NO_LIMIT
        return min(per_consumer, self.look_ahead_per_subscription or NO_LIMIT)


def room(subscription: Subscription, consumer: Consumer) -> int:
    """Messages that a consumer may be given."""
    assert subscription.dispatcher is not None
    if not subscription.dispatcher.limits_unacked:
        return consumer.permits
    limits = subscription.limits
    return min(
        consumer.permits,
        limits.unacked_per_consumer - consumer.unacked,
        limits.unacked_per_subscription - subscription.unacked,
    )


def within_look_ahead(subscription: Subscription, ready: Range) -> Range | None:
    """What of the next ready indexes may be looked at. When enough was passed over, nothing behind it
    is: the consumers that have room wait with those that have none."""
    cursor = subscription.cursor
    if cursor.aside_count < subscription.limits.look_ahead(len(subscription.consumers)):
        return ready
    first, end = ready
    return (first, min(end, cursor.aside_end)) if first < cursor.aside_end else None


def block(subscription: Subscription, consumer: Consumer) -> None:
    """Something was delivered: is it enough?"""
    if subscription.dispatcher is None or not subscription.dispatcher.limits_unacked:
        return
    limits = subscription.limits
    if consumer.unacked >= limits.unacked_per_consumer:
        consumer.is_blocked = True
    if subscription.unacked >= limits.unacked_per_subscription:
        subscription.is_blocked = True


def unblock(subscription: Subscription) -> None:
    """Something was acked or given back: may it go on?"""
    limits = subscription.limits
    for consumer in subscription.consumers:
        if consumer.is_blocked and consumer.unacked <= limits.unacked_per_consumer // 2:
            consumer.is_blocked = False
            subscription.rescan()
    if subscription.is_blocked and subscription.unacked <= limits.unacked_per_subscription // 2:
        subscription.is_blocked = False
        subscription.rescan()


def obey(subscription: Subscription, limits: Limits) -> None:
    """Other limits hold from now on: who is blocked is decided anew."""
    if limits == subscription.limits:
        return
    subscription.limits = limits
    subscription.is_blocked = False
    for consumer in subscription.consumers:
        consumer.is_blocked = False
        block(subscription, consumer)
    subscription.rescan()
