"""REDELIVER_UNACKNOWLEDGED_MESSAGES."""

from __future__ import annotations

import pytest
from stage.frames import chunk, message
from stage.heard import deliveries, got
from stage.stage import Stage
from stage.talk import (
    EXCLUSIVE,
    FAILOVER,
    KEY_SHARED,
    SHARED,
    ack_command,
    flow,
    produce,
    subscribe,
    wire_id,
)

from milepost.broker.limits import time_slices
from milepost.wire import protocol
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.scanners import long_command

Redeliver = pb.CommandRedeliverUnacknowledgedMessages


def opened(stage: Stage, sub_type: object, **fields: object):  # type: ignore[no-untyped-def]
    client = stage.client()
    produce(stage, client)
    subscribe(stage, client, sub_type=sub_type, permits=10, **fields)
    client.say(*[message(number) for number in range(4)])
    stage.turn()
    assert got(client) == ["0", "1", "2", "3"]
    client.take()
    return client


@pytest.mark.parametrize("sub_type", [SHARED, KEY_SHARED])
def test_those_named_come_again_with_their_count(stage: Stage, sub_type: object) -> None:
    client = opened(stage, sub_type)
    for count in (1, 2):
        client.say(Redeliver(consumer_id=0, message_ids=[wire_id(1, 2), wire_id(1, 99)]))
        stage.turn()
        assert [(one.entry_id, one.redelivery_count) for one in deliveries(client)] == [(2, count)]
    assert client.take() == []  # it is not answered


@pytest.mark.parametrize("sub_type", [EXCLUSIVE, FAILOVER])
def test_on_ordered_types_all_come_again_uncounted(stage: Stage, sub_type: object) -> None:
    client = opened(stage, sub_type)
    client.take()  # a Failover consumer was told that it is active
    client.say(ack_command(wire_id(1, 1)))
    client.say(Redeliver(consumer_id=0, message_ids=[wire_id(1, 2)]))
    stage.turn()
    assert [(one.entry_id, one.redelivery_count) for one in deliveries(client)] == [
        (0, 0),
        (2, 0),
        (3, 0),
    ]


@pytest.mark.parametrize("sub_type", [SHARED, KEY_SHARED])
def test_an_empty_list_means_all_that_it_holds(stage: Stage, sub_type: object) -> None:
    client = opened(stage, sub_type)
    client.say(ack_command(wire_id(1, 3)), Redeliver(consumer_id=0))
    stage.turn()
    assert [(one.entry_id, one.redelivery_count) for one in deliveries(client)] == [
        (0, 1),
        (1, 1),
        (2, 1),
    ]


def test_what_another_consumer_holds_stays_there(stage: Stage) -> None:
    client = opened(stage, SHARED)
    other = stage.client()
    subscribe(stage, other, sub_type=SHARED, permits=10)
    other.say(Redeliver(consumer_id=0, message_ids=[wire_id(1, 0)]))
    stage.turn()
    assert got(client) == got(other) == []


def test_the_epoch_only_grows(stage: Stage) -> None:
    """PIP-84: a client filters by it what it had asked for before."""
    client = opened(stage, EXCLUSIVE, consumer_epoch=3)
    for sent, stamped in ((5, 5), (4, 5), (None, 5)):
        command = Redeliver(consumer_id=0)
        if sent is not None:
            command.consumer_epoch = sent
        flow(stage, client, 10)
        client.say(command)
        stage.turn()
        assert {one.consumer_epoch for one in deliveries(client)} == {stamped}


def test_a_stranger_is_not_answered(stage: Stage) -> None:
    client = stage.client()
    client.say(Redeliver(consumer_id=7))
    stage.turn()
    assert client.take() == []
    assert not client.is_closing


