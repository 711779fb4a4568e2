"""Session: one connection's state. Who is heard, who waits, who is told, and what is left at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from stage.frames import message
from stage.heard import answers, got
from stage.stage import TOPIC, Stage
from stage.talk import (
    SHARED,
    ack_command,
    answer,
    ask,
    error_of,
    opened,
    produce,
    request,
    subscribe,
    subscribe_command,
    text_of,
    wire_id,
)

from milepost.broker.connection.handlers.registry import HANDLERS
from milepost.broker.connection.session import (
    COMMANDS_MAX,
    LINGER_S,
    RECENTLY_CLOSED_MAX,
    UNREAD_BUFFERS_MAX,
)
from milepost.testing.peer import Loopback
from milepost.wire import protocol
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.commands import Kind
from milepost.wire.events import Delivery, Receipt
from milepost.wire.scanners import long_command

MakeStage = Callable[..., Stage]


# -- the handshake, and being alive --------------------------------------------------------------------


def test_a_client_that_never_says_connect_is_closed(make_stage: MakeStage) -> None:
    stage = make_stage(handshake_timeout_s=10)
    silent, other = stage.client(handshake=False), stage.client()
    stage.tick(9)
    assert not silent.is_closing
    stage.tick(1)
    assert silent.is_lost
    assert not other.is_closing
    assert stage.broker.counters.connections_closed == {"handshake_timeout": 1}


def test_what_comes_before_connect_closes_the_connection(stage: Stage) -> None:
    client = stage.client(handshake=False)
    client.say(pb.CommandFlow(consumer_id=0, messagePermits=1))
    stage.turn()
    assert client.is_lost
    assert stage.broker.counters.frames_refused == {"before_connect": 1}


def test_a_client_that_answers_pings_stays(make_stage: MakeStage) -> None:
    stage = make_stage(keep_alive_interval_s=30)
    client = stage.client()
    stage.tick(300)
    assert not client.is_closing
    assert client.session in stage.broker.sessions


def test_a_client_that_does_not_answer_is_ended_and_what_it_held_is_free(
    make_stage: MakeStage,
) -> None:
    """Also when bytes wait for it: it will not read them, and nobody else waits for that."""
    stage = make_stage(keep_alive_interval_s=30)
    dead, alive = stage.client(), stage.client()
    subscribe(stage, dead, sub_type=SHARED, permits=10)
    produce(stage, alive)
    alive.say(message(0), message(1))
    stage.turn()
    assert got(dead) == ["0", "1"]
    dead.reads = False
    stage.tick(59)  # heard of before the first ping: it has until the second
    assert not dead.is_closing
    stage.tick(2)
    assert dead.is_lost
    assert stage.broker.counters.connections_closed == {"keep_alive_timeout": 1}
    subscribe(stage, alive, sub_type=SHARED, permits=10)
    assert got(alive) == ["0", "1"]


def test_a_client_that_is_not_read_is_not_blamed_for_its_silence(make_stage: MakeStage) -> None:
    stage = make_stage(keep_alive_interval_s=30, max_pending_publish_requests_per_connection=1)
    client = stage.client()
    produce(stage, client)
    stage.engine.holds_journal = True
    client.say(message(0))
    stage.turn()
    assert not client.is_read
    client.reads = False
    stage.tick(200)
    assert not client.is_closing


def test_whoever_does_not_read_its_last_bytes_is_ended_without_them(stage: Stage) -> None:
    client = stage.client()
    client.reads = False
    client.session.write([b"\x00\x00\x00\x04\x00\x00\x00\x00"])
    client.session.fail("for a reason")
    stage.turn()
    assert client.is_closing
    assert not client.is_lost
    stage.tick(LINGER_S - 1)
    assert not client.is_lost
    stage.tick(1)
    assert client.is_lost
    assert stage.broker.counters.connections_closed == {}


# -- sends ---------------------------------------------------------------------------------------------


def testclosed_producers_are_forgotten_in_the_end(stage: Stage) -> None:
    client = stage.client()
    for producer_id in range(1, RECENTLY_CLOSED_MAX + 2):
        produce(stage, client, producer_id, f"p{producer_id}")
        ask(client, pb.CommandCloseProducer(producer_id=producer_id, request_id=0))
    stage.turn()
    assert len(client.session.closed_producers) == RECENTLY_CLOSED_MAX
    assert 1 not in client.session.closed_producers


def test_whoever_sends_faster_than_the_disk_takes_waits_in_its_socket(
    make_stage: MakeStage,
) -> None:
    stage = make_stage(max_pending_publish_requests_per_connection=4)
    client, other = stage.client(), stage.client()
    produce(stage, client)
    produce(stage, other, name="q")
    stage.engine.holds_journal = True
    for sequence_id in range(6):
        client.say(message(sequence_id))
    stage.turn()
    assert not client.is_read
    assert other.is_read
    assert stage.broker.counters.reads_paused == 1
    assert len(stage.topic().producers["p"].pending) == 4
    stage.engine.holds_journal = False
    stage.turn()
    assert client.is_read
    assert answers(client) == [f"{number} at 1:{number}" for number in range(6)]


def test_it_is_read_again_when_half_of_its_sends_are_answered(make_stage: MakeStage) -> None:
    stage = make_stage(max_pending_publish_requests_per_connection=4)
    client = stage.client()
    produce(stage, client)
    stage.engine.holds_journal = True
    for sequence_id in range(4):
        client.say(message(sequence_id))
    assert not client.is_read
    client.session.settled(1)
    assert not client.is_read
    client.session.settled(1)
    assert client.is_read


def test_the_limit_counts_refused_sends_too(make_stage: MakeStage) -> None:
    """What was answered is answered, well or not: or a refused one would stop the client for good."""
    stage = make_stage(max_pending_publish_requests_per_connection=2)
    client = stage.client()
    for round_trip in range(3):
        produce(stage, client)
        stage.files.faults.fail("sync")
        client.say(message(2 * round_trip), message(2 * round_trip + 1))
        stage.turn()
        assert client.is_read
        assert answers(client) == [
            f"{2 * round_trip} PersistenceError",
            f"{2 * round_trip + 1} PersistenceError",
        ]


def test_a_producer_whose_message_the_disk_refused_is_closed_and_what_comes_behind_is_dropped(
    stage: Stage,
) -> None:
    client = stage.client()
    produce(stage, client)
    stage.files.faults.fail("sync", under="journal")
    client.say(message(0))
    stage.turn()
    error, closed = client.take()
    assert error.sequence_id == 0
    assert isinstance(closed, pb.CommandCloseProducer)
    client.say(message(1))
    stage.turn()
    assert client.take() == []
    assert stage.topic().producers == {}
    produce(stage, client, epoch=1)
    client.say(message(0), message(1))
    stage.turn()
    assert answers(client) == ["0 at 2:0", "1 at 2:1"]


# -- long commands -------------------------------------------------------------------------------------


@pytest.fixture
def short_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ACK is obeyed two ids at a time."""
    for module, name in ((long_command, "IDS_MAX"), (long_command, "SIZE_MIN")):
        monkeypatch.setattr(module, name, 2)
    monkeypatch.setattr(protocol, "LONG_SIZE_MIN", 2)


