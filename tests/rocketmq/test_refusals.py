"""Bad input gets RocketMQ's code, and others are served on."""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from typing import Any

import grpc
import pytest
from compat.broker_process import BrokerProcess

from milepost.rocketmq import rocketmq_pb2 as pb

GROUP = pb.Resource(name="g")


def sent(topic: str, body: bytes = b"x", **system: Any) -> pb.SendMessageRequest:
    properties = pb.SystemProperties(**{"message_id": "id", **system})
    message = pb.Message(topic=pb.Resource(name=topic), system_properties=properties, body=body)
    return pb.SendMessageRequest(messages=[message])


def refused(raw: Any, request: pb.ReceiveMessageRequest) -> int:
    """The code of a poll that has no messages; such an answer ends with the time too."""
    first, last = list(raw.stream("ReceiveMessage", request))
    assert last.WhichOneof("content") == "delivery_timestamp"
    return int(first.status.code)


def poll(topic: str, **fields: Any) -> pb.ReceiveMessageRequest:
    queue = pb.MessageQueue(topic=pb.Resource(name=topic))
    request = pb.ReceiveMessageRequest(group=GROUP, message_queue=queue, batch_size=1)
    request.invisible_duration.FromSeconds(30)
    request.long_polling_timeout.FromMilliseconds(100)
    request.MergeFrom(pb.ReceiveMessageRequest(**fields))
    return request


@pytest.fixture
def topic(broker: BrokerProcess, make_topic: Callable[..., str], name: str) -> str:
    return make_topic(broker, name)


def test_topics_and_groups_that_are_none(raw: Any, topic: str) -> None:
    unknown, illegal = pb.Resource(name="unknown"), pb.Resource(name="a/b")
    own = pb.Resource(name=topic)
    assert raw.code("QueryRoute", pb.QueryRouteRequest(topic=unknown)) == 40402
    assert raw.code("QueryRoute", pb.QueryRouteRequest(topic=illegal)) == 40002
    assert raw.code("QueryRoute", pb.QueryRouteRequest(topic=pb.Resource(name="TBW102"))) == 40002
    elsewhere = pb.Resource(name=topic, resource_namespace="no/such")
    assert raw.code("QueryRoute", pb.QueryRouteRequest(topic=elsewhere)) == 40402
    assert raw.code("QueryRoute", pb.QueryRouteRequest(topic=own)) == 20000
    assert raw.code("QueryAssignment", pb.QueryAssignmentRequest(topic=own)) == 40003
    asked = pb.QueryAssignmentRequest(topic=own, group=GROUP)
    (assigned,) = raw.call("QueryAssignment", asked).assignments
    assert assigned.message_queue.id == -1
    assert raw.code("SendMessage", sent("unknown")) == 40402
    assert raw.code("SendMessage", sent("no.dots")) == 40002
    assert refused(raw, poll("unknown")) == 40402
    assert refused(raw, poll(topic, group=pb.Resource(name="no dots."))) == 40003
    assert raw.code("AckMessage", pb.AckMessageRequest(topic=own, group=GROUP)) == 40000


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (41302, {"body": b""}),
        (41301, {"body": b"x" * (4 * 1024 * 1024 + 1)}),
        (40009, {"message_id": " "}),
        (40004, {"tag": "a|b"}),
        (40005, {"keys": ["a\nb"]}),
        (40006, {"message_group": "x" * 64}),
        (40016, {"body_digest": pb.Digest(type=pb.CRC32, checksum="00000001")}),
        (40016, {"body_encoding": pb.GZIP}),
        (40014, {"message_type": pb.TRANSACTION, "message_group": "g"}),
    ],
)
def test_messages_that_cannot_be_sent(
    raw: Any, topic: str, code: int, fields: dict[str, Any]
) -> None:
    assert raw.code("SendMessage", sent(topic, **fields)) == code
    assert raw.call("SendMessage", sent(topic)).entries[0].offset == 0  # nothing was stored


