"""What retention, expiry and quotas ask for is done."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pytest
from stage import transactions
from stage.frames import message
from stage.stage import TOPIC, Stage
from stage.talk import error_of, produce
from stage.transactions import ABORT, COMMIT

from milepost.broker.dispatch.dispatchers import SHARED
from milepost.broker.operations import topic_lifecycle
from milepost.broker.policies.policy import Level
from milepost.broker.policies.table import POLICIES
from milepost.storage.ledgers.ledger import ledger_path
from milepost.testing.peer import RecordingPeer
from milepost.wire import pulsar_pb2 as pb

MakeStage = Callable[..., Stage]


def set_policy(stage: Stage, policy: str, value: Any) -> None:
    stage.run(stage.broker.policies.book.set(Level.TOPIC, TOPIC, POLICIES[policy], value))
    stage.turn()


def fill(stage: Stage, count: int, first: int = 0) -> None:
    topic = stage.topic()
    producer = topic.producers.get("p") or stage.producer(topic)
    for number in range(first, first + count):
        stage.publish(producer, message(number, b"x" * 100))


def keep_house(stage: Stage) -> None:
    house = stage.broker.housekeeping
    for work in (house.expire, house.check_quotas, house.trim):
        stage.loop.do(work)
        stage.turn()


def test_what_is_too_old_is_acked_for_everyone(stage: Stage) -> None:
    topic = stage.topic()
    idle, reader = stage.subscription(topic), stage.subscription(topic, "r", durable=False)
    consumer = stage.consumer(stage.subscription(topic, "busy"), SHARED, permits=2)
    fill(stage, 3)
    stage.clock.advance(10)
    fill(stage, 2, 3)
    set_policy(stage, "message_ttl", 5)
    keep_house(stage)
    for subscription in (idle, reader, consumer.subscription):
        assert subscription.cursor.mark_delete_index == 2, subscription
        assert subscription.cursor.backlog == 2
    assert consumer.unacked == 0
    assert stage.broker.counters.messages_expired == 9
    assert stage.restarted().topic().subscriptions["s"].cursor.backlog == 2


def test_a_subscription_that_nobody_uses_expires(stage: Stage) -> None:
    topic = stage.topic()
    busy = stage.consumer(stage.subscription(topic, "busy"), SHARED, permits=2)
    idle = stage.subscription(topic, "idle")
    stage.subscription(topic, "reader", durable=False)

    def look_after(seconds: float) -> set[str]:
        stage.clock.advance(seconds)
        stage.loop.do(stage.broker.housekeeping.drop_idle)
        stage.turn()
        return set(topic.subscriptions)

    everyone = {"busy", "idle", "reader"}
    assert look_after(3600) == everyone  # nobody has asked for it
    set_policy(stage, "subscription_expiration", 1)
    assert look_after(3600) == everyone  # first seen now
    assert look_after(59) == everyone
    idle.counts.flowed_ms += 1  # somebody was here and is gone
    assert look_after(30) == everyone
    assert look_after(59) == everyone
    assert look_after(1) == {"busy", "reader"}
    stage.broker.remove_consumer(busy)
    assert look_after(1) == {"busy", "reader"}
    assert look_after(60) == {"reader"}
    assert stage.broker.counters.subscriptions_expired == 2
    assert not stage.restarted().topic().subscriptions


def look(stage: Stage, seconds: float) -> set[str]:
    stage.topic()
    stage.clock.advance(seconds)
    stage.loop.do(stage.broker.housekeeping.drop_idle)
    stage.turn()
    return set(stage.topic().subscriptions)


def test_a_restart_does_not_begin_idle_time_anew(stage: Stage) -> None:
    topic = stage.topic()
    stage.subscription(topic, "idle")
    busy = stage.consumer(stage.subscription(topic, "busy"), SHARED, permits=2)
    set_policy(stage, "subscription_expiration", 1)
    assert look(stage, 0) == {"idle", "busy"}
    assert busy.subscription.idle_ms is None
    assert look(stage, 50) == {"idle", "busy"}
    stage.clock.jump(7 * 24 * 3600 * 1000)
    again = stage.restarted()
    assert look(again, 9) == {"idle", "busy"}, "50 s, and first seen by this process"
    assert look(again, 9) == {"idle", "busy"}
    assert look(again, 2) == {"busy"}
    assert look(again, 39) == {"busy"}, "it was in use until the restart"
    assert look(again, 10) == set()


def test_what_was_long_idle_is_looked_at_twice_after_a_restart(stage: Stage) -> None:
    stage.subscription(stage.topic(), "idle")
    set_policy(stage, "subscription_expiration", 1)
    assert look(stage, 0) == {"idle"}
    again = stage.restarted()
    assert look(again, 3600) == {"idle"}, "its consumers may be on their way"
    consumer = again.consumer(again.topic().subscriptions["idle"], SHARED, permits=2)
    assert look(again, 1) == {"idle"}
    assert consumer.subscription.idle_ms is None
    again.broker.remove_consumer(consumer)
    third = again.restarted()
    assert look(third, 1) == {"idle"}
    assert look(third, 58) == {"idle"}, "that it was idle before it was used is forgotten"
    assert look(third, 3) == set()


def test_an_unload_does_not_begin_idle_time_anew(stage: Stage) -> None:
    stage.subscription(stage.topic(), "idle")
    set_policy(stage, "subscription_expiration", 1)
    assert look(stage, 0) == {"idle"}
    assert look(stage, 50) == {"idle"}
    stage.run(topic_lifecycle.close_topic(stage.broker, stage.topic()))
    assert look(stage, 1) == {"idle"}
    assert look(stage, 9) == {"idle"}
    assert look(stage, 3) == set()


def test_what_waits_for_its_time_expires_too(stage: Stage) -> None:
    topic = stage.topic()
    consumer = stage.consumer(stage.subscription(topic), SHARED, permits=10)
    at_ms = stage.clock.wall_ms() + 60_000
    stage.publish(stage.producer(topic), message(0, deliver_at_time=at_ms))
    cursor = consumer.subscription.cursor
    assert cursor.counts().delayed == 1
    set_policy(stage, "message_ttl", 5)
    stage.clock.advance(6)
    keep_house(stage)
    assert cursor.backlog == 0
    stage.tick(60)
    peer = consumer.peer
    assert isinstance(peer, RecordingPeer)
    assert peer.take() == []


def test_what_a_seek_made_stale_expires_too(stage: Stage) -> None:
    topic = stage.topic()
    consumer = stage.consumer(stage.subscription(topic), SHARED, permits=10)
    fill(stage, 3)
    stage.seek(consumer.subscription, 0)
    set_policy(stage, "message_ttl", 5)
    stage.clock.advance(6)
    keep_house(stage)
    assert consumer.subscription.cursor.backlog == 0


def test_only_ledgers_that_everyone_has_acked_go(make_stage: MakeStage) -> None:
    stage = make_stage(ledger_entries_max=2)
    topic = stage.topic()
    slow, fast = stage.subscription(topic, "slow"), stage.subscription(topic, "fast")
    fill(stage, 9)
    fast.skip(9)
    keep_house(stage)
    assert topic.log.first_index == 0
    slow.skip(5)
    keep_house(stage)
    assert topic.log.first_index == 4
    assert slow.cursor.first == 4
    slow.skip(9)
    keep_house(stage)
    assert topic.log.first_index == 8  # the open ledger stays
    assert stage.broker.counters.ledgers_trimmed == 4
    stage = stage.restarted()
    assert stage.topic().log.first_index == 8
    assert stage.topic().log.end_index == 9


def test_retention_keeps_what_is_acked(make_stage: MakeStage) -> None:
    stage = make_stage(ledger_entries_max=2)
    topic = stage.topic()
    for_ever = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
    set_policy(stage, "retention", for_ever)
    fill(stage, 5)  # nobody subscribes: nobody needs it
    keep_house(stage)
    assert topic.log.first_index == 0
    set_policy(stage, "retention", {"retentionTimeInMinutes": 1, "retentionSizeInMB": -1})
    stage.clock.advance(59)
    keep_house(stage)
    assert topic.log.first_index == 0
    stage.clock.advance(1)
    keep_house(stage)
    assert topic.log.first_index == 4


def test_a_ledger_that_is_old_need_not_wait_for_the_next_message(make_stage: MakeStage) -> None:
    stage = make_stage()
    topic = stage.topic()
    fill(stage, 3)
    keep_house(stage)
    assert topic.log.first_index == 0
    stage.clock.advance(5 * 3600)
    keep_house(stage)
    keep_house(stage)
    assert topic.log.first_index == topic.log.end_index == 3


def test_producers_go_when_the_quota_says_so(stage: Stage) -> None:
    topic = stage.topic()
    subscription = stage.subscription(topic)
    peer = RecordingPeer()
    stage.producer(topic, peer=peer)
    fill(stage, 5)
    peer.take()
    quota = {"limitSize": 100, "policy": "producer_request_hold"}
    set_policy(stage, "backlog_quota_size", quota)
    keep_house(stage)
    assert not topic.producers
    assert [type(heard).__name__ for heard in peer.take()] == ["CommandCloseProducer"]
    assert subscription.cursor.backlog == 5
    assert stage.broker.counters.quota_closes == 1


def test_the_oldest_messages_go_when_the_quota_says_so(stage: Stage) -> None:
    topic = stage.topic()
    slow, fast = stage.subscription(topic, "slow"), stage.subscription(topic, "fast", 0)
    fill(stage, 10)
    fast.skip(9)
    quota = {"limitSize": topic.log.size_from(5), "policy": "consumer_backlog_eviction"}
    set_policy(stage, "backlog_quota_size", quota)
    keep_house(stage)
    assert slow.cursor.mark_delete_index == 5  # a tenth below the limit
    assert fast.cursor.mark_delete_index == 8
    assert topic.producers
    assert stage.broker.counters.messages_evicted == 6


def test_a_topic_past_its_threshold_is_compacted(stage: Stage) -> None:
    topic = stage.topic()
    producer = stage.producer(topic)
    stage.publish(producer, *(message(number, partition_key="k") for number in range(5)))
    set_policy(stage, "compaction_threshold", topic.log.size_from(0))
    stage.loop.do(stage.broker.housekeeping.compact)
    stage.turn()
    assert topic.compacted is None
    stage.publish(producer, message(5, partition_key="k"))
    stage.loop.do(stage.broker.housekeeping.compact)
    stage.turn()
    assert topic.compacted is not None
    assert list(topic.compacted.kept) == [(5, 6)]
    keep_house(stage)
    assert topic.log.first_index == 0


def test_what_compaction_kept_is_not_trimmed(make_stage: MakeStage) -> None:
    stage = make_stage(ledger_entries_max=2)
    topic = stage.topic()
    producer = stage.producer(topic)
    for number, key in enumerate("abcbcbcbc"):
        stage.publish(producer, message(number, partition_key=key))
    set_policy(stage, "compaction_threshold", 1)
    stage.loop.do(stage.broker.housekeeping.compact)
    stage.turn()
    keep_house(stage)
    assert topic.log.first_index == 0  # `a` is there
    stage.publish(producer, message(9, b"", partition_key="a"))
    stage.loop.do(stage.broker.housekeeping.compact)
    stage.turn()
    keep_house(stage)
    assert topic.log.first_index == 6


def unused_topics(stage: Stage) -> None:
    stage.loop.do(stage.broker.housekeeping.drop_unused)
    stage.turn()


def test_topics_that_nobody_uses_are_deleted_when_asked(stage: Stage) -> None:
    topic = stage.topic()
    fill(stage, 1)
    unused_topics(stage)
    policy = {"deleteWhileInactive": True, "maxInactiveDurationSeconds": 60}
    set_policy(stage, "inactive_topics", policy)
    unused_topics(stage)  # it has a producer
    stage.clock.advance(61)
    unused_topics(stage)
    assert TOPIC in stage.broker.topics
    topic.producers.clear()
    unused_topics(stage)
    stage.clock.advance(59)
    unused_topics(stage)
    assert TOPIC in stage.broker.topics
    stage.clock.advance(1)
    unused_topics(stage)
    assert TOPIC not in stage.broker.topics


def test_subscriptions_keep_a_topic_or_their_backlog_does(stage: Stage) -> None:
    topic = stage.topic()
    subscription = stage.subscription(topic)
    fill(stage, 1)
    topic.producers.clear()
    policy = {"deleteWhileInactive": True, "maxInactiveDurationSeconds": 1}
    set_policy(stage, "inactive_topics", policy)
    for mode, is_left in (
        ("delete_when_no_subscriptions", True),
        ("delete_when_subscriptions_caught_up", True),
    ):
        set_policy(stage, "inactive_topics", {**policy, "inactiveTopicDeleteMode": mode})
        for _ in range(2):
            unused_topics(stage)
            stage.clock.advance(2)
        assert (TOPIC in stage.broker.topics) is is_left
    subscription.skip(1)
    for _ in range(2):
        unused_topics(stage)
        stage.clock.advance(2)
    unused_topics(stage)
    assert TOPIC not in stage.broker.topics


@pytest.mark.parametrize(
    "mode", ["delete_when_no_subscriptions", "delete_when_subscriptions_caught_up"]
)
@pytest.mark.parametrize("action", [COMMIT, ABORT])
def test_an_open_transaction_keeps_a_topic(stage: Stage, mode: str, action: Any) -> None:
    """Its producer may be gone before it is committed: by the driver of a Spark query, say."""
    client = stage.client()
    produce(stage, client)
    txn = transactions.new(stage, client)
    assert not error_of(transactions.add_topics(stage, client, txn))
    client.say(message(0, **transactions.within(txn)))
    client.say(pb.CommandCloseProducer(producer_id=0, request_id=9))
    stage.turn()
    set_policy(
        stage,
        "inactive_topics",
        {
            "deleteWhileInactive": True,
            "maxInactiveDurationSeconds": 1,
            "inactiveTopicDeleteMode": mode,
        },
    )
    for _ in range(3):
        unused_topics(stage)
        stage.clock.advance(2)
    assert TOPIC in stage.broker.topics
    assert not error_of(transactions.end(stage, client, txn, action))
    for _ in range(3):
        unused_topics(stage)
        stage.clock.advance(2)
    assert TOPIC not in stage.broker.topics


def test_a_transaction_that_the_disk_refused_keeps_no_topic(stage: Stage) -> None:
    client = stage.client()
    produce(stage, client)
    first, second = (transactions.new(stage, client) for _ in range(2))
    transactions.add_topics(stage, client, first)  # so that the topic is ready
    stage.files.faults.fail("sync", 1, error=errno.ENOSPC)
    add = pb.CommandAddPartitionToTxn(
        request_id=1, partitions=[TOPIC], **transactions.within(second)
    )
    client.say(add, message(0, **transactions.within(second)))  # without waiting for the answer
    stage.turn()
    client.hang_up()
    policy = {"deleteWhileInactive": True, "maxInactiveDurationSeconds": 1}
    set_policy(
        stage,
        "inactive_topics",
        policy | {"inactiveTopicDeleteMode": "delete_when_no_subscriptions"},
    )
    for txn in (first, second):
        assert not error_of(transactions.end(stage, stage.client(), txn))
    for _ in range(3):
        unused_topics(stage)
        stage.clock.advance(2)
    assert TOPIC not in stage.broker.topics


def test_a_topic_that_cannot_be_read_keeps_nobody_else_from_being_served(stage: Stage) -> None:
    names = (TOPIC, "persistent://public/default/u")
    topics = [stage.topic(name) for name in names]
    for topic in topics:
        stage.subscription(topic)
        stage.producer(topic)
    for number in range(6):
        for topic in topics:
            stage.publish(topic.producers["p"], message(number))
        stage.clock.advance(1)
    policy = POLICIES["message_ttl"]
    stage.run(stage.broker.policies.book.set(Level.NAMESPACE, "public/default", policy, 3))
    stage = stage.restarted(checkpoint=True)
    topics = [stage.topic(name) for name in names]
    stage.files.faults.fail("read", under=ledger_path(1).removesuffix(".ledger"), forever=True)
    keep_house(stage)
    assert [topic.subscriptions["s"].cursor.backlog for topic in topics] == [6, 3]


@pytest.mark.parametrize("policy", ["message_ttl", "backlog_quota_size", "compaction_threshold"])
def test_what_lies_on_disk_only_is_looked_up_beside_the_loop(
    make_stage: MakeStage, policy: str
) -> None:
    """Every client would wait for the disk: the step is taken again when what it lacks was brought."""
    stage = make_stage(tail_size=0, ledger_entries_max=10)
    stage.subscription(stage.topic())
    fill(stage, 15)
    stage.clock.advance(10)
    fill(stage, 15, 15)
    stage = stage.restarted(checkpoint=True)
    subscription = stage.topic().subscriptions["s"]
    values: dict[str, Any] = {
        "message_ttl": 5,
        "backlog_quota_size": {"limitSize": 1700, "policy": "consumer_backlog_eviction"},
        "compaction_threshold": 100,
    }
    set_policy(stage, policy, values[policy])
    files = stage.engine.loop_files
    house = stage.broker.housekeeping
    for work in (house.expire, house.check_quotas, house.compact):
        stage.loop.do(work)
        stage.turn()
    assert files.reads == 0
    files.is_forbidden = False
    if policy == "compaction_threshold":
        assert stage.topic().compacted is not None
    else:
        assert 0 < subscription.cursor.backlog <= 15
