"""Policies reach topics that are open, and everyone who is connected to them."""

from __future__ import annotations

import pytest
from stage.frames import message, metadata
from stage.stage import TOPIC, Stage
from stage.talk import error_of, produce, subscribe, text_of

from milepost.broker.dispatch.dispatchers import SHARED
from milepost.broker.policies.policy import Level
from milepost.broker.policies.table import POLICIES
from milepost.testing.peer import RecordingPeer
from milepost.wire import pulsar_pb2 as pb


def set_policy(
    stage: Stage, policy: str, value: object, level: Level = Level.TOPIC, name: str = TOPIC
) -> None:
    stage.run(stage.broker.policies.book.set(level, name, POLICIES[policy], value))
    stage.turn()


def delivered(peer: RecordingPeer) -> int:
    return len([heard for heard in peer.take() if hasattr(heard, "entry")])


def test_a_change_reaches_the_topics_of_its_namespace(stage: Stage) -> None:
    topic, other = stage.topic(), stage.topic("persistent://public/default/other")
    set_policy(stage, "message_ttl", 9, Level.NAMESPACE, "public/default")
    set_policy(stage, "message_ttl", 5)
    assert (topic.policies.message_ttl_s, other.policies.message_ttl_s) == (5, 9)
    assert stage.topic("persistent://public/default/new").policies.message_ttl_s == 9


@pytest.mark.parametrize("value", [0, 2])
def test_producers_are_counted(stage: Stage, value: int) -> None:
    client = stage.client()
    assert not error_of(produce(stage, client, 0, "a"))
    set_policy(stage, "max_producers", 1)
    answer = produce(stage, client, 1, "b")
    assert error_of(answer) == "ProducerBusy"
    assert "1 producers" in text_of(answer)
    set_policy(stage, "max_producers", value)
    assert not error_of(produce(stage, client, 1, "b"))


def test_subscriptions_and_consumers_are_counted(stage: Stage) -> None:
    client = stage.client()
    assert not error_of(subscribe(stage, client, "a", SHARED, 0))
    set_policy(stage, "max_subscriptions", 1)
    assert error_of(subscribe(stage, client, "b", SHARED, 1)) == "NotAllowedError"
    set_policy(stage, "max_subscriptions", None)
    set_policy(stage, "max_consumers", 1)
    assert error_of(subscribe(stage, client, "a", SHARED, 1)) == "ConsumerBusy"
    set_policy(stage, "max_consumers", None)
    set_policy(stage, "max_consumers_per_subscription", 1)
    assert error_of(subscribe(stage, client, "a", SHARED, 1)) == "ConsumerBusy"
    assert not error_of(subscribe(stage, client, "b", SHARED, 1))


def test_types_of_subscriptions_may_be_few(stage: Stage) -> None:
    client = stage.client()
    stage.topic()
    set_policy(stage, "subscription_types", ["Exclusive"])
    answer = subscribe(stage, client, "a", SHARED, 0)
    assert error_of(answer) == "NotAllowedError"
    assert "Shared" in text_of(answer)
    assert not error_of(subscribe(stage, client, "a", 0, 0))


def test_subscriptions_are_not_made_where_they_may_not_be(stage: Stage) -> None:
    client = stage.client()
    stage.topic()
    set_policy(stage, "auto_subscription_creation", {"allowAutoSubscriptionCreation": False})
    assert error_of(subscribe(stage, client)) == "SubscriptionNotFound"


def test_a_consumer_that_comes_too_often_waits(stage: Stage) -> None:
    client = stage.client()
    stage.topic()
    rate = {"subscribeThrottlingRatePerConsumer": 1, "ratePeriodInSecond": 30}
    set_policy(stage, "subscribe_rate", rate)
    named = {"consumer_name": "me"}
    assert not error_of(subscribe(stage, client, "a", SHARED, 0, **named))
    assert not error_of(subscribe(stage, client, "a", SHARED, 1, **named))
    again = stage.client()
    assert error_of(subscribe(stage, again, "a", SHARED, 0, **named)) == "NotAllowedError"
    set_policy(stage, "subscribe_rate", None)
    assert not error_of(subscribe(stage, again, "a", SHARED, 0, **named))


