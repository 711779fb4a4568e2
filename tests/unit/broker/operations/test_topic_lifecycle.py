"""Upkeep where it is hard: while others are at it, and when the disk says no."""

from __future__ import annotations

import pytest
from stage.frames import batch, message
from stage.heard import got
from stage.stage import TOPIC, Stage
from stage.talk import (
    answer,
    ask,
    error_of,
    produce,
    producer_command,
    subscribe,
    subscribe_command,
)

from milepost.broker.operations import topic_lifecycle
from milepost.broker.policies.policy import Level
from milepost.broker.policies.table import POLICIES
from milepost.broker.topic.producer_admission import PLACE_KEPT_S
from milepost.errors import (
    AlreadyExists,
    PreconditionFailed,
    ServiceNotReady,
    TopicNotFound,
    TopicTerminated,
)
from milepost.positions.names import TopicName
from milepost.testing.peer import Loopback
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import Receipt, WireId

NAME = TopicName.parse(TOPIC)


def test_what_was_sent_before_an_unload_gets_its_receipt(stage: Stage) -> None:
    client = stage.client()
    produce(stage, client)
    topic = stage.topic()
    stage.engine.holds_journal = True
    client.say(message(0), message(1))
    closing = stage.loop.begin(topic_lifecycle.close_topic(stage.broker, topic))
    stage.turn()
    assert not closing.done()
    stage.engine.holds_journal = False
    stage.turn()
    assert closing.exception() is None
    heard = client.take()
    kinds = [type(one) for one in heard]
    assert kinds.count(Receipt) == 2
    assert kinds[-1] is pb.CommandCloseProducer


def test_nobody_opens_what_is_being_closed(stage: Stage) -> None:
    topic = stage.topic()
    stage.engine.holds_journal = True
    closing = stage.loop.begin(topic_lifecycle.close_topic(stage.broker, topic))
    stage.turn()
    client = stage.client()
    opened = stage.loop.begin(stage.broker.topic(NAME))
    stage.turn()
    assert not opened.done()
    stage.engine.holds_journal = False
    stage.turn()
    assert closing.exception() is None
    assert isinstance(opened.exception(), ServiceNotReady)
    assert error_of(subscribe(stage, client)) == ""
    assert stage.topic() is not topic
    with pytest.raises(ServiceNotReady):
        stage.run(topic_lifecycle.close_topic(stage.broker, topic))


def test_a_cursor_survives_an_unload_to_the_batch_index(stage: Stage) -> None:
    topic = stage.topic()
    stage.publish(stage.producer(topic), message(0), batch(1, 4), message(5))
    consumer = stage.consumer(stage.subscription(topic), permits=10)
    stage.ack(consumer, WireId(1, 1, ack_set=(0b1001,)))
    before = topic.subscriptions["s"].cursor.state()
    stage.run(topic_lifecycle.close_topic(stage.broker, topic))
    again = stage.topic().subscriptions["s"]
    assert again.cursor.state() == before
    assert got(stage.consumer(again, permits=10)) == ["0", "1.0", "1.3", "5"]


def test_an_unloaded_topic_goes_on_in_a_new_ledger(stage: Stage) -> None:
    """So that what is acked of the old one can be trimmed."""
    topic = stage.topic()
    stage.publish(stage.producer(topic), message(0), message(1))
    consumer = stage.consumer(stage.subscription(topic), permits=10)
    stage.ack(consumer, WireId(1, 0), WireId(1, 1))
    assert stage.run(topic_lifecycle.trim(stage.broker, topic)) == 0
    stage.run(topic_lifecycle.close_topic(stage.broker, topic))
    topic = stage.topic()
    assert [ledger.sealed for ledger in topic.log.ledgers] == [True, False]
    assert stage.run(topic_lifecycle.trim(stage.broker, topic)) == 1
    stage.publish(stage.producer(topic), message(2))
    assert topic.log.last_position() == (2, 0)
    assert (topic.log.first_index, topic.log.end_index) == (2, 3)


def test_an_unload_begins_no_second_empty_ledger_and_none_behind_the_end(stage: Stage) -> None:
    topic = stage.topic()
    stage.publish(stage.producer(topic), message(0))
    for _ in range(3):
        stage.run(topic_lifecycle.close_topic(stage.broker, stage.topic()))
    assert [ledger.entries for ledger in stage.topic().log.ledgers] == [1, 0]
    topic = stage.topic()
    stage.publish(stage.producer(topic), message(1))
    stage.run(topic_lifecycle.terminate(stage.broker, topic))
    stage.run(topic_lifecycle.close_topic(stage.broker, topic))
    assert [ledger.entries for ledger in stage.topic().log.ledgers] == [1, 1]


