"""The rows of `/metrics`: names, what they mean, and how each is read from a topic, subscription or consumer.

A name is Pulsar's where Pulsar has the number, so that its dashboards work; what is ours is `milepost_…`. A
backlog is in messages, exact; upstream's counts entries. What has a unit says it in its name, and times are
milliseconds since 1970, as upstream's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from milepost.broker.consumer import Consumer
from milepost.broker.progress import Progress
from milepost.broker.stats import slowest
from milepost.broker.subscription import Subscription
from milepost.broker.topic import Topic


class TopicRow(NamedTuple):
    name: str
    doc: str
    read: Callable[[Topic], float]
    counts: bool = False
    """It only grows: a counter, with `_total` behind its name."""


class SubscriptionRow(NamedTuple):
    name: str
    doc: str
    read: Callable[[Subscription], float]


class ProgressRow(NamedTuple):
    name: str
    doc: str
    read: Callable[[Progress], float]


class ConsumerRow(NamedTuple):
    name: str
    doc: str
    read: Callable[[Consumer], float]


def _consumers(topic: Topic) -> int:
    return sum(len(one.consumers) for one in topic.subscriptions.values())


def _backlog(topic: Topic) -> int:
    return sum(one.cursor.backlog for one in topic.subscriptions.values())


def _average_size(topic: Topic) -> float:
    rate, throughput = topic.rates.per_second[:2]
    return throughput / rate if rate else 0.0


def _backlog_size(topic: Topic) -> int:
    found = slowest(topic)
    return 0 if found is None else topic.log.size_from(found[1])


def _backlog_age(topic: Topic) -> float:
    found = slowest(topic)
    if found is None:
        return -1
    since = topic.log.locate(max(found[1], topic.log.first_index)).timestamp_ms
    return max(topic.now_ms() - since, 0) / 1000


TOPIC_ROWS = (
    TopicRow("pulsar_rate_in", "Messages stored a second.", lambda t: t.rates.per_second[0]),
    TopicRow("pulsar_throughput_in", "Bytes stored a second.", lambda t: t.rates.per_second[1]),
    TopicRow("pulsar_rate_out", "Messages sent a second.", lambda t: t.rates.per_second[2]),
    TopicRow("pulsar_throughput_out", "Bytes sent a second.", lambda t: t.rates.per_second[3]),
    TopicRow("pulsar_average_msg_size", "Bytes of a message, lately.", _average_size),
    TopicRow("pulsar_in_messages", "Messages stored.", lambda t: t.messages_in, True),
    TopicRow("pulsar_in_bytes", "Bytes stored.", lambda t: t.bytes_in, True),
    TopicRow("pulsar_out_messages", "Messages sent to consumers.", lambda t: t.messages_out, True),
    TopicRow("pulsar_out_bytes", "Bytes sent to consumers.", lambda t: t.bytes_out, True),
    TopicRow("pulsar_subscriptions_count", "Subscriptions.", lambda t: len(t.subscriptions)),
    TopicRow("pulsar_producers_count", "Producers now.", lambda t: len(t.producers)),
    TopicRow("pulsar_consumers_count", "Consumers now.", _consumers),
    TopicRow("pulsar_msg_backlog", "Not acked, by all subscriptions.", _backlog),
    TopicRow("pulsar_storage_size", "Bytes of its entries.", lambda t: t.log.size_from(0)),
    TopicRow(
        "pulsar_storage_logical_size",
        "The same, each copy counted once: there is one.",
        lambda t: t.log.size_from(0),
    ),
    TopicRow("pulsar_storage_backlog_size", "Bytes that the slowest needs.", _backlog_size),
    TopicRow("pulsar_storage_backlog_age_seconds", "Age of what it needs; -1: no.", _backlog_age),
    TopicRow("milepost_topic_first_index", "The first index kept.", lambda t: t.log.first_index),
    TopicRow("milepost_topic_end_index", "One past the last index.", lambda t: t.log.end_index),
)

SUBSCRIPTION_ROWS = (
    SubscriptionRow(
        "pulsar_subscription_back_log", "Not acked, in messages.", lambda s: s.cursor.backlog
    ),
    SubscriptionRow(
        "pulsar_subscription_back_log_no_delayed",
        "The same without those that are not due.",
        lambda s: s.cursor.backlog - s.cursor.counts().delayed,
    ),
    SubscriptionRow(
        "pulsar_subscription_delayed", "Ready, but not due.", lambda s: s.cursor.counts().delayed
    ),
    SubscriptionRow(
        "pulsar_subscription_unacked_messages", "Sent and not acked.", lambda s: s.unacked
    ),
    SubscriptionRow(
        "pulsar_subscription_blocked_on_unacked_messages",
        "1 while too many are not acked.",
        lambda s: int(s.is_blocked),
    ),
    SubscriptionRow(
        "pulsar_subscription_msg_rate_out", "Sent a second.", lambda s: s.rates.per_second[0]
    ),
    SubscriptionRow(
        "pulsar_subscription_msg_throughput_out",
        "Bytes sent a second.",
        lambda s: s.rates.per_second[1],
    ),
    SubscriptionRow(
        "pulsar_subscription_msg_rate_redeliver",
        "Sent again a second.",
        lambda s: s.rates.per_second[2],
    ),
    SubscriptionRow(
        "pulsar_subscription_msg_ack_rate", "Acked a second.", lambda s: s.rates.per_second[3]
    ),
    SubscriptionRow(
        "pulsar_subscription_consumers_count", "Consumers now.", lambda s: len(s.consumers)
    ),
    SubscriptionRow(
        "pulsar_subscription_msg_rate_expired",
        "Expired a second.",
        lambda s: s.rates.per_second[4],
    ),
    SubscriptionRow(
        "pulsar_subscription_last_expire_timestamp",
        "When anything was last expired.",
        lambda s: s.tally.expired_ms,
    ),
    SubscriptionRow(
        "pulsar_subscription_last_acked_timestamp", "Of the last ack.", lambda s: s.tally.settled_ms
    ),
    SubscriptionRow(
        "pulsar_subscription_last_consumed_flow_timestamp",
        "Of the last FLOW.",
        lambda s: s.tally.flowed_ms,
    ),
    SubscriptionRow(
        "pulsar_subscription_last_consumed_timestamp",
        "Of the last delivery.",
        lambda s: s.tally.consumed_ms,
    ),
    SubscriptionRow(
        "pulsar_subscription_last_mark_delete_advanced_timestamp",
        "When the mark-delete index last rose.",
        lambda s: s.tally.mark_delete_ms,
    ),
    SubscriptionRow(
        "milepost_subscription_ready", "With nobody.", lambda s: s.cursor.counts().ready
    ),
    SubscriptionRow(
        "milepost_subscription_inflight", "With a consumer.", lambda s: s.cursor.counts().inflight
    ),
    SubscriptionRow("milepost_subscription_acked", "Done.", lambda s: s.cursor.counts().acked),
    SubscriptionRow(
        "milepost_subscription_mark_delete_index",
        "The last index with everything up to it acked.",
        lambda s: s.cursor.mark_delete_index,
    ),
    SubscriptionRow("milepost_seek_epoch", "Seeks of the cursor.", lambda s: s.cursor.epoch),
)

PROGRESS_ROWS = (
    ProgressRow("milepost_subscription_delayed", "Ready, but not due.", lambda p: p.delayed),
    ProgressRow(
        "milepost_subscription_holes", "Ranges not acked below acked ones.", lambda p: p.holes
    ),
    ProgressRow(
        "milepost_subscription_lag_seconds",
        "Since the first message came that is not acked; 0 if all are.",
        lambda p: p.behind_ms / 1000,
    ),
    ProgressRow(
        "milepost_subscription_trouble",
        "0 caught up, 1 consuming, 2 slow, 3 reset pending, 4 no consumer, 5 starved, 6 stalled, "
        "7 blocked by a hole.",
        lambda p: p.verdict.severity,
    ),
)

CONSUMER_ROWS = (
    ConsumerRow("pulsar_consumer_available_permits", "Room it has said.", lambda c: c.permits),
    ConsumerRow("pulsar_consumer_unacked_messages", "Sent and not acked.", lambda c: c.unacked),
    ConsumerRow(
        "pulsar_consumer_blocked_on_unacked_messages",
        "1 while too many are not acked.",
        lambda c: int(c.is_blocked),
    ),
    ConsumerRow("pulsar_consumer_msg_rate_out", "Sent a second.", lambda c: c.rates.per_second[0]),
    ConsumerRow(
        "pulsar_consumer_msg_throughput_out",
        "Bytes sent a second.",
        lambda c: c.rates.per_second[1],
    ),
    ConsumerRow(
        "pulsar_consumer_msg_rate_redeliver",
        "Sent again a second.",
        lambda c: c.rates.per_second[2],
    ),
)