@pytest.fixture
def short_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command is obeyed two ids at a time."""
    for name in ("IDS_MAX", "SIZE_MIN"):
        monkeypatch.setattr(long_command, name, 2)
    monkeypatch.setattr(protocol, "LONG_SIZE_MIN", 2)


@pytest.mark.usefixtures("short_parts")
@pytest.mark.parametrize("sub_type", [SHARED, KEY_SHARED])
def test_very_many_ids_are_obeyed_in_parts_each_once(stage: Stage, sub_type: object) -> None:
    client = opened(stage, sub_type)
    ids = [wire_id(1, entry) for entry in (2, 99, 0, 2, 0, 3)]
    # What comes behind it finds it obeyed.
    client.say(Redeliver(consumer_id=0, message_ids=ids, consumer_epoch=4), message(4))
    assert not client.is_read
    assert deliveries(client) == []
    stage.turn()
    assert client.is_read
    found = [(one.entry_id, one.redelivery_count) for one in deliveries(client)]
    assert sorted(found) == [(0, 1), (2, 1), (3, 1), (4, 0)]
    assert found[-1] == (4, 0)
    assert client.session.consumers[0].epoch == 4


@pytest.mark.usefixtures("short_parts")
def test_very_many_ids_may_be_named_again_and_again(stage: Stage) -> None:
    client = opened(stage, SHARED)
    for count in (1, 2, 3):
        flow(stage, client, 100)
        ids = [wire_id(1, entry) for entry in range(4)]
        client.say(Redeliver(consumer_id=0, message_ids=ids))
        stage.turn()
        found = [(one.entry_id, one.redelivery_count) for one in deliveries(client)]
        assert sorted(found) == [(entry, count) for entry in range(4)]


@pytest.mark.usefixtures("short_parts")
@pytest.mark.parametrize("sub_type", [SHARED, KEY_SHARED])
def test_a_chunked_message_that_two_parts_name_comes_again_once(
    stage: Stage, sub_type: object
) -> None:
    """The first part brings back all of it; the second means what went out before."""
    client = opened(stage, sub_type)
    client.say(*[chunk(4, number, 5) for number in range(5)])
    stage.turn()
    assert len(deliveries(client)) == 5
    flow(stage, client, 100)
    ids = [wire_id(1, entry) for entry in (0, 4, 5, 6, 7, 8, 1)]
    client.say(Redeliver(consumer_id=0, message_ids=ids))
    stage.turn()
    found = [(one.entry_id, one.redelivery_count) for one in deliveries(client)]
    assert sorted(found) == [(entry, 1) for entry in (0, 1, 4, 5, 6, 7, 8)]


@pytest.mark.usefixtures("short_parts")
def test_on_ordered_types_very_many_ids_mean_all_once(stage: Stage) -> None:
    client = opened(stage, EXCLUSIVE)
    client.say(
        Redeliver(consumer_id=0, message_ids=[wire_id(1, entry) for entry in (0, 1, 2, 3, 0)])
    )
    stage.turn()
    assert [one.entry_id for one in deliveries(client)] == [0, 1, 2, 3]


@pytest.mark.usefixtures("short_parts")
def test_a_client_that_hangs_up_behind_very_many_ids_has_given_them_back(stage: Stage) -> None:
    client, other = opened(stage, SHARED), stage.client()
    client.say(Redeliver(consumer_id=0, message_ids=[wire_id(1, entry) for entry in (3, 2, 1)]))
    client.hang_up()
    stage.turn()
    subscribe(stage, other, sub_type=SHARED, permits=10)
    stage.turn()
    found = sorted((one.entry_id, one.redelivery_count) for one in deliveries(other))
    assert found == [(0, 0), (1, 1), (2, 1), (3, 1)]


def many_held(stage: Stage, count: int):  # type: ignore[no-untyped-def]
    """A client that holds so many messages, and the command that gives them all back by their ids."""
    client = stage.client()
    produce(stage, client)
    subscribe(stage, client, sub_type=SHARED, permits=count)
    client.say(*[message(number) for number in range(count)])
    stage.turn()
    ids = [wire_id(one.ledger_id, one.entry_id) for one in deliveries(client)]
    assert len(ids) == count
    client.take()
    return client, Redeliver(consumer_id=0, message_ids=ids)


def test_a_turn_of_the_loop_gives_back_one_part_of_very_many_ids(stage: Stage) -> None:
    count = 4 * long_command.IDS_MAX
    client, command = many_held(stage, count)
    cursor = stage.topic().subscriptions["s"].cursor
    client.say(command)
    most = 0
    while (before := cursor.counts().inflight) and most < count:
        stage.loop.call_soon(stage.loop.stop)
        stage.loop.run_forever()  # one turn
        most = max(most, before - cursor.counts().inflight)
    assert most == long_command.IDS_MAX


def test_parts_that_took_a_while_are_followed_by_a_rest(stage: Stage) -> None:
    """What else the process does, the journal's thread above all, gets the interpreter meanwhile."""
    client, command = many_held(stage, 3 * long_command.IDS_MAX)
    cursor = stage.topic().subscriptions["s"].cursor
    client.say(command)
    stage.clock.advance(time_slices.WORK_S)
    stage.loop.call_soon(stage.loop.stop)
    stage.loop.run_forever()  # the first part, and time is up
    left = cursor.counts().inflight
    assert 0 < left < 3 * long_command.IDS_MAX
    stage.loop.call_soon(stage.loop.stop)
    stage.loop.run_forever()
    assert cursor.counts().inflight == left
    client.session.hear_all()
    assert cursor.counts().inflight == 0
    stage.turn()


def test_what_came_back_together_goes_out_together(stage: Stage) -> None:
    """One step of the cursor for all of them, as when they went out first."""
    client, command = many_held(stage, 200)
    client.say(command)
    flow(stage, client, 200)
    stage.turn()
    assert [one.redelivery_count for one in deliveries(client)] == [1] * 200
    client.say(Redeliver(consumer_id=0, message_ids=command.message_ids[50:60]))
    flow(stage, client, 10)
    assert [one.redelivery_count for one in deliveries(client)] == [2] * 10
    client.say(Redeliver(consumer_id=0))
    flow(stage, client, 200)
    stage.turn()
    again = sorted((one.entry_id, one.redelivery_count) for one in deliveries(client))
    assert again == [(number, 3 if 50 <= number < 60 else 2) for number in range(200)]
