"""SEEK over a connection: where it goes, who is closed, and in which order it is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from stage.frames import batch, message
from stage.heard import deliveries, got
from stage.stage import Stage
from stage.talk import (
    EXCLUSIVE,
    FAILOVER,
    SHARED,
    ack_command,
    answer,
    ask,
    error_of,
    flow,
    produce,
    request,
    seek_command,
    subscribe,
    text_of,
    wire_id,
)

from milepost.broker.operations.reset import Reset, Target, reset
from milepost.wire import pulsar_pb2 as pb

MakeStage = Callable[..., Stage]


@pytest.fixture
def client(stage: Stage) -> Any:
    """A consumer 0 that knows no epochs, of 0, the batch 1.0 to 1.4, and 2."""
    client = stage.client()
    produce(stage, client)
    subscribe(stage, client)
    client.say(message(0), batch(1, 5), message(2))
    stage.turn()
    client.take()
    return client


def mark_delete(stage: Stage) -> int:
    return stage.topic().subscriptions["s"].cursor.mark_delete_index


@pytest.mark.parametrize(
    ("target", "index"),
    [
        (wire_id(1, 0), 0),
        (wire_id(1, 1), 1),
        (wire_id(1, 1, batch_index=3), 4),
        (wire_id(1, 1, batch_index=5), 1),  # no such message: the entry
        (wire_id(1, 1, ack_set=[0b11000]), 4),
        (wire_id(1, 1, ack_set=[0b100000]), 6),  # nothing of the batch is left
        (wire_id(1, 1, ack_set=[0]), 6),
        (wire_id(1, 2), 6),
        (wire_id(1, 3), 7),
        (wire_id(2, 0), 7),
        (wire_id(0, 9), 0),
        (wire_id(-1, -1), 0),
        (wire_id(2**63 - 1, 2**63 - 1), 7),
        (wire_id(1, 2**63 - 1), 7),
    ],
)
def test_an_id_goes_to_its_index(stage: Stage, client: Any, target: Any, index: int) -> None:
    reply = request(stage, client, seek_command(target))
    assert isinstance(reply, pb.CommandSuccess)
    assert mark_delete(stage) == index - 1
    assert stage.broker.counters.seeks == 1


def test_a_time_goes_to_the_first_message_not_before_it(make_stage: MakeStage) -> None:
    stage = make_stage()
    client = stage.client()
    produce(stage, client)
    subscribe(stage, client, consumer_epoch=0)
    times = []
    for number in range(4):
        stage.clock.advance(1)
        times.append(stage.clock.wall_ms())
        client.say(message(number))
        stage.turn()
    for epoch, (time_ms, index) in enumerate(
        [
            (0, 0),
            (times[0], 0),
            (times[1], 1),
            (times[1] + 1, 2),
            (times[3], 3),
            (times[3] + 1, 4),
            (2**64 - 1, 0),  # -1: before all
        ],
        1,
    ):
        command = seek_command(None, message_publish_time=time_ms, consumer_epoch=epoch)
        assert error_of(request(stage, client, command)) == ""
        assert mark_delete(stage) == index - 1


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (seek_command(None), "NotAllowedError"),
        (seek_command(wire_id(1, 0), consumer_id=9), "MetadataError"),
        (seek_command(wire_id(1, 0, first_chunk_message_id=wire_id(1, 1))), "NotAllowedError"),
    ],
)
def test_what_says_nothing_is_refused_and_changes_nothing(
    stage: Stage, client: Any, command: Any, error: str
) -> None:
    before = mark_delete(stage)
    reply = request(stage, client, command)
    assert error_of(reply) == error
    assert mark_delete(stage) == before
    assert 0 in client.session.consumers


# -- without an epoch ----------------------------------------------------------------------------------


@pytest.mark.parametrize("durable", [True, False])
def test_the_close_comes_before_the_success(stage: Stage, durable: bool) -> None:
    client = stage.client()
    produce(stage, client)
    subscribe(stage, client, durable=durable, permits=10)
    client.say(message(0))
    stage.turn()
    client.take()
    request_id = ask(client, seek_command(wire_id(1, 0)))
    stage.turn()
    closed, success = client.take()
    assert isinstance(closed, pb.CommandCloseConsumer)
    assert not closed.assignedBrokerServiceUrl, "the client is to pause before it comes back"
    assert success == pb.CommandSuccess(request_id=request_id)
    assert client.session.consumers == {}


def test_success_means_on_disk(stage: Stage, client: Any) -> None:
    stage.engine.holds_journal = True
    request_id = ask(client, seek_command(wire_id(1, 2)))
    stage.turn()
    (closed,) = client.take()
    assert isinstance(closed, pb.CommandCloseConsumer)
    stage.engine.holds_journal = False
    stage.turn()
    assert isinstance(answer(client, request_id), pb.CommandSuccess)
    assert stage.restarted().topic().subscriptions["s"].cursor.mark_delete_index == 5


def test_a_seek_that_the_disk_refuses_is_an_error_and_is_not_there_after_a_crash(
    stage: Stage, client: Any
) -> None:
    stage.files.faults.fail("sync")
    reply = request(stage, client, seek_command(wire_id(1, 2)))
    assert error_of(reply) == "PersistenceError"
    assert stage.broker.counters.seeks == 0
    assert stage.restarted().topic().subscriptions["s"].cursor.mark_delete_index == -1


def test_after_a_refused_seek_the_next_ack_takes_it_along(stage: Stage, client: Any) -> None:
    """Or recovery would meet an ack of an epoch that it never heard of."""
    stage.files.faults.fail("sync")
    request(stage, client, seek_command(wire_id(1, 1)))
    client.take()
    subscribe(stage, client, permits=10)
    assert error_of(request(stage, client, ack_command(wire_id(1, 2)))) == ""
    cursor = stage.restarted().topic().subscriptions["s"].cursor
    assert (cursor.epoch, cursor.counts()) == (1, (5, 0, 0, 2))


@pytest.mark.parametrize("sub_type", [EXCLUSIVE, FAILOVER, SHARED])
def test_everyone_who_shares_the_cursor_is_closed(stage: Stage, sub_type: Any) -> None:
    """On Failover only the active one has anything; the others stay, and one of them takes over."""
    one, other = stage.client(), stage.client()
    produce(stage, one)
    subscribe(stage, one, sub_type=sub_type, consumer_name="a")
    if sub_type != EXCLUSIVE:
        subscribe(stage, other, sub_type=sub_type, consumer_name="b")
    one.take(), other.take()
    assert error_of(request(stage, one, seek_command(wire_id(-1, -1)))) == ""
    stage.turn()
    closed = [
        name
        for name, client in (("one", one), ("other", other))
        if client.take_all(pb.CommandCloseConsumer)
    ]
    assert len(closed) == {EXCLUSIVE: 1, FAILOVER: 1, SHARED: 2}[sub_type]


# -- with an epoch (PIP-194) ---------------------------------------------------------------------------


def test_with_an_epoch_the_consumer_stays_and_the_others_go(stage: Stage) -> None:
    one, other = stage.client(), stage.client()
    produce(stage, one)
    subscribe(stage, one, sub_type=SHARED, consumer_epoch=0, permits=10)
    subscribe(stage, other, sub_type=SHARED, permits=10)
    one.say(*[message(number) for number in range(4)])
    stage.turn()
    one.take(), other.take()
    reply = request(stage, one, seek_command(wire_id(1, 0), consumer_epoch=1))
    assert error_of(reply) == ""
    assert [type(heard).__name__ for heard in other.take()] == ["CommandCloseConsumer"]
    assert one.take() == []  # it has no permits until its next flow
    flow(stage, one, 10)
    assert [(one.entry_id, one.consumer_epoch) for one in deliveries(one)] == [
        (0, 1),
        (1, 1),
        (2, 1),
        (3, 1),
    ]


@pytest.mark.parametrize("epoch", [3, 2, 0, 2**64 - 1])
def test_an_epoch_that_did_not_grow_is_refused(stage: Stage, epoch: int) -> None:
    client = stage.client()
    produce(stage, client)
    subscribe(stage, client, consumer_epoch=3)
    client.say(message(0), message(1))
    stage.turn()
    client.say(ack_command(wire_id(1, 0)))
    flow(stage, client, 5)
    reply = request(stage, client, seek_command(wire_id(-1, -1), consumer_epoch=epoch))
    assert error_of(reply) == "NotAllowedError"
    assert f"{3}" in text_of(reply)
    assert mark_delete(stage) == 0
    assert got(client) == ["1"]  # everything is as it was
    assert client.session.consumers[0].epoch == 3


def test_a_consumer_that_never_gave_an_epoch_may_begin(stage: Stage, client: Any) -> None:
    assert error_of(request(stage, client, seek_command(wire_id(1, 1), consumer_epoch=0))) == ""
    flow(stage, client, 1)
    (delivery,) = deliveries(client)
    assert (delivery.entry_id, delivery.consumer_epoch) == (1, 0)


# A consumer that follows in place is told by a SEEK of the broker's.

FOLLOWS = [pb.KeyValue(key="milepost.reset", value="in-place")]


def follow(stage: Stage, **fields: Any) -> Any:
    """A consumer 0 that follows, of four messages which it has got."""
    client = stage.client()
    produce(stage, client)
    subscribe(stage, client, permits=10, consumer_epoch=0, metadata=FOLLOWS, **fields)
    client.say(*[message(number) for number in range(4)])
    stage.turn()
    client.take()
    return client


@pytest.mark.parametrize("sub_type", [EXCLUSIVE, SHARED, FAILOVER])
def test_who_follows_is_told_and_goes_on(stage: Stage, sub_type: Any) -> None:
    client = follow(stage, sub_type=sub_type)
    subscription = stage.topic().subscriptions["s"]
    stage.seek(subscription, 2)
    told, *messages = client.take()
    assert isinstance(told, pb.CommandSeek)
    assert (told.consumer_id, told.consumer_epoch) == (0, 1)
    assert not told.HasField("message_id")
    assert [(one.entry_id, one.consumer_epoch) for one in messages] == [(2, 1), (3, 1)]
    # Of ten permits four were for what it had; it gives them back when it drops that.
    assert client.session.consumers[0].permits == 4


def test_an_idle_one_is_told_too(stage: Stage) -> None:
    client = follow(stage)
    stage.seek(stage.topic().subscriptions["s"], 4)
    (told,) = client.take()
    assert told.consumer_epoch == 1


@pytest.mark.parametrize("fields", [{"metadata": FOLLOWS}, {"consumer_epoch": 0}])
def test_an_official_client_is_never_sent_a_seek(stage: Stage, fields: Any) -> None:
    """Java sends epochs, anybody may send properties; only both together are ours."""
    client = stage.client()
    produce(stage, client)
    subscribe(stage, client, permits=10, **fields)
    stage.seek(stage.topic().subscriptions["s"], 0)
    assert [type(one).__name__ for one in client.take()] == ["CommandCloseConsumer"]


def test_it_says_that_it_has_obeyed(stage: Stage) -> None:
    client = follow(stage)
    subscription = stage.topic().subscriptions["s"]
    name = subscription.consumers[0].name
    for _ in range(2):
        asked = Reset(Target(index=4))
        stage.run(reset(stage.broker, subscription.topic.name, "s", asked, by="ann"))
    assert subscription.resets.waiting == [name]
    assert error_of(request(stage, client, seek_command(consumer_epoch=1))) == ""
    assert subscription.resets.waiting == [name]  # it has heard of the first only
    assert error_of(request(stage, client, seek_command(consumer_epoch=2))) == ""
    assert subscription.resets.waiting == []
    assert error_of(request(stage, client, seek_command(consumer_epoch=3))) == "NotAllowedError"


@pytest.mark.parametrize("cumulative", [False, True])
def test_an_ack_from_before_it_obeyed_changes_nothing(stage: Stage, cumulative: bool) -> None:
    """Sent for what it had, it comes when the same message has gone out again: only the echo behind it
    tells the two apart."""
    client = follow(stage)
    subscription = stage.topic().subscriptions["s"]
    stage.seek(subscription, 1)
    late = ack_command(wire_id(1, 3), cumulative=cumulative)
    assert error_of(request(stage, client, late)) == ""
    assert subscription.cursor.mark_delete_index == 0
    assert subscription.cursor.counts().acked == 1
    assert error_of(request(stage, client, seek_command(consumer_epoch=1))) == ""
    assert error_of(request(stage, client, late)) == ""
    assert subscription.cursor.counts().acked == (4 if cumulative else 2)
