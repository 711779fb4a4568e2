"""Broadcast groups: each member gets everything, and the group is where the slowest of them is."""

from __future__ import annotations

from typing import Any

import pytest
from stage import transactions
from stage.frames import batch, message
from stage.heard import got
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
    subscribe_command,
    text_of,
    wire_id,
)

from milepost.broker.limits.time_slices import TimeSlices
from milepost.broker.operations import skipping, topic_lifecycle
from milepost.broker.operations.reset import Reset, Target, reset
from milepost.broker.subscription.broadcast import (
    BroadcastGroup,
    member_name,
    start_rule,
    wants_broadcast,
)
from milepost.cursor.group import Start
from milepost.errors import InvalidInput
from milepost.testing.peer import RecordingPeer
from milepost.wire import pulsar_pb2 as pb

EARLIEST = pb.CommandSubscribe.Earliest


def properties(member: str | None, **more: str) -> list[pb.KeyValue]:
    said = {
        "milepost.mode": "broadcast",
        **{f"milepost.{key}": value for key, value in more.items()},
    }
    if member is not None:
        said["milepost.member"] = member
    return [pb.KeyValue(key=key, value=value) for key, value in said.items()]


def join(
    stage: Stage, member: str | None = "a", *, permits: int = 100, start: str = "", **fields: Any
) -> Any:
    """A client whose consumer 0 is a member of the group `g`."""
    client = stage.client(address=fields.pop("address", "10.0.0.1:4000"))
    more = {"start": start} if start else {}
    fields.setdefault("initialPosition", EARLIEST)
    reply = subscribe(
        stage, client, "g", SHARED, permits=permits, metadata=properties(member, **more), **fields
    )
    assert error_of(reply) == "", text_of(reply)
    return client


def publish(stage: Stage, first: int, end: int) -> None:
    topic = stage.topic()
    producer = topic.producers.get("p") or stage.producer(topic)
    stage.publish(producer, *(message(number) for number in range(first, end)))


def group(stage: Stage) -> BroadcastGroup:
    found = stage.topic().subscriptions["g"]
    assert isinstance(found, BroadcastGroup)
    return found


def positions(stage: Stage) -> dict[str, int]:
    return {name: member.position for name, member in group(stage).members.items()}


def test_every_member_gets_every_message(stage: Stage) -> None:
    one, two = join(stage, "a"), join(stage, "b")
    publish(stage, 0, 3)
    stage.publish(stage.topic().producers["p"], batch(3, 2))
    expected = ["0", "1", "2", "3.0", "3.1"]
    assert (got(one), got(two)) == (expected, expected)


def test_acks_are_each_ones_own(stage: Stage) -> None:
    one, two = join(stage, "a"), join(stage, "b")
    publish(stage, 0, 4)
    one.say(ack_command(wire_id(1, 0), wire_id(1, 1)))
    two.say(ack_command(wire_id(1, 0)))
    stage.turn()
    assert positions(stage) == {"a": 2, "b": 1}
    assert group(stage).position == 1


def test_a_member_resumes_where_it_was_and_a_stranger_at_the_minimum(stage: Stage) -> None:
    one, two = join(stage, "a"), join(stage, "b")
    publish(stage, 0, 5)
    one.say(ack_command(*(wire_id(1, n) for n in range(4))))
    two.say(ack_command(*(wire_id(1, n) for n in range(2))))
    stage.turn()
    one.hang_up()
    two.hang_up()
    stage.turn()
    publish(stage, 5, 6)
    assert got(join(stage, "a")) == ["4", "5"]
    assert got(join(stage, "stranger")) == ["2", "3", "4", "5"]


@pytest.mark.parametrize("start", ["latest", "earliest"])
def test_a_group_may_start_strangers_elsewhere(stage: Stage, start: str) -> None:
    one = join(stage, "a", start=start)
    publish(stage, 0, 4)
    one.say(ack_command(wire_id(1, 0)))
    stage.turn()
    two = join(stage, "b", start="minimum")  # the group was made by the other
    assert got(two) == ([] if start == "latest" else ["0", "1", "2", "3"])
    assert group(stage).start == Start(start)