def test_a_disk_that_refuses_a_ledger_does_not_keep_a_topic_open(stage: Stage) -> None:
    topic = stage.topic()
    stage.publish(stage.producer(topic), message(0))
    stage.files.capacity = 0
    stage.run(topic_lifecycle.close_topic(stage.broker, topic))
    stage.files.capacity = None
    assert topic.is_closed
    again = stage.topic()
    stage.publish(stage.producer(again), message(1))
    assert (again.log.first_index, again.log.end_index) == (0, 2)


def test_sequence_ids_survive_an_unload(make_stage: type[Stage]) -> None:
    stage = make_stage(deduplication=True)
    topic = stage.topic()
    stage.publish(stage.producer(topic), message(0), message(1))
    stage.run(topic_lifecycle.close_topic(stage.broker, topic))
    topic = stage.topic()
    assert topic.last_sequence_id("p") == 1
    stage.publish(stage.producer(topic), message(1), message(2))
    assert topic.log.end_index == 3
    stage.checkpoint()


def test_a_failed_deletion_leaves_everything(stage: Stage) -> None:
    topic = stage.topic()
    stage.publish(stage.producer(topic), message(0))
    stage.subscription(topic)

    async def refuse(*_: object) -> None:
        raise OSError("no")

    delete, stage.engine.delete_topic = stage.engine.delete_topic, refuse  # type: ignore[method-assign]
    with pytest.raises(OSError, match="no"):
        stage.run(topic_lifecycle.delete_topic(stage.broker, topic, force=True))
    stage.engine.delete_topic = delete  # type: ignore[method-assign]
    again = stage.topic()
    assert (again.log.end_index, list(again.subscriptions)) == (1, ["s"])
    stage.run(topic_lifecycle.delete_topic(stage.broker, again, force=False))
    assert stage.broker.directory.row(NAME) is None


def test_a_publish_during_a_truncation_is_kept(stage: Stage) -> None:
    topic = stage.topic()
    producer = stage.producer(topic)
    stage.publish(producer, message(0), message(1))
    subscription = stage.subscription(topic)
    stage.engine.holds_journal = True
    truncating = stage.loop.begin(topic_lifecycle.truncate(stage.broker, topic))
    stage.loop.turn()
    topic.publish(producer, [])
    stage.publish(producer, message(2))
    stage.engine.holds_journal = False
    stage.turn()
    assert truncating.exception() is None
    assert (topic.log.first_index, topic.log.end_index) == (2, 3)
    assert subscription.cursor.counts().ready == 1


def test_names_are_checked(stage: Stage) -> None:
    broker = stage.broker
    with pytest.raises(TopicNotFound, match="does not exist"):
        stage.run(topic_lifecycle.delete_partitioned(broker, NAME, force=False))
    stage.run(topic_lifecycle.create_topic(broker, NAME, {}))
    with pytest.raises(AlreadyExists, match="not partitioned"):
        stage.run(topic_lifecycle.delete_partitioned(broker, NAME, force=False))
    with pytest.raises(AlreadyExists):
        stage.run(topic_lifecycle.create_topic(broker, NAME, {}))
    with pytest.raises(PreconditionFailed, match="which is not partitioned"):
        stage.run(topic_lifecycle.create_topic(broker, TopicName.parse(f"{TOPIC}-partition-0"), {}))


def test_a_subscription_that_is_being_made_does_not_keep_an_unloaded_topic_shut(
    stage: Stage,
) -> None:
    client, topic = stage.client(), stage.topic()
    stage.engine.holds_catalog = True
    asked = ask(client, subscribe_command("s"))
    stage.turn()
    stage.run(topic_lifecycle.close_topic(stage.broker, topic))
    stage.engine.holds_catalog = False
    assert error_of(answer(client, asked, stage)) == "ServiceNotReady"
    assert error_of(subscribe(stage, client)) == ""
    assert stage.topic() is not topic


def test_a_subscription_of_a_topic_that_is_deleted_meanwhile_is_not_made(stage: Stage) -> None:
    client, topic = stage.client(), stage.topic()
    stage.engine.holds_catalog = True
    asked = ask(client, subscribe_command("s"))
    stage.turn()
    deleting = stage.loop.begin(topic_lifecycle.delete_topic(stage.broker, topic, force=True))
    stage.turn()
    stage.engine.holds_catalog = False
    assert error_of(answer(client, asked, stage)) == "ServiceNotReady"
    assert deleting.exception() is None
    assert stage.store.catalog.states(topic.row.topic_id) == []


