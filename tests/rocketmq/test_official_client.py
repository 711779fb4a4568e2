"""RocketMQ's official Python client on Milepost, alone and beside Pulsar's."""

from __future__ import annotations

import gzip
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import pulsar
import pytest
from compat.broker_process import BrokerProcess
from stage.official_rocketmq import rocketmq

from milepost.rocketmq import rocketmq_pb2 as pb

INVISIBLE_S = 300


def message(topic: str, body: bytes, **fields: Any) -> rocketmq.Message:
    made = rocketmq.Message()
    made.topic, made.body = topic, body
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def received(consumer: rocketmq.SimpleConsumer, count: int) -> list[rocketmq.Message]:
    """So many messages, each acked; polls until they are there."""
    found: list[rocketmq.Message] = []
    deadline = time.monotonic() + 30
    while len(found) < count and time.monotonic() < deadline:
        for one in consumer.receive(32, INVISIBLE_S):
            consumer.ack(one)
            found.append(one)
    return found


def counts(broker: BrokerProcess, topic: str, group: str) -> tuple[int, int, int]:
    """Ready, inflight and acked messages of a group, of a topic without partitions."""
    path = f"/admin/v2/persistent/public/default/{topic}/stats"
    stats = broker.rest("GET", path)[1]["subscriptions"][group]
    return stats["messagesReady"], stats["messagesInflight"], stats["messagesAcked"]


def test_a_pulsar_consumer_reads_what_a_rocketmq_producer_sent(
    broker: BrokerProcess, clients: Any, make_topic: Callable[..., str], name: str
) -> None:
    topic = make_topic(broker, name)
    producer = clients.producer(broker, topic)
    before_ms = time.time_ns() // 1_000_000
    sent = message(topic, b"paid", tag="bill", keys="k1", message_group="shop-7")
    sent.add_property("amount", "12")
    receipts = [producer.send(sent), producer.send(message(topic, b"plain"))]
    assert [receipt.offset for receipt in receipts] == [0, 1]

    consumer = clients.pulsar(broker).subscribe(
        topic, "p", initial_position=pulsar.InitialPosition.Earliest
    )
    first, second = consumer.receive(10_000), consumer.receive(10_000)
    assert (first.data(), first.partition_key()) == (b"paid", "shop-7")
    assert (second.data(), second.partition_key()) == (b"plain", "")
    found = first.properties()
    assert (found["amount"], found["TAGS"], found["KEYS"]) == ("12", "bill", "k1")
    assert found["UNIQ_KEY"] == receipts[0].message_id
    # The official Python client knows whole seconds.
    assert abs(first.event_timestamp() - before_ms) <= 2000
    assert "TAGS" not in second.properties()


def test_a_rocketmq_consumer_reads_what_a_pulsar_producer_sent(
    broker: BrokerProcess, clients: Any, make_topic: Callable[..., str], name: str
) -> None:
    """Batches, compressed, are single messages here; each is acked on its own."""
    topic = make_topic(broker, name)
    producer = clients.pulsar(broker).create_producer(
        topic,
        batching_enabled=True,
        batching_max_publish_delay_ms=100,
        compression_type=pulsar.CompressionType.ZSTD,
    )
    for number in range(10):
        producer.send_async(
            b"%d" % number, lambda *_: None, properties={"n": str(number), "TAGS": "t"}
        )
    producer.flush()
    producer.send(b"alone", partition_key="k", event_timestamp=1_700_000_000_000)

    consumer = clients.consumer(broker, "g", topic)
    found = received(consumer, 11)
    assert [one.body for one in found] == [b"%d" % number for number in range(10)] + [b"alone"]
    assert [one.properties["n"] for one in found[:10]] == [str(number) for number in range(10)]
    assert {one.tag for one in found[:10]} == {"t"}
    assert (found[10].message_group, found[10].born_timestamp) == ("k", 1_700_000_000_000)
    assert len({one.message_id for one in found}) == 11
    assert counts(broker, topic, "g") == (0, 0, 11)


