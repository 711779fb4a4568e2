"""Key_Shared: a key is with one consumer at a time, and its messages stay in order through everything."""

from __future__ import annotations

import random
import threading
from typing import Any

import pulsar
import pytest
from compat.broker_process import BrokerProcess
from compat.raw_client import RawClient, message_metadata, subscribe
from compat.talk import RECEIVE_MS, batching, drain, payloads, receive, silent
from pulsar import BatchingType, ConsumerKeySharedPolicy, ConsumerType, KeySharedMode

from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import Delivery
from milepost.wire.murmur import key_slot

SEED = 7


def join(client: pulsar.Client, topic: str, **options: Any) -> pulsar.Consumer:
    return client.subscribe(topic, "s", consumer_type=ConsumerType.KeyShared, **options)


def sticky(*ranges: tuple[int, int]) -> ConsumerKeySharedPolicy:
    return ConsumerKeySharedPolicy(KeySharedMode.Sticky, sticky_ranges=list(ranges))


def send_keyed(producer: pulsar.Producer, count: int, keys: int) -> None:
    """Each message says its key and its number among those of the key."""
    for number in range(count):
        key = f"k{number % keys}"
        producer.send_async(f"{key}:{number // keys}".encode(), lambda *_: None, partition_key=key)
    producer.flush()