def test_topics_are_not_made_where_they_may_not_be(stage: Stage) -> None:
    client = stage.client()
    never = {"allowAutoTopicCreation": False}
    set_policy(stage, "auto_topic_creation", never, Level.NAMESPACE, "public/default")
    assert error_of(produce(stage, client)) == "TopicNotFound"
    set_policy(stage, "auto_topic_creation", None, Level.NAMESPACE, "public/default")
    assert not error_of(produce(stage, client))


def test_limits_of_unacked_messages_change_under_a_consumer(stage: Stage) -> None:
    topic = stage.topic()
    consumer = stage.consumer(stage.subscription(topic), SHARED, permits=100)
    peer = consumer.peer
    assert isinstance(peer, RecordingPeer)
    set_policy(stage, "max_unacked_per_consumer", 2)
    stage.publish(stage.producer(topic), *(message(number) for number in range(10)))
    assert delivered(peer) == 2
    assert consumer.is_blocked
    set_policy(stage, "max_unacked_per_consumer", 5)
    assert delivered(peer) == 3
    set_policy(stage, "max_unacked_per_subscription", 5)
    set_policy(stage, "max_unacked_per_consumer", 0)
    assert delivered(peer) == 0
    set_policy(stage, "max_unacked_per_subscription", 0)
    assert delivered(peer) == 5


def test_large_messages_are_refused_and_the_connection_stays(stage: Stage) -> None:
    topic = stage.topic()
    peer = RecordingPeer()
    producer = stage.producer(topic, peer=peer)
    set_policy(stage, "max_message_size", 100)
    stage.publish(producer, message(0), message(1, payload=b"x" * 200), message(2))
    answers = [type(heard).__name__ for heard in peer.take()]
    assert answers == ["Receipt", "CommandSendError", "Receipt"], answers
    set_policy(stage, "max_message_size", None)
    stage.publish(producer, message(3, payload=b"x" * 200))
    assert [type(heard).__name__ for heard in peer.take()] == ["Receipt"]
    assert topic.log.end_index == 3


def test_a_dispatch_rate_lets_so_much_go(stage: Stage) -> None:
    topic = stage.topic()
    consumer = stage.consumer(stage.subscription(topic), SHARED, permits=100)
    peer = consumer.peer
    assert isinstance(peer, RecordingPeer)
    rate = {"dispatchThrottlingRateInMsg": 3, "ratePeriodInSecond": 1}
    set_policy(stage, "subscription_dispatch_rate", rate)
    stage.publish(stage.producer(topic), *(message(number) for number in range(20)))
    assert delivered(peer) == 3
    stage.clock.advance(1)
    consumer.subscription.read_loop.wake()
    stage.turn()
    assert delivered(peer) == 3
    set_policy(stage, "dispatch_rate", {"dispatchThrottlingRateInMsg": 1})
    set_policy(stage, "subscription_dispatch_rate", None)
    assert delivered(peer) == 1
    set_policy(stage, "dispatch_rate", None)
    assert delivered(peer) == 13