def test_several_messages_of_a_call_are_answered_one_by_one(raw: Any, topic: str) -> None:
    request = sent(topic)
    request.messages.extend(sent(topic, b"y").messages)
    answer = raw.call("SendMessage", request)
    assert [(one.status.code, one.offset) for one in answer.entries] == [(20000, 0), (20000, 1)]
    request.messages.extend(sent("another").messages)
    assert raw.code("SendMessage", request) == 40016
    assert raw.code("SendMessage", pb.SendMessageRequest()) == 40016


def test_polls_that_cannot_be_served(raw: Any, topic: str) -> None:
    def with_time(seconds: int) -> pb.ReceiveMessageRequest:
        request = poll(topic)
        request.invisible_duration.FromSeconds(seconds)
        return request

    assert refused(raw, with_time(9)) == 40011
    assert refused(raw, with_time(12 * 3600 + 1)) == 40011
    sql = pb.FilterExpression(type=pb.SQL, expression="a > ")
    assert refused(raw, poll(topic, filter_expression=sql)) == 40010
    odd = pb.FilterExpression(type=pb.TAG, expression="a | b")
    assert refused(raw, poll(topic, filter_expression=odd)) == 40010
    hurried = poll(topic)
    hurried.long_polling_timeout.FromSeconds(-1)
    assert refused(raw, hurried) == 40018
    assert refused(raw, poll(topic)) == 40401


def test_handles_that_are_forged_or_of_others_or_of_before_a_reset(
    broker: BrokerProcess, raw: Any, topic: str
) -> None:
    raw.call("SendMessage", sent(topic))
    (message,) = raw.receive(topic, "g")
    handle = message.system_properties.receipt_handle

    def codes(text: str, group: str = "g") -> list[int]:
        own, name = pb.Resource(name=topic), pb.Resource(name=group)
        entry = pb.AckMessageEntry(receipt_handle=text)
        ack = raw.call("AckMessage", pb.AckMessageRequest(topic=own, group=name, entries=[entry]))
        assert ack.status.code == ack.entries[0].status.code
        change = pb.ChangeInvisibleDurationRequest(topic=own, group=name, receipt_handle=text)
        changed = raw.call("ChangeInvisibleDuration", change)
        assert changed.receipt_handle == text or changed.status.code == 20000
        forward = pb.ForwardMessageToDeadLetterQueueRequest(
            topic=own, group=name, receipt_handle=text
        )
        return [
            ack.status.code,
            changed.status.code,
            raw.code("ForwardMessageToDeadLetterQueue", forward),
        ]

    changed = handle[:-5] + ("A" if handle[-5] != "A" else "B") + handle[-4:]
    for bad in ("", "nonsense", "ä" * 20, changed, handle + "AAAA", "A" * 5000):
        assert codes(bad) == [40013, 40013, 40013], bad
    assert codes(handle, "other") == [40013, 40013, 40013]

    path = f"/admin/v2/persistent/public/default/{topic}/subscription/g/resetcursor/0"
    assert broker.rest("POST", path)[0] == 204
    assert codes(handle) == [40013, 40013, 40013]
    (again,) = raw.receive(topic, "g")
    assert codes(handle) == [40013, 40013, 40013]
    assert codes(again.system_properties.receipt_handle)[0] == 20000


def test_a_deleted_topic_leaves_no_good_handles(
    broker: BrokerProcess, raw: Any, topic: str, make_topic: Callable[..., str]
) -> None:
    raw.call("SendMessage", sent(topic))
    (message,) = raw.receive(topic, "g")
    path = f"/admin/v2/persistent/public/default/{topic}?force=true"
    entry = pb.AckMessageEntry(receipt_handle=message.system_properties.receipt_handle)
    ack = pb.AckMessageRequest(topic=pb.Resource(name=topic), group=GROUP, entries=[entry])
    assert broker.rest("DELETE", path)[0] == 204
    assert raw.code("AckMessage", ack) == 40013
    make_topic(broker, topic)
    raw.call("SendMessage", sent(topic, b"new"))
    assert raw.code("AckMessage", ack) == 40013
    (new,) = raw.receive(topic, "g")
    assert new.body == b"new"


