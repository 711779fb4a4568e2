"""Resets of a real broker, under official clients and under ours: where they go, how soon, and for good."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pulsar
import pytest
from compat.administer import until
from compat.broker_process import BrokerProcess
from compat.talk import RECEIVE_MS, batching, receive, send_all, send_batch
from pulsar import ConsumerType, InitialPosition

import milepost

PATIENCE_S = 60.0

KINDS = ["official", "milepost"]
Connect = Callable[..., pulsar.Client]


def path_of(topic: str, subscription: str = "s") -> str:
    name = topic.removeprefix("persistent://")
    return f"/milepost/v1/topics/{name}/subscriptions/{subscription}"


def reset(broker: BrokerProcess, topic: str, subscription: str = "s", **asked: Any) -> Any:
    status, answer = broker.rest("POST", f"{path_of(topic, subscription)}/reset", asked)
    assert status == 200, answer
    return answer


def obeyed(broker: BrokerProcess, topic: str, subscription: str = "s") -> None:
    """Wait until nobody has to obey the last reset any more."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        status, resets = broker.rest("GET", f"{path_of(topic, subscription)}/resets")
        assert status == 200, resets
        if not resets[-1]["waiting"]:
            return
        assert time.monotonic() < deadline, resets[-1]


def progress(broker: BrokerProcess, topic: str) -> list[dict[str, Any]]:
    name = topic.removeprefix("persistent://")
    status, answer = broker.rest("GET", f"/milepost/v1/topics/{name}/progress")
    assert status == 200, answer
    lines: list[dict[str, Any]] = answer["subscriptions"]
    for line in lines:
        counted = line["ready"] + line["inflight"] + line["delayed"] + line["acked"]
        assert counted == line["end"] - line["first"], line
    return lines


@pytest.fixture
def clients(connect: Connect) -> Iterator[Callable[[str, BrokerProcess], Any]]:
    """Clients of either kind."""
    made: list[milepost.Client] = []

    def make(kind: str, broker: BrokerProcess) -> Any:
        if kind == "official":
            return connect(broker)
        made.append(milepost.Client(broker.url))
        return made[-1]

    yield make
    for client in made:
        client.close()


def subscribe(
    client: Any, topic: str, consumer_type: Any = ConsumerType.Exclusive, **options: Any
) -> Any:
    if isinstance(client, milepost.Client):
        consumer_type = milepost.ConsumerType(int(consumer_type))
        position: Any = milepost.InitialPosition.Earliest
    else:
        position = InitialPosition.Earliest
    return client.subscribe(
        topic, "s", consumer_type=consumer_type, initial_position=position, **options
    )


def number(message: Any) -> int:
    return int(message.data())


@pytest.mark.parametrize("kind", KINDS)
def test_into_a_batch_while_publishing_goes_on(
    broker: BrokerProcess, clients: Callable[..., Any], connect: Connect, topic: str, kind: str
) -> None:
    """Its next message is that one."""
    consumer = subscribe(clients(kind, broker), topic, receiver_queue_size=50)
    publisher = connect(broker)
    producer = batching(publisher, topic)
    for first in range(0, 300, 10):
        send_batch(producer, [b"%d" % n for n in range(first, first + 10)])
    stop = threading.Event()

    def publish() -> None:
        at = 300
        while not stop.is_set():
            send_batch(producer, [b"%d" % n for n in range(at, at + 10)])
            at += 10

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        for index in (137, 5, 250):
            for _ in range(60):
                consumer.acknowledge(consumer.receive(RECEIVE_MS))
            move = reset(broker, topic, index=index)["moves"][0]
            assert move["to"] == index
            obeyed(broker, topic)
            found = [number(consumer.receive(RECEIVE_MS)) for _ in range(20)]
            assert found == list(range(index, index + 20))
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("kind", KINDS)
def test_i1_a_kill_right_behind_the_answer(
    own_broker: Callable[..., BrokerProcess], clients: Callable[..., Any], topic: str, kind: str
) -> None:
    """I1, R6, R7: durable before the answer, and obeyed by whoever comes back."""
    broker = own_broker()
    client = clients(kind, broker)
    consumer = subscribe(client, topic)
    producer = client.create_producer(topic)
    for n in range(30):
        producer.send(b"%d" % n)
    for _ in range(30):
        consumer.acknowledge(consumer.receive(RECEIVE_MS))
    for index in (11, 23):
        # A client that still has acks to send would send them to the broker that comes back.
        until(lambda: progress(broker, topic)[0]["mark_delete_index"] == 29, "every ack is there")
        reset(broker, topic, index=index)
        broker.kill()
        broker.start()
        (line,) = progress(broker, topic)
        assert line["mark_delete_index"] == index - 1
        found: list[int] = []
        while not found or found[-1] != 29:
            message = consumer.receive(RECEIVE_MS)
            found.append(number(message))
            consumer.acknowledge(message)
        # What it held from before may come first; what came again is all there is from the target.
        assert found[-(30 - index) :] == list(range(index, 30))