def test_a_large_message_in_chunks_is_one_message(
    broker: BrokerProcess, clients: Any, make_topic: Callable[..., str], name: str
) -> None:
    topic = make_topic(broker, name)
    body = bytes(range(256)) * 24_000  # more than an entry holds
    producer = clients.pulsar(broker).create_producer(
        topic, chunking_enabled=True, batching_enabled=False
    )
    producer.send(b"before")
    producer.send(body)
    found = received(clients.consumer(broker, "g", topic), 2)
    assert [one.body for one in found] == [b"before", body]
    ready, inflight, acked = counts(broker, topic, "g")
    assert (ready, inflight) == (0, 0)
    assert acked > 2  # every chunk is


def test_twelve_mib_in_chunks_are_received_failed_and_moved_to_the_dead_letters_whole(
    broker: BrokerProcess, clients: Any, make_topic: Callable[..., str], name: str, raw: Any
) -> None:
    """Chunks of two messages lie between one another; each message comes whole, once its last chunk did."""
    topic, large = make_topic(broker, name), os.urandom(12 * 1024 * 1024)
    other = large[: 6 * 1024 * 1024]
    client, group = clients.pulsar(broker), f"g-{name}"[:60]
    one, two = (
        client.create_producer(topic, chunking_enabled=True, batching_enabled=False)
        for _ in range(2)
    )
    done = threading.Event()
    one.send_async(large, lambda *_: done.set())
    two.send(other)
    assert done.wait(30)
    consumer = clients.consumer(broker, group, topic)
    found: list[rocketmq.Message] = []
    while len(found) < 2:
        found += consumer.receive(32, INVISIBLE_S)
    first, second = sorted(found, key=lambda one: -len(one.body))
    assert (first.body, second.body) == (large, other)
    consumer.change_invisible_duration(first, 0)
    (again,) = consumer.receive(32, INVISIBLE_S)
    assert (again.body == large, again.delivery_attempt) == (True, 2)
    consumer.ack(second)
    forward = pb.ForwardMessageToDeadLetterQueueRequest(
        topic=pb.Resource(name=topic),
        group=pb.Resource(name=group),
        receipt_handle=again.receipt_handle,
    )
    assert raw.code("ForwardMessageToDeadLetterQueue", forward) == 20000
    assert counts(broker, topic, group)[:2] == (0, 0)
    (dead,) = received(clients.consumer(broker, group, f"%DLQ%{group}"), 1)
    assert dead.body == large
    reader = client.create_reader(
        f"persistent://public/default/%DLQ%{group}",
        pulsar.MessageId.earliest,
    )
    assert reader.read_next(30_000).data() == large


def test_a_client_that_reads_four_mib_gets_what_is_larger_packed_or_not_at_all(
    broker: BrokerProcess, clients: Any, make_topic: Callable[..., str], name: str, raw: Any
) -> None:
    """gRPC's own limit is that of Go's and Node's clients; a larger answer ends the poll with an error."""
    topic = make_topic(broker, name)
    packs, random = b"0123456789" * 600_000, os.urandom(4 * 1024 * 1024)
    producer = clients.pulsar(broker).create_producer(
        topic, chunking_enabled=True, batching_enabled=False
    )
    for body in (b"before", random, packs, b"behind"):
        producer.send(body)
    raw.headers["x-mq-language"], raw.headers["x-mq-client-version"] = "GO", "5.0.1-rc1"
    found: list[pb.Message] = []
    while len(found) < 3:
        found += raw.receive(topic, "g")
    before, packed, behind = found
    assert [before.body, gzip.decompress(packed.body), behind.body] == [b"before", packs, b"behind"]
    assert packed.system_properties.body_encoding == pb.GZIP
    # Another client of the group can have the other one.
    (rest,) = received(clients.consumer(broker, "g", topic), 1)
    assert (rest.body, rest.delivery_attempt) == (random, 2)


