"""Chunked messages with everything else, with the official client: a smaller matrix than the raw one.

Queues that are smaller than a message, limits of unacked messages that are, and in the middle of it something
happens. Whatever it is: every message comes whole, its ack covers all of it, and nothing is left over.
`scenarios/test_chunk_matrix.py` has the cells in which frames stop exactly where they should.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pulsar
import pytest
from compat.administer import path_of, stats, until
from compat.broker_process import BrokerProcess
from compat.raw_client import RawClient
from compat.talk import RECEIVE_MS, payloads, receive, silent
from compat.test_chunks import TYPES, ChunkSender, chunking
from pulsar import ConsumerType

KIB = 1024
CHUNKS = 6
# Fewer than a message has chunks.
SETTINGS = {
    "max_message_size": 64 * KIB,
    "max_unacked_messages_per_consumer": 4,
    "max_unacked_messages_per_subscription": 5,
}
QUEUES = [1, 3]

Connect = Callable[..., pulsar.Client]


def large(letter: int) -> bytes:
    """A message of six chunks, of bytes that differ from place to place."""
    block = bytes((letter + number) % 251 for number in range(1021))
    return (block * (CHUNKS * 64 * KIB // len(block)))[: CHUNKS * 64 * KIB - 10_000]


SENT = [large(1), b"small", large(2), large(3), b"last"]


class Cell:
    """One topic, one subscription, and who is there."""

    def __init__(
        self, broker: BrokerProcess, connect: Connect, topic: str, kind: ConsumerType, queue: int
    ) -> None:
        self.broker, self.connect, self.topic, self.kind, self.queue = (
            broker,
            connect,
            topic,
            kind,
            queue,
        )
        self.consumers: list[Any] = []
        self.join()

    def join(self) -> None:
        """A client of its own, as an application of its own has."""
        self.consumers.append(
            self.connect(self.broker).subscribe(
                self.topic, "s", consumer_type=self.kind, receiver_queue_size=self.queue
            )
        )

    # -- what happens ------------------------------------------------------------------------------

    def nothing(self) -> None:
        pass

    def others_join(self) -> None:
        """Enough that one of them takes the key's slot, most of the time."""
        if self.kind != ConsumerType.Exclusive:
            for _ in range(3):
                self.join()

    def it_leaves(self) -> None:
        self.consumers.pop(0).close()
        self.join()

    def all_is_given_back(self) -> None:
        self.consumers[0].redeliver_unacknowledged_messages()

    def it_is_sought_again(self) -> None:
        self.consumers[0].seek(pulsar.MessageId.earliest)

    def the_broker_is_killed(self) -> None:
        self.broker.restart(kill=True)

    # -- and then ----------------------------------------------------------------------------------

    def consume(self, expected: list[bytes]) -> list[bytes]:
        """Receive and ack with all of them until each message has come."""
        found: list[bytes] = []
        deadline = time.monotonic() + 2 * RECEIVE_MS / 1000
        while set(found) != set(expected):
            assert time.monotonic() < deadline, f"{len(set(found))} of {len(expected)} came"
            for consumer in self.consumers:
                try:
                    message = consumer.receive(50)
                except pulsar.Timeout:
                    continue
                assert message.data() in expected, f"{len(message.data())} bytes are no message"
                found.append(message.data())
                consumer.acknowledge(message)
        return found

    def backlog(self) -> int:
        count: int = stats(self.broker, self.topic)["subscriptions"]["s"]["msgBacklog"]
        return count


EVENTS = {
    name: getattr(Cell, name)
    for name in (
        "nothing",
        "others_join",
        "it_leaves",
        "all_is_given_back",
        "it_is_sought_again",
        "the_broker_is_killed",
    )
}


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_every_message_comes_whole_whatever_happens_in_the_middle(
    broker: BrokerProcess, connect: Connect, topic: str, kind: ConsumerType, event: str
) -> None:
    number = TYPES.index(kind) + list(EVENTS).index(event)
    cell = Cell(broker, connect, topic, kind, QUEUES[number % len(QUEUES)])
    producer = chunking(connect(broker), topic)
    for data in SENT:
        producer.send(data, partition_key="k")
    EVENTS[event](cell)
    cell.consume(SENT)
    # What comes twice is acked too, and what was acked does not come again.
    until(lambda: _acked_all(cell), "all is acked")
    cell.consumers[0].close()
    again = connect(broker).subscribe(topic, "s", consumer_type=kind)
    assert silent(again)


def _acked_all(cell: Cell) -> bool:
    for consumer in cell.consumers:
        while True:
            try:
                message = consumer.receive(1)
            except pulsar.Timeout:
                break
            assert message.data() in SENT
            consumer.acknowledge(message)
    return cell.backlog() == 0


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
@pytest.mark.parametrize("way", ["skip_all", "skip/1"])
def test_what_is_skipped_in_part_leaves_no_hole(
    broker: BrokerProcess, client: pulsar.Client, topic: str, kind: ConsumerType, way: str
) -> None:
    """Its last chunk comes afterwards: there is no message any more, and nothing to ack."""
    consumer = client.subscribe(topic, "s", consumer_type=kind)
    with RawClient(broker.port_of(topic)) as raw:
        sender = ChunkSender(raw, topic)
        sender.send(1, 0, 3)
        sender.send(1, 1, 3)
        status, answer = broker.rest("POST", f"{path_of(topic)}/subscription/s/{way}")
        assert status == 204, (status, answer)
        sender.send(1, 2, 3)
        sender.whole(2, 3)
    (message,) = receive(consumer, 1)
    assert payloads([message]) == [b"".join(b"02:%02d:00" % number for number in range(3))]
    consumer.acknowledge(message)
    until(lambda: stats(broker, topic)["subscriptions"]["s"]["msgBacklog"] == 0, "all is acked")