def test_who_comes_while_an_unused_topic_is_being_deleted_keeps_what_it_published(
    stage: Stage,
) -> None:
    client, topic = stage.client(), stage.topic()
    policy = POLICIES["max_producers"]
    stage.run(stage.broker.policies.book.set(Level.TOPIC, TOPIC, policy, 5))
    stage.engine.holds_catalog = True
    deleting = stage.loop.begin(topic_lifecycle.delete_topic(stage.broker, topic, force=False))
    stage.turn()
    asked = ask(client, producer_command())
    stage.turn()
    stage.engine.holds_catalog = False
    assert error_of(answer(client, asked, stage)) == "ServiceNotReady"
    assert deleting.exception() is None
    assert error_of(produce(stage, client)) == ""
    client.say(message(0))
    stage.turn()
    assert any(isinstance(heard, Receipt) for heard in client.take())
    assert stage.topic().log.end_index == 1


@pytest.mark.parametrize("opens_early", [False, True])
def test_a_topic_that_is_opened_while_it_is_terminated_is_terminated(
    stage: Stage, opens_early: bool
) -> None:
    topic = stage.topic()
    stage.engine.holds_catalog = True
    ending = stage.loop.begin(topic_lifecycle.terminate(stage.broker, topic))
    stage.turn()
    stage.run(topic_lifecycle.close_topic(stage.broker, topic))
    opening = stage.loop.begin(stage.broker.topic(NAME))
    stage.turn()
    if opens_early:  # the termination is in the catalog, and the answer is not here yet
        stage.engine.change_one()
        stage.engine.change_one()
    stage.engine.holds_catalog = False
    stage.turn()
    ending.result()
    assert opening.result() is not topic
    assert opening.result().is_terminated
    with pytest.raises(TopicTerminated):
        opening.result().check_published_to()


def test_an_epoch_that_is_being_stored_does_not_undo_a_termination(stage: Stage) -> None:
    client, topic = stage.client(), stage.topic()
    stage.engine.holds_catalog = True
    terminating = stage.loop.begin(topic_lifecycle.terminate(stage.broker, topic))
    stage.turn()
    ask(client, producer_command(producer_access_mode=pb.Exclusive))
    stage.turn()
    stage.engine.holds_catalog = False
    stage.turn()
    assert terminating.exception() is None
    assert topic.is_terminated
    again = stage.restarted().topic()
    assert again.is_terminated
    assert again.access.epoch == 0


def test_an_ack_that_was_refused_is_not_answered_from_memory_after_an_unload(stage: Stage) -> None:
    topic = stage.topic()
    stage.publish(stage.producer(topic), message(0), message(1))
    consumer = stage.consumer(stage.subscription(topic), permits=10)
    stage.files.faults.fail("sync", under="journal")
    (refused,) = stage.ack(consumer, WireId(1, 0))
    assert refused is not None
    stage.run(topic_lifecycle.close_topic(stage.broker, topic))
    consumer = stage.consumer(stage.topic().subscriptions["s"], permits=10)
    assert stage.ack(consumer, WireId(1, 0)) == [None]
    stage = stage.restarted()
    assert got(stage.consumer(stage.topic().subscriptions["s"], permits=10)) == ["1"]


# -- producers that have the topic alone, and those in line ---------------------------------------------


def _waiting(stage: Stage) -> tuple[Loopback, Loopback, int]:
    """A producer that has the topic alone, and one in line, with its request."""
    holder, client = stage.client(), stage.client()
    produce(stage, holder, name="a", producer_access_mode=pb.Exclusive)
    command = producer_command(name="b", producer_access_mode=pb.WaitForExclusive, topic=TOPIC)
    request_id = ask(client, command)
    ready = answer(client, request_id, stage)
    assert not ready.producer_ready
    return holder, client, request_id


def test_an_unload_does_not_fence_the_producer_that_has_the_topic_alone(stage: Stage) -> None:
    """Those in line had their turn while it was put out: one became the owner, and was put out too."""
    holder, waiting, request_id = _waiting(stage)
    epoch = stage.topic().access.epoch
    stage.run(topic_lifecycle.close_topic(stage.broker, stage.topic()))
    assert error_of(answer(waiting, request_id, stage)) == "ServiceNotReady"
    assert stage.topic().access.epoch == epoch
    back = producer_command(
        name="a", producer_access_mode=pb.Exclusive, topic_epoch=epoch, topic=TOPIC
    )
    success = answer(holder, ask(holder, back), stage)
    assert error_of(success) == ""
    assert success.topic_epoch == epoch


