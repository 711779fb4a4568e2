"""The stats of topics and partitioned topics, and internal stats."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from fastapi import Depends, Query, Request

from milepost.broker.auth.operations import Operation
from milepost.broker.broker import Broker
from milepost.broker.dispatch.consumer import Consumer
from milepost.broker.limits.time_slices import SHORT_WORK_S, TimeSlices
from milepost.broker.messages.entry_view import time_text
from milepost.broker.monitoring import stats
from milepost.broker.subscription.subscription import Subscription
from milepost.broker.topic.producer import Producer
from milepost.broker.topic.producer_access import AccessMode
from milepost.broker.topic.topic import Topic
from milepost.positions.names import TopicName
from milepost.rest.hosts import broker_name
from milepost.rest.request import TOPIC, AskedBroker, AskedTopic, OpenedTopic, opened_parts
from milepost.rest.resources.stats_models import (
    CompactionStats,
    ConsumerStats,
    CursorStats,
    InternalStats,
    LedgerStats,
    PartitionedInternalStats,
    PartitionedTopicStats,
    PartitionsMetadata,
    PublisherStats,
    SubscriptionStats,
    TopicStats,
)
from milepost.rest.route_access import Router

router = Router("statistics", Operation.LOOK_UP)

# Ranges of single messages that internal statistics show of one subscription.
SHOWN_RANGES_MAX = 1000


class Asked(NamedTuple):
    """The flags of a request for statistics."""

    size: bool
    earliest: bool
    publishers: bool
    consumers: bool


async def _asked(
    precise: Annotated[bool, Query(alias="getPreciseBacklog")] = False,
    size: Annotated[bool, Query(alias="subscriptionBacklogSize")] = True,
    earliest: Annotated[bool, Query(alias="getEarliestTimeInBacklog")] = False,
    no_publishers: Annotated[bool, Query(alias="excludePublishers")] = False,
    no_consumers: Annotated[bool, Query(alias="excludeConsumers")] = False,
) -> Asked:
    """`getPreciseBacklog` asks for what is always so here."""
    return Asked(size, earliest, not no_publishers, not no_consumers)


Flags = Annotated[Asked, Depends(_asked)]


@router.get(f"{TOPIC}/stats", response_model_exclude_none=True)
async def get_stats(broker: AskedBroker, topic: OpenedTopic, asked: Flags) -> TopicStats:
    """Of a non-persistent topic as well, as long as a client uses it."""
    return await topic_stats(broker, topic, asked)


@router.get(f"{TOPIC}/partitioned-stats", response_model_exclude_none=True)
async def get_partitioned_stats(
    request: Request,
    broker: AskedBroker,
    name: AskedTopic,
    asked: Flags,
    per_partition: Annotated[bool, Query(alias="perPartition")] = True,
) -> PartitionedTopicStats:
    """Sums over the partitions, and with `perPartition` each one's own."""
    found = {
        str(topic.name): await topic_stats(broker, topic, asked)
        for topic in await _partitions(request, broker, name)
    }
    total = summed(list(found.values()), broker_name(broker))
    metadata: dict[str, int | bool] = {"partitions": len(found), "deleted": False}
    return PartitionedTopicStats(
        **dict(total), metadata=metadata, partitions=found if per_partition else {}
    )


@router.get(f"{TOPIC}/internalStats", response_model_exclude_none=True)
async def get_internal_stats(broker: AskedBroker, topic: OpenedTopic) -> InternalStats:
    """Ledgers and cursors, by position and by index."""
    return await internal_stats(broker, topic)


@router.get(f"{TOPIC}/partitioned-internalStats", response_model_exclude_none=True)
async def get_partitioned_internal_stats(
    request: Request, broker: AskedBroker, name: AskedTopic
) -> PartitionedInternalStats:
    topics = await _partitions(request, broker, name)
    return PartitionedInternalStats(
        metadata=PartitionsMetadata(partitions=len(topics)),
        partitions={str(topic.name): await internal_stats(broker, topic) for topic in topics},
    )


async def _partitions(request: Request, broker: Broker, name: TopicName) -> list[Topic]:
    partitions = broker.directory.partitioned_doc(name)["partitions"]
    return await opened_parts(request, name) if partitions else []


# -- one topic ---------------------------------------------------------------------------------------


