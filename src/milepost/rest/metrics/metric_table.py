"""The table of metrics of topics, subscriptions and consumers: name, help, value.

A name is Pulsar's where Pulsar has the number, so that its dashboards work; what is ours is `milepost_…`. A
backlog is in messages, exact; upstream's counts entries. What has a unit says it in its name, and times are
milliseconds since 1970, as upstream's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, TypeVar

from milepost.broker.dispatch.consumer import Consumer
from milepost.broker.messages.lookup_by_index import came_ms
from milepost.broker.metrics.histogram import ENTRY_SIZE_NAMES, WRITE_TIME_NAMES, Histogram
from milepost.broker.monitoring.progress import Progress
from milepost.broker.monitoring.stats import backlog_size, slowest
from milepost.broker.subscription import pending_acks
from milepost.broker.subscription.subscription import Subscription
from milepost.broker.topic.topic import Topic

T = TypeVar("T")


class Row(NamedTuple, Generic[T]):
    name: str
    doc: str
    read: Callable[[T], float]
    counts: bool = False
    """It only grows: a counter, with `_total` behind its name."""


def _consumers(topic: Topic) -> int:
    return sum(len(one.consumers) for one in topic.subscriptions.values())


def _backlog(topic: Topic) -> int:
    return sum(one.cursor.backlog for one in topic.subscriptions.values())


def _average_size(topic: Topic) -> float:
    rate, throughput = topic.rates.per_second[:2]
    return throughput / rate if rate else 0.0


def _backlog_age(topic: Topic) -> float:
    found = slowest(topic)
    if found is None:
        return -1
    since = came_ms(topic.log, max(found[1], topic.log.first_index))
    return max(topic.now_ms() - since, 0) / 1000


def _buckets(
    name: str, doc: str, bounds: tuple[str, ...], histogram: Callable[[Topic], Histogram]
) -> Iterator[Row[Topic]]:
    """A name for each bucket, as upstream has it: its boards know no labels for them. What a smaller
    bound has counted is not counted again by a larger one."""

    def count_of(place: int) -> Callable[[Topic], float]:
        return lambda topic: histogram(topic).counts[place]

    for place, bound in enumerate(bounds):
        yield Row(f"{name}_le_{bound}", f"{doc}: {bound.replace('_', ' ')}.", count_of(place))
    # Upstream spells this one in two ways.
    over = f"{name}_le_overflow" if name.endswith("size") else f"{name}_overflow"
    yield Row(over, f"{doc}: more than that.", count_of(len(bounds)))
    yield Row(f"{name}_count", f"{doc}: all of them.", lambda topic: histogram(topic).count)
    # Upstream sums up microseconds, of what its bounds have in milliseconds.
    unit = 1 if name.endswith("size") else 1000
    yield Row(f"{name}_sum", f"{doc}: their sum.", lambda topic: histogram(topic).total * unit)


TOPIC_ROWS: tuple[Row[Topic], ...] = (
    Row(
        "milepost_topic_damaged",
        "1 while the topic takes no messages: some are lost, or its ledgers cannot be written.",
        lambda t: t.log.refusal is not None,
    ),
    Row("pulsar_rate_in", "Messages stored a second.", lambda t: t.rates.per_second[0]),
    Row("pulsar_throughput_in", "Bytes stored a second.", lambda t: t.rates.per_second[1]),
    Row("pulsar_rate_out", "Messages sent a second.", lambda t: t.rates.per_second[2]),
    Row("pulsar_throughput_out", "Bytes sent a second.", lambda t: t.rates.per_second[3]),
    Row("pulsar_average_msg_size", "Bytes of a message, lately.", _average_size),
    Row("pulsar_in_messages", "Messages stored.", lambda t: t.messages_in, True),
    Row("pulsar_in_bytes", "Bytes stored.", lambda t: t.bytes_in, True),
    Row("pulsar_out_messages", "Messages sent to consumers.", lambda t: t.messages_out, True),
    Row("pulsar_out_bytes", "Bytes sent to consumers.", lambda t: t.bytes_out, True),
    Row("pulsar_subscriptions_count", "Subscriptions.", lambda t: len(t.subscriptions)),
    Row("pulsar_producers_count", "Producers now.", lambda t: len(t.producers)),
    Row("pulsar_consumers_count", "Consumers now.", _consumers),
    Row("pulsar_msg_backlog", "Not acked, by all subscriptions.", _backlog),
    Row("pulsar_storage_size", "Bytes of its entries.", lambda t: t.log.size_from(0)),
    Row(
        "pulsar_storage_logical_size",
        "The same, each copy counted once: there is one.",
        lambda t: t.log.size_from(0),
    ),
    Row("pulsar_storage_backlog_size", "Bytes that the slowest needs.", backlog_size),
    Row("pulsar_storage_backlog_age_seconds", "Age of what it needs; -1: no.", _backlog_age),
    Row("pulsar_storage_write_rate", "Entries stored a second.", lambda t: t.rates.per_second[5]),
    Row("pulsar_storage_read_rate", "Entries sent a second.", lambda t: t.rates.per_second[6]),
    Row(
        "pulsar_storage_backlog_quota_limit",
        "Bytes that the backlog may have; -1: no limit.",
        lambda t: -1 if t.policies.quota_size is None else t.policies.quota_size.limit,
    ),
    Row(
        "pulsar_storage_backlog_quota_limit_time",
        "Seconds that the backlog may be old; -1: no limit.",
        lambda t: -1 if t.policies.quota_time is None else t.policies.quota_time.limit,
    ),
    Row("pulsar_storage_offloaded_size", "Bytes kept elsewhere: none are.", lambda t: 0),
    Row(
        "pulsar_publish_rate_limit_times",
        "How often a producer had to wait for the publish rate.",
        lambda t: t.publishes_held,
    ),
    Row(
        "pulsar_compaction_removed_event_count",
        "Messages that the last compaction left out.",
        lambda t: t.compactions.removed,
    ),
    Row(
        "pulsar_compaction_duration_time_in_mills",
        "How long the last compaction took.",
        lambda t: t.compactions.took_ms,
    ),
    *_buckets(
        "pulsar_storage_write_latency",
        "Entries of the last minute that were durable within so many milliseconds",
        WRITE_TIME_NAMES,
        lambda t: t.write_times,
    ),
    # One journal makes an entry durable, and nothing waits before it or behind it.
    *_buckets(
        "pulsar_storage_ledger_write_latency",
        "The same, without waiting",
        WRITE_TIME_NAMES,
        lambda t: t.write_times,
    ),
    *_buckets(
        "pulsar_entry_size",
        "Entries of the last minute of at most so many bytes",
        ENTRY_SIZE_NAMES,
        lambda t: t.entry_sizes,
    ),
    Row(
        "milepost_topic_pending_chunked_messages",
        "Chunked messages whose last chunk is still to come.",
        lambda t: t.chunked.unfinished_count,
    ),
    Row("milepost_topic_first_index", "The first index kept.", lambda t: t.log.first_index),
    Row("milepost_topic_end_index", "One past the last index.", lambda t: t.log.end_index),
    Row(
        "milepost_topic_visible_end_index",
        "One past the last index that consumers may see: less while a transaction holds back.",
        lambda t: t.visible_end,
    ),
    Row(
        "pulsar_txn_tb_active_total",
        "Transactions that have messages in it and have not ended.",
        lambda t: 0 if t.transactions is None else len(list(t.transactions.open_messages())),
    ),
    Row(
        "pulsar_txn_tb_committed_total",
        "Transactions committed in it, since it was opened.",
        lambda t: 0 if t.transactions is None else t.transactions.committed,
    ),
    Row(
        "pulsar_txn_tb_aborted_total",
        "Transactions aborted in it, since it was opened.",
        lambda t: 0 if t.transactions is None else t.transactions.aborted,
    ),
)

SUBSCRIPTION_ROWS: tuple[Row[Subscription], ...] = (
    Row("pulsar_subscription_back_log", "Not acked, in messages.", lambda s: s.cursor.backlog),
    Row(
        "pulsar_subscription_back_log_no_delayed",
        "The same without those that are not due.",
        lambda s: s.cursor.backlog - s.cursor.counts().delayed,
    ),
    Row("pulsar_subscription_delayed", "Ready, but not due.", lambda s: s.cursor.counts().delayed),
    Row(
        "pulsar_subscription_in_replay",
        "Ready, but passed over: their consumer has no room, or another one has their key.",
        lambda s: s.cursor.aside_count,
    ),
    Row("pulsar_subscription_unacked_messages", "Sent and not acked.", lambda s: s.unacked),
    Row(
        "pulsar_subscription_blocked_on_unacked_messages",
        "1 while too many are not acked.",
        lambda s: int(s.is_blocked),
    ),
    Row("pulsar_subscription_msg_rate_out", "Sent a second.", lambda s: s.rates.per_second[0]),
    Row(
        "pulsar_subscription_msg_throughput_out",
        "Bytes sent a second.",
        lambda s: s.rates.per_second[1],
    ),
    Row(
        "pulsar_subscription_msg_rate_redeliver",
        "Sent again a second.",
        lambda s: s.rates.per_second[2],
    ),
    Row("pulsar_subscription_msg_ack_rate", "Acked a second.", lambda s: s.rates.per_second[3]),
    Row("pulsar_subscription_consumers_count", "Consumers now.", lambda s: len(s.consumers)),
    Row(
        "pulsar_subscription_msg_rate_expired", "Expired a second.", lambda s: s.rates.per_second[4]
    ),
    Row(
        "pulsar_subscription_last_expire_timestamp",
        "When anything was last expired.",
        lambda s: s.counts.expired_ms,
    ),
    Row(
        "pulsar_subscription_last_acked_timestamp",
        "Of the last ack.",
        lambda s: s.counts.settled_ms,
    ),
    Row(
        "pulsar_subscription_last_consumed_flow_timestamp",
        "Of the last FLOW.",
        lambda s: s.counts.flowed_ms,
    ),
    Row(
        "pulsar_subscription_last_consumed_timestamp",
        "Of the last delivery.",
        lambda s: s.counts.consumed_ms,
    ),
    Row(
        "pulsar_subscription_last_mark_delete_advanced_timestamp",
        "When the mark-delete index last rose.",
        lambda s: s.counts.mark_delete_ms,
    ),
    Row(
        "pulsar_subscription_msg_drop_rate",
        "Dropped a second, of topics that are not persistent.",
        lambda s: s.rates.per_second[5],
    ),
    Row("milepost_subscription_ready", "With no consumer.", lambda s: s.cursor.counts().ready),
    Row("milepost_subscription_inflight", "With a consumer.", lambda s: s.cursor.counts().inflight),
    Row("milepost_subscription_acked", "Done.", lambda s: s.cursor.counts().acked),
    Row(
        "milepost_subscription_mark_delete_index",
        "The last index with everything up to it acked.",
        lambda s: s.cursor.mark_delete_index,
    ),
    Row(
        "pulsar_subscription_total_msg_expired",
        "Messages that an operator had expired.",
        lambda s: s.counts.expired,
    ),
    Row(
        "milepost_subscription_pending_in_transactions",
        "Acked by transactions that have not ended.",
        lambda s: sum(map(pending_acks.count_of, s.parts())),
    ),
    Row(
        "pulsar_txn_tp_committed_count",
        "Transactions committed that had acked something.",
        lambda s: sum(one.counts.transactions_committed for one in s.parts()),
    ),
    Row(
        "pulsar_txn_tp_aborted_count",
        "Transactions aborted that had acked something.",
        lambda s: sum(one.counts.transactions_aborted for one in s.parts()),
    ),
    Row("milepost_seek_epoch", "Seeks of the cursor.", lambda s: s.cursor.epoch),
)

PROGRESS_ROWS: tuple[Row[Progress], ...] = (
    Row("milepost_subscription_delayed", "Ready, but not due.", lambda p: p.delayed),
    Row("milepost_subscription_holes", "Ranges not acked below acked ones.", lambda p: p.holes),
    Row(
        "milepost_subscription_lag_seconds",
        "Since the first message came that is not acked; 0 if all are.",
        lambda p: p.behind_ms / 1000,
    ),
    Row(
        "milepost_subscription_trouble",
        "0 caught up, 1 consuming, 2 slow, 3 reset pending, 4 no consumer, 5 starved, 6 stalled, "
        "7 blocked by a hole.",
        lambda p: p.verdict.severity,
    ),
)

CONSUMER_ROWS: tuple[Row[Consumer], ...] = (
    Row("pulsar_consumer_available_permits", "Room it has said.", lambda c: c.permits),
    Row("pulsar_consumer_unacked_messages", "Sent and not acked.", lambda c: c.unacked),
    Row(
        "pulsar_consumer_blocked_on_unacked_messages",
        "1 while too many are not acked.",
        lambda c: int(c.is_blocked),
    ),
    Row("pulsar_consumer_msg_rate_out", "Sent a second.", lambda c: c.rates.per_second[0]),
    Row(
        "pulsar_consumer_msg_throughput_out",
        "Bytes sent a second.",
        lambda c: c.rates.per_second[1],
    ),
    Row(
        "pulsar_consumer_msg_rate_redeliver",
        "Sent again a second.",
        lambda c: c.rates.per_second[2],
    ),
)
