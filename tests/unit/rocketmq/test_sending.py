"""Sends on a broker whose time and disk are turned by hand."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest
from stage.stage import Stage

from milepost.broker.topic.producer_access import AccessMode
from milepost.errors import ProducerBusy
from milepost.rocketmq import rocketmq_pb2 as pb
from milepost.rocketmq import sending
from milepost.rocketmq.calls import Call, Callers
from milepost.rocketmq.codes import Code, Refused
from milepost.rocketmq.routes import Routes
from milepost.rocketmq.sending import IDLE_S, Sending

CALLER = Call("c", None, "127.0.0.1", None)


def make(stage: Stage) -> Sending:
    stage.topic()
    callers = Callers(stage.broker)
    return Sending(stage.broker, callers, Routes(stage.broker, callers))


def request(*bodies: bytes) -> pb.SendMessageRequest:
    return pb.SendMessageRequest(
        messages=[
            pb.Message(
                topic=pb.Resource(name="t"),
                system_properties=pb.SystemProperties(message_id=f"id-{number}"),
                body=body,
            )
            for number, body in enumerate(bodies)
        ]
    )


@pytest.mark.parametrize("deduplication", [False, True])
def test_receipts_have_the_index_and_come_behind_the_sync(
    make_stage: Callable[..., Stage], deduplication: bool
) -> None:
    stage = make_stage(deduplication=deduplication)
    edge = make(stage)
    first = stage.run(edge.send_message(CALLER, request(b"a", b"b")))
    second = stage.run(edge.send_message(CALLER, request(b"c")))
    answered = [*first.entries, *second.entries]
    assert [(one.status.code, one.offset) for one in answered] == [
        (Code.OK, 0),
        (Code.OK, 1),
        (Code.OK, 2),
    ]
    assert [one.message_id for one in answered] == ["id-0", "id-1", "id-0"]
    assert stage.restarted().topic().log.end_index == 3


def test_a_producer_that_has_the_topic_alone_keeps_others_out(stage: Stage) -> None:
    edge = make(stage)
    topic = stage.topic()
    alone = stage.producer(topic, "alone")
    topic.access.admit(alone, AccessMode.EXCLUSIVE)
    with pytest.raises(ProducerBusy):
        stage.run(edge.send_message(CALLER, request(b"a")))
    stage.loop.do(lambda: stage.broker.admissions.remove(alone))
    assert stage.run(edge.send_message(CALLER, request(b"a"))).status.code == Code.OK


def test_a_producer_without_work_leaves_the_topic(stage: Stage) -> None:
    edge = make(stage)
    topic = stage.topic()

    def tick() -> int:
        stage.clock.advance(IDLE_S / 2)
        stage.loop.do(lambda: edge.tick(stage.clock.monotonic()))
        return len(topic.producers)

    stage.run(edge.send_message(CALLER, request(b"a")))
    assert (tick(), tick()) == (1, 0)
    again = stage.run(edge.send_message(CALLER, request(b"b")))
    assert (again.status.code, again.entries[0].offset) == (Code.OK, 1)


def test_too_much_at_once_is_to_be_sent_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    edge = make(stage)
    monkeypatch.setattr(sending, "PENDING_SIZE_MAX", 5)
    with pytest.raises(Refused) as caught:
        stage.run(edge.send_message(CALLER, request(b"abc", b"def")))
    assert caught.value.code is Code.TOO_MANY_REQUESTS
    assert stage.run(edge.send_message(CALLER, request(b"abcde"))).status.code == Code.OK


def test_a_topic_that_is_closed_under_a_send_is_to_be_sent_again(stage: Stage) -> None:
    edge = make(stage)
    stage.run(edge.send_message(CALLER, request(b"a")))
    sender = stage.run(edge.sender(stage.topic().name))
    index, done = stage.loop.do(lambda: sender.publish(request(b"b").messages[0], b"b"))
    stage.loop.do(lambda: stage.broker.admissions.remove(sender.producer))
    assert index == 1
    assert done.exception() is not None
    stage.turn()
    assert stage.run(edge.send_message(CALLER, request(b"c"))).entries[0].offset == 2


def test_a_disk_that_refuses_is_told_and_the_next_is_numbered_densely(stage: Stage) -> None:
    edge = make(stage)
    assert stage.run(edge.send_message(CALLER, request(b"a"))).entries[0].offset == 0
    stage.files.faults.fail("sync", under="journal", error=errno.EIO)
    refused = stage.run(edge.send_message(CALLER, request(b"b")))
    assert refused.status.code == Code.MASTER_PERSISTENCE_TIMEOUT
    assert refused.entries[0].status.code == Code.MASTER_PERSISTENCE_TIMEOUT
    assert stage.run(edge.send_message(CALLER, request(b"b"))).entries[0].offset == 1
    assert stage.restarted().topic().log.end_index == 2


@pytest.mark.parametrize("deduplication", [False, True])
def test_a_disk_that_refused_serves_the_next_call_and_what_was_sent_behind_is_answered(
    make_stage: Callable[..., Stage], deduplication: bool
) -> None:
    stage = make_stage(deduplication=deduplication)
    edge = make(stage)
    topic = stage.topic()
    stage.run(edge.send_message(CALLER, request(b"a")))
    topic.log.stall = "the bucket is away"
    refused = stage.run(edge.send_message(CALLER, request(b"b", b"c")))
    assert [one.status.code == Code.OK for one in refused.entries] == [False, False]
    topic.log.stall = None
    assert stage.run(edge.send_message(CALLER, request(b"d"))).entries[0].offset == 1


def test_a_publish_rate_holds_senders_and_refuses_none(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage()
    edge = make(stage)
    sender = stage.run(edge.sender(stage.topic().name))
    sender.hold()
    sending_now = stage.loop.begin(edge.send_message(CALLER, request(b"a")))
    stage.turn()
    assert not sending_now.done()
    sender.release()
    stage.turn()
    assert sending_now.result().status.code == Code.OK