def by_key(messages: list[bytes]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for data in messages:
        key, number = data.decode().split(":")
        found.setdefault(key, []).append(int(number))
    return found


@pytest.mark.parametrize("is_batched", [False, True], ids=["single", "batched"])
def test_a_key_goes_to_one_consumer_in_order(
    client: pulsar.Client, topic: str, is_batched: bool
) -> None:
    consumers = [join(client, topic) for _ in range(3)]
    if is_batched:
        producer = batching(client, topic, batching_type=BatchingType.KeyBased)
    else:
        producer = client.create_producer(topic)
    send_keyed(producer, 600, 30)
    shares = [by_key(payloads(drain(consumer, 400))) for consumer in consumers]
    keys = [key for share in shares for key in share]
    assert sorted(keys) == sorted({f"k{number}" for number in range(30)})
    assert all(shares), "somebody got nothing"
    for share in shares:
        for key, numbers in share.items():
            assert numbers == list(range(20)), key


def test_the_ordering_key_is_the_key(client: pulsar.Client, topic: str) -> None:
    consumers = [join(client, topic) for _ in range(3)]
    producer = client.create_producer(topic)
    for number in range(120):
        producer.send(
            b"%d" % (number % 12), partition_key=f"p{number}", ordering_key=f"o{number % 12}"
        )
    shares = [set(payloads(drain(consumer, 400))) for consumer in consumers]
    assert sum(map(len, shares)) == 12, shares


def test_keys_move_to_a_newcomer_only_when_they_are_free(client: pulsar.Client, topic: str) -> None:
    """What the old consumer holds of a key is acked before the new one sees that key."""
    old = join(client, topic)
    producer = client.create_producer(topic)
    send_keyed(producer, 40, 20)
    held = receive(old, 40)
    new = join(client, topic)
    send_keyed(producer, 40, 20)
    waiting = drain(new)
    assert waiting == []
    for message in held:
        old.acknowledge(message)
    shares = [by_key(payloads(drain(consumer, 500))) for consumer in (old, new)]
    assert shares[0]
    assert shares[1]
    assert not shares[0].keys() & shares[1].keys()
    assert sorted([*shares[0], *shares[1]]) == sorted(f"k{number}" for number in range(20))
    assert all(numbers == [0, 1] for share in shares for numbers in share.values())


def test_a_key_is_free_when_what_was_left_of_its_batches_is_acked(
    client: pulsar.Client, topic: str
) -> None:
    """Batches of which some messages were acked before they came to the consumer that holds them."""
    first = join(client, topic, batch_index_ack_enabled=True)
    producer = batching(client, topic, batching_type=BatchingType.KeyBased)
    send_keyed(producer, 80, 20)
    for message in receive(first, 80):
        if message.message_id().batch_index() in (0, 2):
            first.acknowledge(message)
    first.close()
    second = join(client, topic, batch_index_ack_enabled=True)
    held = receive(second, 40)
    third = join(client, topic)
    send_keyed(producer, 20, 20)
    assert drain(third) == []
    for message in held:
        second.acknowledge(message)
    shares = [by_key(payloads(drain(consumer, 500))) for consumer in (second, third)]
    assert all(shares)
    assert sorted([*shares[0], *shares[1]]) == sorted(f"k{number}" for number in range(20))


class Worker(threading.Thread):
    """Receives, notes, acks, one at a time, until it is told to leave."""

    def __init__(
        self, consumer: pulsar.Consumer, notes: list[tuple[str, bytes]], name: str
    ) -> None:
        super().__init__(daemon=True)
        self._consumer, self._notes, self._name = consumer, notes, name
        self._leaving = threading.Event()
        self.start()

    def run(self) -> None:
        while not self._leaving.is_set():
            try:
                message = self._consumer.receive(50)
            except pulsar.Timeout:
                continue
            self._notes.append((self._name, message.data()))
            self._consumer.acknowledge(message)
        self._consumer.close()

    def leave(self) -> None:
        self._leaving.set()
        self.join()


def test_order_holds_while_consumers_join_and_leave(
    client: pulsar.Client, connect: Any, broker: BrokerProcess, topic: str
) -> None:
    """Of every key each message is processed once, in order, whoever had it."""
    chooser = random.Random(SEED)
    notes: list[tuple[str, bytes]] = []
    producer = client.create_producer(topic, block_if_queue_full=True)
    workers = [Worker(join(connect(broker), topic), notes, "w0")]
    keys, rounds = 40, 100

    def publish() -> None:
        for number in range(keys * rounds):
            key = f"k{number % keys}"
            producer.send_async(
                f"{key}:{number // keys}".encode(), lambda *_: None, partition_key=key
            )
            if number % 100 == 99:
                producer.flush()

    publishing = threading.Thread(target=publish)
    publishing.start()
    for number in range(1, 25):
        if len(workers) > 1 and chooser.random() < 0.45:
            workers.pop(chooser.randrange(len(workers))).leave()
        else:
            size = chooser.choice((1, 10, 1000))
            consumer = join(connect(broker), topic, receiver_queue_size=size)
            workers.append(Worker(consumer, notes, f"w{number}"))
    publishing.join()
    deadline = threading.Event()
    for _ in range(200):
        if len(notes) >= keys * rounds or deadline.wait(0.05):
            break
    for worker in workers:
        worker.leave()
    found = by_key([data for _, data in notes])
    assert sorted(found) == sorted(f"k{number}" for number in range(keys))
    for key, numbers in found.items():
        assert numbers == list(range(rounds)), key
    assert len({name for name, _ in notes}) > 3


def test_order_holds_through_negative_acks(client: pulsar.Client, topic: str) -> None:
    """A message that is given back holds up its key, and no other."""
    consumer = join(client, topic, negative_ack_redelivery_delay_ms=100, receiver_queue_size=1)
    producer = client.create_producer(topic)
    send_keyed(producer, 30, 3)
    failed = False
    done: list[bytes] = []
    while len(done) < 30:
        message = consumer.receive(RECEIVE_MS)
        if message.data() == b"k1:4" and not failed:
            failed = True
            consumer.negative_acknowledge(message)
        else:
            done.append(message.data())
            consumer.acknowledge(message)
    found = by_key(done)
    assert found["k0"] == found["k2"] == list(range(10))
    assert sorted(found["k1"]) == list(range(10))


def test_ranges_of_ones_own(client: pulsar.Client, topic: str) -> None:
    low = join(client, topic, key_shared_policy=sticky((0, 32767)))
    high = join(client, topic, key_shared_policy=sticky((32768, 65535)))
    producer = client.create_producer(topic)
    send_keyed(producer, 200, 50)
    shares = [by_key(payloads(drain(consumer, 400))) for consumer in (low, high)]
    assert all(shares)
    assert sum(map(len, shares)) == 50
    assert all(numbers == [0, 1, 2, 3] for share in shares for numbers in share.values())


def test_ranges_that_overlap_are_refused(client: pulsar.Client, topic: str) -> None:
    join(client, topic, key_shared_policy=sticky((0, 100), (200, 300)))
    for ranges in ([(50, 60)], [(301, 400), (100, 150)], [(0, 65535)]):
        with pytest.raises(pulsar.ConsumerAssignError):
            join(client, topic, key_shared_policy=sticky(*ranges))
    with pytest.raises(pulsar.ConsumerBusy):
        join(client, topic)
    join(client, topic, key_shared_policy=sticky((101, 199)))


def test_what_nobody_has_a_range_for_waits(client: pulsar.Client, topic: str) -> None:
    low = join(client, topic, key_shared_policy=sticky((0, 32767)))
    send_keyed(client.create_producer(topic), 100, 50)
    some = by_key(payloads(drain(low, 400)))
    assert 0 < len(some) < 50
    high = join(client, topic, key_shared_policy=sticky((32768, 65535)))
    rest = by_key(payloads(drain(high, 400)))
    assert not some.keys() & rest.keys()
    assert len(some) + len(rest) == 50


def test_messages_without_a_key(client: pulsar.Client, topic: str) -> None:
    """Each is a key of its own, from its producer's name and sequence id."""
    consumers = [join(client, topic) for _ in range(3)]
    producer = client.create_producer(topic)
    for number in range(150):
        producer.send(b"%d" % number)
    shares = [payloads(drain(consumer, 400)) for consumer in consumers]
    assert all(shares)
    assert sorted(one for share in shares for one in share) == sorted(
        b"%d" % number for number in range(150)
    )


def test_a_consumer_without_room_holds_up_its_own_keys_only(
    broker: BrokerProcess, topic: str
) -> None:
    """The front of the log may belong to somebody who is busy; others get what is theirs behind it."""
    with RawClient(broker.port_of(topic)) as busy, RawClient(broker.port_of(topic)) as idle:
        for raw, first in ((busy, 0), (idle, 32768)):
            meta = pb.KeySharedMeta(keySharedMode=pb.STICKY)
            meta.hashRanges.add(start=first, end=first + 32767)
            subscribe(raw, topic, "s", pb.CommandSubscribe.Key_Shared, keySharedMeta=meta)
        busy.request(pb.CommandProducer(topic=topic, producer_id=1, producer_name="raw"))
        for number in range(64):
            busy.send(1, message_metadata(number, partition_key=f"k{number}"), b"x")
        expected = [n for n in range(64) if key_slot(f"k{n}".encode()) >= 32768]
        idle.say(pb.CommandFlow(consumer_id=0, messagePermits=1000))
        its_own = idle.deliveries(len(expected))
        assert [delivery.entry_id for delivery in its_own] == expected
        assert not busy.heard_of(Delivery)
        busy.say(pb.CommandFlow(consumer_id=0, messagePermits=1000))
        others = [delivery.entry_id for delivery in busy.deliveries(64 - len(expected))]
        assert sorted([*expected, *others]) == list(range(64))


def test_a_crash_keeps_the_order(own_broker: Any, connect: Any, topic: str) -> None:
    broker: BrokerProcess = own_broker()
    client = connect(broker)
    consumers = [join(client, topic) for _ in range(2)]
    send_keyed(client.create_producer(topic), 100, 10)
    acked: list[bytes] = []
    for consumer in consumers:
        for message in drain(consumer)[:25]:
            consumer.acknowledge(message)
            acked.append(message.data())
        consumer.close()
    broker.restart()
    consumer = join(connect(broker), topic)
    found = by_key([*acked, *payloads(receive(consumer, 100 - len(acked)))])
    assert all(numbers == list(range(10)) for numbers in found.values())
    assert silent(consumer)


@pytest.mark.parametrize("in_order", [True, False], ids=["in order", "out of order"])
def test_a_key_waits_for_its_old_consumer_unless_order_does_not_matter(
    client: pulsar.Client, topic: str, in_order: bool
) -> None:
    policy = ConsumerKeySharedPolicy(
        KeySharedMode.AutoSplit, allow_out_of_order_delivery=not in_order
    )
    first = join(client, topic, key_shared_policy=policy)
    producer = client.create_producer(topic)
    send_keyed(producer, 30, 30)
    held = receive(first, 30)
    second = join(client, topic, key_shared_policy=policy)
    send_keyed(producer, 30, 30)
    if in_order:
        assert silent(second)
        for message in held:
            first.acknowledge(message)
    moved = by_key(payloads(drain(second, 400)))
    assert 0 < len(moved) < 30