def test_a_message_that_is_forwarded_is_among_the_dead_letters(raw: Any, topic: str) -> None:
    request = sent(topic, b"poison", tag="t", keys=["k"])
    request.messages[0].user_properties["own"] = "1"
    raw.call("SendMessage", request)
    (message,) = raw.receive(topic, "g")
    forward = pb.ForwardMessageToDeadLetterQueueRequest(
        topic=pb.Resource(name=topic),
        group=GROUP,
        receipt_handle=message.system_properties.receipt_handle,
    )
    assert raw.code("ForwardMessageToDeadLetterQueue", forward) == 20000
    assert raw.code("ForwardMessageToDeadLetterQueue", forward) == 20000  # it is done
    assert raw.receive(topic, "g", wait_s=0.2) == []
    (dead,) = raw.receive("%DLQ%g", "undertaker", count=1)
    system = dead.system_properties
    assert (dead.body, system.tag, list(system.keys)) == (b"poison", "t", ["k"])
    assert system.message_id == "id"
    assert dict(dead.user_properties) == {"own": "1"}


def test_a_message_that_was_delivered_too_often_is_buried(raw: Any, topic: str) -> None:
    raw.call("SendMessage", sent(topic, b"poison"))
    group = pb.Resource(name=f"grave-{topic[-3:]}")
    for attempt in range(1, 18):
        (message,) = raw.receive(topic, group.name)
        assert message.system_properties.delivery_attempt == attempt
        again = pb.ChangeInvisibleDurationRequest(
            topic=pb.Resource(name=topic),
            group=group,
            receipt_handle=message.system_properties.receipt_handle,
        )
        assert raw.code("ChangeInvisibleDuration", again) == 20000
    assert raw.receive(topic, group.name, wait_s=0.5) == []
    (dead,) = raw.receive(f"%DLQ%{group.name}", "undertaker")
    assert dead.body == b"poison"


def test_a_group_that_others_have_is_refused(
    broker: BrokerProcess, raw: Any, topic: str, clients: Any
) -> None:
    clients.pulsar(broker).subscribe(topic, "g")  # Exclusive
    assert refused(raw, poll(topic)) == 40300
    assert refused(raw, poll(topic, group=pb.Resource(name="free"))) == 40401


def test_a_client_that_vanishes_takes_nothing_with_it(raw: Any, topic: str) -> None:
    """Its poll was waiting; the message that comes then goes to the next poll as a first attempt."""
    waiting = raw.stream("ReceiveMessage", long_poll(topic))
    assert raw.receive(topic, "g", wait_s=0.3) == []  # so that the other one waits before it
    waiting.cancel()
    raw.call("SendMessage", sent(topic))
    (message,) = raw.receive(topic, "g")
    assert message.system_properties.delivery_attempt == 1


def test_a_client_that_leaves_in_the_middle_of_an_answer_is_no_error_of_the_broker(
    broker: BrokerProcess, raw: Any, make_raw: Callable[..., Any], topic: str
) -> None:
    for _ in range(3):
        raw.call("SendMessage", sent(topic, b"x" * 2**21))  # more than a connection takes unread
    leaver = make_raw(f"127.0.0.1:{broker.rocketmq_port}")
    answers = leaver.stream("ReceiveMessage", poll(topic, batch_size=3))
    assert next(answers).status.code == 20000
    found: list[pb.Message] = raw.receive(
        topic, "g", wait_s=0.3
    )  # by then the broker's writes are stuck
    answers.cancel()
    while len(found) < 3:
        found += raw.receive(topic, "g")
    assert {one.system_properties.delivery_attempt for one in found} == {1}
    assert not broker.complaints()


def test_a_client_that_reads_none_of_its_settings_and_leaves_is_no_error_of_the_broker(
    broker: BrokerProcess, raw: Any, make_raw: Callable[..., Any], topic: str
) -> None:
    publishing = pb.Publishing(topics=[pb.Resource(name="x" * 1000)] * 100)
    told = pb.Settings(client_type=pb.PRODUCER, publishing=publishing)
    leaver = make_raw(f"127.0.0.1:{broker.rocketmq_port}")
    answers = leaver.begin_talk(repeat(pb.TelemetryCommand(settings=told)))
    assert raw.receive(topic, "g", wait_s=1) == []  # by then the broker's writes are stuck
    answers.cancel()
    assert raw.receive(topic, "g", wait_s=0.3) == []
    assert not broker.complaints()


