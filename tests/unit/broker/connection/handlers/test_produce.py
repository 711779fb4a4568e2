"""PRODUCER: names, access modes with durable epochs, and what happens while it is being opened."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from stage.frames import message
from stage.heard import answers, deliveries
from stage.stage import TOPIC, Stage
from stage.talk import answer, ask, error_of, flow, produce, producer_command, request, subscribe

from milepost.broker.topic.producer_access import AccessMode
from milepost.wire import pulsar_pb2 as pb

MakeStage = Callable[..., Stage]
SHARED, EXCLUSIVE, WAIT, FENCING = (
    pb.Shared,
    pb.Exclusive,
    pb.WaitForExclusive,
    pb.ExclusiveWithFencing,
)


def test_the_modes_are_numbered_as_on_the_wire() -> None:
    assert list(AccessMode) == [SHARED, EXCLUSIVE, WAIT, FENCING]


# -- names ---------------------------------------------------------------------------------------------


def test_a_name_is_given_or_generated(stage: Stage) -> None:
    client = stage.client()
    assert produce(stage, client, 0, "mine").producer_name == "mine"
    names = {produce(stage, client, number, "").producer_name for number in (1, 2, 3)}
    assert len(names) == 3
    assert set(stage.topic().producers) == {"mine", *names}


def test_generated_names_differ_from_those_before_a_restart(stage: Stage) -> None:
    before = produce(stage, stage.client(), name="").producer_name
    stage.clock.advance(0.001)
    stage = stage.restarted()
    assert produce(stage, stage.client(), name="").producer_name != before


def test_a_name_in_use_is_busy(stage: Stage) -> None:
    client, other = stage.client(), stage.client()
    produce(stage, client)
    for rival, producer_id in ((other, 0), (client, 1)):
        reply = produce(stage, rival, producer_id)
        assert isinstance(reply, pb.CommandError)
        assert error_of(reply) == "ProducerBusy"
    assert stage.topic().producers["p"].peer is client.session
    client.hang_up()
    assert error_of(produce(stage, other)) == ""


def test_a_client_that_asks_twice_has_missed_the_first_answer(stage: Stage) -> None:
    client = stage.client()
    produce(stage, client)
    made = stage.topic().producers["p"]
    assert produce(stage, client).producer_name == "p"
    assert stage.topic().producers["p"] is made


@pytest.mark.parametrize("mode", [SHARED, EXCLUSIVE, FENCING])
def test_the_same_connection_may_open_it_again_with_a_higher_epoch(stage: Stage, mode: int) -> None:
    """Also one that has the topic alone: it must not be fenced from itself, nor told to go."""
    client = stage.client()
    produce(stage, client, producer_access_mode=mode)
    first = stage.topic().producers["p"]
    reply = produce(stage, client, epoch=1, producer_access_mode=mode)
    assert error_of(reply) == ""
    assert client.take() == []
    assert first.is_closed
    assert stage.topic().producers["p"] is client.session.producers[0] is not first
    client.say(message(0))
    stage.turn()
    assert answers(client) == ["0 at 1:0"]


def test_an_id_opened_again_under_another_name_leaves_nobody_behind(stage: Stage) -> None:
    client = stage.client()
    produce(stage, client, 0, "a")
    produce(stage, client, 0, "b", epoch=1)
    assert set(stage.topic().producers) == {"b"}
    client.hang_up()
    assert stage.topic().producers == {}


def test_there_may_be_so_many(make_stage: MakeStage) -> None:
    stage = make_stage(max_producers_per_topic=2)
    client = stage.client()
    for number in range(2):
        assert error_of(produce(stage, client, number, f"p{number}")) == ""
    assert error_of(produce(stage, client, 2, "p2")) == "ProducerBusy"
    assert error_of(produce(stage, client, 1, "p1", epoch=1)) == ""  # in its own place


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        ("persistent://public/nowhere/t", "TopicNotFound"),
        ("a b://c", "InvalidTopicName"),
    ],
)
def test_a_topic_that_cannot_be_is_refused(stage: Stage, topic: str, error: str) -> None:
    client = stage.client()
    assert error_of(produce(stage, client, topic=topic)) == error
    assert client.session.opening == {}


# -- while it is being opened --------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [SHARED, EXCLUSIVE, WAIT])
def test_a_connection_that_ends_meanwhile_leaves_nobody_behind(stage: Stage, mode: int) -> None:
    """Or its name would be busy, and the topic taken, for ever."""
    client, other = stage.client(), stage.client()
    stage.engine.holds_catalog = True
    ask(client, producer_command(producer_access_mode=mode))
    stage.turn()
    client.hang_up()
    stage.engine.holds_catalog = False
    stage.turn()
    assert stage.topic().producers == {}
    assert error_of(produce(stage, other, producer_access_mode=mode)) == ""


def test_a_connection_that_ends_while_its_epoch_is_stored_leaves_nobody_behind(
    stage: Stage,
) -> None:
    client, other = stage.client(), stage.client()
    stage.topic()
    stage.engine.holds_catalog = True
    ask(client, producer_command(producer_access_mode=EXCLUSIVE))
    waiting = ask(other, producer_command(name="q", producer_access_mode=WAIT))
    stage.turn()
    assert not answer(other, waiting).producer_ready
    client.hang_up()
    stage.engine.holds_catalog = False
    stage.turn()
    assert client.take() == []
    granted = answer(other, waiting)
    assert (granted.producer_ready, granted.topic_epoch) == (True, 1)
    assert stage.store.catalog.topic(TOPIC).doc["epoch"] == 1


def test_a_second_request_meanwhile_has_to_wait(stage: Stage) -> None:
    client = stage.client()
    stage.engine.holds_catalog = True
    first, second = ask(client, producer_command()), ask(client, producer_command())
    stage.turn()
    assert error_of(answer(client, second)) == "ServiceNotReady"
    stage.engine.holds_catalog = False
    stage.turn()
    assert error_of(answer(client, first)) == ""


def test_two_of_one_name_at_once_are_not_both_let_in(make_stage: MakeStage) -> None:
    """With deduplication both wait for what the last of that name sent; one of them comes first."""
    stage = make_stage(deduplication=True)
    clients = [stage.client() for _ in range(3)]
    produce(stage, clients[0])
    stage.engine.holds_journal = True
    clients[0].say(message(0))
    stage.turn()
    clients[0].hang_up()
    requests = [ask(client, producer_command()) for client in clients[1:]]
    stage.turn()
    assert [answer(c, r) for c, r in zip(clients[1:], requests, strict=True)] == [None, None]
    stage.engine.holds_journal = False
    stage.turn()
    replies = [answer(c, r) for c, r in zip(clients[1:], requests, strict=True)]
    assert [error_of(reply) for reply in replies] == ["", "ProducerBusy"]
    assert replies[0].last_sequence_id == 0


def test_a_refused_name_takes_no_room_among_the_remembered(make_stage: MakeStage) -> None:
    stage = make_stage(deduplication=True)
    client = stage.client()
    produce(stage, client, producer_access_mode=EXCLUSIVE)
    for number in range(1, 5):
        assert error_of(produce(stage, client, number, f"q{number}")) == "ProducerBusy"
    dedup = stage.topic().dedup
    assert dedup is not None
    dedup.check()
    assert set(dedup._producers) - set(dedup._inactive) == {"p"}


# -- what else it says ---------------------------------------------------------------------------------


def test_the_last_sequence_id_is_known_with_deduplication(make_stage: MakeStage) -> None:
    for on, expected in ((True, 4), (False, -1)):
        stage = make_stage(deduplication=on)
        client = stage.client()
        assert produce(stage, client).last_sequence_id == -1
        client.say(message(3), message(4))
        stage.turn()
        request(stage, client, pb.CommandCloseProducer(producer_id=0, request_id=0))
        assert produce(stage, client).last_sequence_id == expected


def test_after_an_unknown_outcome_it_is_certain_again(make_stage: MakeStage) -> None:
    """The flush that opening waits for makes certain that what failed does not count."""
    stage = make_stage(deduplication=True)
    client = stage.client()
    produce(stage, client)
    client.say(message(0))
    stage.turn()
    stage.files.faults.fail("sync")
    stage.files.faults.fail("create", forever=True, under="journal")
    client.say(message(1))
    stage.turn()
    assert client.is_lost
    stage.files.faults.heal()
    client = stage.client()
    assert produce(stage, client).last_sequence_id == 0
    client.say(message(1))
    stage.turn()
    assert answers(client) == ["1 at 2:0"]


def test_its_initial_subscription_begins_at_the_earliest(stage: Stage) -> None:
    """What a dead-letter producer relies on."""
    client = stage.client()
    produce(stage, client)
    client.say(message(0))
    stage.turn()
    produce(stage, client, 1, "q", initial_subscription_name="init")
    assert stage.topic().subscriptions["init"].cursor.counts() == (1, 0, 0, 0)
    produce(stage, client, 2, "r", initial_subscription_name="init")


def test_two_producers_with_one_initial_subscription_at_once(stage: Stage) -> None:
    client = stage.client()
    stage.topic()
    stage.engine.holds_catalog = True
    requests = [
        ask(client, producer_command(number, f"p{number}", initial_subscription_name="init"))
        for number in range(2)
    ]
    stage.turn()
    stage.engine.holds_catalog = False
    stage.turn()
    assert [error_of(answer(client, one)) for one in requests] == ["", ""]
    assert set(stage.topic().subscriptions) == {"init"}


# -- receipts and messages -------------------------------------------------------------------------------


def test_on_one_connection_a_receipt_goes_ahead_of_its_message(stage: Stage) -> None:
    """A program that counts its receipts when it has received everything has them all."""
    both, other = stage.client(), stage.client()
    produce(stage, both)
    subscribe(stage, both, "s", permits=100)
    subscribe(stage, other, "o", permits=100)
    heard: list[str] = []
    for number in range(3):
        both.say(message(2 * number), message(2 * number + 1))
        stage.turn()
        heard += [type(one).__name__ for one in both.take()]
    assert heard == ["Receipt", "Receipt", "Delivery", "Delivery"] * 3
    assert len(deliveries(other)) == 6


def test_what_has_its_receipt_is_visible(stage: Stage) -> None:
    """Also where the receipt goes first: who asks for the last message behind it finds it."""
    client = stage.client()
    produce(stage, client)
    subscribe(stage, client, "s", consumer_id=7)
    subscription = stage.topic().subscriptions["s"]
    seen: list[int] = []
    write = client.session.write
    client.session.write = lambda buffers: (seen.append(subscription.cursor.end), write(buffers))
    client.say(message(0), message(1))
    stage.turn()
    assert seen == [2]
    client.session.write = write
    flow(stage, client, 5, consumer_id=7)
    assert [one.entry_id for one in deliveries(client)] == [0, 1]
