"""Statistics: upstream's names, and numbers that add up."""

from __future__ import annotations

from typing import Any

import pytest
from stage.frames import batch, message
from stage.http import Web
from stage.stage import Stage
from stage.talk import subscribe, wire_id

from milepost.broker.dispatch.dispatchers import SHARED
from milepost.broker.subscription.subscription import Subscription
from milepost.broker.topic.topic import Topic
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import WireId

# As Apache Pulsar 4.2.4 answered; a field that is null is left out there and here.
TOPIC_FIELDS = """msgRateIn msgThroughputIn msgRateOut msgThroughputOut bytesInCounter msgInCounter
systemTopicBytesInCounter bytesOutCounter msgOutCounter bytesOutInternalCounter averageMsgSize
msgChunkPublished storageSize backlogSize backlogQuotaLimitSize backlogQuotaLimitTime
oldestBacklogMessageAgeSeconds publishRateLimitedTimes earliestMsgPublishTimeInBacklogs
offloadedStorageSize lastOffloadLedgerId lastOffloadSuccessTimeStamp lastOffloadFailureTimeStamp
ongoingTxnCount abortedTxnCount committedTxnCount publishers waitingPublishers subscriptions replication
deduplicationStatus nonContiguousDeletedMessagesRanges nonContiguousDeletedMessagesRangesSerializedSize
delayedMessageIndexSizeInBytes compaction ownerBroker topicCreationTimeStamp lastPublishTimeStamp"""
SUBSCRIPTION_FIELDS = """msgRateOut msgThroughputOut bytesOutCounter msgOutCounter msgRateRedeliver
messageAckRate chunkedMessageRate msgBacklog backlogSize earliestMsgPublishTimeInBacklog
msgBacklogNoDelayed blockedSubscriptionOnUnackedMsgs msgDelayed msgInReplay unackedMessages type
msgRateExpired msgExpired totalMsgExpired lastExpireTimestamp lastConsumedFlowTimestamp
lastConsumedTimestamp lastAckedTimestamp lastMarkDeleteAdvancedTimestamp consumers isDurable isReplicated
allowOutOfOrderDelivery consumersAfterMarkDeletePosition nonContiguousDeletedMessagesRanges
subscriptionProperties filterProcessedMsgCount"""
INTERNAL_FIELDS = """entriesAddedCounter numberOfEntries totalSize currentLedgerEntries currentLedgerSize
lastLedgerCreatedTimestamp waitingCursorsCount pendingAddEntriesCount lastConfirmedEntry state ledgers
cursors properties schemaLedgers compactedLedger"""


@pytest.fixture
def web(web: Web) -> Web:
    """Entries of 1, 3, 1, 4 and 1 messages; six of them delivered, three acked."""
    stage = web.stage
    topic = stage.topic()
    producer = stage.producer(topic)
    consumer = stage.consumer(stage.subscription(topic), SHARED, permits=6)
    for frame in (message(0), batch(1, 3), message(4), batch(5, 4), message(9)):
        stage.publish(producer, frame)
        stage.clock.advance(1)
    assert consumer.unacked == 9
    stage.ack(consumer, WireId(1, 0), WireId(1, 2), WireId(1, 1, ack_set=(0b101,)))
    return web


def only(web: Web, path: str = "t/stats") -> Any:
    answer = web(f"GET {path}")
    assert answer.status == 200, answer
    return answer.json


def test_a_topic_that_is_not_persistent_has_them_while_it_is_used(web: Web) -> None:
    stage = web.stage
    path = "/admin/v2/non-persistent/public/default/n"
    assert web(f"GET {path}/stats").status == 404
    topic = stage.topic("non-persistent://public/default/n")
    producer = stage.producer(topic)
    subscription = stage.run(_made(stage, topic))
    consumer = stage.consumer(subscription, SHARED, permits=5)
    stage.publish(producer, message(0), batch(1, 3))
    found = only(web, f"{path}/stats")
    assert (found["msgInCounter"], found["msgOutCounter"], found["msgDropRate"]) == (4, 4, 0.0)
    assert found["subscriptions"]["v"]["msgDropRate"] == 0.0
    assert found["publishers"][0]["msgDropRate"] == 0.0
    assert only(web, f"{path}/internalStats")["numberOfEntries"] == 2
    assert only(web, "/admin/v2/non-persistent/public/default") == [str(topic.name)]
    assert "msgDropRate" not in only(web)
    stage.broker.remove_consumer(consumer)


async def _made(stage: Stage, topic: Topic) -> Subscription:
    return stage.broker.create_reader(topic, "v", 0)


def test_the_names_are_upstreams(web: Web) -> None:
    found = only(web)
    assert set(TOPIC_FIELDS.split()) <= set(found)
    assert set(SUBSCRIPTION_FIELDS.split()) <= set(found["subscriptions"]["s"])
    assert set(INTERNAL_FIELDS.split()) <= set(only(web, "t/internalStats"))


def test_entries_beside_messages(web: Web) -> None:
    """`msgBacklog` counts entries: one that is acked in part is in it."""
    found = only(web)
    one = found["subscriptions"]["s"]
    assert (one["msgBacklog"], one["messagesBacklog"]) == (3, 7)
    states = [one[f"messages{state}"] for state in ("Ready", "Inflight", "Delayed", "Acked")]
    assert states == [1, 6, 0, 3]
    assert sum(states) == one["endIndex"] - one["firstIndex"]
    assert (one["markDeleteIndex"], one["unackedMessages"], one["type"]) == (0, 6, "Shared")
    assert (one["msgOutCounter"], found["msgOutCounter"], found["msgInCounter"]) == (9, 9, 10)
    assert one["consumers"][0]["unackedMessages"] == 6
    assert found["publishers"][0]["producerName"] == "p"
    assert found["storageSize"] > found["backlogSize"] > 0
    assert found["backlogSize"] == one["backlogSize"]
    assert found["oldestBacklogMessageSubscriptionName"] == "s"
    assert found["oldestBacklogMessageAgeSeconds"] == 4