def test_i9_an_idle_consumer_is_woken_within_a_tenth_of_a_second(
    broker: BrokerProcess, clients: Callable[..., Any], topic: str
) -> None:
    """I9, R10. The best of a few tries: other processes share the machine."""
    client = clients("milepost", broker)
    consumer = subscribe(client, topic)
    client.create_producer(topic).send(b"0")
    consumer.acknowledge(consumer.receive(RECEIVE_MS))
    took_s = []
    for _ in range(10):
        woken: list[float] = []

        def wait(woken: list[float] = woken) -> None:
            message = consumer.receive(RECEIVE_MS)
            woken.append(time.monotonic())
            consumer.acknowledge(message)

        thread = threading.Thread(target=wait)
        thread.start()
        asked = time.monotonic()
        reset(broker, topic, index=0)
        thread.join()
        took_s.append(woken[0] - asked)
        if took_s[-1] < 0.1:
            return
    raise AssertionError(f"the fastest took {min(took_s):.3f} s")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("consumer_type", [ConsumerType.Shared, ConsumerType.KeyShared], ids=str)
def test_i8_every_consumer_that_shares_it(
    broker: BrokerProcess,
    clients: Callable[..., Any],
    topic: str,
    kind: str,
    consumer_type: ConsumerType,
) -> None:
    consumers = [subscribe(clients(kind, broker), topic, consumer_type) for _ in range(3)]
    producer = clients("official", broker).create_producer(topic)
    for n in range(60):
        producer.send(b"%d" % n, partition_key=f"k{n % 7}")

    def drained() -> list[int]:
        """Everything that any of them gets, acked, until the broker says that it is done."""
        found: list[int] = []
        deadline = time.monotonic() + PATIENCE_S
        while progress(broker, topic)[0]["backlog"]:
            assert time.monotonic() < deadline, f"{len(found)} came"
            for consumer in consumers:
                while True:
                    try:
                        message = consumer.receive(100)
                    except (pulsar.Timeout, milepost.Timeout):
                        break
                    found.append(number(message))
                    consumer.acknowledge(message)
        return found

    assert sorted(drained()) == list(range(60))
    reset(broker, topic, index=25)
    obeyed(broker, topic)
    assert sorted(drained()) == list(range(25, 60))


def test_all_partitions_or_none(
    broker: BrokerProcess, clients: Callable[..., Any], topic: str
) -> None:
    broker.create_partitioned_topic(topic, 3)
    client = clients("official", broker)
    consumer = subscribe(client, topic)
    send_all(client.create_producer(topic), [b"%d" % n for n in range(30)])
    for message in receive(consumer, 30):
        consumer.acknowledge(message)
    status, answer = broker.rest("POST", f"{path_of(topic)}/reset", {"index": 10**6})
    assert status == 404, answer
    dry = reset(broker, topic, position="earliest", dry_run=True)
    done = reset(broker, topic, position="earliest")
    assert dry["moves"] == done["moves"]
    obeyed(broker, topic)
    assert sorted(number(message) for message in receive(consumer, 30)) == list(range(30))


# -- broadcast ---------------------------------------------------------------------------------------


def member(client: Any, topic: str, name: str) -> Any:
    if isinstance(client, milepost.Client):
        return client.subscribe(
            topic,
            "caches",
            mode="broadcast",
            member=name,
            initial_position=milepost.InitialPosition.Earliest,
        )
    return client.subscribe(
        topic,
        "caches",
        ConsumerType.Shared,
        properties={"milepost.mode": "broadcast", "milepost.member": name},
        initial_position=InitialPosition.Earliest,
    )


def take(consumer: Any, count: int) -> list[int]:
    found = []
    for _ in range(count):
        message = consumer.receive(RECEIVE_MS)
        found.append(number(message))
        consumer.acknowledge(message)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_broadcast_group_loses_nothing(
    own_broker: Callable[..., BrokerProcess], clients: Callable[..., Any], topic: str, kind: str
) -> None:
    """Three members; one ends without a word and comes back, one is replaced by a stranger, and the
    broker is killed in between: each gets every message from its due position."""
    broker = own_broker()
    publisher = clients(kind, broker)
    producer = publisher.create_producer(topic)
    homes = {name: clients(kind, broker) for name in ("a", "b", "c")}
    members = {name: member(home, topic, name) for name, home in homes.items()}

    def publish(first: int, end: int) -> None:
        for n in range(first, end):
            producer.send(b"%d" % n)

    publish(0, 20)
    assert take(members["a"], 20) == list(range(20))
    assert take(members["b"], 12) == list(range(12))
    assert take(members["c"], 5) == list(range(5))
    # Clients gather acks for a while: the ends without a word come when the broker has them.
    positions: dict[str, int] = {}
    deadline = time.monotonic() + PATIENCE_S
    while positions != {"": 4, "a": 19, "b": 11, "c": 4}:
        assert time.monotonic() < deadline, positions
        positions = {line["member"]: line["mark_delete_index"] for line in progress(broker, topic)}
    for name in ("b", "c"):
        homes[name].shutdown()
    publish(20, 30)
    broker.kill()
    broker.start()
    again = member(clients(kind, broker), topic, "b")
    stranger = member(clients(kind, broker), topic, "stranger")
    publish(30, 35)
    found = take(members["a"], 15)
    assert found == list(range(20, 35))
    assert take(again, 23) == list(range(12, 35))
    assert take(stranger, 30) == list(range(5, 35))
    names = {line["member"] for line in progress(broker, topic)}
    assert names == {"", "a", "b", "c", "stranger"}
