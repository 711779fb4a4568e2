"""PIP-107: a chunked message is one message, whatever happens between its chunks."""

from __future__ import annotations

import re
import threading
import time
from typing import Any

import pulsar
import pytest
from compat.broker_process import BrokerProcess
from compat.raw_client import RawClient, message_metadata, stats, subscribe
from compat.talk import RECEIVE_MS, drain, id_tuple, payloads, receive, send_all, silent
from pulsar import ConsumerType, InitialPosition

from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import Receipt

MIB = 1024 * 1024
SETTINGS = {"max_message_size": MIB}
TYPES = [
    ConsumerType.Exclusive,
    ConsumerType.Shared,
    ConsumerType.Failover,
    ConsumerType.KeyShared,
]


def large(letter: int, size: int = 10 * MIB) -> bytes:
    """So many bytes that differ from place to place, and from one message to the next."""
    block = bytes((letter + number) % 251 for number in range(1021))
    return (block * (size // len(block) + 1))[:size]


def chunking(client: pulsar.Client, topic: str, **options: Any) -> pulsar.Producer:
    return client.create_producer(topic, chunking_enabled=True, **options)


@pytest.mark.parametrize("consumer_type", TYPES, ids=lambda t: t.name)
def test_ten_mebibytes(client: pulsar.Client, topic: str, consumer_type: ConsumerType) -> None:
    consumer = client.subscribe(topic, "s", consumer_type=consumer_type)
    producer = chunking(client, topic)
    sent = [large(1), b"small", large(2, 3 * MIB)]
    ids = [producer.send(data) for data in sent]
    messages = receive(consumer, 3)
    assert payloads(messages) == sent
    assert [message.message_id() for message in messages] == ids
    for message in messages:
        consumer.acknowledge(message)
    consumer.close()
    assert silent(client.subscribe(topic, "s", consumer_type=consumer_type))


@pytest.mark.parametrize("queue_size", [1, 3, 1000])
def test_a_consumer_with_little_room(client: pulsar.Client, topic: str, queue_size: int) -> None:
    consumer = client.subscribe(topic, "s", receiver_queue_size=queue_size)
    producer = chunking(client, topic)
    sent = [large(number, 3 * MIB) for number in range(5)]
    for data in sent:
        producer.send(data)
    assert payloads(receive(consumer, 5)) == sent


@pytest.mark.parametrize(
    "consumer_type", [ConsumerType.Exclusive, ConsumerType.Shared], ids=lambda t: t.name
)
def test_two_producers_at_once(
    client: pulsar.Client, connect: Any, broker: BrokerProcess, topic: str, consumer_type: Any
) -> None:
    consumers = [client.subscribe(topic, "s", consumer_type=consumer_type)]
    if consumer_type == ConsumerType.Shared:
        consumers.append(connect(broker).subscribe(topic, "s", consumer_type=consumer_type))
    sent = {
        (who, number): large(100 * who + number, 10 * MIB) for who in (0, 1) for number in (0, 1)
    }

    def publish(who: int) -> None:
        producer = chunking(connect(broker), topic, producer_name=f"p{who}")
        for number in (0, 1):
            producer.send(sent[who, number])

    threads = [threading.Thread(target=publish, args=(who,)) for who in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found: list[bytes] = []
    for consumer in consumers:
        for message in drain(consumer, 1000):
            found.append(message.data())
            consumer.acknowledge(message)
        consumer.close()
    assert sorted(found) == sorted(sent.values())
    assert silent(client.subscribe(topic, "s", consumer_type=consumer_type))


# -- chunks by hand: exactly these, in exactly this order ------------------------------------------


class ChunkSender:
    """A producer that sends chunks one by one, as the official one would, and knows how to repeat
    itself."""

    def __init__(self, raw: RawClient, topic: str, producer_id: int = 1, name: str = "raw") -> None:
        self._raw, self._id, self._name = raw, producer_id, name
        raw.request(pb.CommandProducer(topic=topic, producer_id=producer_id, producer_name=name))

    def send(self, sequence_id: int, chunk_id: int, count: int, letter: int = 0) -> Receipt:
        """The payload of a chunk is eight bytes that name it."""
        payload = b"%02d:%02d:%02d" % (sequence_id, chunk_id, letter)
        metadata = message_metadata(
            sequence_id,
            uuid=f"{self._name}-{sequence_id}",
            num_chunks_from_msg=count,
            total_chunk_msg_size=len(payload) * count,
            chunk_id=chunk_id,
        )
        metadata.producer_name = self._name
        # The raw client sends one producer's publish time; a second attempt has another.
        metadata.publish_time += letter
        return self._raw.send(self._id, metadata, payload, is_chunk=True)

    def whole(self, sequence_id: int, count: int, letter: int = 0) -> list[Receipt]:
        return [self.send(sequence_id, chunk_id, count, letter) for chunk_id in range(count)]


def assembled(sequence_id: int, count: int, letter: int = 0) -> bytes:
    return b"".join(b"%02d:%02d:%02d" % (sequence_id, n, letter) for n in range(count))


@pytest.mark.parametrize("consumer_type", TYPES, ids=lambda t: t.name)
def test_interleaved_chunks(
    broker: BrokerProcess, client: pulsar.Client, topic: str, consumer_type: ConsumerType
) -> None:
    """Whole messages come, in the order of their last chunks; acking one leaves the other alone."""
    consumer = client.subscribe(topic, "s", consumer_type=consumer_type)
    with RawClient(broker.port_of(topic)) as raw:
        a, b = ChunkSender(raw, topic, 1, "a"), ChunkSender(raw, topic, 2, "b")
        for sender, chunk_id in ((a, 0), (b, 0), (a, 1), (b, 1), (b, 2)):
            sender.send(5 if sender is a else 6, chunk_id, 3)
        first = consumer.receive(RECEIVE_MS)
        assert first.data() == assembled(6, 3)
        consumer.acknowledge(first)
        a.send(5, 2, 3)
        second = consumer.receive(RECEIVE_MS)
        assert second.data() == assembled(5, 3)
    consumer.close()
    again = client.subscribe(topic, "s", consumer_type=consumer_type)
    assert payloads(drain(again)) == [assembled(5, 3)]


def test_a_cumulative_ack_leaves_a_message_that_is_not_whole_yet(
    broker: BrokerProcess, client: pulsar.Client, topic: str
) -> None:
    """The order of messages is that of their last chunks: one that ends later is not behind us."""
    consumer = client.subscribe(topic, "s")
    with RawClient(broker.port_of(topic)) as raw:
        a, b = ChunkSender(raw, topic, 1, "a"), ChunkSender(raw, topic, 2, "b")
        a.send(5, 0, 2)
        b.whole(6, 2)
        message = consumer.receive(RECEIVE_MS)
        assert message.data() == assembled(6, 2)
        consumer.acknowledge_cumulative(message)
        consumer.close()
        a.send(5, 1, 2)
    again = client.subscribe(topic, "s")
    assert payloads(drain(again)) == [assembled(5, 2)]


@pytest.mark.parametrize("consumer_type", TYPES, ids=lambda t: t.name)
def test_an_orphan_chunk_stalls_nobody(
    broker: BrokerProcess, client: pulsar.Client, topic: str, consumer_type: ConsumerType
) -> None:
    consumer = client.subscribe(topic, "s", consumer_type=consumer_type, receiver_queue_size=1)
    with RawClient(broker.port_of(topic)) as raw:
        sender = ChunkSender(raw, topic)
        sender.send(1, 1, 3)  # a middle without a beginning
        sender.send(2, 2, 3)  # an end without anything
        sender.send(3, 0, 3)  # a beginning without an end
    producer = client.create_producer(topic)
    sent = [b"%d" % number for number in range(20)]
    send_all(producer, sent)
    assert payloads(receive(consumer, 20)) == sent


def test_a_reader_comes_to_its_end_though_a_message_was_never_finished(
    broker: BrokerProcess, client: pulsar.Client, topic: str
) -> None:
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    last = client.create_producer(topic).send(b"0")
    with RawClient(broker.port_of(topic)) as raw:
        ChunkSender(raw, topic).send(3, 0, 3)
        ChunkSender(raw, topic, 2, "other").send(4, 1, 3)
    assert reader.has_message_available()
    assert reader.read_next(RECEIVE_MS).data() == b"0"
    assert not reader.has_message_available()
    assert client.subscribe(topic, "s").get_last_message_id() == last


# -- ids -------------------------------------------------------------------------------------------


def test_a_seek_to_its_id_brings_it_back_whole(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", start_message_id_inclusive=True)
    producer = chunking(client, topic)
    sent = [b"before", large(1), b"between", large(2, 3 * MIB), b"after"]
    ids = [producer.send(data) for data in sent]
    receive(consumer, 5)
    for target in (1, 3, 2, 1):
        consumer.seek(ids[target])
        assert payloads(receive(consumer, 5 - target)) == sent[target:], target
        # A serialised id keeps both ends, a plain one only the last chunk: all mean the message.
        consumer.seek(pulsar.MessageId.deserialize(ids[target].serialize()))
        assert payloads(receive(consumer, 5 - target)) == sent[target:], target
        ledger, entry, batch, partition = id_tuple(ids[target])
        consumer.seek(pulsar.MessageId(partition, ledger, entry, batch))
        assert payloads(receive(consumer, 5 - target)) == sent[target:], target


def test_a_seek_behind_its_id(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = chunking(client, topic)
    sent = [large(1), b"next", large(2, 3 * MIB)]
    ids = [producer.send(data) for data in sent]
    receive(consumer, 3)
    consumer.seek(ids[0])
    assert payloads(receive(consumer, 2)) == sent[1:]


def test_a_seek_to_a_time_between_its_chunks(
    broker: BrokerProcess, client: pulsar.Client, topic: str
) -> None:
    """It came when its last chunk came, which is not before that time: so it comes, whole."""
    consumer = client.subscribe(topic, "s")
    with RawClient(broker.port_of(topic)) as raw:
        sender = ChunkSender(raw, topic)
        sender.whole(1, 2)
        sender.send(2, 0, 3)
        now = time.time_ns() // 1_000_000
        while time.time_ns() // 1_000_000 <= now + 1:
            pass
        sender.send(2, 1, 3)
        sender.send(2, 2, 3)
        sender.whole(3, 2)
    expected = [assembled(2, 3), assembled(3, 2)]
    assert payloads(receive(consumer, 3))[1:] == expected
    consumer.seek(now + 1)
    assert payloads(receive(consumer, 2)) == expected
    assert silent(consumer)


@pytest.mark.parametrize("inclusive", [False, True], ids=["after", "at"])
def test_a_reader_starts_at_its_id(client: pulsar.Client, topic: str, inclusive: bool) -> None:
    producer = chunking(client, topic)
    sent = [b"before", large(1), b"after"]
    ids = [producer.send(data) for data in sent]
    for start in (ids[1], pulsar.MessageId.deserialize(ids[1].serialize())):
        reader = client.create_reader(topic, start, start_message_id_inclusive=inclusive)
        expected = sent[1:] if inclusive else sent[2:]
        assert [reader.read_next(RECEIVE_MS).data() for _ in expected] == expected
        assert not reader.has_message_available()


def test_after_a_restart_an_id_still_means_the_whole_message(
    own_broker: Any, connect: Any, topic: str
) -> None:
    """Found again on disk: for seeks, and for acks of an id that was stored."""
    broker: BrokerProcess = own_broker(**SETTINGS)
    client = connect(broker)
    client.subscribe(topic, "acks").close()
    client.subscribe(topic, "seeks").close()
    producer = chunking(client, topic)
    sent = [large(1, 5 * MIB), b"between", large(2, 3 * MIB)]
    ids = [producer.send(data) for data in sent]
    stored = ids[0].serialize()
    broker.restart()
    client = connect(broker)
    consumer = client.subscribe(topic, "acks")
    consumer.acknowledge(pulsar.MessageId.deserialize(stored))
    consumer.close()
    assert payloads(drain(client.subscribe(topic, "acks"), 500)) == sent[1:]
    consumer = client.subscribe(topic, "seeks", start_message_id_inclusive=True)
    ledger, entry, batch, partition = id_tuple(ids[0])
    consumer.seek(pulsar.MessageId(partition, ledger, entry, batch))
    assert payloads(receive(consumer, 3)) == sent


# -- giving back, and again ------------------------------------------------------------------------


def test_a_negative_ack_brings_back_all_of_it(client: pulsar.Client, topic: str) -> None:
    """Trap 10. The official client names the last chunk only."""
    consumer = client.subscribe(
        topic, "s", consumer_type=ConsumerType.Shared, negative_ack_redelivery_delay_ms=100
    )
    producer = chunking(client, topic)
    sent = large(3, 3 * MIB)
    producer.send(sent)
    for count in range(3):
        message = consumer.receive(RECEIVE_MS)
        assert message.data() == sent
        assert message.redelivery_count() == count
        consumer.negative_acknowledge(message)
    consumer.acknowledge(consumer.receive(RECEIVE_MS))
    consumer.close()
    assert silent(client.subscribe(topic, "s", consumer_type=ConsumerType.Shared))


def test_a_consumer_that_leaves_hands_over_all_of_it(client: pulsar.Client, topic: str) -> None:
    consumers = [client.subscribe(topic, "s", consumer_type=ConsumerType.Shared) for _ in range(2)]
    producer = chunking(client, topic)
    sent = [large(number, 3 * MIB) for number in range(6)]
    for data in sent:
        producer.send(data)
    shares = [drain(consumer, 500) for consumer in consumers]
    assert sorted(payloads([*shares[0], *shares[1]])) == sorted(sent)
    assert all(shares)
    for message in shares[1]:
        consumers[1].acknowledge(message)
    consumers[0].close()
    assert sorted(payloads(drain(consumers[1], 500))) == sorted(payloads(shares[0]))


# -- the broker is killed --------------------------------------------------------------------------


def test_killed_between_chunks(own_broker: Any, connect: Any, topic: str) -> None:
    """The producer resends what it has no receipt for. The message arrives once, and so does what is
    behind it."""
    broker: BrokerProcess = own_broker(**SETTINGS)
    client = connect(broker)
    types = (ConsumerType.Exclusive, ConsumerType.Shared)
    live = [client.subscribe(topic, f"live {t.name}", consumer_type=t) for t in types]
    for t in types:
        client.subscribe(topic, f"late {t.name}", consumer_type=t).close()
    with RawClient(broker.port_of(topic)) as raw:
        sender = ChunkSender(raw, topic)
        sender.whole(1, 2)
        for consumer in live:
            assert consumer.receive(RECEIVE_MS).data() == assembled(1, 2)
        for chunk_id in range(5):
            sender.send(2, chunk_id, 8)
        broker.kill()
    broker.start()
    with RawClient(broker.port_of(topic)) as raw:
        sender = ChunkSender(raw, topic)
        for chunk_id in range(3, 8):  # 3 and 4 were stored; their receipts were lost on the way
            sender.send(2, chunk_id, 8)
        sender.whole(3, 2)
    late = [client.subscribe(topic, f"late {t.name}", consumer_type=t) for t in types]
    for consumer in (*live, *late):
        found = [consumer.receive(RECEIVE_MS).data()]
        while found[-1] != assembled(3, 2):
            found.append(consumer.receive(RECEIVE_MS).data())
        assert found[-2:] == [assembled(2, 8), assembled(3, 2)]
        assert found[:-2] in ([], [assembled(1, 2)])  # not acked, so it may come again
    assert all(silent(consumer) for consumer in (*live, *late))


def test_a_producer_that_begins_again(own_broker: Any, connect: Any, topic: str) -> None:
    """A new process with the same name sends the message anew, from its first chunk: the same uuid,
    other bytes. What is left of the first attempt is in nobody's way, however far it got."""
    broker: BrokerProcess = own_broker(**SETTINGS)
    client = connect(broker)
    topics = {f"{topic}-{chunks}": chunks for chunks in (1, 2, 5)}
    live = {name: client.subscribe(name, "live") for name in topics}
    for name, chunks in topics.items():
        client.subscribe(name, "late").close()
        with RawClient(broker.port_of(name)) as raw:
            sender = ChunkSender(raw, name)
            for chunk_id in range(chunks):
                sender.send(2, chunk_id, 6)
    broker.restart()
    for name in topics:
        with RawClient(broker.port_of(name)) as raw:
            ChunkSender(raw, name).whole(2, 6, letter=7)
        client.create_producer(name).send(b"behind")
        for consumer in (live[name], client.subscribe(name, "late")):
            assert payloads(receive(consumer, 2)) == [assembled(2, 6, 7), b"behind"]


@pytest.mark.parametrize("deduplication", [False, True], ids=["plain", "dedup"])
def test_killed_while_the_official_producer_sends_chunks(
    own_broker: Any, connect: Any, topic: str, deduplication: bool
) -> None:
    broker: BrokerProcess = own_broker(max_message_size=64 * 1024, deduplication=deduplication)
    client = connect(broker)
    live = client.subscribe(topic, "live")
    producer = chunking(client, topic, producer_name="me", max_pending_messages=2000)
    with RawClient(broker.port_of(topic)) as raw:
        subscribe(raw, topic, "watch")
        sent = [large(number, 10 * MIB) for number in range(2)]
        receipts = threading.Semaphore(0)
        for data in sent:
            producer.send_async(data, lambda *_: receipts.release())
            # In the middle of it: some chunks are stored, most are not.
            while stats(raw).msgBacklog < 20:
                pass
            broker.kill()
            break
    broker.start()
    producer.send_async(sent[1], lambda *_: receipts.release())
    for _ in sent:
        assert receipts.acquire(timeout=20)
    late = client.subscribe(topic, "late", initial_position=InitialPosition.Earliest)
    for consumer in (live, late):
        found = payloads(drain(consumer, 2000))
        if not deduplication:
            # On a slow machine all of it may be stored before the kill, and its receipt lost: then
            # the client sends it again, and nobody looks for duplicates.
            found = list(dict.fromkeys(found))
        assert [data[:8] for data in found] == [data[:8] for data in sent]
        assert found == sent


def test_cut_off_while_the_official_consumer_gets_chunks(
    own_broker: Any, connect: Any, topic: str
) -> None:
    """By a crash, or by a seek. The client keeps what it had of the message, and would drop all of it
    when it begins again."""
    # 640 chunks take two seconds: time to be in the middle of it.
    broker: BrokerProcess = own_broker(max_message_size=64 * 1024, dispatch_rate_messages=300)
    client = connect(broker)
    client.subscribe(topic, "s").close()
    sent = large(1, 40 * MIB)
    producer = chunking(client, topic, max_pending_messages=2000)
    producer.send(sent)
    producer.close()
    for is_crash in (True, False):
        before = messages_out(broker, topic)
        consumer = client.subscribe(topic, "s")
        while (delivered := messages_out(broker, topic) - before) < 20:
            pass
        assert delivered < 600, "too late to be in the middle of it"
        if is_crash:
            broker.restart()
        else:
            consumer.seek(pulsar.MessageId.earliest)
        assert consumer.receive(RECEIVE_MS).data() == sent
        consumer.close()


def messages_out(broker: BrokerProcess, topic: str) -> int:
    _, text = broker.rest("GET", "/metrics/")
    pattern = rb"pulsar_out_messages_total\{[^}]*%s[^}]*\} ([0-9.e+]+)" % topic.encode()
    found = re.search(pattern, text)
    return int(float(found[1])) if found else 0
