"""What RocketMQ clients were answered is there after kill -9, and what they held comes again."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from compat.broker_process import BrokerProcess

from milepost.rocketmq import rocketmq_pb2 as pb


@pytest.fixture
def own(tmp_path: Path) -> Any:
    with BrokerProcess(tmp_path, rocketmq_port=0) as process:
        yield process
        assert not process.complaints()


def test_a_kill_between_receive_and_ack(
    own: BrokerProcess, make_raw: Callable[..., Any], make_topic: Callable[..., str]
) -> None:
    """An answered ack holds, a handle of before is still good, and what is not acked comes again with the
    offset of its receipt. Once it has come again, the older handle is void."""
    topic = pb.Resource(name=make_topic(own, "orders"))
    raw = make_raw(f"127.0.0.1:{own.rocketmq_port}")
    receipts = [raw.call("SendMessage", sent(topic, b"%d" % n)).entries[0] for n in range(4)]
    assert [one.offset for one in receipts] == [0, 1, 2, 3]
    before = raw.receive("orders", "g")
    assert [one.system_properties.queue_offset for one in before] == [0, 1, 2, 3]
    assert acked(raw, topic, before[0]) == 20000

    own.restart()  # kill -9
    raw = make_raw(f"127.0.0.1:{own.rocketmq_port}")
    assert acked(raw, topic, before[0]) == 20000  # it is done, and stays so
    assert acked(raw, topic, before[1]) == 20000  # late, and welcome
    again = raw.receive("orders", "g")
    assert [(one.body, one.system_properties.queue_offset) for one in again] == [
        (b"2", 2),
        (b"3", 3),
    ]
    assert [one.system_properties.message_id for one in again] == ["id-2", "id-3"]
    assert acked(raw, topic, before[2]) == 40013  # another delivery counts now
    assert [acked(raw, topic, one) for one in again] == [20000, 20000]

    own.restart()
    raw = make_raw(f"127.0.0.1:{own.rocketmq_port}")
    assert raw.receive("orders", "g", wait_s=0.2) == []
    path = "/admin/v2/persistent/public/default/orders/stats"
    stats = own.rest("GET", path)[1]["subscriptions"]["g"]
    assert (stats["messagesBacklog"], stats["messagesAcked"]) == (0, 4)
    assert raw.call("SendMessage", sent(topic, b"4")).entries[0].offset == 4


def test_a_recalled_message_never_comes(
    own: BrokerProcess, make_raw: Callable[..., Any], make_topic: Callable[..., str]
) -> None:
    """The answer was there before kill -9. A group that polls, one that comes later, and a message that was
    due at the same time."""
    topic = pb.Resource(name=make_topic(own, "orders", 2))
    raw = make_raw(f"127.0.0.1:{own.rocketmq_port}")
    assert raw.receive("orders", "g", wait_s=0.2) == []
    due_ms = time.time_ns() // 1_000_000 + 4000
    receipts = [
        raw.call("SendMessage", sent(topic, b"%d" % n, due_ms)).entries[0] for n in range(4)
    ]
    for one in receipts[:3]:
        request = pb.RecallMessageRequest(topic=topic, recall_handle=one.recall_handle)
        answer = raw.call("RecallMessage", request)
        assert (answer.status.code, answer.message_id) == (20000, one.message_id)
    own.restart()
    raw = make_raw(f"127.0.0.1:{own.rocketmq_port}")
    for group in ("g", "later"):
        assert [one.body for one in raw.receive("orders", group, wait_s=15)] == [b"3"]
        assert time.time_ns() // 1_000_000 >= due_ms
        assert raw.receive("orders", group, wait_s=0.5) == []


def sent(topic: pb.Resource, body: bytes, due_ms: int = 0) -> pb.SendMessageRequest:
    properties = pb.SystemProperties(message_id=f"id-{body.decode()}", body_encoding=pb.IDENTITY)
    if due_ms:
        properties.delivery_timestamp.FromMilliseconds(due_ms)
    message = pb.Message(topic=topic, system_properties=properties, body=body)
    return pb.SendMessageRequest(messages=[message])


def acked(raw: Any, topic: pb.Resource, message: pb.Message) -> int:
    system = message.system_properties
    entry = pb.AckMessageEntry(message_id=system.message_id, receipt_handle=system.receipt_handle)
    request = pb.AckMessageRequest(group=pb.Resource(name="g"), topic=topic, entries=[entry])
    return int(raw.code("AckMessage", request))
