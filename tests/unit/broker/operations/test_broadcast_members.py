"""Membership: who is remembered, for how long, and what becomes of the group."""

from __future__ import annotations

from typing import Any

import pytest
from stage.heard import got
from stage.stage import Stage
from stage.talk import (
    SHARED,
    ack_command,
    answer,
    ask,
    error_of,
    request,
    subscribe,
    subscribe_command,
    wire_id,
)

from broker.subscription.test_broadcast import group, join, positions, properties, publish
from milepost.broker.operations import topic_lifecycle
from milepost.broker.operations.reset import Reset, Target, reset
from milepost.errors import ServiceNotReady
from milepost.wire import pulsar_pb2 as pb

DAY_S = 24 * 3600


def acked(stage: Stage, client: Any, count: int) -> None:
    client.say(ack_command(*(wire_id(1, number) for number in range(count))))
    stage.turn()


def days(stage: Stage, count: float) -> None:
    stage.clock.advance(count * DAY_S)
    stage.tick(1)


def test_who_left_long_ago_is_forgotten_and_nobody_else_misses_anything(stage: Stage) -> None:
    """I20, I23: silence is no reason, and another one's leaving costs nobody a message."""
    one, two = join(stage, "a"), join(stage, "b")
    publish(stage, 0, 4)
    acked(stage, one, 3)
    two.hang_up()
    days(stage, 0.9)
    assert positions(stage) == {"a": 3, "b": 0}
    assert group(stage).position == 0
    days(stage, 0.2)
    assert positions(stage) == {"a": 3}
    assert group(stage).position == 3
    one.take()
    publish(stage, 4, 5)
    assert got(one) == ["4"]


def test_who_is_connected_is_never_forgotten(stage: Stage) -> None:
    join(stage, "a")
    days(stage, 400)
    assert set(positions(stage)) == {"a"}


def test_when_all_are_gone_the_minimum_stays(stage: Stage) -> None:
    one, two = join(stage, "a"), join(stage, "b")
    publish(stage, 0, 5)
    acked(stage, one, 4)
    acked(stage, two, 2)
    one.hang_up()
    stage.turn()
    days(stage, 0.5)
    two.hang_up()
    stage.turn()
    days(stage, 0.6)
    assert positions(stage) == {"b": 2}
    days(stage, 0.6)
    assert positions(stage) == {}
    assert group(stage).position == 2
    again = stage.restarted()
    assert group(again).position == 2
    assert got(join(again, "late")) == ["2", "3", "4"]


def test_the_time_of_leaving_survives_a_restart(stage: Stage) -> None:
    one = join(stage, "a")
    publish(stage, 0, 2)
    one.hang_up()
    stage.turn()
    days(stage, 0.7)
    again = stage.restarted()
    again.topic()
    days(again, 0.4)
    assert positions(again) == {}


@pytest.mark.parametrize("restarts", [False, True])
def test_a_wall_clock_that_jumps_makes_no_member_older(stage: Stage, restarts: bool) -> None:
    one = join(stage, "a")
    publish(stage, 0, 3)
    acked(stage, one, 2)
    one.hang_up()
    stage.turn()
    stage.clock.jump(30 * 24 * 3600 * 1000)
    if restarts:
        stage = stage.restarted()
    stage.topic()
    days(stage, 0.4)
    assert positions(stage) == {"a": 2}
    assert got(join(stage, "a")) == ["2"]


def test_how_long_is_a_setting(make_stage: Any) -> None:
    stage = make_stage(broadcast_member_expiry_s=10)
    join(stage, "a").hang_up()
    stage.turn()
    stage.tick(9)
    assert set(positions(stage)) == {"a"}
    stage.tick(2)
    assert positions(stage) == {}


def test_a_member_that_unsubscribes_leaves_and_the_group_stays(stage: Stage) -> None:
    one = join(stage, "a")
    join(stage, "b")
    assert error_of(request(stage, one, pb.CommandUnsubscribe(consumer_id=0, request_id=0))) == ""
    assert set(positions(stage)) == {"b"}
    assert [consumer.consumer_id for consumer in group(stage).consumers] == [0]
    again = stage.restarted()
    assert set(positions(again)) == {"b"}


def test_a_group_is_deleted_with_its_members(stage: Stage) -> None:
    """I24, I26."""
    one = join(stage, "a")
    publish(stage, 0, 2)
    acked(stage, one, 1)
    join(stage, "b")
    stage.run(stage.broker.delete_subscription(group(stage)))
    assert stage.topic().subscriptions == {}
    assert any(isinstance(heard, pb.CommandCloseConsumer) for heard in one.take())
    again = stage.restarted()
    assert again.topic().subscriptions == {}
    assert got(join(again, "a")) == ["0", "1"]


def test_a_group_that_cannot_be_deleted_goes_on(stage: Stage) -> None:
    one = join(stage, "a")
    stage.engine.holds_catalog = True
    task = stage.loop.begin(stage.broker.delete_subscription(group(stage)))
    stage.turn()
    task.cancel()
    stage.engine.holds_catalog = False
    stage.engine._changes.clear()
    stage.turn()
    assert set(positions(stage)) == {"a"}
    assert one.take()