@pytest.mark.usefixtures("short_parts")
def test_a_long_command_is_answered_once_and_others_have_their_turn_meanwhile(stage: Stage) -> None:
    client = opened(stage)
    cursor = stage.topic().subscriptions["s"].cursor
    seen: list[int] = []

    def other() -> None:
        seen.append(cursor.mark_delete_index)
        if cursor.mark_delete_index < 2:
            stage.loop.call_soon(other)

    stage.loop.call_soon(other)
    command = ack_command(*[wire_id(1, entry) for entry in (0, 0, 1, 1, 2)])
    command.request_id = 77
    client.say(command, ack_command(wire_id(1, 2)))
    assert not client.is_read
    stage.turn()
    assert sorted(set(seen)) == [-1, 0, 1, 2]
    assert client.is_read
    (answer,) = client.take()
    assert (answer.request_id, error_of(answer)) == (77, "")
    assert stage.broker.counters.acks == 2


@pytest.mark.usefixtures("short_parts")
def test_what_was_wrong_with_any_part_of_a_long_command_is_answered(stage: Stage) -> None:
    client = opened(stage)
    named = [wire_id(1, entry) for entry in (77, 0, 1, 1, 2)]
    reply = request(stage, client, ack_command(*named))
    assert error_of(reply) == "MetadataError"
    assert "1:77" in text_of(reply)
    assert stage.topic().subscriptions["s"].cursor.mark_delete_index == 2
    assert stage.broker.counters.acks_refused["MetadataError"] == 1
    assert error_of(request(stage, client, ack_command(*named[1:]))) == ""


