"""Growth: new partitions have the subscriptions of the others, from their first message on."""

from __future__ import annotations

import pytest
from stage.frames import message
from stage.heard import got
from stage.stage import Stage
from stage.talk import error_of
from stage.transactions import add_subscription, new

from milepost.broker.directory.directory import PARTITIONED
from milepost.broker.dispatch.dispatchers import SHARED
from milepost.broker.operations import partition_growth, topic_lifecycle
from milepost.broker.subscription.broadcast import BroadcastGroup
from milepost.broker.topic.topic import Topic
from milepost.cursor.group import Start
from milepost.errors import InvalidTransactionStatus, ServiceNotReady, TopicNotFound
from milepost.positions.names import TopicName

WHOLE = TopicName.parse("persistent://public/default/whole")


def _part(stage: Stage, number: int) -> Topic:
    return stage.topic(str(WHOLE.partition_name(number)))


def _grown(stage: Stage, partitions: int = 4) -> None:
    stage.run(partition_growth.grow(stage.broker, WHOLE, partitions))


@pytest.fixture
def whole(stage: Stage) -> Stage:
    stage.run(stage.broker.directory.create_partitioned(WHOLE, 2))
    return stage


def test_what_is_sent_to_a_new_partition_before_any_consumer_comes_is_delivered(
    whole: Stage,
) -> None:
    whole.subscription(_part(whole, 1), "billing")
    _grown(whole)
    whole.publish(whole.producer(_part(whole, 3)), message(0), message(1))
    billing = _part(whole, 3).subscriptions["billing"]
    assert got(whole.consumer(billing, SHARED, permits=10)) == ["0", "1"]


def test_after_a_crash_the_new_partitions_have_them_too(whole: Stage) -> None:
    whole.run(whole.broker.create_subscription(_part(whole, 0), "billing", 0, {"team": "a"}))
    _grown(whole)
    whole.publish(whole.producer(_part(whole, 2)), message(0))
    later = whole.restarted()
    billing = _part(later, 2).subscriptions["billing"]
    assert billing.properties == {"team": "a"}
    assert billing.cursor.backlog == 1
    assert list(_part(later, 3).subscriptions) == ["billing"]


def test_a_broadcast_group_is_one_on_new_partitions_too(whole: Stage) -> None:
    topic = _part(whole, 0)
    whole.run(whole.broker.create_subscription(topic, "caches", 0, broadcast=Start.MINIMUM))
    _grown(whole)
    assert isinstance(_part(whole, 2).subscriptions["caches"], BroadcastGroup)


def test_a_reader_has_no_cursor_that_new_partitions_could_have(whole: Stage) -> None:
    whole.subscription(_part(whole, 0), "reader", durable=False)
    _grown(whole)
    assert not _part(whole, 2).subscriptions


def test_a_topic_that_becomes_a_partition_keeps_its_messages_and_its_subscriptions(
    stage: Stage,
) -> None:
    """A client may make `whole-partition-2` before there is a `whole`."""
    alone = _part(stage, 2)
    stage.publish(stage.producer(alone), message(0))
    stage.subscription(alone, "own")
    stage.run(stage.broker.directory.create_partitioned(WHOLE, 2))
    stage.subscription(_part(stage, 0), "billing")
    _grown(stage, 3)
    assert sorted(alone.subscriptions) == ["billing", "own"]
    assert alone.subscriptions["billing"].cursor.backlog == 0
    assert alone.log.end_index == 1


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_subscription_that_it_gets_again_is_not_that_of_an_open_transaction(
    stage: Stage, is_restarted: bool
) -> None:
    alone = _part(stage, 2)
    billing = stage.run(stage.broker.create_subscription(alone, "billing", 0))
    client = stage.client()
    txn = new(stage, client)
    assert not error_of(add_subscription(stage, client, txn, "billing", alone.row.name))
    stage.run(stage.broker.delete_subscription(billing))
    stage.run(stage.broker.directory.create_partitioned(WHOLE, 2))
    stage.run(stage.broker.create_subscription(_part(stage, 0), "billing", 0))
    _grown(stage, 3)
    assert list(alone.subscriptions) == ["billing"]
    if is_restarted:
        stage = stage.restarted()
    with pytest.raises(InvalidTransactionStatus, match="made again"):
        stage.broker.transactions.coordinator.check_ack(txn, alone.row.name, "billing", None)


@pytest.mark.parametrize("is_open", [True, False])
def test_a_kill_behind_the_growth_leaves_no_subscription_out(stage: Stage, is_open: bool) -> None:
    """They were made behind it, in changes of their own, and asking again made none."""
    alone = _part(stage, 2)
    stage.publish(stage.producer(alone), message(0))
    stage.run(stage.broker.directory.create_partitioned(WHOLE, 2))
    stage.run(stage.broker.create_subscription(_part(stage, 0), "billing", 0, {"team": "a"}))
    stage.run(
        stage.broker.create_subscription(_part(stage, 0), "caches", 0, broadcast=Start.LATEST)
    )
    if not is_open:
        stage = stage.restarted()
    stage.engine.holds_catalog = True
    stage.loop.begin(partition_growth.grow(stage.broker, WHOLE, 3))
    while (doc := stage.store.catalog.doc(PARTITIONED, str(WHOLE))) and doc["partitions"] == 2:
        stage.turn()
        assert stage.engine.change_one(), "the growth has not been asked for"
    later = stage.restarted()
    part = _part(later, 2)
    billing = part.subscriptions["billing"]
    assert billing.properties == {"team": "a"}
    assert isinstance(part.subscriptions["caches"], BroadcastGroup)
    assert billing.cursor.backlog == 0
    later.publish(later.producer(part), message(1))
    assert got(later.consumer(billing, SHARED, permits=10)) == ["1"]