def test_all_of_it_survives_a_crash(stage: Stage) -> None:
    one, two = join(stage, "a", start="minimum"), join(stage, "b")
    publish(stage, 0, 5)
    for client, count in ((one, 3), (two, 1)):
        client.say(ack_command(*(wire_id(1, n) for n in range(count))))
    stage.turn()
    again = stage.restarted()
    assert positions(again) == {"a": 3, "b": 1}
    assert group(again).position == 1
    assert got(join(again, "b")) == ["1", "2", "3", "4"]
    assert got(join(again, "new")) == ["1", "2", "3", "4"]


def test_a_member_is_connected_once(stage: Stage) -> None:
    join(stage, "a")
    other = stage.client()
    reply = subscribe(stage, other, "g", SHARED, metadata=properties("a"))
    assert error_of(reply) == "ConsumerBusy"
    assert "member a" in text_of(reply)


def test_the_address_names_a_member_without_a_name(stage: Stage) -> None:
    join(stage, None, address="10.0.0.1:4000")
    join(stage, None, address="10.0.0.2:4000")
    assert set(positions(stage)) == {"10.0.0.1", "10.0.0.2"}


@pytest.mark.parametrize("sub_type", [EXCLUSIVE, FAILOVER])
def test_members_are_shared_consumers(stage: Stage, sub_type: Any) -> None:
    reply = subscribe(stage, stage.client(), "g", sub_type, metadata=properties("a"))
    assert error_of(reply) == "NotAllowedError"
    assert "g" not in stage.topic().subscriptions


def test_a_group_and_a_subscription_are_not_taken_for_each_other(stage: Stage) -> None:
    join(stage, "a")
    reply = subscribe(stage, stage.client(), "g", SHARED)
    assert (error_of(reply), "broadcast group" in text_of(reply)) == ("NotAllowedError", True)
    subscribe(stage, stage.client(), "plain", SHARED)
    reply = subscribe(stage, stage.client(), "plain", SHARED, metadata=properties("a"))
    assert error_of(reply) == "NotAllowedError"


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({"milepost.mode": "loud"}, "milepost.mode='loud'"),
        ({"milepost.mode": "broadcast", "milepost.start": "now"}, "minimum, latest, earliest"),
        ({"milepost.mode": "broadcast", "milepost.member": "a\x1b"}, "U+001B"),
        ({"milepost.mode": "broadcast", "milepost.member": "x" * 2000}, "longer than"),
    ],
)
def test_words_that_mean_nothing_are_refused(
    stage: Stage, metadata: dict[str, str], words: str
) -> None:
    said = [pb.KeyValue(key=key, value=value) for key, value in metadata.items()]
    reply = subscribe(stage, stage.client(), "g", SHARED, metadata=said)
    assert (error_of(reply), words in text_of(reply)) == ("NotAllowedError", True), reply


def test_a_member_that_goes_back_takes_the_group_with_it(stage: Stage) -> None:
    """What it needs must be retained."""
    one, two = join(stage, "a"), join(stage, "b")
    publish(stage, 0, 4)
    for client in (one, two):
        client.say(ack_command(*(wire_id(1, n) for n in range(4))))
    stage.tick(1)
    assert group(stage).cursor.mark_delete_index == 3
    request(stage, one, seek_command(wire_id(1, 1)))
    assert positions(stage) == {"a": 1, "b": 4}
    assert group(stage).cursor.mark_delete_index == 0


def test_a_member_that_goes_back_moves_nobody_else(stage: Stage) -> None:
    """What the others hold stays theirs, and they are not told of a move that is not theirs."""
    follows = [*properties("b"), pb.KeyValue(key="milepost.reset", value="in-place")]
    one, two = join(stage, "a"), stage.client()
    assert (
        error_of(
            subscribe(
                stage,
                two,
                "g",
                SHARED,
                permits=100,
                metadata=follows,
                consumer_epoch=0,
                initialPosition=EARLIEST,
            )
        )
        == ""
    )
    publish(stage, 0, 4)
    for client in (one, two):
        client.say(ack_command(wire_id(1, 0), wire_id(1, 1)))
    stage.tick(1)
    two.take()
    request(stage, one, seek_command(wire_id(1, 0)))
    stage.turn()  # checks that consumers count what their cursors count
    assert group(stage).position == 0
    assert [type(heard) for heard in two.take()] == []
    two.say(ack_command(wire_id(1, 2), wire_id(1, 3)))
    stage.turn()
    assert positions(stage) == {"a": 0, "b": 4}