def test_a_consumer_tells_when_it_last_gave_permits(web: Web) -> None:
    (one,) = only(web, "t/stats")["subscriptions"]["s"]["consumers"]
    assert one["lastConsumedFlowTimestamp"] > 0


def test_what_is_passed_over_is_ready_and_counted_apart(web: Web) -> None:
    subscription = web.stage.topic().subscriptions["s"]
    ready = subscription.cursor.counts().ready
    assert subscription.cursor.set_aside(0, subscription.cursor.end) == ready > 0
    one = only(web)["subscriptions"]["s"]
    assert (one["msgInReplay"], one["messagesReady"]) == (ready, ready)


def test_flags_leave_out_and_add(web: Web) -> None:
    flags = "excludePublishers=true&excludeConsumers=true&subscriptionBacklogSize=false"
    found = only(web, f"t/stats?{flags}&getEarliestTimeInBacklog=true")
    one = found["subscriptions"]["s"]
    assert (found["publishers"], one["consumers"], one["backlogSize"]) == ([], [], -1)
    earliest = web.stage.topic().log.locate(1).timestamp_ms
    assert one["earliestMsgPublishTimeInBacklog"] == earliest
    assert found["earliestMsgPublishTimeInBacklogs"] == earliest


def test_rates_are_of_the_last_interval(web: Web) -> None:
    stage = web.stage
    stage.tick(11)
    producer = next(iter(stage.topic().producers.values()))
    stage.publish(producer, *(message(10 + number) for number in range(50)))
    stage.tick(10)
    found = only(web)
    assert found["msgRateIn"] == pytest.approx(5.0)
    assert found["publishers"][0]["msgRateIn"] == pytest.approx(5.0)
    assert found["averageMsgSize"] == pytest.approx(found["msgThroughputIn"] / 5)
    stage.tick(10)
    assert only(web)["msgRateIn"] == 0


def test_what_lies_where(web: Web) -> None:
    found = only(web, "t/internalStats")
    assert (found["numberOfEntries"], found["lastConfirmedEntry"], found["state"]) == (
        5,
        "1:4",
        "LedgerOpened",
    )
    (ledger,) = found["ledgers"]
    assert (ledger["entries"], ledger["firstIndex"], ledger["endIndex"]) == (5, 0, 10)
    cursor = found["cursors"]["s"]
    assert cursor["markDeletePosition"] == "1:0"
    assert cursor["readPosition"] == "1:4"
    assert cursor["individuallyDeletedMessages"] == "[(1:1..1:2]]"
    assert cursor["notAckedIndexes"] == [[1, 2], [3, 4]]
    assert cursor["numberOfEntriesSinceFirstNotAckedMessage"] == 3


def test_partitions_are_added_up(stage: Stage) -> None:
    web = Web(stage)
    web("PUT many/partitions", 3)
    web("PUT many/subscription/s", "earliest")
    for number in (0, 2):
        topic = stage.topic(f"persistent://public/default/many-partition-{number}")
        stage.publish(stage.producer(topic), batch(0, 5), message(5))
    found = only(web, "many/partitioned-stats")
    one = found["subscriptions"]["s"]
    assert (found["msgInCounter"], one["msgBacklog"], one["messagesBacklog"]) == (12, 4, 12)
    assert found["metadata"] == {"partitions": 3, "deleted": False}
    assert len(found["partitions"]) == 3
    assert only(web, "many/partitioned-stats?perPartition=false")["partitions"] == {}
    assert len(only(web, "many/partitioned-internalStats")["partitions"]) == 3
    statuses = web.statuses("GET many/stats", "GET t/partitioned-stats", "GET none/stats")
    assert statuses == [404, 404, 404]


def test_an_unused_topic_has_zeros(stage: Stage) -> None:
    web = Web(stage)
    web("PUT t")
    found = only(web)
    assert (found["storageSize"], found["backlogSize"], found["subscriptions"]) == (0, 0, {})
    assert (found["oldestBacklogMessageAgeSeconds"], found["lastPublishTimeStamp"]) == (-1, 0)
    assert only(web, "t/internalStats")["lastConfirmedEntry"] == "-1:-1"


def test_a_broadcast_group_stands_where_its_slowest_member_does(stage: Stage) -> None:
    """At every moment, not only now and then."""
    topic = stage.topic()
    stage.publish(stage.producer(topic), *(message(number) for number in range(5)))
    clients = {}
    for member in ("a", "b"):
        clients[member] = stage.client()
        said = {"milepost.mode": "broadcast", "milepost.member": member}
        metadata = [pb.KeyValue(key=key, value=value) for key, value in said.items()]
        start = pb.CommandSubscribe.Earliest
        subscribe(
            stage, clients[member], "g", SHARED, permits=9, metadata=metadata, initialPosition=start
        )
    for member, count in (("a", 4), ("b", 3)):
        ids = [wire_id(1, number) for number in range(count)]
        clients[member].say(pb.CommandAck(consumer_id=0, ack_type=0, message_id=ids))
    stage.turn()
    found = Web(stage)("GET t/stats").json["subscriptions"]["g"]
    assert (found["msgBacklog"], found["markDeleteIndex"]) == (2, 2)
    assert (found["unackedMessages"], found["type"]) == (3, "Shared")
    cursor = Web(stage)("GET t/internalStats").json["cursors"]["g"]
    assert cursor["numberOfEntriesSinceFirstNotAckedMessage"] == 2