async def topic_stats(broker: Broker, topic: Topic, asked: Asked) -> TopicStats:
    log, policies, slices = topic.log, topic.policies, TimeSlices(broker.clock, SHORT_WORK_S)
    rate_in, throughput_in, rate_out, throughput_out = topic.rates.per_second[:4]
    subscriptions = {
        name: await subscription_stats(one, asked, slices, broker)
        for name, one in list(topic.subscriptions.items())
    }
    standing = await broker.engine.look(lambda: stats.topic_standing(topic))
    oldest_ms = standing.oldest_ms
    producers = list(topic.producers.values())
    transactions = topic.transactions
    waiting = sum(one.waiting_request_id is not None for one in producers)
    return TopicStats(
        msgRateIn=rate_in,
        msgThroughputIn=throughput_in,
        msgRateOut=rate_out,
        msgThroughputOut=throughput_out,
        bytesInCounter=topic.bytes_in,
        msgInCounter=topic.messages_in,
        bytesOutCounter=topic.bytes_out,
        msgOutCounter=topic.messages_out,
        averageMsgSize=throughput_in / rate_in if rate_in else 0.0,
        msgChunkPublished=topic.chunks_in > 0,
        pendingChunkedMessages=topic.chunked.unfinished_count,
        storageSize=log.size_from(log.first_index),
        backlogSize=standing.size_bytes,
        oldestBacklogMessageAgeSeconds=(
            -1 if standing.slowest is None else max(broker.clock.wall_ms() - oldest_ms, 0) // 1000
        ),
        oldestBacklogMessageSubscriptionName=standing.slowest,
        earliestMsgPublishTimeInBacklogs=oldest_ms if asked.earliest else 0,
        ongoingTxnCount=0 if transactions is None else len(transactions.known()),
        abortedTxnCount=0 if transactions is None else transactions.aborted,
        committedTxnCount=0 if transactions is None else transactions.committed,
        publishers=[publisher_stats(one) for one in producers] if asked.publishers else [],
        waitingPublishers=waiting,
        subscriptions=subscriptions,
        deduplicationStatus="Enabled" if topic.dedup is not None else "Disabled",
        topicEpoch=topic.access.epoch,
        compaction=CompactionStats(
            lastCompactionRemovedEventCount=topic.compactions.removed,
            lastCompactionSucceedTimestamp=topic.compactions.succeeded_ms,
            lastCompactionFailedTimestamp=topic.compactions.failed_ms,
            lastCompactionDurationTimeInMills=topic.compactions.took_ms,
        ),
        nonContiguousDeletedMessagesRanges=sum(
            one.nonContiguousDeletedMessagesRanges for one in subscriptions.values()
        ),
        ownerBroker=broker_name(broker),
        topicCreationTimeStamp=topic.created_ms,
        backlogQuotaLimitSize=-1 if policies.quota_size is None else policies.quota_size.limit,
        backlogQuotaLimitTime=-1 if policies.quota_time is None else policies.quota_time.limit,
        publishRateLimitedTimes=topic.publishes_held,
        msgDropRate=_drop_rate(topic, topic.rates.per_second[4]),
        lastPublishTimeStamp=topic.published_ms or (log.last_timestamp_ms if log.end_index else 0),
        firstIndex=log.first_index,
        endIndex=log.end_index,
        refusal=log.refusal,
        terminated=topic.is_terminated,
    )


def publisher_stats(producer: Producer) -> PublisherStats:
    rate, throughput = producer.rates.per_second[:2]
    return PublisherStats(
        accessMode=ACCESS_MODES[AccessMode(producer.mode)],
        msgRateIn=rate,
        msgThroughputIn=throughput,
        averageMsgSize=throughput / rate if rate else 0.0,
        producerId=producer.producer_id,
        producerName=producer.name,
        address=f"/{producer.peer.address}",
        connectedSince=time_text(producer.connected_since_ms),
        clientVersion=producer.peer.client_version,
        metadata=producer.metadata,
        # What is dropped is dropped of a subscription, whichever producer published it.
        msgDropRate=_drop_rate(producer.topic, 0.0),
    )


def _drop_rate(topic: Topic, rate: float) -> float | None:
    """Nothing is dropped of what is stored, and upstream does not speak of it there."""
    return None if topic.name.is_persistent else rate


ACCESS_MODES = {
    AccessMode.SHARED: "Shared",
    AccessMode.EXCLUSIVE: "Exclusive",
    AccessMode.WAIT_FOR_EXCLUSIVE: "WaitForExclusive",
    AccessMode.EXCLUSIVE_WITH_FENCING: "ExclusiveWithFencing",
}


