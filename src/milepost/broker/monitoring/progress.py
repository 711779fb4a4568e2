"""The progress of one subscription: all its numbers at one moment, with a verdict.

    progress = progress_of(subscription, now_ms)
    progress.ready + progress.inflight + progress.delayed + progress.acked == progress.end - progress.first

One call is one step: nothing happens between two of its numbers. Times come from the caller; the age of the
backlog is that of the first message that is not acked, by the time at which the broker stored it, and is 0
when there is none. Reads no payload, opens no topic, changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from milepost.broker.messages.lookup_by_index import UNREADABLE, came_ms
from milepost.broker.metrics.samples import Sample
from milepost.broker.monitoring.verdicts import Asking, HeldBack, Hole, judge
from milepost.broker.subscription import pending_acks
from milepost.cursor.cursor import TRANSACTIONS, Cursor
from milepost.positions.ids import MessageId
from milepost.positions.ranges import Range
from milepost.positions.severity import Verdict
from milepost.positions.spans import Span
from milepost.storage.ledgers.entry import BATCH
from milepost.storage.ledgers.not_in_memory import taken_together
from milepost.wire.extensions import READER, SPARK

if TYPE_CHECKING:
    from milepost.broker.dispatch.consumer import Consumer
    from milepost.broker.subscription.subscription import Subscription
    from milepost.broker.topic.topic import Topic
    from milepost.positions.transactions import TxnId

# Holes are counted up to here: who has more has one worth looking at first.
HOLES_MAX = 10_000


class ConsumerProgress(NamedTuple):
    name: str
    address: str
    client_version: str
    inflight: int
    permits: int
    messages_out: int
    messages_acked: int
    messages_redelivered: int
    is_blocked: bool
    connected_since_ms: int
    consumer_epoch: int
    """-1 for one that sends none."""


class Progress(NamedTuple):
    """Of one subscription on one partition."""

    topic: str
    partition: int
    """-1 for a topic without partitions."""
    subscription: str
    member: str
    """Of a broadcast group, whose it is; else empty."""
    type: str
    """Exclusive, Shared, …; empty while there never was a consumer."""
    is_durable: bool
    first: int
    end: int
    """What is retained: `[first, end)`."""
    mark_delete_index: int
    ready: int
    inflight: int
    delayed: int
    acked: int
    """Invariant: the four are `end − first`."""
    backlog: int
    """What is not acked."""
    pending: int
    """Of what is inflight, how much transactions have acked that have not ended."""
    held_back_by: HeldBack | None
    """The open transaction that keeps what lies behind the end from being seen."""
    holes: int
    """Ranges that are not acked though something behind them is."""
    hole: Hole | None
    """The oldest of them."""
    behind_ms: int
    """How long ago the first message came that is not acked; 0 if all are."""
    epoch: int
    rate_in: float
    rate_out: float
    rate_acked: float
    """Messages a second, of the last minute."""
    messages_out: int
    messages_acked: int
    """Since the topic was opened: the difference of two looks is what happened between them."""
    verdict: Verdict
    reason: str
    drained_in_s: float | None
    consumers: tuple[ConsumerProgress, ...]


def progress_of(subscription: Subscription, now_ms: int, *, member: str = "") -> Progress:
    """`now_ms` is wall-clock time."""
    cursor, topic = subscription.cursor, subscription.topic
    counts = cursor.counts()
    mark = cursor.mark_delete_index
    backlog = counts.ready + counts.inflight + counts.delayed
    # Mostly nothing behind the mark-delete index is acked: then there are no holes to look for.
    holes, oldest = _holes(cursor) if backlog != cursor.end - mark - 1 else (0, None)
    hole = None if oldest is None else _hole(subscription, oldest, now_ms)
    recent = subscription.samples.recent()
    consumers = tuple(_consumer(consumer) for consumer in subscription.consumers)
    connected = {consumer.subscription.label_of(consumer) for consumer in subscription.consumers}
    pending, held_back = pending_acks.count_of(subscription), _held_back(topic, now_ms)
    judged = judge(
        counts,
        [_asking(consumer) for consumer in subscription.consumers],
        recent,
        waiting=[name for name in subscription.resets.waiting if name in connected],
        hole=hole,
        refusal=topic.log.refusal,
        of_spark=subscription.properties.get(READER) == SPARK,
        pending=pending,
        pending_in=_pending_in(subscription, now_ms) if pending else "",
        held_back=held_back,
    )
    return Progress(
        topic=str(topic.name),
        partition=topic.name.partition,
        subscription=subscription.name,
        member=member,
        type="" if subscription.dispatcher is None else subscription.dispatcher.type_name,
        is_durable=subscription.is_durable,
        first=cursor.first,
        end=cursor.end,
        mark_delete_index=mark,
        ready=counts.ready,
        inflight=counts.inflight,
        delayed=counts.delayed,
        acked=counts.acked,
        backlog=backlog,
        pending=pending,
        held_back_by=held_back,
        holes=holes,
        hole=hole,
        behind_ms=_age_ms(topic, mark + 1, now_ms) if backlog else 0,
        epoch=cursor.epoch,
        rate_in=recent.rate_in,
        rate_out=recent.rate_out,
        rate_acked=recent.rate_acked,
        messages_out=subscription.counts.messages_out,
        messages_acked=subscription.counts.messages_acked,
        verdict=judged.verdict,
        reason=judged.reason,
        drained_in_s=judged.drained_in_s,
        consumers=consumers,
    )


def progress_of_all(subscriptions: Iterable[Subscription], now_ms: int) -> list[Progress]:
    """Of each subscription; what any of them lacks is said at once."""
    return taken_together(partial(progress_of, one, now_ms) for one in subscriptions)


def sample(subscription: Subscription, monotonic_ms: int) -> None:
    """Take a sample of a subscription, if it is time."""
    samples = subscription.samples
    if samples.is_due(monotonic_ms):
        cursor = subscription.cursor
        samples.add(
            Sample(
                monotonic_ms,
                cursor.end - subscription.counts.hidden,
                subscription.counts.messages_out,
                subscription.counts.messages_acked,
                cursor.mark_delete_index,
            )
        )


def _consumer(consumer: Consumer) -> ConsumerProgress:
    return ConsumerProgress(
        consumer.name,
        consumer.peer.address,
        consumer.peer.client_version,
        consumer.unacked,
        consumer.permits,
        consumer.messages_out,
        consumer.messages_acked,
        consumer.messages_redelivered,
        consumer.is_blocked,
        consumer.connected_since_ms,
        consumer.epoch,
    )


def _asking(consumer: Consumer) -> Asking:
    return Asking(
        consumer.name,
        consumer.permits,
        consumer.unacked,
        consumer.is_blocked,
        consumer.peer.is_writable,
    )


def _holes(cursor: Cursor) -> tuple[int, Range | None]:
    """How many there are, and the oldest."""
    count, oldest = cursor.hole_count()
    return min(count, HOLES_MAX), oldest


def _hole(subscription: Subscription, oldest: Range, now_ms: int) -> Hole:
    topic, cursor = subscription.topic, subscription.cursor
    index, end = oldest
    holder = cursor.holder_of(index)
    if holder == TRANSACTIONS:
        names = [_pending_in(subscription, now_ms, index)]
    else:
        names = [one.name for one in subscription.consumers if one.holder == holder]
    released = cursor.redelivery_count(Span(index, 1))
    return Hole(
        index,
        end,
        id_text(topic, index),
        _age_ms(topic, index, now_ms),
        names[0] if names else "",
        released + (holder is not None),
    )


def id_text(topic: Topic, index: int) -> str:
    """The id of the message with this index; empty if it is not there, or the disk does not say."""
    if not topic.log.first_index <= index < topic.log.end_index:
        return ""
    try:
        position, span, _, flags = topic.log.locate(index)
    except UNREADABLE:
        return ""
    batch_index = index - span.first_index if flags & BATCH else -1
    return str(MessageId(*position, topic.name.partition, batch_index))


def _held_back(topic: Topic, now_ms: int) -> HeldBack | None:
    txn_id = None if topic.transactions is None else topic.transactions.holds_back()
    if txn_id is None:
        return None
    return _transaction(topic, txn_id, now_ms)


def _transaction(topic: Topic, txn_id: TxnId, now_ms: int) -> HeldBack:
    coordinator = topic.coordinator
    txn = None if coordinator is None else coordinator.get(txn_id)
    messages = topic.log.end_index - topic.visible_end
    if txn is None:
        return HeldBack(str(txn_id), "", 0, 0, messages, ())
    open_ms = max(now_ms - txn.opened_ms, 0)
    topics = tuple(txn.all_topics())
    return HeldBack(str(txn_id), txn.owner or "", txn.opened_ms, open_ms, messages, topics)


def _pending_in(subscription: Subscription, now_ms: int, index: int | None = None) -> str:
    """The transaction that has acked an index and has not ended; without one, the oldest of all."""
    for txn_id, ranges in pending_acks.acked_in(subscription):
        if index is None or index in ranges:
            return str(_transaction(subscription.topic, txn_id, now_ms))
    return "a transaction"


def _age_ms(topic: Topic, index: int, now_ms: int) -> int:
    log = topic.log
    if not log.first_index <= index < log.end_index:
        return 0
    return max(now_ms - came_ms(log, index), 0)
