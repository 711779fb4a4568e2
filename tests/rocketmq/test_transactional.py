"""Transactional messages of the official client: committed, rolled back, asked about, and after kill -9."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from compat.broker_process import BrokerProcess
from stage.official_rocketmq import rocketmq

from milepost.rocketmq import rocketmq_pb2 as pb
from milepost.rocketmq.transactions.transactions import CHECK_S

GROUP = "billing"
COMMIT = rocketmq.TransactionResolution.COMMIT


class Checker(rocketmq.TransactionChecker):
    """Answers with what it is given, and notes what it was asked about."""

    def __init__(self, answer: Any = COMMIT) -> None:
        self.answer = answer
        self.asked: queue.Queue[bytes] = queue.Queue()

    def check(self, message: rocketmq.Message) -> Any:
        self.asked.put(message.body)
        return self.answer


def made(topic: str, body: bytes) -> rocketmq.Message:
    message = rocketmq.Message()
    message.topic, message.body, message.tag = topic, body, "paid"
    message.add_property("currency", "EUR")
    return message


def sent_half(producer: rocketmq.Producer, topic: str, body: bytes) -> Any:
    transaction = producer.begin_transaction()
    producer.send(made(topic, body), transaction)
    return transaction


@pytest.fixture
def own(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path, rocketmq_port=0) as process:
        yield process
        assert not process.complaints()


def asks_after(broker: BrokerProcess, topic: str, seconds: float) -> None:
    path = f"/admin/v2/persistent/public/default/{topic}/properties"
    assert broker.rest("PUT", path, {CHECK_S: str(seconds)})[0] == 204


def test_commit_and_rollback(
    broker: BrokerProcess, clients: Any, raw: Any, make_topic: Callable[..., str], name: str
) -> None:
    """What is behind a half message in its topic does not wait for it."""
    topic = make_topic(broker, name, partitions=2)
    producer = clients.producer(broker, topic, checker=Checker())
    committed, rolled_back = (sent_half(producer, topic, one) for one in (b"yes", b"no"))
    producer.send(made(topic, b"plain"))
    (first,) = raw.receive(topic, GROUP)
    assert first.body == b"plain"
    assert raw.receive(topic, GROUP, wait_s=0.2) == []
    committed.commit()
    rolled_back.rollback()
    (found,) = raw.receive(topic, GROUP)
    system = found.system_properties
    assert (found.body, system.tag, system.message_id) == (b"yes", "paid", committed.message_id)
    assert (dict(found.user_properties), system.message_type) == (
        {"currency": "EUR"},
        pb.TRANSACTION,
    )
    with pytest.raises(rocketmq.v5.exception.ClientException):
        rolled_back.commit()
    assert raw.receive(topic, GROUP, wait_s=0.2) == []


def test_a_producer_is_asked_about_what_it_has_left_open(
    broker: BrokerProcess, clients: Any, raw: Any, make_topic: Callable[..., str], name: str
) -> None:
    """Another one of the topic, since the one that sent it is gone. A Pulsar consumer sees the result."""
    topic = make_topic(broker, name)
    asks_after(broker, topic, 0.5)
    consumer = clients.pulsar(broker).subscribe(topic, GROUP)
    leaving = clients.producer(broker, topic, checker=Checker())
    sent_half(leaving, topic, b"left open")
    clients.close(leaving)
    checker = Checker()
    clients.producer(broker, topic, checker=checker)
    assert checker.asked.get(timeout=20) == b"left open"
    message = consumer.receive(20_000)
    assert message.data() == b"left open"
    assert message.properties()["TRAN_MSG"] == "true"


def test_half_messages_outlive_kill_9(
    own: BrokerProcess, clients: Any, make_raw: Callable[..., Any], make_topic: Callable[..., str]
) -> None:
    topic = make_topic(own, "orders")
    asks_after(own, topic, 0.5)
    producer = clients.producer(own, topic, checker=Checker(None))
    committed, rolled_back = (sent_half(producer, topic, one) for one in (b"yes", b"no"))
    sent_half(producer, topic, b"open")
    committed.commit()
    rolled_back.rollback()
    clients.close(producer)

    own.restart()  # kill -9
    raw = make_raw(f"127.0.0.1:{own.rocketmq_port}")
    assert [one.body for one in raw.receive(topic, GROUP)] == [b"yes"]
    checker = Checker(COMMIT)
    clients.producer(own, topic, checker=checker)
    assert checker.asked.get(timeout=20) == b"open"
    (last,) = raw.receive(topic, GROUP, wait_s=15)
    assert (last.body, last.system_properties.queue_offset) == (b"open", 1)
    stats = own.rest("GET", "/admin/v2/persistent/pulsar/system/rocketmq-half-messages/stats")[1]
    assert stats["subscriptions"]["open"]["messagesBacklog"] == 0


def test_ends_that_are_none(
    broker: BrokerProcess, raw: Any, make_topic: Callable[..., str], name: str
) -> None:
    topic = pb.Resource(name=make_topic(broker, name))
    other = pb.Resource(name=make_topic(broker, f"{name}-2"))
    system = pb.SystemProperties(message_id="id", message_type=pb.TRANSACTION)
    half = pb.Message(topic=topic, system_properties=system, body=b"x")
    (entry,) = raw.call("SendMessage", pb.SendMessageRequest(messages=[half])).entries
    good = entry.transaction_id
    assert entry.offset == 0

    def end(text: str, resolution: int = 1, of: pb.Resource = topic) -> int:
        request = pb.EndTransactionRequest(topic=of, transaction_id=text)
        request.resolution = resolution  # type: ignore[assignment]
        return int(raw.code("EndTransaction", request))

    for text in ("", "id", "x" * 200, good[:-4] + "AAAA", "ä", "\0"):
        assert end(text) == 40008, text
    assert end(good, of=other) == 40008
    assert end(good, resolution=0) == end(good, resolution=99) == 40000
    assert end(good, of=pb.Resource(name="a/b")) == 40002
    two = pb.SendMessageRequest(messages=[half, half])
    assert raw.code("SendMessage", two) == 40000
    assert [end(good), end(good), end(good, 2)] == [20000, 20000, 40008]
    (found,) = raw.receive(topic.name, GROUP)
    assert found.body == b"x"
