"""The proposal's resets, seen by its own clients: obeyed at once, never undone by late acks, durable.

Consumers are live: one has acked a part and holds the rest, another waits in a poll. What they are told and
what they do then is RocketMQ's protocol; the positions are Milepost's own. The numbers are those of the
proposal's promises, as in tests/rip.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from compat.broker_process import BrokerProcess
from stage.official_rocketmq import rocketmq

from milepost.rocketmq import rocketmq_pb2 as pb

GROUP = "g"
COUNT = 8
# Where a group stands that has acked the first half.
ACKED = 4
WAIT_S = 15


def path_of(topic: str) -> str:
    return f"/milepost/v1/topics/public/default/{topic}/subscriptions/{GROUP}"


def reset(broker: BrokerProcess, topic: str, **asked: Any) -> None:
    status, answer = broker.rest("POST", f"{path_of(topic)}/reset", asked)
    assert status == 200, answer


def backlog(broker: BrokerProcess, topic: str) -> tuple[int, int]:
    """Messages that are not acked, and those of them that clients hold."""
    path = f"/admin/v2/persistent/public/default/{topic}/stats"
    stats = broker.rest("GET", path)[1]["subscriptions"][GROUP]
    return stats["msgBacklog"], stats["messagesInflight"]


def ack_code(raw: Any, topic: str, message: pb.Message) -> int:
    entry = pb.AckMessageEntry(receipt_handle=message.system_properties.receipt_handle)
    request = pb.AckMessageRequest(
        group=pb.Resource(name=GROUP), topic=pb.Resource(name=topic), entries=[entry]
    )
    return int(raw.code("AckMessage", request))


def offsets(messages: list[pb.Message]) -> list[int]:
    return [one.system_properties.queue_offset for one in messages]


def fill(producer: rocketmq.Producer, topic: str) -> None:
    for number in range(COUNT):
        message = rocketmq.Message()
        message.topic, message.body = topic, b"%d" % number
        assert producer.send(message).offset == number


def half_done(raw: Any, topic: str) -> list[pb.Message]:
    """A consumer has everything, and has acked the first half."""
    held: list[pb.Message] = []
    while len(held) < COUNT:
        held += raw.receive(topic, GROUP, count=32)
    assert [ack_code(raw, topic, one) for one in held[:ACKED]] == [20000] * ACKED
    return held


@pytest.mark.parametrize("target", ["earliest", "index", "time", "latest"])
def test_a_reset_under_live_consumers(
    broker: BrokerProcess,
    clients: Any,
    raw: Any,
    make_topic: Callable[..., str],
    name: str,
    target: str,
) -> None:
    """I4, I7, I9, I14, I17: the waiting poll is answered from the target, what was held is ready again, and
    late acks of before are refused."""
    topic = make_topic(broker, name)
    fill(clients.producer(broker, topic), topic)
    held = half_done(raw, topic)
    times_ms = [one.system_properties.store_timestamp.ToMilliseconds() for one in held]
    # Messages that came in one millisecond are one to a reset by time.
    by_time = next(at for at, time_ms in enumerate(times_ms) if time_ms >= times_ms[2])
    asked: dict[str, Any]
    asked, first = {
        "earliest": ({"position": "earliest"}, 0),
        "index": ({"index": 2}, 2),
        "time": ({"time": times_ms[2]}, by_time),
        "latest": ({"position": "latest"}, COUNT),
    }[target]
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(raw.receive, topic, GROUP, count=32, wait_s=WAIT_S)
        raw.code("Heartbeat", pb.HeartbeatRequest())  # behind the poll
        began = time.monotonic()
        reset(broker, topic, **asked)
        if target == "latest":
            assert {ack_code(raw, topic, one) for one in held} == {40013}
            assert backlog(broker, topic) == (0, 0)
            message = rocketmq.Message()
            message.topic, message.body = topic, b"new"
            clients.producer(broker, topic).send(message)
        again = waiting.result()
        assert (
            time.monotonic() - began < WAIT_S - 1
        )  # it did not have to wait for the end of its time
    expected = [COUNT] if target == "latest" else list(range(first, COUNT))
    while len(again) < len(expected):
        again += raw.receive(topic, GROUP, count=32)
    assert offsets(again) == expected
    assert {one.system_properties.delivery_attempt for one in again} == {1}
    # What was delivered before counts no more, whether it was acked then or not.
    assert {ack_code(raw, topic, one) for one in held} == {40013}
    assert backlog(broker, topic) == (len(expected), len(expected))
    assert {ack_code(raw, topic, one) for one in again} == {20000}
    assert backlog(broker, topic) == (0, 0)


def test_a_reset_and_its_late_acks_outlive_a_kill(
    tmp_path: Path, clients: Any, make_raw: Callable[..., Any], make_topic: Callable[..., str]
) -> None:
    """I1, I4, I18: it was on disk when it was answered, and handles of before it stay void."""
    with BrokerProcess(tmp_path, rocketmq_port=0) as own:
        topic = make_topic(own, "orders")
        producer = clients.producer(own, topic)
        fill(producer, topic)
        clients.close(producer)
        raw = make_raw(f"127.0.0.1:{own.rocketmq_port}")
        held = half_done(raw, topic)
        reset(own, topic, index=1)
        own.restart()  # kill -9
        raw = make_raw(f"127.0.0.1:{own.rocketmq_port}")
        assert {ack_code(raw, topic, one) for one in held} == {40013}
        assert backlog(own, topic) == (COUNT - 1, 0)
        assert offsets(raw.receive(topic, GROUP, count=32)) == list(range(1, COUNT))
        assert not own.complaints()


def test_a_push_consumer_obeys_while_it_works(
    broker: BrokerProcess, clients: Any, make_topic: Callable[..., str], name: str
) -> None:
    """The official push consumer gets everything again; its acks of before do not count for that."""
    topic = make_topic(broker, name)
    seen: list[bytes] = []

    class Listener(rocketmq.MessageListener):
        def consume(self, message: Any) -> Any:
            seen.append(message.body)
            return rocketmq.ConsumeResult.SUCCESS

    fill(clients.producer(broker, topic), topic)
    clients.push_consumer(broker, GROUP, topic, Listener())
    everything = sorted(b"%d" % number for number in range(COUNT))
    for times in (1, 2):
        deadline = time.monotonic() + 60
        while len(seen) < times * COUNT or backlog(broker, topic)[0]:
            assert time.monotonic() < deadline, seen
            time.sleep(0.05)  # sleep: the consumer's own clock
        assert sorted(seen) == sorted(everything * times)
        if times == 1:
            reset(broker, topic, position="earliest")


def test_the_last_of_two_resets_counts_and_a_wrong_one_changes_nothing(
    broker: BrokerProcess, clients: Any, raw: Any, make_topic: Callable[..., str], name: str
) -> None:
    """I6, I13: what was delivered between two resets is void as well."""
    topic = make_topic(broker, name)
    fill(clients.producer(broker, topic), topic)
    first = half_done(raw, topic)
    reset(broker, topic, index=0)
    between = raw.receive(topic, GROUP, count=32)
    assert offsets(between)[0] == 0
    reset(broker, topic, index=6)
    assert broker.rest("POST", f"{path_of(topic)}/reset", {"index": COUNT + 1})[0] >= 400
    assert {ack_code(raw, topic, one) for one in first + between} == {40013}
    assert backlog(broker, topic) == (COUNT - 6, 0)
    assert offsets(raw.receive(topic, GROUP, count=32)) == [6, 7]


def test_a_topic_that_is_made_again_starts_clean(
    broker: BrokerProcess, clients: Any, raw: Any, make_topic: Callable[..., str], name: str
) -> None:
    """I25: handles of the topic before it are void."""
    topic = make_topic(broker, name)
    producer = clients.producer(broker, topic)
    fill(producer, topic)
    held = half_done(raw, topic)
    path = f"/admin/v2/persistent/public/default/{topic}?force=true"
    assert broker.rest("DELETE", path)[0] == 204
    make_topic(broker, topic)
    fill(producer, topic)
    assert offsets(raw.receive(topic, GROUP, count=32))[0] == 0
    assert {ack_code(raw, topic, one) for one in held} == {40013}
    assert backlog(broker, topic)[0] == COUNT
