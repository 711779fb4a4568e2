"""The counts of one subscription: delivered, acked, redelivered, and when last.

Counted once for each batch of entries or acks, however many messages that is. A consumer takes its
numbers with it when it goes; the counts of its subscription stay. Nothing here decides anything.

    subscription_counts.delivered(consumer, entries=3, messages=30, size=3000)
    subscription.counts.messages_out
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from milepost.broker.dispatch.consumer import Consumer
    from milepost.broker.subscription.subscription import Subscription
    from milepost.cursor.outcomes import Acked
    from milepost.positions.ranges import Range


class SubscriptionCounts:
    """Of one subscription. Times are milliseconds, 0 for never."""

    __slots__ = (
        "bytes_out",
        "consumed_ms",
        "dropped",
        "entries_out",
        "expired",
        "expired_ms",
        "flowed_ms",
        "hidden",
        "mark_delete_ms",
        "messages_acked",
        "messages_out",
        "messages_redelivered",
        "settled_ms",
        "transactions_aborted",
        "transactions_committed",
    )

    def __init__(self) -> None:
        self.entries_out = 0
        self.messages_out = 0
        self.bytes_out = 0
        self.messages_acked = 0
        """What was skipped or expired, and so went to no consumer, is not among them."""
        self.messages_redelivered = 0
        self.expired = 0
        """Messages that an operator had expired."""
        self.dropped = 0
        """Messages of a topic that is not persistent, for which its consumers were too slow."""
        self.transactions_committed = 0
        self.transactions_aborted = 0
        """Transactions that had acked something when they ended."""
        self.hidden = 0
        """Aborted messages and markers that it came to."""
        self.flowed_ms = 0
        self.consumed_ms = 0
        self.settled_ms = 0
        """When an ack last changed anything."""
        self.mark_delete_ms = 0
        self.expired_ms = 0


def delivered(consumer: Consumer, *, entries: int, messages: int, size: int) -> None:
    """Entries went to a consumer."""
    subscription = consumer.subscription
    topic, counts = subscription.topic, subscription.counts
    counters = topic.counters
    consumer.messages_out += messages
    consumer.bytes_out += size
    counts.messages_out += messages
    counts.bytes_out += size
    topic.messages_out += messages
    topic.bytes_out += size
    topic.entries_out += entries
    counters.messages_out += messages
    counters.bytes_out += size
    counts.entries_out += entries
    counters.entries_out += entries
    counts.consumed_ms = topic.now_ms()


def redelivered(consumer: Consumer, messages: int) -> None:
    """… and were with a consumer before."""
    subscription = consumer.subscription
    consumer.messages_redelivered += messages
    subscription.counts.messages_redelivered += messages
    subscription.topic.counters.messages_redelivered += messages


def stale_delivery(subscription: Subscription, entries: int) -> None:
    """Entries were read under an older epoch, and dropped."""
    subscription.topic.counters.stale_dropped["delivery"] += entries


def settled(subscription: Subscription, acked: Acked) -> None:
    """An ack was applied, or was too late to be."""
    counted(subscription, acked)
    if acked.count:
        progressed(subscription, acked.ranges)


def counted(subscription: Subscription, acked: Acked) -> None:
    """The same of one ack of several, behind which `progressed` is called once."""
    if acked.ignored:
        subscription.topic.counters.stale_dropped["ack"] += acked.ignored
    subscription.counts.messages_acked += acked.count


def progressed(subscription: Subscription, ranges: Sequence[Range]) -> None:
    """These were acked and had not been before."""
    counts = subscription.counts
    now_ms = counts.settled_ms = subscription.topic.now_ms()
    if min(ranges)[0] <= subscription.cursor.mark_delete_index:
        counts.mark_delete_ms = now_ms