async def subscription_stats(
    subscription: Subscription, asked: Asked, slices: TimeSlices, broker: Broker
) -> SubscriptionStats:
    if slices.is_over:  # with many subscriptions, however little there is to say of each
        await slices.rest()
    cursor, totals, dispatcher = subscription.cursor, subscription.counts, subscription.dispatcher
    standing = await broker.engine.look(lambda: stats.standing_of(subscription))
    # From here to the next wait everything is of the moment in which the cursor stands there.
    counts, end, first = cursor.counts(), cursor.end, cursor.first
    rates = subscription.rates.per_second
    mark_delete, epoch = cursor.mark_delete_index, cursor.epoch
    consumers = [consumer_stats(one) for one in subscription.consumers]
    active: Consumer | None = getattr(dispatcher, "active", None)
    type_name, is_blocked, aside = (
        _type_of(subscription),
        subscription.is_blocked,
        cursor.aside_count,
    )
    unacked = sum(part.unacked for part in subscription.parts())
    entries = await stats.count_entries(subscription.topic.log, standing, slices, broker.engine)
    holes = (await stats.ack_holes(standing.ranges, end, slices))[:SHOWN_RANGES_MAX]
    return SubscriptionStats(
        msgRateOut=rates[0],
        msgThroughputOut=rates[1],
        bytesOutCounter=totals.bytes_out,
        msgOutCounter=totals.messages_out,
        msgRateRedeliver=rates[2],
        messageAckRate=rates[3],
        msgBacklog=entries,
        backlogSize=standing.size_bytes if asked.size else -1,
        earliestMsgPublishTimeInBacklog=standing.oldest_ms if asked.earliest else 0,
        msgBacklogNoDelayed=entries,
        blockedSubscriptionOnUnackedMsgs=is_blocked,
        msgDelayed=counts.delayed,
        msgInReplay=aside,
        unackedMessages=unacked,
        type=type_name,
        activeConsumerName=None if active is None else active.name,
        msgRateExpired=rates[4],
        totalMsgExpired=totals.expired,
        lastExpireTimestamp=totals.expired_ms,
        lastConsumedFlowTimestamp=totals.flowed_ms,
        lastConsumedTimestamp=totals.consumed_ms,
        lastAckedTimestamp=totals.settled_ms,
        lastMarkDeleteAdvancedTimestamp=totals.mark_delete_ms,
        consumers=consumers if asked.consumers else [],
        isReplicated=subscription.is_replicated,
        replicated=subscription.is_replicated,
        isDurable=subscription.is_durable,
        durable=subscription.is_durable,
        nonContiguousDeletedMessagesRanges=len(holes),
        subscriptionProperties=subscription.properties,
        msgDropRate=_drop_rate(subscription.topic, rates[5]),
        messagesBacklog=counts.ready + counts.inflight + counts.delayed,
        messagesReady=counts.ready,
        messagesInflight=counts.inflight,
        messagesDelayed=counts.delayed,
        messagesAcked=counts.acked,
        firstIndex=first,
        endIndex=end,
        markDeleteIndex=mark_delete,
        epoch=epoch,
    )


def consumer_stats(consumer: Consumer) -> ConsumerStats:
    rates = consumer.rates.per_second
    return ConsumerStats(
        msgRateOut=rates[0],
        msgThroughputOut=rates[1],
        bytesOutCounter=consumer.bytes_out,
        msgOutCounter=consumer.messages_out,
        msgRateRedeliver=rates[2],
        messageAckRate=rates[3],
        consumerName=consumer.name,
        availablePermits=consumer.permits,
        unackedMessages=consumer.unacked,
        blockedConsumerOnUnackedMsgs=consumer.is_blocked,
        address=f"/{consumer.peer.address}",
        connectedSince=time_text(consumer.connected_since_ms),
        clientVersion=consumer.peer.client_version,
        lastConsumedFlowTimestamp=consumer.flowed_ms,
        keyHashRanges=(
            None
            if consumer.key_ranges is None
            else [f"[{first}, {last}]" for first, last in consumer.key_ranges]
        ),
        metadata=consumer.metadata,
    )


# -- sums --------------------------------------------------------------------------------------------

# What a whole has no sum of.
_OWN = {"firstIndex", "endIndex", "markDeleteIndex", "epoch", "averageMsgSize"}
_LARGEST = {"oldestBacklogMessageAgeSeconds"}