@pytest.mark.usefixtures("short_parts")
def test_a_client_that_hangs_up_behind_a_long_command_is_obeyed_to_its_end(stage: Stage) -> None:
    client = opened(stage)
    subscription = stage.topic().subscriptions["s"]
    client.say(
        ack_command(*[wire_id(1, entry) for entry in (0, 0, 1, 1)]), ack_command(wire_id(1, 2))
    )
    client.hang_up()
    assert subscription.cursor.mark_delete_index == -1
    assert subscription.consumers  # it is gone when all is obeyed
    stage.turn()
    assert subscription.cursor.mark_delete_index == 2
    assert not subscription.consumers
    assert client.session.is_closed
    assert client.session not in stage.broker.sessions


@pytest.mark.usefixtures("short_parts")
def test_a_connection_that_the_broker_ends_is_obeyed_as_far_as_it_was_heard(stage: Stage) -> None:
    client = opened(stage)
    client.say(
        ack_command(*[wire_id(1, entry) for entry in (0, 0, 1, 1)]), ack_command(wire_id(1, 2))
    )
    client.session.fail("enough")
    stage.turn()
    assert stage.topic().subscriptions["s"].cursor.mark_delete_index == 1


@pytest.mark.usefixtures("short_parts")
def test_a_broker_that_closes_obeys_the_rest_of_a_long_command(stage: Stage) -> None:
    client = opened(stage)
    subscription = stage.topic().subscriptions["s"]
    client.say(ack_command(*[wire_id(1, entry) for entry in (0, 0, 1, 1, 2)]))
    stage.run(stage.broker.close())
    assert subscription.cursor.mark_delete_index == 2
    assert client.session.is_closed


# -- commands ------------------------------------------------------------------------------------------


@pytest.fixture
def broken_handlers():  # type: ignore[no-untyped-def]
    """Handlers with a mistake in them, one of each kind."""

    def at_once(session: object, command: object) -> None:
        raise ZeroDivisionError("oops")

    async def later(session: object, command: object) -> None:
        raise ZeroDivisionError("oops")

    before = dict(HANDLERS)
    HANDLERS[Kind.SEEK] = HANDLERS[Kind.SEEK]._replace(handle=at_once)
    HANDLERS[Kind.UNSUBSCRIBE] = HANDLERS[Kind.UNSUBSCRIBE]._replace(handle=later)
    del HANDLERS[Kind.LOOKUP]
    yield
    HANDLERS.clear()
    HANDLERS.update(before)


def test_a_mistake_of_ours_is_answered_and_costs_nobody_else(
    stage: Stage, broken_handlers: None, caplog: pytest.LogCaptureFixture
) -> None:
    client = opened(stage)
    for command in (
        pb.CommandSeek(consumer_id=0, request_id=0, message_publish_time=0),
        pb.CommandUnsubscribe(consumer_id=0, request_id=0),
    ):
        reply = request(stage, client, command)
        assert isinstance(reply, pb.CommandError)
        assert error_of(reply) == "UnknownError"
        assert "ZeroDivisionError" in text_of(reply)
        assert "oops" in caplog.text
        assert "oops" not in text_of(reply)
    reply = request(stage, client, pb.CommandLookupTopic(topic=TOPIC, request_id=0))
    assert isinstance(reply, pb.CommandLookupTopicResponse)
    assert error_of(reply) == "UnknownError"
    assert not client.is_closing


def test_a_command_of_the_broker_from_a_client_closes_its_connection(stage: Stage) -> None:
    client = stage.client()
    client.say(pb.CommandSuccess(request_id=1))
    stage.turn()
    assert client.is_lost
    assert stage.broker.counters.frames_refused == {"unexpected_command": 1}


# -- slow readers --------------------------------------------------------------------------------------


def test_dispatch_passes_by_who_does_not_read(stage: Stage) -> None:
    slow, quick = stage.client(write_buffer_size=500), stage.client()
    for client in (slow, quick):
        subscribe(stage, client, sub_type=SHARED, permits=100)
    produce(stage, quick)
    slow.reads = False
    for number in range(40):
        quick.say(message(number, b"x" * 100))
        stage.turn()
    assert not slow.session.is_writable
    assert slow.unsent_size() < 1000
    behind = 40 - len(quick.take_all(Delivery))
    assert behind < 10
    slow.reads = True
    stage.turn()
    assert slow.session.is_writable
    assert len(slow.take_all(Delivery)) == behind