def test_a_reset_of_the_group_is_one_move_for_each_member(stage: Stage) -> None:
    follows = [*properties("a"), pb.KeyValue(key="milepost.reset", value="in-place")]
    client = stage.client()
    subscribe(
        stage,
        client,
        "g",
        SHARED,
        permits=100,
        metadata=follows,
        consumer_epoch=0,
        initialPosition=EARLIEST,
    )
    publish(stage, 0, 4)
    client.take()
    stage.run(reset(stage.broker, stage.topic().name, "g", Reset(Target(index=1)), by="ann"))
    seeks = [heard for heard in client.take() if isinstance(heard, pb.CommandSeek)]
    assert [seek.consumer_epoch for seek in seeks] == [1]


def test_a_truncation_reaches_members_that_are_away(stage: Stage) -> None:
    one = join(stage, "a")
    publish(stage, 0, 2)
    one.hang_up()
    stage.turn()
    publish(stage, 2, 5)
    stage.run(topic_lifecycle.truncate(stage.broker, stage.topic()))
    assert positions(stage) == {"a": 5}
    assert got(join(stage, "a")) == []


def test_the_groups_own_cursor_follows_the_slowest(stage: Stage) -> None:
    one, two = join(stage, "a"), join(stage, "b")
    publish(stage, 0, 4)
    one.say(ack_command(*(wire_id(1, n) for n in range(4))))
    two.say(ack_command(wire_id(1, 0), wire_id(1, 2)))
    stage.tick(1)
    assert group(stage).cursor.mark_delete_index == 0


class ScheduleNoted:
    """A host that only notes what it is to call."""

    def __init__(self, scheduled: list[Any]) -> None:
        self.soon = scheduled.append


def test_a_publish_is_one_step_for_the_group(stage: Stage) -> None:
    """Members hear of it when the loop comes round, and once for all that came till then."""
    for name in "abc":
        join(stage, name)
    found = group(stage)
    scheduled: list[Any] = []
    found.host = ScheduleNoted(scheduled)
    publish_end = stage.topic().log.end_index
    found.extend(publish_end)
    found.extend(publish_end)
    assert scheduled == [found._wake_connected]


@pytest.mark.parametrize("paces", [(100,), (3, 7, 20, 100)])
def test_a_hundred_members_read_each_entry_once(make_stage: Any, paces: tuple[int, ...]) -> None:
    """In step, or each at its own pace: the disk gives every entry once for all of them."""
    stage = make_stage(tail_size=0)
    clients = [join(stage, f"m{number}", permits=0) for number in range(100)]
    publish(stage, 0, 60)
    stage.checkpoint()
    given: list[int] = []
    real = stage.engine.read

    async def counting(plan: Any) -> Any:
        entries = await real(plan)
        given.extend(entry.entry_id for entry in entries)
        return entries

    stage.engine.read = counting
    seen = [0] * len(clients)
    while min(seen) < 60:
        stage.engine.holds_reads = True
        for number, client in enumerate(clients):
            permits = paces[number % len(paces)]
            client.say(pb.CommandFlow(consumer_id=0, messagePermits=permits))
        stage.turn()
        stage.engine.holds_reads = False
        stage.turn()
        seen = [count + len(got(client)) for count, client in zip(seen, clients, strict=True)]
    assert seen == [60] * len(clients)
    assert sorted(given) == list(range(60))


def test_a_publish_costs_members_that_ask_for_nothing_no_step(stage: Stage) -> None:
    """They hear of it when they ask, acks of what they were never sent included."""
    for number in range(3):
        join(stage, f"m{number}", permits=0)
    asks = join(stage, "asks", permits=10)
    publish(stage, 0, 4)
    ends = {name: member.cursor.end for name, member in group(stage).members.items()}
    assert ends == {"m0": 0, "m1": 0, "m2": 0, "asks": 4}
    assert got(asks) == ["0", "1", "2", "3"]
    late = join(stage, "late", permits=0)
    publish(stage, 4, 5)
    late.say(ack_command(wire_id(1, 4)))
    late.say(pb.CommandFlow(consumer_id=0, messagePermits=10))
    stage.turn()
    assert got(late) == ["0", "1", "2", "3"]