def summed(parts: list[TopicStats], owner: str) -> TopicStats:
    """The numbers of a partitioned topic: sums, latest times, and subscriptions by name."""
    total = _sum([one.model_dump(exclude={"subscriptions", "publishers"}) for one in parts])
    names = sorted({name for one in parts for name in one.subscriptions})
    total["subscriptions"] = {
        name: _subscription_sum(
            [one.subscriptions[name] for one in parts if name in one.subscriptions]
        )
        for name in names
    }
    rate = total["msgRateIn"]
    total["averageMsgSize"] = total["msgThroughputIn"] / rate if rate else 0.0
    total["publishers"] = [publisher for one in parts for publisher in one.publishers]
    return TopicStats(**{**total, "ownerBroker": owner})


def _subscription_sum(parts: list[SubscriptionStats]) -> SubscriptionStats:
    total = _sum([one.model_dump(exclude={"consumers"}) for one in parts])
    return SubscriptionStats(
        **{**total, "consumers": [consumer for one in parts for consumer in one.consumers]}
    )


def _sum(parts: list[dict[str, Any]]) -> dict[str, Any]:
    total = dict(parts[0])
    for name, value in total.items():
        values = [one[name] for one in parts]
        if name in _OWN:
            total[name] = 0
        elif isinstance(value, bool):
            total[name] = any(values)
        elif name in _LARGEST or "imestamp" in name.lower():
            total[name] = max(values)
        elif isinstance(value, int | float) and "Limit" not in name:
            total[name] = sum(values)
        elif value is None:
            total[name] = next((one for one in values if one is not None), None)
    return total


# -- what lies where ---------------------------------------------------------------------------------


async def internal_stats(broker: Broker, topic: Topic) -> InternalStats:
    log, slices = topic.log, TimeSlices(broker.clock, SHORT_WORK_S)
    ledgers = [
        LedgerStats(
            ledgerId=one.ledger_id,
            entries=one.entries,
            size=one.size_bytes if one.entries else 0,
            firstIndex=one.first_index,
            endIndex=one.end_index,
        )
        for one in log.ledgers
    ]
    last = log.last_position() or (f"{ledgers[-1].ledgerId}:-1" if ledgers else "-1:-1")
    return InternalStats(
        entriesAddedCounter=log.entry_count,
        numberOfEntries=log.entry_count,
        totalSize=log.size_from(log.first_index),
        currentLedgerEntries=ledgers[-1].entries if ledgers else 0,
        currentLedgerSize=ledgers[-1].size if ledgers else 0,
        lastLedgerCreatedTimestamp=time_text(log.ledgers[-1].first_time_ms if ledgers else 0),
        waitingCursorsCount=sum(_is_waiting(one) for one in topic.subscriptions.values()),
        pendingAddEntriesCount=log.next_index - log.end_index,
        lastConfirmedEntry=str(last),
        state="Terminated" if topic.is_terminated else "LedgerOpened",
        ledgers=ledgers,
        cursors={
            name: await _cursor_stats(one, slices, broker)
            for name, one in list(topic.subscriptions.items())
        },
        properties=topic.row.doc.get("properties", {}),
    )


def _type_of(subscription: Subscription) -> str:
    """By upstream's names. To its clients a broadcast group is shared: its members dispatch, not itself."""
    if not subscription.consumers:
        return "None"
    dispatcher = subscription.dispatcher or subscription.consumers[0].subscription.dispatcher
    return "None" if dispatcher is None else dispatcher.type_name


def _is_waiting(subscription: Subscription) -> bool:
    """Has it room for more, and there is nothing?"""
    return bool(subscription.consumers) and subscription.cursor.first_ready is None


async def _cursor_stats(
    subscription: Subscription, slices: TimeSlices, broker: Broker
) -> CursorStats:
    stats.settle(subscription)
    cursor = subscription.cursor
    holes = await stats.ack_holes(cursor.backlog_ranges(), cursor.end, slices)
    text = await stats.individually_acked(subscription, holes, slices, broker.engine)
    backlog = await stats.backlog_of(subscription, slices, broker.engine)
    mark_delete, marked_at, read_at = await broker.engine.look(
        lambda: (
            cursor.mark_delete_index,
            stats.mark_delete_position(subscription),
            stats.read_position(subscription),
        )
    )
    return CursorStats(
        markDeletePosition=str(marked_at),
        readPosition=str(read_at),
        waitingReadOp=_is_waiting(subscription),
        messagesConsumedCounter=subscription.counts.messages_acked,
        individuallyDeletedMessages=text,
        active=bool(subscription.consumers),
        numberOfEntriesSinceFirstNotAckedMessage=backlog.entries,
        totalNonContiguousDeletedMessagesRange=len(holes),
        markDeleteIndex=mark_delete,
        notAckedIndexes=holes[:SHOWN_RANGES_MAX],
    )