def test_what_comes_to_a_topic_of_its_own_while_it_becomes_a_partition_is_delivered(
    stage: Stage,
) -> None:
    alone = _part(stage, 2)
    stage.run(stage.broker.directory.create_partitioned(WHOLE, 2))
    stage.subscription(_part(stage, 0), "billing")
    stage.engine.holds_catalog = True
    growing = stage.loop.begin(partition_growth.grow(stage.broker, WHOLE, 3))
    stage.turn()
    stage.publish(stage.producer(alone), message(0))
    stage.engine.holds_catalog = False
    stage.turn()
    assert growing.exception() is None
    assert got(stage.consumer(alone.subscriptions["billing"], SHARED, permits=10)) == ["0"]
    assert _part(stage.restarted(), 2).subscriptions["billing"].cursor.backlog == 1


def test_a_topic_that_is_unloaded_while_it_becomes_a_partition_has_them_when_it_is_opened(
    stage: Stage,
) -> None:
    alone = _part(stage, 2)
    stage.run(stage.broker.directory.create_partitioned(WHOLE, 2))
    stage.subscription(_part(stage, 0), "billing")
    stage.engine.holds_catalog = True
    growing = stage.loop.begin(partition_growth.grow(stage.broker, WHOLE, 3))
    stage.turn()
    unloading = stage.loop.begin(topic_lifecycle.close_topic(stage.broker, alone))
    stage.turn()
    stage.engine.holds_catalog = False
    stage.turn()
    assert growing.exception() is None
    assert unloading.exception() is None
    assert alone.is_closed
    assert list(_part(stage, 2).subscriptions) == ["billing"]


def test_a_topic_that_is_made_in_the_moment_of_the_growth_refuses_it(whole: Stage) -> None:
    """Where it ends is not known, so no subscription could begin there."""
    whole.subscription(_part(whole, 0), "billing")
    whole.engine.holds_catalog = True
    making = whole.loop.begin(whole.broker.directory.create_topic(WHOLE.partition_name(2)))
    growing = whole.loop.begin(partition_growth.grow(whole.broker, WHOLE, 3))
    whole.turn()
    whole.engine.holds_catalog = False
    whole.turn()
    assert making.exception() is None
    with pytest.raises(ServiceNotReady, match="whole-partition-2 was made just now"):
        growing.result()
    assert whole.broker.directory.partitions(WHOLE) == 2
    _grown(whole, 3)
    assert list(_part(whole, 2).subscriptions) == ["billing"]


def test_topics_that_are_unloaded_all_the_time_refuse_the_growth(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = _part(stage, 2)
    stage.run(stage.broker.directory.create_partitioned(WHOLE, 2))
    stage.run(topic_lifecycle.close_topic(stage.broker, alone))

    async def closed(name: TopicName, *, create: bool) -> Topic:
        return alone

    monkeypatch.setattr(stage.broker, "topic", closed)
    with pytest.raises(ServiceNotReady, match="are being unloaded"):
        _grown(stage, 3)


def test_a_reader_of_a_topic_that_becomes_a_partition_keeps_its_name(stage: Stage) -> None:
    alone = _part(stage, 2)
    reader = stage.subscription(alone, "billing", durable=False)
    stage.run(stage.broker.directory.create_partitioned(WHOLE, 2))
    stage.subscription(_part(stage, 0), "billing")
    _grown(stage, 3)
    assert alone.subscriptions["billing"] is reader


def test_a_topic_of_its_own_beyond_the_partitions_is_opened_for_the_growth_alone(
    stage: Stage,
) -> None:
    _part(stage, 3)
    stage.run(stage.broker.directory.create_partitioned(WHOLE, 2))
    later = stage.restarted()
    with pytest.raises(TopicNotFound, match="has 2 partitions, no partition 3"):
        _part(later, 3)
    _grown(later, 3)
    with pytest.raises(TopicNotFound, match="has 3 partitions, no partition 3"):
        _part(later, 3)
    _grown(later, 4)
    assert _part(later, 3)


def test_a_topic_that_is_being_given_partitions_is_not_deleted_without_them(whole: Stage) -> None:
    whole.subscription(_part(whole, 0), "billing")
    whole.engine.holds_catalog = True
    growing = whole.loop.begin(partition_growth.grow(whole.broker, WHOLE, 4))
    whole.turn()
    deleting = topic_lifecycle.delete_partitioned(whole.broker, WHOLE, force=True)
    with pytest.raises(ServiceNotReady):
        whole.run(deleting)
    whole.engine.holds_catalog = False
    whole.turn()
    assert growing.exception() is None
    whole.run(topic_lifecycle.delete_partitioned(whole.broker, WHOLE, force=True))
    assert not [row for row in whole.broker.directory._rows if "whole" in row]


def test_a_partition_that_a_client_is_opening_is_deleted_with_the_rest(whole: Stage) -> None:
    """It outlived them, and the next topic of that name had it."""
    whole.engine.holds_catalog = True
    opening = whole.loop.begin(whole.broker.topic(WHOLE.partition_name(0)))
    whole.turn()
    deleting = whole.loop.begin(topic_lifecycle.delete_partitioned(whole.broker, WHOLE, force=True))
    whole.turn()
    whole.engine.holds_catalog = False
    whole.turn()
    assert opening.exception() is None
    assert deleting.exception() is None
    assert not [row for row in whole.broker.directory._rows if "whole" in row]