@pytest.mark.parametrize("comes_back", [True, False])
def test_a_producer_in_line_takes_no_unloaded_topic_from_its_owner(
    stage: Stage, comes_back: bool
) -> None:
    """It is back first, and waits. If the owner does not come, the topic is its own after some seconds."""
    holder, waiting, _ = _waiting(stage)
    epoch = stage.topic().access.epoch
    assert epoch is not None
    stage.run(topic_lifecycle.close_topic(stage.broker, stage.topic()))
    waiting.take()
    again = producer_command(name="b", producer_access_mode=pb.WaitForExclusive, topic=TOPIC)
    request_id = ask(waiting, again)
    assert not answer(waiting, request_id, stage).producer_ready
    if comes_back:
        back = producer_command(
            name="a", producer_access_mode=pb.Exclusive, topic_epoch=epoch, topic=TOPIC
        )
        assert answer(holder, ask(holder, back), stage).topic_epoch == epoch
    stage.tick(PLACE_KEPT_S + 1)
    if comes_back:
        assert waiting.take() == []
        holder.hang_up()
        stage.turn()
    assert answer(waiting, request_id, stage).topic_epoch == epoch + 1
    stage.topic().access.check()


@pytest.mark.parametrize("mode", [pb.Exclusive, pb.Shared])
def test_other_producers_find_an_unloaded_topic_free(stage: Stage, mode: int) -> None:
    """As upstream has it: its owner may have gone for good, and they could not wait."""
    client = stage.client()
    produce(stage, client, name="a", producer_access_mode=pb.Exclusive)
    stage.run(topic_lifecycle.close_topic(stage.broker, stage.topic()))
    produce(stage, stage.client(), name="b", producer_access_mode=mode)
    assert list(stage.topic().producers) == ["b"]
    stage.topic().access.check()


def test_a_topic_that_was_unloaded_before_it_is_terminated_takes_no_more_messages(
    stage: Stage,
) -> None:
    """As a partition may be while others are opened."""
    topic = stage.topic()
    stage.run(topic_lifecycle.close_topic(stage.broker, topic))
    client = stage.client()
    produce(stage, client)
    stage.run(topic_lifecycle.terminate_all(stage.broker, [topic]))
    assert any(isinstance(heard, pb.CommandCloseProducer) for heard in client.take())
    assert stage.topic() is not topic
    assert stage.topic().is_terminated


def test_a_topic_that_is_unloaded_and_opened_while_it_is_terminated_takes_no_more_messages(
    stage: Stage,
) -> None:
    topic = stage.topic()
    stage.engine.holds_catalog = True
    terminating = stage.loop.begin(topic_lifecycle.terminate(stage.broker, topic))
    stage.turn()
    stage.run(topic_lifecycle.close_topic(stage.broker, topic))
    opening = stage.loop.begin(stage.broker.topic(NAME))
    stage.turn()
    assert not opening.done()
    stage.engine.holds_catalog = False
    stage.turn()
    assert terminating.exception() is None
    assert opening.result() is not topic
    assert opening.result().is_terminated


def test_a_producer_in_line_for_a_topic_that_is_terminated_is_told_so(stage: Stage) -> None:
    _, waiting, request_id = _waiting(stage)
    stage.run(topic_lifecycle.terminate(stage.broker, stage.topic()))
    assert error_of(answer(waiting, request_id, stage)) == "TopicTerminatedError"


def test_a_producer_in_line_for_a_topic_that_is_deleted_may_come_again(stage: Stage) -> None:
    _, waiting, request_id = _waiting(stage)
    stage.run(topic_lifecycle.delete_topic(stage.broker, stage.topic(), force=True))
    assert error_of(answer(waiting, request_id, stage)) == "ServiceNotReady"
    again = producer_command(name="b", producer_access_mode=pb.WaitForExclusive, topic=TOPIC)
    assert answer(waiting, ask(waiting, again), stage).producer_ready


@pytest.mark.parametrize("is_deleted", [False, True], ids=["unloaded", "deleted"])
def test_a_connection_that_a_publish_rate_holds_is_read_again_when_the_topic_goes(
    stage: Stage, is_deleted: bool
) -> None:
    """It owed an hour, and no policy could forgive it any more."""
    client = stage.client()
    produce(stage, client)
    rate = {"publishThrottlingRateInMsg": -1, "publishThrottlingRateInByte": 1}
    stage.run(stage.broker.policies.book.set(Level.TOPIC, TOPIC, POLICIES["publish_rate"], rate))
    client.say(message(0, b"x" * 5000))
    stage.turn()
    assert not client.is_read
    topic = stage.topic()
    stage.run(
        topic_lifecycle.delete_topic(stage.broker, topic, force=True)
        if is_deleted
        else topic_lifecycle.close_topic(stage.broker, topic)
    )
    stage.turn()
    assert client.is_read