def test_a_member_of_a_topic_that_was_closed_is_not_forgotten_under_the_next_opening(
    stage: Stage,
) -> None:
    join(stage, "a")
    gone = group(stage).members["a"]
    stage.run(topic_lifecycle.close_topic(stage.broker, stage.topic()))
    client = join(stage, "a")
    with pytest.raises(ServiceNotReady):
        stage.run(stage.broker.forget_member(gone))
    publish(stage, 0, 2)
    acked(stage, client, 1)
    assert positions(stage.restarted()) == {"a": 1}


def test_two_strangers_of_one_name_at_once(stage: Stage) -> None:
    join(stage, "other")
    stage.engine.holds_catalog = True

    clients = [stage.client(), stage.client()]
    ids = [
        ask(client, subscribe_command("g", SHARED, metadata=properties("a"))) for client in clients
    ]
    stage.turn()
    stage.engine.holds_catalog = False
    stage.turn()
    replies = [answer(client, request_id) for client, request_id in zip(clients, ids, strict=True)]
    assert sorted(error_of(reply) for reply in replies) == ["", "ConsumerBusy"]


def test_the_members_of_a_group_are_limited(make_stage: Any) -> None:
    stage = make_stage(max_consumers_per_subscription=1)
    join(stage, "a").hang_up()
    stage.turn()
    reply = subscribe(stage, stage.client(), "g", SHARED, metadata=properties("b"))
    assert error_of(reply) == "TooManyRequests"


def test_behind_a_reset_the_group_follows_its_members_again(stage: Stage) -> None:
    one = join(stage, "a")
    publish(stage, 0, 5)
    acked(stage, one, 5)
    stage.tick(1)
    name = stage.topic().name
    stage.run(reset(stage.broker, name, "g", Reset(Target(index=1)), by="ann"))
    one.hang_up()
    stage.turn()
    two = join(stage, "a")
    got(two)
    acked(stage, two, 3)
    stage.tick(1)
    assert group(stage).cursor.mark_delete_index == 2
    again = stage.restarted()
    assert group(again).cursor.mark_delete_index == 2


@pytest.mark.parametrize("index", [0, 3, 5])
def test_a_reset_moves_every_member_and_who_is_away_obeys_when_it_comes(
    stage: Stage, index: int
) -> None:
    """I8, I11: not only the first one that asks."""
    one, two = join(stage, "a"), join(stage, "b")
    publish(stage, 0, 5)
    acked(stage, one, 4)
    acked(stage, two, 2)
    two.hang_up()
    stage.turn()
    name = stage.topic().name
    (move,) = stage.run(reset(stage.broker, name, "g", Reset(Target(index=index)), by="ann"))
    assert (move.was, move.to) == (2, index)
    assert move.redelivered == max(4 - index, 0) + max(2 - index, 0)
    assert positions(stage) == {"a": index, "b": index}
    assert group(stage).position == index
    assert sorted(group(stage).resets.waiting) == ["a", "b"]
    one.hang_up()
    stage.turn()
    expected = [str(number) for number in range(index, 5)]
    assert got(join(stage, "a")) == expected
    assert group(stage).resets.waiting == ["b"]
    again = stage.restarted()
    assert positions(again) == {"a": index, "b": index}
    assert got(join(again, "b")) == expected


def test_a_member_that_comes_while_its_group_is_deleted_leaves_nothing_behind(stage: Stage) -> None:
    """A member without a group would keep its topic from being opened."""
    join(stage, "a").hang_up()
    stage.turn()
    one = stage.client()
    stage.engine.holds_catalog = True
    asked = ask(one, subscribe_command("g", SHARED, metadata=properties("b")))
    stage.turn()
    deleting = stage.loop.begin(stage.broker.delete_subscription(group(stage)))
    stage.engine.holds_catalog = False
    stage.turn()
    assert deleting.exception() is None
    assert error_of(answer(one, asked, stage)) == "ServiceNotReady"
    again = stage.restarted()
    assert again.topic().subscriptions == {}
    assert again.store.catalog.states(again.topic().row.topic_id) == []


@pytest.mark.parametrize("unloads", [False, True])
def test_a_member_that_a_restart_cut_off_has_its_time_to_come_back(
    stage: Stage, unloads: bool
) -> None:
    """It was connected, for longer than anybody who left is remembered."""
    one, two = join(stage, "a"), join(stage, "b")
    publish(stage, 0, 5)
    acked(stage, one, 1)
    acked(stage, two, 5)
    days(stage, 3)
    if unloads:
        stage.run(topic_lifecycle.close_topic(stage.broker, stage.topic()))
    else:
        stage = stage.restarted()
    join(stage, "b")
    days(stage, 0.9)
    assert positions(stage) == {"a": 1, "b": 5}
    assert got(join(stage, "a")) == ["1", "2", "3", "4"]


def test_who_left_before_a_restart_is_forgotten_in_the_end(stage: Stage) -> None:
    one = join(stage, "a")
    join(stage, "b")
    one.hang_up()
    stage.turn()
    for _ in range(3):
        stage = stage.restarted()
        join(stage, "b")
        days(stage, 0.4)
    assert set(positions(stage)) == {"b"}


def test_a_group_is_not_ahead_of_a_member_whose_ack_the_disk_refused(stage: Stage) -> None:
    one = join(stage, "a")
    publish(stage, 0, 3)
    stage.files.faults.fail("sync", under="journal")
    acked(stage, one, 2)
    one.hang_up()  # and the group follows, on disk
    stage.turn()
    stage = stage.restarted()
    assert group(stage).position == 0
    assert group(stage).cursor.mark_delete_index == -1