def test_members_of_a_broadcast_group_get_every_message_and_resume(
    broker: BrokerProcess, clients: Any, make_topic: Callable[..., str], name: str
) -> None:
    """Pulsar's consumers are members by properties, RocketMQ's by the name of their group."""
    topic = make_topic(broker, name)
    beside = clients.pulsar(broker).subscribe(
        topic,
        "caches",
        pulsar.ConsumerType.Shared,
        properties={"milepost.mode": "broadcast", "milepost.member": "beside"},
    )
    one = clients.consumer(broker, "%BROADCAST%caches%one", topic)
    assert one.receive(1, INVISIBLE_S) == []
    producer = clients.producer(broker, topic)
    for number in range(4):
        producer.send(message(topic, b"%d" % number))
    assert [one.body for one in received(one, 4)] == [b"%d" % number for number in range(4)]
    for number in range(4):
        found = beside.receive(30_000)
        beside.acknowledge(found)
        assert found.data() == b"%d" % number
    clients.close(one)
    producer.send(message(topic, b"4"))
    again = clients.consumer(broker, "%BROADCAST%caches%one", topic)
    assert [one.body for one in received(again, 1)] == [b"4"]


def test_messages_that_a_tag_does_not_fit_are_done_with(
    broker: BrokerProcess, clients: Any, make_topic: Callable[..., str], name: str
) -> None:
    topic = make_topic(broker, name)
    producer = clients.producer(broker, topic)
    for number, tag in enumerate(["a", "b", "c", "a"]):
        producer.send(message(topic, b"%d" % number, tag=tag))
    producer.send(message(topic, b"4"))  # without a tag
    found = received(clients.consumer(broker, "some", topic, "a || c"), 3)
    assert [one.body for one in found] == [b"0", b"2", b"3"]
    assert len(received(clients.consumer(broker, "all", topic), 5)) == 5
    consumer = clients.consumer(broker, "some", topic, "a || c")
    producer.send(message(topic, b"5", tag="c"))
    assert [one.body for one in received(consumer, 1)] == [b"5"]
    assert counts(broker, topic, "some") == (0, 0, 6)


def test_a_delayed_message_comes_when_it_is_due(
    broker: BrokerProcess, clients: Any, make_topic: Callable[..., str], name: str
) -> None:
    topic = make_topic(broker, name)
    producer, consumer = clients.producer(broker, topic), clients.consumer(broker, "g", topic)
    due_s = int(time.time()) + 2
    late = producer.send(message(topic, b"late", delivery_timestamp=due_s))
    soon = producer.send(message(topic, b"soon"))
    assert (late.offset, soon.offset) == (0, 1)
    found = received(consumer, 2)
    assert [one.body for one in found] == [b"soon", b"late"]
    assert time.time() >= due_s


def test_messages_of_a_message_group_are_in_one_queue_in_order(
    broker: BrokerProcess, clients: Any, make_topic: Callable[..., str], name: str
) -> None:
    topic = make_topic(broker, name, 4)
    producer = clients.producer(broker, topic)
    for number in range(12):
        producer.send(message(topic, b"%d" % number, message_group=f"group-{number % 3}"))
    found = received(clients.consumer(broker, "g", topic), 12)
    for group in range(3):
        own = [int(one.body) for one in found if one.message_group == f"group-{group}"]
        assert own == list(range(group, 12, 3))
    reader = clients.pulsar(broker).subscribe(
        topic, "p", initial_position=pulsar.InitialPosition.Earliest
    )
    places: dict[str, set[str]] = {}
    for _ in range(12):
        one = reader.receive(10_000)
        places.setdefault(one.partition_key(), set()).add(one.topic_name())
    assert [len(one) for one in places.values()] == [1, 1, 1]