def test_it_is_told_since_when_it_waits(stage: Stage) -> None:
    client = stage.client()
    stage.clock.advance(5)
    client.session.writable(False)
    assert client.session.unwritable_since == 5.0


# -- the end -------------------------------------------------------------------------------------------


def test_a_lost_connection_takes_its_producers_and_consumers_with_it(stage: Stage) -> None:
    client = opened(stage)
    subscribe(stage, client, "reader", consumer_id=1, durable=False)
    topic = stage.topic()
    assert set(topic.subscriptions) == {"s", "reader"}
    client.hang_up()
    stage.turn()
    assert topic.producers == {}
    assert set(topic.subscriptions) == {"s"}
    assert topic.subscriptions["s"].consumers == []
    assert topic.subscriptions["s"].cursor.counts() == (3, 0, 0, 0)
    assert client.session not in stage.broker.sessions
    client.session.lost()  # once more changes nothing


def test_nothing_is_written_to_a_connection_that_is_gone(stage: Stage) -> None:
    client = opened(stage)
    stage.engine.holds_journal = True
    request_id = ask(client, ack_command(wire_id(1, 0)))
    client.say(message(9))
    stage.turn()
    client.hang_up()
    stage.engine.holds_journal = False
    stage.turn()
    assert answer(client, request_id) is None
    assert client.take() == []
    assert stage.topic().log.end_index == 4  # what was on its way is stored all the same


def test_a_connection_ends_when_the_outcome_of_a_publish_is_unknown(stage: Stage) -> None:
    """Neither a receipt nor an error would be true."""
    client = stage.client()
    produce(stage, client)
    stage.files.faults.fail("sync")
    stage.files.faults.fail("create", forever=True, under="journal")
    client.say(message(0))
    stage.turn()
    assert client.is_lost
    assert answers(client) == []


def test_what_many_subscriptions_have_for_a_slow_client_is_bounded_as_for_one(
    make_stage: MakeStage,
) -> None:
    limit, large = 16 * 1024, 4 * 1024
    stage = make_stage(write_buffer_size=limit, dispatch_read_size=limit)
    topic = stage.topic()
    stage.publish(stage.producer(topic), *(message(number, b"x" * large) for number in range(20)))
    client = stage.client(write_buffer_size=limit)
    names = [f"s{number}" for number in range(20)]
    for consumer_id, name in enumerate(names):
        stage.subscription(topic, name)
        subscribe(stage, client, name, consumer_id=consumer_id)
    client.reads = False
    # All of them ask at once, and all of it is in memory.
    client.say(*(pb.CommandFlow(consumer_id=one, messagePermits=100) for one in range(len(names))))
    stage.turn()
    assert limit <= client.unsent_size() <= 3 * limit
    client.reads = True
    stage.turn()
    assert len(client.take_all(Delivery)) == 20 * len(names)


def test_a_client_that_asks_too_much_at_once_is_not_read_until_it_is_answered(stage: Stage) -> None:
    stage.topic()
    client, other = stage.client(), stage.client()
    stage.engine.holds_catalog = True
    for number in range(COMMANDS_MAX):
        assert client.is_read
        client.say(subscribe_command(f"s{number}", consumer_id=number))
    assert not client.is_read
    assert other.is_read
    stage.engine.holds_catalog = False
    stage.turn()
    assert client.is_read
    assert len(stage.topic().subscriptions) == COMMANDS_MAX


# -- very many requests --------------------------------------------------------------------------------


def _lookups(first: int, count: int) -> list[pb.CommandLookupTopic]:
    return [
        pb.CommandLookupTopic(topic=TOPIC, request_id=number)
        for number in range(first, first + count)
    ]


def _answered(client: Loopback) -> list[int]:
    return [heard.request_id for heard in client.take_all(pb.CommandLookupTopicResponse)]


