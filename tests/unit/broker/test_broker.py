"""Broker: opens topics on first use, brings subscriptions back, ticks, and ends in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from stage.frames import batch, message
from stage.heard import answers, got
from stage.stage import TOPIC, Stage
from stage.talk import ack_command, answer, ask, produce, request, subscribe, wire_id

from milepost.broker import broker
from milepost.broker.broker import new_subscription
from milepost.broker.directory.directory import StoredTopic, fetch_topic
from milepost.broker.operations import topic_lifecycle
from milepost.errors import (
    CorruptData,
    PersistenceError,
    ServiceNotReady,
    TopicNotFound,
    UnknownFormat,
)
from milepost.positions.names import TopicName
from milepost.storage.interface import Catalog
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import WireId

MakeStage = Callable[..., Stage]
NAME = TopicName.parse(TOPIC)


# -- topics --------------------------------------------------------------------------------------------


def test_a_topic_is_opened_once(stage: Stage) -> None:
    stage.engine.holds_catalog = True
    tasks = [stage.loop.begin(stage.broker.topic(NAME)) for _ in range(3)]
    stage.turn()
    stage.engine.holds_catalog = False
    stage.turn()
    first, *others = [task.result() for task in tasks]
    assert others == [first, first]
    assert stage.topic() is first
    assert len(stage.store.catalog.topics()) == 1


def test_of_a_topic_that_was_just_made_nothing_is_looked_up(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def fetch(catalog: Catalog, topic_id: int) -> StoredTopic:
        asked.append(topic_id)
        return fetch_topic(catalog, topic_id)

    monkeypatch.setattr(broker, "fetch_topic", fetch)
    topic = stage.topic()
    stage.publish(stage.producer(topic), message(0))
    assert asked == []
    again = stage.restarted()
    assert again.topic().log.end_index == 1
    assert asked == [topic.row.topic_id]


def test_all_who_wait_for_an_opening_that_fails_are_told(stage: Stage) -> None:
    async def fail(*_: object) -> None:
        raise PersistenceError("the catalog is full")

    whole = stage.broker.directory.create_topic
    stage.broker.directory.create_topic = fail  # type: ignore[method-assign, assignment]
    tasks = [stage.loop.begin(stage.broker.topic(NAME)) for _ in range(3)]
    stage.turn()
    assert all(isinstance(task.exception(), PersistenceError) for task in tasks)
    stage.broker.directory.create_topic = whole  # type: ignore[method-assign]
    assert stage.topic().log.end_index == 0


def test_one_who_gives_up_does_not_spoil_it_for_the_others(stage: Stage) -> None:
    stage.engine.holds_catalog = True
    first, second = (stage.loop.begin(stage.broker.topic(NAME)) for _ in range(2))
    stage.turn()
    second.cancel()
    stage.turn()
    stage.engine.holds_catalog = False
    stage.turn()
    assert first.result() is stage.broker.topics[TOPIC]
    assert second.cancelled()


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("persistent://public/nowhere/t", TopicNotFound),
    ],
)
def test_what_cannot_be_opened(stage: Stage, name: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        stage.topic(name)


def test_topics_are_made_only_where_they_may_be(make_stage: MakeStage) -> None:
    stage = make_stage(allow_auto_topic_creation=False)
    with pytest.raises(TopicNotFound):
        stage.topic()
    stage.run(stage.broker.create_partitioned_topic(NAME, 2))
    stage.topic(f"{TOPIC}-partition-1")  # it was asked for when the whole was made
    stage = make_stage()
    with pytest.raises(TopicNotFound):
        stage.run(stage.broker.topic(NAME, create=False))


def test_a_checkpoint_during_an_opening_is_noticed(stage: Stage) -> None:
    """What was fetched before it was recorded is not what a state is any more."""
    consumer = stage.consumer(stage.subscription(stage.topic()), permits=10)
    stage.publish(stage.producer(stage.topic()), message(0), message(1))
    stage.ack(consumer, WireId(1, 0))
    stage = stage.restarted()
    stage.engine.holds_catalog = True
    opening = stage.loop.begin(stage.broker.topic(NAME))
    stage.turn()
    stage.engine.change_one()
    stage.store.checkpoint()  # recorded between the fetch and its arrival
    stage.engine.holds_catalog = False
    stage.turn()
    assert opening.result().subscriptions["s"].cursor.counts() == (1, 0, 0, 1)


def test_subscriptions_of_several_topics_are_there_though_one_topic_was_closed(
    stage: Stage,
) -> None:
    """The catalog has all of them: what the broker does not know of cannot be made again."""
    topics = [stage.topic(f"{TOPIC}{number}") for number in range(3)]
    stage.engine.holds_catalog = True
    news = [new_subscription(topic, "s", 0) for topic in topics]
    making = stage.loop.begin(stage.broker.create_subscriptions(news))
    closing = stage.loop.begin(topic_lifecycle.close_topic(stage.broker, topics[1]))
    stage.turn()
    assert closing.done()
    stage.engine.holds_catalog = False
    stage.turn()
    assert isinstance(making.exception(), ServiceNotReady)
    for number in range(3):
        assert list(stage.topic(f"{TOPIC}{number}").subscriptions) == ["s"]


def test_a_subscription_of_a_topic_that_was_closed_is_not_deleted_under_the_next_opening(
    stage: Stage,
) -> None:
    gone = stage.subscription(stage.topic())
    stage.run(topic_lifecycle.close_topic(stage.broker, stage.topic()))
    consumer = stage.consumer(stage.topic().subscriptions["s"], permits=10)
    with pytest.raises(ServiceNotReady):
        stage.run(stage.broker.delete_subscription(gone))
    stage.publish(stage.producer(stage.topic()), message(0))
    stage.ack(consumer, WireId(1, 0))
    stage = stage.restarted()
    assert stage.topic().subscriptions["s"].cursor.counts() == (0, 0, 0, 1)


# -- through a restart ---------------------------------------------------------------------------------


def test_everything_durable_of_a_topic_comes_back(make_stage: MakeStage) -> None:
    stage = make_stage(ledger_entries_max=3)
    topic = stage.topic()
    subscriptions = {name: stage.subscription(topic, name) for name in ("a", "b", "c")}
    producer = stage.producer(topic)
    for number in range(4):
        stage.publish(producer, message(number))
    stage.publish(producer, batch(4, 5))
    consumers = {name: stage.consumer(one, permits=20) for name, one in subscriptions.items()}
    stage.ack(consumers["a"], WireId(1, 0), WireId(2, 1, ack_set=(0b10101,)))
    stage.ack(consumers["b"], WireId(1, 2), cumulative=True)
    stage.checkpoint()
    stage.ack(consumers["a"], WireId(1, 2))
    stage.seek(subscriptions["b"], 1)
    stage.ack(consumers["c"], WireId(2, 1, ack_set=(0b11100,)), cumulative=True)
    expected = {
        name: (one.cursor.epoch, one.cursor.backlog_ranges()) for name, one in subscriptions.items()
    }
    for _ in range(2):  # and once more: what a start reads it can read again
        stage = stage.restarted()
        found = stage.topic().subscriptions
        assert {
            name: (one.cursor.epoch, one.cursor.backlog_ranges()) for name, one in found.items()
        } == expected
        assert stage.topic().log.end_index == 9
    consumer = stage.consumer(stage.topic().subscriptions["a"], permits=20)
    assert got(consumer) == ["1", "3", "4.0", "4.2", "4.4"]


def test_a_restart_without_a_crash_is_a_restart(stage: Stage) -> None:
    """Trap 14: closing gracefully keeps everything of the cursor, ack sets and all."""
    consumer = stage.consumer(stage.subscription(stage.topic()), permits=10)
    stage.publish(stage.producer(stage.topic()), batch(0, 4))
    stage.ack(consumer, WireId(1, 0, ack_set=(0b1010,)))
    stage = stage.restarted(checkpoint=True)
    consumer = stage.consumer(stage.topic().subscriptions["s"], permits=10)
    assert got(consumer) == ["0.1", "0.3"]


def test_a_state_that_is_damaged_refuses_its_topic_and_no_other(stage: Stage) -> None:
    other = "persistent://public/default/other"
    for name in (TOPIC, other):
        stage.subscription(stage.topic(name))
    stage.subscription(stage.topic(), "damaged")
    state = stage.store.catalog.states(stage.topic().row.topic_id)[1]
    stage = stage.restarted()
    stage.store.damaged_states[state.state_id] = "state 3 is damaged"
    for _ in range(2):
        with pytest.raises(CorruptData, match="damaged"):
            stage.topic()
    assert set(stage.topic(other).subscriptions) == {"s"}


@pytest.mark.parametrize("deduplication", [True, False])
def test_a_state_that_cannot_be_read_stays_as_it_is(
    make_stage: MakeStage, deduplication: bool
) -> None:
    """A newer release wrote it, say: refused as often as it is asked for, untouched, and no reason
    for checkpoints to fail."""
    stage = make_stage(deduplication=deduplication)
    subscriptions = [stage.subscription(stage.topic(), name) for name in "abc"]
    stage.publish(stage.producer(stage.topic()), message(0), message(1))
    for subscription in subscriptions:
        stage.ack(stage.consumer(subscription, permits=5), WireId(1, 0))
    state_id = subscriptions[1].state_id
    stage = stage.restarted()
    known = stage.store._parked[state_id]
    newer = known._replace(facts=[*known.facts, b"\x09 of the future"])
    stage.store._parked[state_id] = newer
    for _ in range(2):
        with pytest.raises(UnknownFormat, match="version 9"):
            stage.topic()
        stage.store.checkpoint()
    stored = stage.store.catalog.snapshot(state_id)
    assert stored.facts == newer.facts
    stage.store.catalog.put_snapshot(state_id, known)  # the newer release came back
    found = stage.topic().subscriptions
    assert [one.cursor.counts() for one in found.values()] == [(1, 0, 0, 1)] * 3
    assert stage.topic().last_sequence_id("p") == (1 if deduplication else -1)


def test_entries_that_cannot_be_read_refuse_the_topic_until_they_can(
    make_stage: MakeStage,
) -> None:
    """Without them nobody knows which sequence ids are stored."""
    stage = make_stage(deduplication=True, tail_size=0)
    stage.subscription(stage.topic())
    stage.checkpoint()
    stage.publish(stage.producer(stage.topic()), message(0))
    (state,) = [
        one for one in stage.store.catalog.states(stage.topic().row.topic_id) if one.kind == "dedup"
    ]
    before = stage.store.catalog.snapshot(state.state_id)
    stage.checkpoint()
    stage.store.catalog.put_snapshot(state.state_id, before)  # as if that had not been due
    stage = stage.restarted()
    for _ in range(2):
        stage.files.faults.fail("read", forever=True, under="ledgers")
        with pytest.raises(OSError, match="Input/output"):
            stage.topic()
        stage.files.faults.heal()
    stage.store.checkpoint()
    assert stage.topic().last_sequence_id("p") == 0


# -- subscriptions -------------------------------------------------------------------------------------


def test_a_subscription_that_cannot_be_stored_is_not_there(stage: Stage) -> None:
    topic = stage.topic()

    def fail(*_: object) -> None:
        raise PersistenceError("the catalog is full")

    catalog = stage.store.catalog
    whole = catalog.put_snapshot
    catalog.put_snapshot = fail  # type: ignore[method-assign]
    with pytest.raises(PersistenceError):
        stage.subscription(topic)
    assert topic.subscriptions == {}
    catalog.put_snapshot = whole  # type: ignore[method-assign]
    assert stage.subscription(topic).cursor.counts() == (0, 0, 0, 0)


def test_holders_and_names_are_never_given_twice(stage: Stage) -> None:
    assert len({stage.broker.next_holder() for _ in range(100)}) == 100
    assert len({stage.broker.new_producer_name() for _ in range(100)}) == 100


# -- the end -------------------------------------------------------------------------------------------


def test_receipts_and_acks_on_their_way_go_out_before_the_end(stage: Stage) -> None:
    client = stage.client()
    produce(stage, client)
    subscribe(stage, client, permits=10)
    client.say(message(0))
    stage.turn()
    client.take()
    stage.engine.holds_journal = True
    client.say(message(1))
    acking = ask(client, ack_command(wire_id(1, 0)))
    closing = stage.loop.begin(stage.broker.close())
    stage.turn()
    assert not closing.done()
    stage.engine.holds_journal = False
    stage.turn()
    closing.result()
    assert isinstance(answer(client, acking), pb.CommandAckResponse)
    assert answers(client) == ["1 at 1:1"]
    assert client.is_lost
    assert stage.engine.is_closed
    assert stage.broker.sessions == set()


def test_it_ends_also_when_the_journal_cannot_be_written(stage: Stage) -> None:
    client = stage.client()
    produce(stage, client)
    stage.engine.holds_journal = True
    client.say(message(0))
    stage.files.faults.fail("sync", forever=True, under="journal")
    closing = stage.loop.begin(stage.broker.close())
    stage.engine.holds_journal = False
    stage.turn()
    closing.result()
    assert stage.engine.is_closed
    assert client.is_lost


def test_nothing_is_opened_while_it_ends(stage: Stage) -> None:
    stage.engine.holds_journal = True
    closing = stage.loop.begin(stage.broker.close())
    stage.turn()
    opening = stage.loop.begin(stage.broker.topic(NAME))
    stage.turn()
    assert isinstance(opening.exception(), ServiceNotReady)
    stage.engine.holds_journal = False
    stage.turn()
    closing.result()


def test_work_that_waits_at_the_end_is_given_up(stage: Stage) -> None:
    async def for_ever() -> None:
        await asyncio.Event().wait()

    stage.broker.spawn(for_ever())
    stage.run(stage.broker.close())
    assert stage.broker._tasks == set()


# -- where it is ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        ({}, "pulsar://127.0.0.1:6650"),
        ({"host": "0.0.0.0"}, "pulsar://localhost:6650"),
        ({"advertised_address": "b.example", "port": 1}, "pulsar://b.example:1"),
        ({"advertised_address": "::1"}, "pulsar://[::1]:6650"),
    ],
)
def test_lookups_say_where(make_stage: MakeStage, settings: dict[str, object], url: str) -> None:
    assert make_stage(**settings).broker.lookup_url() == url


@pytest.mark.parametrize(
    ("listeners", "url"), [("", "pulsar://127.0.0.1:6650"), ("in:pulsar://10.0.0.7:6650", "")]
)
def test_a_close_takes_clients_back_here(make_stage: MakeStage, listeners: str, url: str) -> None:
    """Where there are listeners, which one a client can reach is known from its lookups alone."""
    stage = make_stage(advertised_listeners=listeners)
    client, other = stage.client(), stage.client()
    for one in (client, other):
        subscribe(stage, one, sub_type=pb.CommandSubscribe.Shared)
    request(stage, client, pb.CommandUnsubscribe(consumer_id=0, request_id=0, force=True))
    (closed,) = other.take_all(pb.CommandCloseConsumer)
    assert closed.assignedBrokerServiceUrl == url