def test_a_message_comes_again_when_its_time_is_over(
    broker: BrokerProcess, clients: Any, make_topic: Callable[..., str], name: str
) -> None:
    """The poll that waits is woken, the attempt is counted, and the old handle is void."""
    topic = make_topic(broker, name)
    clients.producer(broker, topic).send(message(topic, b"x"))
    consumer = clients.consumer(broker, "g", topic)
    (first,) = consumer.receive(1, INVISIBLE_S)
    assert first.delivery_attempt == 1
    assert counts(broker, topic, "g") == (0, 1, 0)
    consumer.change_invisible_duration(first, 1)
    began = time.monotonic()
    (second,) = consumer.receive(1, INVISIBLE_S)
    assert 0.5 < time.monotonic() - began < 9  # not at the end of the poll
    assert (second.body, second.delivery_attempt) == (b"x", 2)
    assert second.message_id == first.message_id
    consumer.ack(second)
    assert counts(broker, topic, "g") == (0, 0, 1)


def test_what_a_client_held_that_says_goodbye_comes_at_once(
    broker: BrokerProcess, clients: Any, make_topic: Callable[..., str], name: str
) -> None:
    topic = make_topic(broker, name)
    clients.producer(broker, topic).send(message(topic, b"x"))
    leaving = clients.consumer(broker, "g", topic)
    assert len(leaving.receive(1, 3600)) == 1
    clients.close(leaving)
    (again,) = clients.consumer(broker, "g", topic).receive(1, INVISIBLE_S)
    assert (again.body, again.delivery_attempt) == (b"x", 2)


def test_a_push_consumer_gets_everything_and_what_it_failed_once_more(
    broker: BrokerProcess, clients: Any, make_topic: Callable[..., str], name: str
) -> None:
    topic = make_topic(broker, name, 2)
    seen: list[tuple[bytes, int]] = []
    whole = threading.Event()

    class Listener(rocketmq.MessageListener):
        def consume(self, one: rocketmq.Message) -> rocketmq.ConsumeResult:
            seen.append((one.body, one.delivery_attempt))
            if len(seen) >= 7:
                whole.set()
            fails = one.body == b"3" and one.delivery_attempt == 1
            return rocketmq.ConsumeResult.FAILURE if fails else rocketmq.ConsumeResult.SUCCESS

    clients.push_consumer(broker, "g", topic, Listener())
    producer = clients.producer(broker, topic)
    for number in range(6):
        producer.send(message(topic, b"%d" % number))
    assert whole.wait(30)
    assert sorted(seen) == sorted([(b"%d" % number, 1) for number in range(6)] + [(b"3", 2)])


def test_an_operator_sees_a_group_and_moves_it_while_a_poll_waits(
    broker: BrokerProcess, clients: Any, make_topic: Callable[..., str], name: str
) -> None:
    topic = make_topic(broker, name)
    producer, consumer = clients.producer(broker, topic), clients.consumer(broker, "g", topic)
    for number in range(3):
        producer.send(message(topic, b"%d" % number))
    held = consumer.receive(32, INVISIBLE_S)
    for one in held[:2]:
        consumer.ack(one)
    _, progress = broker.rest("GET", f"/milepost/v1/topics/public/default/{topic}/progress")
    (line,) = progress["subscriptions"]
    assert (line["subscription"], line["inflight"], line["ready"]) == ("g", 1, 0)
    assert counts(broker, topic, "g") == (0, 1, 2)

    polled: list[rocketmq.Message] = []
    waiting = threading.Thread(target=lambda: polled.extend(consumer.receive(32, INVISIBLE_S)))
    waiting.start()
    path = f"/admin/v2/persistent/public/default/{topic}/subscription/g/resetcursor/0"
    assert broker.rest("POST", path)[0] == 204
    waiting.join(15)
    assert [(one.body, one.delivery_attempt) for one in polled] == [(b"0", 1), (b"1", 1), (b"2", 1)]
    assert counts(broker, topic, "g") == (0, 3, 0)
    for one in polled:
        consumer.ack(one)
    assert counts(broker, topic, "g") == (0, 0, 3)