def test_requests_of_one_read_are_heard_a_few_at_a_time(stage: Stage) -> None:
    """A megabyte of them took the loop for seconds, in which no other client was served."""
    client, other = stage.client(), stage.client()
    at_once = protocol.HEARD_MAX // protocol.COMMAND_WEIGHT
    before = len(stage.broker._tasks)
    client.say(*_lookups(1, 500))
    assert len(stage.broker._tasks) - before <= at_once
    assert not client.is_read
    other.say(*_lookups(1000, 1))
    for _ in range(3):
        stage.loop.call_soon(stage.loop.stop)
        stage.loop.run_forever()
    assert _answered(other) == [1000]
    assert len(_answered(client)) <= 4 * at_once
    stage.turn()
    assert _answered(client)[-1] == 500
    assert client.is_read


def test_requests_of_one_read_are_answered_in_order(stage: Stage) -> None:
    client = stage.client()
    client.say(*_lookups(1, 500))
    stage.turn()
    assert _answered(client) == list(range(1, 501))


@pytest.mark.parametrize(
    "command",
    [
        pb.CommandGetTopicsOfNamespace(request_id=1, namespace="public/default"),
        pb.CommandWatchTopicList(
            request_id=1, watcher_id=1, namespace="public/default", topics_pattern=".*"
        ),
    ],
    ids=["topics", "watch"],
)
def test_one_request_that_looks_through_a_namespace_is_heard_at_a_time(
    stage: Stage, command: Any
) -> None:
    client = stage.client()
    before = len(stage.broker._tasks)
    client.say(*[command] * 50)
    assert len(stage.broker._tasks) - before == 1
    stage.turn()
    assert client.is_read


def test_a_client_that_does_not_read_its_answers_is_not_heard_until_it_does(
    make_stage: MakeStage,
) -> None:
    stage = make_stage(write_buffer_size=4096)
    client = stage.client(write_buffer_size=4096)
    client.reads = False
    for first in range(1, 5001, 500):
        client.say(*_lookups(first, 500))
        stage.turn()
    part = 200 * protocol.HEARD_MAX // protocol.COMMAND_WEIGHT
    assert client.unsent_size() <= UNREAD_BUFFERS_MAX * 4096 + part
    assert not client.is_read
    client.reads = True
    stage.turn()
    assert _answered(client) == list(range(1, 5001))
    assert client.is_read


def test_a_producer_that_does_not_read_its_receipts_is_not_heard_until_it_does(
    make_stage: MakeStage,
) -> None:
    stage = make_stage(write_buffer_size=4096)
    client = stage.client(write_buffer_size=4096)
    produce(stage, client)
    client.reads = False
    for first in range(0, 10_000, 100):
        client.say(*[message(number) for number in range(first, first + 100)])
        stage.turn()
    assert client.unsent_size() <= UNREAD_BUFFERS_MAX * 4096 + 100 * 50
    assert not client.is_read
    client.reads = True
    stage.turn()
    assert len(client.take_all(Receipt)) == 10_000


def test_a_client_that_reads_no_answers_is_ended_by_the_keep_alive(make_stage: MakeStage) -> None:
    stage = make_stage(write_buffer_size=4096, keep_alive_interval_s=30)
    client = stage.client(write_buffer_size=4096)
    client.reads = False
    client.say(*_lookups(1, 5000))
    stage.turn()
    assert not client.is_read
    stage.tick(61)
    assert client.is_lost


def test_a_client_that_is_gone_with_answers_unread_leaves_nothing_behind(
    make_stage: MakeStage,
) -> None:
    stage = make_stage(write_buffer_size=4096)
    client = stage.client(write_buffer_size=4096)
    subscribe(stage, client, sub_type=SHARED)
    client.reads = False
    client.say(*_lookups(1, 5000))
    stage.turn()
    client.hang_up()
    stage.turn()
    assert client.session not in stage.broker.sessions
    assert not stage.topic().subscriptions["s"].consumers


def test_what_a_client_asked_to_open_just_before_it_went_is_not_left_open(stage: Stage) -> None:
    """Its last requests are heard in a turn in which the connection has gone already."""
    client = stage.client()
    at_once = protocol.HEARD_MAX // protocol.COMMAND_WEIGHT
    client.say(
        *_lookups(1, at_once),
        pb.CommandProducer(topic=TOPIC, producer_id=1, request_id=5001, producer_name="p"),
        pb.CommandSubscribe(
            topic=TOPIC, subscription="s", subType=SHARED, consumer_id=1, request_id=5002
        ),
    )
    client.hang_up()
    stage.turn()
    assert client.session not in stage.broker.sessions
    assert not stage.topic().producers
    assert not stage.topic().subscriptions["s"].consumers