def test_a_member_acks_in_a_transaction_what_it_has_not_been_sent(stage: Stage) -> None:
    """As it may outside of one: it knows the id from elsewhere."""
    client = join(stage, permits=0)
    publish(stage, 0, 2)
    txn = transactions.new(stage, client)
    assert not error_of(transactions.add_subscription(stage, client, txn, "g"))
    assert not error_of(transactions.ack_in(stage, client, txn, wire_id(1, 0)))
    stage = stage.restarted()
    client = join(stage)
    assert not error_of(transactions.end(stage, client, txn))
    assert got(client) == ["1"]
    assert positions(stage) == {"a": 1}


def test_what_an_operator_skips_is_skipped_for_every_member(stage: Stage) -> None:
    one = join(stage, "a")
    join(stage, "b", permits=0)
    publish(stage, 0, 5)
    one.say(ack_command(wire_id(1, 3)))
    stage.turn()
    found = group(stage)
    plan = stage.run(skipping.plan_entries(found, 3, TimeSlices(stage.clock), stage.engine))
    stage.run(skipping.carry_out(stage.broker, found, plan))
    assert positions(stage) == {"a": 4, "b": 3}
    assert found.cursor.mark_delete_index == 2
    again = stage.restarted()
    assert positions(again) == {"a": 4, "b": 3}
    for member in list(group(again).members.values()):
        again.run(again.broker.forget_member(member))
    found = group(again)
    again.run(skipping.carry_out(again.broker, found, skipping.plan_all(found)))
    assert found.position == 5


def test_names_and_rules() -> None:
    peer = RecordingPeer("10.1.1.1:55")
    assert member_name({"milepost.member": "m"}, peer) == "m"
    assert member_name({}, peer) == "10.1.1.1"
    assert member_name({}, RecordingPeer("nowhere")) == "nowhere"
    assert not wants_broadcast({})
    assert wants_broadcast({"milepost.mode": "broadcast"})
    assert start_rule({}) is Start.MINIMUM
    with pytest.raises(InvalidInput):
        start_rule({"milepost.start": "x"})


def test_a_flow_counts_for_its_member_only(stage: Stage) -> None:
    one, two = join(stage, "a", permits=0), join(stage, "b", permits=0)
    publish(stage, 0, 3)
    flow(stage, one, 2)
    assert (got(one), got(two)) == (["0", "1"], [])
    assert produce(stage, two, 7, "other") is not None


def test_what_the_slowest_member_needs_is_retained(make_stage: Any) -> None:
    """Whether it is connected or not; and goes when it has it."""
    stage = make_stage(ledger_entries_max=1)
    fast, slow = join(stage, "fast"), join(stage, "slow")
    for number in range(4):  # a ledger each
        publish(stage, number, number + 1)
    stage.checkpoint()
    fast.say(ack_command(*(wire_id(number + 1, 0) for number in range(4))))
    slow.say(ack_command(wire_id(1, 0)))
    stage.turn()
    topic = stage.topic()
    group(stage).settle()
    assert stage.run(topic_lifecycle.trim(stage.broker, topic)) == 1
    slow.hang_up()
    stage.turn()
    assert stage.run(topic_lifecycle.trim(stage.broker, topic)) == 0
    assert topic.log.first_index == 1
    back = join(stage, "slow")
    assert got(back) == ["1", "2", "3"]


def test_a_member_that_comes_while_messages_are_dropped_is_let_in(stage: Stage) -> None:
    """It knows of messages that the group has let go, and the topic of messages that nobody gets."""
    client = join(stage)
    produce(stage, client)
    txn = transactions.new(stage, client)
    transactions.add_topics(stage, client, txn)
    client.say(*[message(number) for number in range(3)])
    client.say(message(3, **transactions.within(txn)))
    stage.turn()
    transactions.end(stage, client, txn, transactions.ABORT)
    late = stage.client()
    stage.engine.holds_catalog = True
    asked = ask(late, subscribe_command("g", SHARED, metadata=properties("b")))
    stage.turn()
    dropping = stage.loop.begin(topic_lifecycle.truncate(stage.broker, stage.topic()))
    stage.loop.turn()
    stage.engine.work()  # the new ledger
    stage.engine.holds_journal, stage.engine.holds_catalog = True, False
    stage.turn()
    # The group is where the log will begin, and the log is not there yet.
    assert (group(stage).cursor.first, stage.topic().log.first_index) == (5, 0)
    assert list(positions(stage)) == ["a", "b"]
    stage.engine.holds_journal = False
    stage.turn()
    assert dropping.done()
    assert error_of(answer(late, asked)) == ""
    assert positions(stage) == {"a": 5, "b": 5}
