"""Recalls of delayed messages, on a broker whose time and disk are turned by hand."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest
from stage.stage import Stage

from milepost.broker.messages.browse import message_of
from milepost.broker.operations import topic_lifecycle
from milepost.broker.subscription.subscription import Subscription
from milepost.errors import MilepostError
from milepost.rocketmq import rocketmq_pb2 as pb
from milepost.rocketmq.calls import Call, Callers
from milepost.rocketmq.codes import code_of
from milepost.rocketmq.handles import KEY_SIZE, Signer
from milepost.rocketmq.removals.recalls import Recalls
from milepost.rocketmq.routes import Routes
from milepost.rocketmq.sending import Sending

TOPIC = pb.Resource(name="t")
CALLER = Call("/c", None, "127.0.0.1", None)
OK, INTERNAL, NOT_FOUND, ON_DISK = 20000, 50001, 40402, 50401
DELAY_S = 60


class Edge:
    """The calls of a producer, without gRPC."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.topic = stage.topic()
        callers = Callers(stage.broker)
        routes = Routes(stage.broker, callers)
        self.sending = Sending(stage.broker, callers, routes)
        self.recalls = Recalls(stage.broker, callers, routes, Signer(b"k" * KEY_SIZE))
        self.sending.recall_handle = self.recalls.handle

    def send(self, body: bytes, delay_s: int | None = DELAY_S) -> str:
        """The recall handle in its receipt."""
        system = pb.SystemProperties(message_id=f"id-{body.decode()}")
        if delay_s is not None:
            due_ms = self.stage.clock.wall_ms() + delay_s * 1000
            system.delivery_timestamp.FromMilliseconds(due_ms)
        message = pb.Message(topic=TOPIC, system_properties=system, body=body)
        request = pb.SendMessageRequest(messages=[message])
        answer = self.stage.run(self.sending.send_message(CALLER, request))
        assert answer.status.code == OK
        return str(answer.entries[0].recall_handle)

    def recall(self, handle: str, topic: str = "t") -> tuple[int, str]:
        """The code of the answer, and the message id."""
        request = pb.RecallMessageRequest(topic=pb.Resource(name=topic), recall_handle=handle)
        try:
            answer = self.stage.run(self.recalls.recall_message(CALLER, request))
        except MilepostError as error:
            return code_of(error), ""
        return answer.status.code, answer.message_id

    def seen(self) -> list[bytes]:
        """What consumers can see."""
        found = []
        for index in range(self.topic.log.end_index):
            view = self.stage.run(message_of(self.topic, index, self.stage.broker.engine))
            found += [] if view is None else [view.payload]
        return found

    def restarted(self, **options: str) -> Edge:
        return Edge(self.stage.restarted(**options))  # type: ignore[arg-type]


@pytest.fixture
def edge(stage: Stage) -> Edge:
    return Edge(stage)


def counts(subscription: Subscription) -> tuple[int, int]:
    found = subscription.cursor.counts()
    return found.ready + found.inflight, found.acked


def test_a_recalled_message_is_in_no_subscription(edge: Edge) -> None:
    """Neither in those of before nor in those of later, also when they are moved back."""
    before = edge.stage.subscription(edge.topic, "before")
    handle = edge.send(b"a")
    edge.send(b"b")
    assert edge.recall(handle) == (OK, "id-a")
    later = edge.stage.subscription(edge.topic, "later")
    assert edge.seen() == [b"b"]
    assert (counts(before), counts(later)) == ((1, 1), (1, 1))
    edge.stage.loop.do(lambda: before.seek(0, lambda error: None))
    edge.stage.turn()
    assert counts(before) == (1, 1)
    assert edge.stage.broker.counters.rocketmq_recalls == 1
    assert edge.topic.log.end_index == 2  # its index is taken


def test_only_a_delayed_message_has_a_handle(edge: Edge) -> None:
    assert edge.send(b"a", None) == ""
    assert edge.send(b"b") != ""


def test_a_recall_that_comes_twice_is_answered_alike(edge: Edge) -> None:
    handle = edge.send(b"a")
    assert edge.recall(handle) == edge.recall(handle) == (OK, "id-a")
    edge.stage.clock.advance(DELAY_S)
    assert edge.recall(handle) == (OK, "id-a")


def test_a_recall_that_comes_too_late_changes_nothing(edge: Edge) -> None:
    handle = edge.send(b"a")
    edge.stage.clock.advance(DELAY_S)
    assert edge.recall(handle) == (INTERNAL, "")
    assert edge.seen() == [b"a"]


def test_handles_that_are_none(edge: Edge) -> None:
    handle = edge.send(b"a")
    signed, _, tail = handle.partition(".")
    edge.stage.topic("persistent://public/default/other")
    for bad in (
        "",
        ".",
        handle[:-4],
        signed,
        f"B{handle[1:]}",
        f"{signed}.aWQtYg==",
        "ä.b",
        f"{signed}.{tail[1:]}",
    ):
        assert edge.recall(bad) == (INTERNAL, ""), bad
    assert edge.recall(handle, "other") == (INTERNAL, "")
    assert edge.recall(handle, "unknown") == (NOT_FOUND, "")
    assert edge.seen() == [b"a"]


def test_a_topic_that_was_made_again_keeps_its_messages(edge: Edge) -> None:
    handle = edge.send(b"a")
    edge.stage.run(topic_lifecycle.delete_topic(edge.stage.broker, edge.topic, force=True))
    again = Edge(edge.stage)
    again.send(b"b")
    assert again.recall(handle) == (INTERNAL, "")
    assert again.seen() == [b"b"]


@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize("power_lost", ["", "dropped"])
def test_an_answered_recall_outlives_crashes(
    make_stage: Callable[..., Stage], checkpoint: bool, power_lost: str
) -> None:
    edge = Edge(make_stage())
    edge.stage.subscription(edge.topic, "s")
    first, second, _ = (edge.send(body) for body in (b"a", b"b", b"c"))
    assert edge.recall(first)[0] == OK
    if checkpoint:
        edge.stage.checkpoint()
    assert edge.recall(second)[0] == OK
    after = edge.restarted(power_lost=power_lost)
    assert after.seen() == [b"c"]
    assert counts(after.topic.subscriptions["s"]) == (1, 2)
    assert after.recall(first) == (OK, "id-a")


def test_a_recall_that_the_disk_refuses_is_no_success(edge: Edge) -> None:
    handle, other = edge.send(b"a"), edge.send(b"b")
    assert edge.recall(other)[0] == OK  # so that the topic is prepared
    edge.stage.files.faults.fail("sync", under="journal", error=errno.EIO)
    assert edge.recall(handle) == (ON_DISK, "")
    assert edge.recall(handle) == (OK, "id-a")  # the disk takes it now
    assert edge.restarted().seen() == []
