"""Messages that a RocketMQ client holds, and that a Pulsar client acks in a transaction."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from stage.frames import batch, message
from stage.rocketmq_edge import INVISIBLE_S, OK, VOID, Edge, attempts, handle_of
from stage.stage import Stage
from stage.talk import SHARED, error_of, subscribe, wire_id
from stage.transactions import ABORT, COMMIT, ack_in, add_subscription, end, new

from milepost.positions import TxnId
from milepost.rocketmq import rocketmq_pb2 as pb
from milepost.testing.peer import Loopback


@pytest.fixture
def edge(stage: Stage) -> Iterator[Edge]:
    made = Edge(stage)
    yield made
    made.hang_up()


def _taken(edge: Edge, *frames: bytes) -> tuple[Loopback, TxnId, list[pb.Message]]:
    """Two messages that a RocketMQ client holds; the first entry is acked in a transaction."""
    edge.publish(*frames or (message(0), message(1)))
    held = edge.poll(2)
    client = edge.stage.client()
    assert not error_of(subscribe(edge.stage, client, edge.name, SHARED))
    txn = new(edge.stage, client)
    assert not error_of(add_subscription(edge.stage, client, txn, edge.name))
    assert not error_of(ack_in(edge.stage, client, txn, wire_id(1, 0)))
    assert not edge.poll(2)
    return client, txn, held


@pytest.mark.parametrize("is_late", [False, True], ids=["", "behind the end of the lease"])
def test_what_an_abort_brings_back_comes_again_and_the_first_handle_is_void(
    edge: Edge, is_late: bool
) -> None:
    client, txn, (first, second) = _taken(edge)
    if is_late:
        assert edge.change(handle_of(first), INVISIBLE_S - 1)[0] == OK
        edge.time_passes(INVISIBLE_S - 1)
    assert not error_of(end(edge.stage, client, txn, ABORT))
    (again,) = edge.poll(2)
    assert (again.body, attempts([again])) == (b"0", [2])
    assert edge.ack(handle_of(first)) == VOID
    assert [edge.ack(handle_of(one)) for one in (again, second)] == [OK, OK]
    assert edge.subscription.cursor.counts().acked == 2


def test_the_end_of_the_first_lease_leaves_the_second_alone(edge: Edge) -> None:
    """It would give to another client what this one has."""
    client, txn, _ = _taken(edge)
    assert not error_of(end(edge.stage, client, txn, ABORT))
    edge.stage.clock.advance(INVISIBLE_S - 1)
    (again,) = edge.poll(2)
    edge.time_passes(1)
    left = edge.poll(2)
    assert [one.body for one in left] == [b"1"]
    assert edge.ack(handle_of(again)) == OK


def test_a_lease_that_ends_while_the_message_is_on_its_way_to_a_client_is_no_failure(
    edge: Edge,
) -> None:
    client, txn, _ = _taken(edge, batch(0, 2))
    assert not error_of(end(edge.stage, client, txn, ABORT))
    edge.stage.clock.advance(INVISIBLE_S - 1)
    (first,) = edge.poll(1)  # the other one has come with it
    edge.time_passes(1)
    came = edge.poll(1) + edge.poll(1)
    assert ([one.body for one in came], attempts(came)) == ([b"0.1"], [2])
    assert edge.ack(handle_of(first)) == OK


def test_what_a_commit_has_acked_does_not_come_again(edge: Edge) -> None:
    client, txn, (first, _) = _taken(edge)
    assert not error_of(end(edge.stage, client, txn, COMMIT))
    edge.time_passes(INVISIBLE_S)
    assert [one.body for one in edge.poll(2)] == [b"1"]
    assert edge.ack(handle_of(first)) == OK