def test_a_pulsar_consumer_takes_a_group_over(
    broker: BrokerProcess, clients: Any, make_topic: Callable[..., str], name: str
) -> None:
    topic = make_topic(broker, name)
    producer, consumer = clients.producer(broker, topic), clients.consumer(broker, "g", topic)
    for number in range(4):
        producer.send(message(topic, b"%d" % number))
    for one in consumer.receive(2, INVISIBLE_S):
        consumer.ack(one)
    clients.close(consumer)
    shared = clients.pulsar(broker).subscribe(topic, "g", consumer_type=pulsar.ConsumerType.Shared)
    assert {shared.receive(10_000).data() for _ in range(2)} == {b"2", b"3"}


def test_a_fifo_group_works_off_a_message_group_in_order(
    broker: BrokerProcess, clients: Any, make_topic: Callable[..., str], name: str
) -> None:
    """What fails is tried again before what is behind it; the other message group goes on."""
    topic = make_topic(broker, name)
    path = f"/admin/v2/persistent/public/default/{topic}/subscription/g"
    assert broker.rest("PUT", path)[0] == 204
    assert broker.rest("PUT", f"{path}/properties", {"rocketmq.fifo": "true"})[0] == 204
    seen: list[bytes] = []
    whole = threading.Event()

    class Listener(rocketmq.MessageListener):
        def consume(self, one: rocketmq.Message) -> rocketmq.ConsumeResult:
            seen.append(one.body)
            if len(seen) >= 7:
                whole.set()
            fails = one.body == b"a1" and seen.count(b"a1") == 1
            return rocketmq.ConsumeResult.FAILURE if fails else rocketmq.ConsumeResult.SUCCESS

    producer = clients.producer(broker, topic)
    for number in range(3):
        for group in "ab":
            producer.send(message(topic, f"{group}{number}".encode(), message_group=group))
    clients.push_consumer(broker, "g", topic, Listener())
    assert whole.wait(30)
    assert [one for one in seen if one.startswith(b"a")] == [b"a0", b"a1", b"a1", b"a2"]
    assert [one for one in seen if one.startswith(b"b")] == [b"b0", b"b1", b"b2"]


def test_a_topic_of_one_type(
    broker: BrokerProcess, clients: Any, make_topic: Callable[..., str], name: str
) -> None:
    """The official client refuses other types by itself, since the route says which the topic takes."""
    topic = make_topic(broker, name)
    path = f"/admin/v2/persistent/public/default/{topic}/properties"
    assert broker.rest("PUT", path, {"message.type": "FIFO"})[0] == 204
    producer = clients.producer(broker, topic)
    with pytest.raises(rocketmq.v5.exception.IllegalArgumentException, match="type not match"):
        producer.send(message(topic, b"x"))
    assert producer.send(message(topic, b"x", message_group="g")).offset == 0


def test_an_sql_filter(
    broker: BrokerProcess, clients: Any, make_topic: Callable[..., str], name: str
) -> None:
    """What does not fit counts as consumed. Pulsar's properties are filtered too."""
    topic = make_topic(broker, name)
    producer = clients.producer(broker, topic)
    for number in range(3):
        sent = message(topic, b"%d" % number, tag="paid" if number else "sent")
        sent.add_property("amount", str(number * 100))
        producer.send(sent)
    clients.pulsar(broker).create_producer(topic).send(b"pulsar", properties={"amount": "250"})
    expression = "amount >= 200 OR TAGS <> 'paid'"
    wanted = rocketmq.FilterExpression(
        expression, rocketmq.v5.model.filter_expression.FilterType.SQL
    )
    consumer = clients.consumer(broker, "g", topic, wanted)
    assert {one.body for one in received(consumer, 3)} == {b"0", b"2", b"pulsar"}
    assert counts(broker, topic, "g") == (0, 0, 4)
