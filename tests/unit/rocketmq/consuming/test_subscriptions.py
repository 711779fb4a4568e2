"""Members of broadcast groups, by the names of their consumer groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from stage.frames import message
from stage.rocketmq_edge import OK, VOID, Edge, attempts, bodies, handle_of
from stage.stage import Stage

from milepost.broker.operations import reset as resets
from milepost.broker.operations.reset import Reset, Target
from milepost.errors import NotAllowed
from milepost.rocketmq import rocketmq_pb2 as pb
from milepost.rocketmq.codes import Refused
from milepost.rocketmq.consuming import groups
from milepost.rocketmq.names import group_of

NAME = "%BROADCAST%caches%"


@pytest.fixture(autouse=True)
def time_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has arrived is given back when a test says so, and not when a busy machine takes a second."""
    monkeypatch.setattr(groups, "KEPT_S", 1e6)


@pytest.fixture
def member(stage: Stage) -> Iterator[Callable[..., Edge]]:
    """Clients of a member of the group `caches`."""
    made: list[Edge] = []

    def make(name: str, on: Stage = stage) -> Edge:
        made.append(Edge(on, NAME + name))
        return made[-1]

    yield make
    for one in made:
        if not one.stage.loop.is_closed():
            one.hang_up()


def test_every_member_gets_every_message_and_acks_for_itself(
    member: Callable[..., Edge], stage: Stage
) -> None:
    one, two = member("one"), member("two")
    assert one.poll(1) == two.poll(1) == []
    one.publish(message(0), message(1))
    for edge in (one, two):
        found = edge.poll(9)
        assert bodies(found) == [b"0", b"1"]
        if edge is one:
            assert [edge.ack(handle_of(each)) for each in found] == [OK, OK]
            assert two.ack(handle_of(found[0])) == VOID  # it is another member's
    group = one.topic.subscriptions["caches"]
    assert group.cursor.mark_delete_index == -1  # that of the slowest
    assert one.poll(9) == []


def test_a_member_resumes_after_a_restart_and_its_handles_are_good(
    member: Callable[..., Edge], stage: Stage
) -> None:
    one = member("one")
    one.publish(*(message(number) for number in range(3)))
    first, second, _ = one.poll(3)
    assert one.ack(handle_of(first)) == OK
    again = stage.restarted()
    one = member("one", again)
    assert one.ack(handle_of(second)) == OK
    assert bodies(one.poll(9)) == [b"2"]
    # A stranger begins where the slowest of them is.
    assert bodies(member("new", again).poll(9)) == [b"2"]


def test_a_reset_of_the_group_moves_every_member_and_voids_their_handles(
    member: Callable[..., Edge], stage: Stage
) -> None:
    one, two = member("one"), member("two")
    one.publish(message(0), message(1))
    held = one.poll(9)
    assert [two.ack(handle_of(each)) for each in two.poll(9)] == [OK, OK]
    target = Reset(Target(index=1))
    stage.run(resets.reset(stage.broker, one.topic.name, "caches", target, by="test"))
    assert one.ack(handle_of(held[1])) == VOID
    assert bodies(one.poll(9)) == bodies(two.poll(9)) == [b"1"]


def test_each_member_has_its_own_attempts_and_dead_letters(
    member: Callable[..., Edge], stage: Stage
) -> None:
    one, two = member("one"), member("two")
    assert one.poll(1) == two.poll(1) == []
    one.publish(message(0))
    one.wear_out()
    assert one.poll(1) == []
    there = stage.topic("persistent://public/default/%DLQ%caches")
    assert there.log.end_index == 1
    (held,) = two.poll(1)
    assert attempts([held]) == [1]
    request = pb.ForwardMessageToDeadLetterQueueRequest(
        topic=pb.Resource(name="t"),
        group=pb.Resource(name=two.name),
        receipt_handle=handle_of(held),
    )
    two.forward(request)
    assert there.log.end_index == 2


def test_a_group_is_of_one_kind(member: Callable[..., Edge], stage: Stage) -> None:
    plain = Edge(stage, "caches")
    assert plain.poll(1) == []
    refused = member("one").begin(1)
    assert isinstance(refused.exception(), NotAllowed)
    other = Edge(stage, "%BROADCAST%others%one")
    assert other.poll(1) == []
    refused = Edge(stage, "others").begin(1)
    assert "%BROADCAST%others%MEMBER" in str(refused.exception())


@pytest.mark.parametrize(
    "name",
    [
        "%BROADCAST%",
        "%BROADCAST%g",
        "%BROADCAST%g%",
        "%BROADCAST%%m",
        "%BROADCAST%g-partition-1%m",
        "%BROADCAST%%BROADCAST%g%m",
    ],
)
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(Refused, match="consumer group"):
        group_of(pb.Resource(name=name))