def test_a_poll_that_waits_gets_messages_of_partitions_that_are_added(
    broker: BrokerProcess, raw: Any, make_topic: Callable[..., str], name: str, clients: Any
) -> None:
    topic = make_topic(broker, name, 1)
    waiting = raw.stream("ReceiveMessage", long_poll(topic))
    assert raw.receive(topic, "g", wait_s=0.3) == []  # so that the other one waits before it
    path = f"/admin/v2/persistent/public/default/{topic}/partitions"
    assert broker.rest("POST", path, 2)[0] == 204
    clients.pulsar(broker).create_producer(f"{topic}-partition-1").send(b"new")
    status, message, _ = list(waiting)
    assert (status.status.code, message.message.body) == (20000, b"new")


def long_poll(topic: str) -> pb.ReceiveMessageRequest:
    request = poll(topic)
    request.long_polling_timeout.FromSeconds(15)
    return request


def test_settings(raw: Any) -> None:
    def told(**fields: Any) -> pb.TelemetryCommand:
        return pb.TelemetryCommand(settings=pb.Settings(**fields))

    producer = told(client_type=pb.PRODUCER, publishing=pb.Publishing())
    consumer = told(client_type=pb.PUSH_CONSUMER, subscription=pb.Subscription(group=GROUP))
    for_producer, for_consumer = raw.talk(producer, pb.TelemetryCommand(), consumer)
    assert for_producer.status.code == 20000
    assert for_producer.settings.publishing.max_body_size == 4 * 1024 * 1024
    assert for_producer.settings.HasField("metric")
    policy = for_consumer.settings.backoff_policy
    assert (policy.max_attempts, len(policy.customized_backoff.next)) == (17, 18)
    assert for_consumer.settings.subscription.long_polling_timeout.seconds == 20
    for bad in (
        told(client_type=pb.PRODUCER),
        told(client_type=pb.LITE_PUSH_CONSUMER, subscription=pb.Subscription(group=GROUP)),
        told(client_type=pb.SIMPLE_CONSUMER, subscription=pb.Subscription()),
        told(client_type=pb.PRODUCER, publishing=pb.Publishing(topics=[GROUP] * 100_000)),
    ):
        with pytest.raises(grpc.RpcError) as caught:
            raw.talk(bad)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_calls_without_a_client_id_and_calls_that_are_not_there(raw: Any, topic: str) -> None:
    assert raw.code("Heartbeat", pb.HeartbeatRequest()) == 20000
    for name in ("PullMessage", "GetOffset", "QueryOffset", "UpdateOffset"):  # as upstream's
        with pytest.raises(grpc.RpcError) as caught:
            raw.stream(name, poll(topic)).next()
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    raw.headers.clear()
    assert raw.code("Heartbeat", pb.HeartbeatRequest()) == 40017


def test_polls_that_wait_do_not_keep_others_from_being_served(raw: Any, topic: str) -> None:
    waiting = [raw.stream("ReceiveMessage", long_poll(topic)) for _ in range(50)]
    for number in range(50):
        raw.call("SendMessage", sent(topic, b"%d" % number))
    bodies = {answer.message.body for one in waiting for answer in one}
    assert bodies - {b""} == {b"%d" % number for number in range(50)}


def test_the_metrics_count_calls_and_refusals(broker: BrokerProcess, raw: Any) -> None:
    raw.code("QueryRoute", pb.QueryRouteRequest(topic=pb.Resource(name="unknown")))
    text = broker.rest("GET", "/metrics")[1].decode()
    assert 'milepost_rocketmq_calls_total{reason="QueryRoute"}' in text
    assert 'milepost_rocketmq_refused_total{reason="topic_not_found"}' in text