def test_a_subscription_may_have_a_rate_of_its_own(stage: Stage) -> None:
    topic = stage.topic()
    peers = {}
    for name in ("a", "b"):
        consumer = stage.consumer(stage.subscription(topic, name), SHARED, permits=100)
        peers[name] = consumer.peer
    set_policy(stage, "subscription_dispatch_rate", {"dispatchThrottlingRateInMsg": 3})
    book, policy = stage.broker.policies.book, POLICIES["subscription_dispatch_rate"]
    own: dict[str, int] = {"dispatchThrottlingRateInMsg": 5}
    stage.run(book.set(Level.TOPIC, TOPIC, policy, own, subscription="a"))
    stage.publish(stage.producer(topic), *(message(number) for number in range(20)))
    assert {name: delivered(peer) for name, peer in peers.items()} == {"a": 5, "b": 3}  # type: ignore[arg-type]
    # A rate without a limit is one too, and the topic's does not come back for it.
    none: dict[str, int] = {"dispatchThrottlingRateInMsg": -1}
    stage.run(book.set(Level.TOPIC, TOPIC, policy, none, subscription="a"))
    stage.turn()
    assert {name: delivered(peer) for name, peer in peers.items()} == {"a": 15, "b": 0}  # type: ignore[arg-type]
    policies = stage.restarted().topic().policies
    assert policies.dispatch_rate_of("a") is None
    assert policies.dispatch_rate_of("b") is not None


def require_encryption(stage: Stage, value: bool | None) -> None:
    set_policy(stage, "encryption_required", value, Level.NAMESPACE, "public/default")


def test_where_encryption_is_required_others_are_kept_out(stage: Stage) -> None:
    client = stage.client()
    assert not error_of(produce(stage, client, 0, "open"))
    assert not error_of(produce(stage, client, 1, "sealed", encrypted=True))
    require_encryption(stage, True)
    assert set(stage.topic().producers) == {"sealed"}
    assert [type(one).__name__ for one in client.take()] == ["CommandCloseProducer"]
    answer = produce(stage, client, 0, "open")
    assert error_of(answer) == "MetadataError"
    assert text_of(answer) == f"encryption is required in {TOPIC}"
    assert not error_of(produce(stage, client, 2, "other", encrypted=True))
    require_encryption(stage, False)
    assert not error_of(produce(stage, client, 0, "open"))


def test_where_encryption_is_required_so_it_is_of_every_message(stage: Stage) -> None:
    topic = stage.topic()
    peer = RecordingPeer()
    producer = stage.producer(topic, peer=peer)
    producer.encrypts = True
    require_encryption(stage, True)
    key = pb.EncryptionKeys(key="k", value=b"v")
    stage.publish(producer, message(0, encryption_keys=[key]), message(1))
    kept, refused = peer.take()
    assert (type(kept).__name__, type(refused).__name__) == ("Receipt", "CommandSendError")
    assert "not encrypted" in refused.message
    assert topic.log.end_index == 1


def test_deduplication_is_answered_when_it_is_in_force(stage: Stage) -> None:
    topic = stage.topic()
    producer = stage.producer(topic, peer=RecordingPeer())
    stage.engine.holds_journal = True
    stage.publish(producer, message(0))
    book, policy = stage.broker.policies.book, POLICIES["deduplication"]
    asked = stage.loop.begin(book.set(Level.TOPIC, TOPIC, policy, True))
    left = stage.loop.begin(book.set(Level.TOPIC, TOPIC, policy, True))
    stage.turn()
    assert not asked.done()
    left.cancel()  # whoever asked is gone; the switch goes on
    stage.turn()
    stage.engine.holds_journal = False
    stage.turn()
    assert asked.done()
    assert topic.dedup is not None


def test_a_publish_rate_holds_who_is_connected(stage: Stage) -> None:
    topic = stage.topic()
    client = stage.client()
    assert not error_of(produce(stage, client))
    set_policy(stage, "publish_rate", {"publishThrottlingRateInMsg": 1})
    throttle = topic.throttle
    assert throttle is not None
    for number in range(3):
        client.publish(0, metadata(number), b"x")
        stage.turn()
    assert not client.is_read
    assert topic.log.end_index == 1
    stage.clock.advance(1)
    throttle.look()
    stage.turn()
    assert topic.log.end_index == 3  # they came in one piece
    assert not client.is_read
    set_policy(stage, "publish_rate", {"publishThrottlingRateInMsg": 1})
    assert topic.throttle is throttle
    set_policy(stage, "publish_rate", None)
    assert topic.throttle is None
    stage.turn()
    assert client.is_read
