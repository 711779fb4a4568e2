"""Seeks without end, to everywhere, while messages are published and acked: each lands exactly.

After a seek has succeeded the first message is the one that was asked for and the rest follow without a
gap: so nothing from before the seek appears, and no ack from before it has taken anything away. All of it is
written down and judged by `milepost.testing.checker`.

The official client (4.2.0) can empty a queue that holds the target already, if the calling thread sleeps
through the 100 ms that the client pauses before it comes back (docs/decisions/0007). Then the first message
comes from behind the target, never from before it, and the same seek again must land. A whole storm may
see that once.
"""

from __future__ import annotations

import bisect
import random
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import pulsar
from compat.broker_process import BrokerProcess
from compat.raw_client import RawClient, subscribe
from compat.talk import RECEIVE_MS, batching, send_all, send_batch
from pulsar import ConsumerType
from stage.counts import campaign_count

from milepost.testing import checker
from milepost.testing.checker import History
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import Delivery
from milepost.wire.metadata import split_broker_entry

SEED = 20_240_194
SEEKS = campaign_count("MILEPOST_SEEKS", 40, 1_000)


class Target(NamedTuple):
    """Where a seek goes, and the indexes of which one must be the first to come."""

    argument: Any
    first: int
    last: int
    """Above `first` only where the end is meant, which moves while it is asked for."""


class Publisher:
    """Publishes single messages and batches; the payload of a message begins with its index."""

    def __init__(
        self,
        broker: BrokerProcess,
        client: pulsar.Client,
        topic: str,
        history: History,
        padding: bytes,
    ) -> None:
        self._padding = padding
        self._topic = topic
        self.history = history
        self._raw = RawClient(broker.port_of(topic))
        subscribe(self._raw, topic, "times", pb.CommandSubscribe.Exclusive, permits=1 << 30)
        self._single = client.create_producer(topic)
        self._batched = batching(client, topic)
        self._random = random.Random(SEED)
        self.ids: list[Any] = []
        self.times: list[int] = []
        """The broker's time of each message. Invariant: as long as `ids`, once both are grown."""
        self.begun = 0
        """Messages that may be on the topic."""

    @property
    def known(self) -> int:
        """Messages that are on the topic for certain."""
        return len(self.times)

    def publish(self) -> None:
        """One message, or one batch."""
        count = self._random.choice((1, 1, 1, 2, 7, 20))
        payloads = [
            b"%d %s" % (index, self._padding) for index in range(self.begun, self.begun + count)
        ]
        asked = [
            self.history.invoke("publish", topic=self._topic, message=str(index), by="publisher")
            for index in range(self.begun, self.begun + count)
        ]
        self.begun += count
        is_batch = count > 1
        send = send_batch if is_batch else send_all
        ids = send(self._batched if is_batch else self._single, payloads)
        broker_entry, _ = split_broker_entry(self._raw.expect(Delivery).entry)
        assert broker_entry is not None
        assert broker_entry.index is not None
        assert broker_entry.timestamp is not None
        for number, (n, one) in enumerate(zip(asked, ids, strict=True), 1 - count):
            self.history.ok(n, id=place_of(one), index=broker_entry.index + number)
        self.ids += ids
        self.times += [broker_entry.timestamp] * count

    def close(self) -> None:
        self._raw.close()
        self._single.close()
        self._batched.close()

    def target(self, chooser: random.Random, *, inclusive: bool) -> Target:
        kind = chooser.choice(("id", "id", "id", "time", "time", "earliest", "latest", "future"))
        known = self.known
        if kind == "earliest":
            return Target(pulsar.MessageId.earliest, 0, 0)
        if kind == "latest":
            return Target(pulsar.MessageId.latest, known, -1)
        if kind == "future":
            return Target(self.times[known - 1] + 3_600_000, known, -1)
        index = chooser.randrange(max(0, known - 300), known)
        if kind == "time":
            first = bisect.bisect_left(self.times, self.times[index], 0, known)
            return Target(self.times[index], first, first)
        first = index if inclusive else index + 1
        return Target(self.ids[index], first, first)


class Seeker(threading.Thread):
    """One consumer or reader that seeks, notes what comes, acks some of it, and seeks again."""

    def __init__(
        self,
        publisher: Publisher,
        group: dict[str, str],
        seed: int,
        stop: threading.Event,
        seek: Callable[[Any], None],
        receive: Callable[[int], pulsar.Message],
        *,
        inclusive: bool,
        ack: Callable[[random.Random, list[pulsar.Message]], None] | None = None,
    ) -> None:
        super().__init__(daemon=True)
        self._publisher, self.history = publisher, publisher.history
        self._group = group
        """The fields of its events that say whose they are."""
        self._random = random.Random(seed)
        self._stop_asked = stop
        self._seek, self._receive, self._ack = seek, receive, ack
        self._inclusive = inclusive
        self.seeks = 0
        self.messages = 0
        self.queues_lost = 0
        """Seeks after which the client threw away what it had been sent."""
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self._stop_asked.is_set():
                self._step()
        except BaseException as error:
            self.failure = error
            self._stop_asked.set()

    def _step(self) -> None:
        target = self._publisher.target(self._random, inclusive=self._inclusive)
        last = self._move(target)
        received: list[pulsar.Message] = []
        for number in range(self._random.choice((0, 1, 1, 5, 30))):
            message = self._receive(RECEIVE_MS)
            if not number and _index_of(message) > last:
                self.queues_lost += 1
                self._move(target)
                message = self._receive(RECEIVE_MS)
            self.history.note(
                "receive",
                **self._group,
                message=str(_index_of(message)),
                index=_index_of(message),
                id=place_of(message.message_id()),
            )
            received.append(message)
        self.seeks += 1
        self.messages += len(received)
        if self._ack is not None and received:
            self._ack(self._random, received)

    def _move(self, target: Target) -> int:
        """Seek; the last index that may come first."""
        asked = self.history.invoke("seek", **self._group, index=target.first)
        self._seek(target.argument)
        last = target.last if target.last >= 0 else self._publisher.begun
        self.history.ok(asked, last=last)
        return last


def _index_of(message: pulsar.Message) -> int:
    return int(message.data().partition(b" ")[0])


def place_of(message_id: Any) -> list[int]:
    return [message_id.ledger_id(), message_id.entry_id(), message_id.batch_index()]


def consumer_acks(
    consumer: pulsar.Consumer, *, cumulative: bool
) -> Callable[[random.Random, list[pulsar.Message]], None]:
    def ack(chooser: random.Random, messages: list[pulsar.Message]) -> None:
        kind = chooser.choice(("none", "all", "some", "cumulative"))
        if kind == "cumulative" and cumulative:
            consumer.acknowledge_cumulative(messages[-1])
        elif kind == "all":
            for message in messages:
                consumer.acknowledge(message)
        elif kind == "some":
            for message in messages[:: chooser.choice((1, 2, 3))]:
                consumer.acknowledge(message)

    return ack


def storm(
    broker: BrokerProcess, connect: Any, topic: str, seeks: int, padding: bytes = b""
) -> dict[str, Seeker]:
    """Until each has sought so often: how long that takes is the machine's affair."""
    history = History()
    publisher = Publisher(broker, connect(broker), topic, history, padding)
    while publisher.known < 200:
        publisher.publish()
    stop = threading.Event()
    seekers: dict[str, Seeker] = {}
    for number, (name, consumer_type) in enumerate(
        (("Exclusive", ConsumerType.Exclusive), ("Shared", ConsumerType.Shared))
    ):
        consumer = connect(broker).subscribe(
            topic,
            name,
            consumer_type=consumer_type,
            start_message_id_inclusive=bool(number),
            batch_index_ack_enabled=True,
        )
        seekers[name] = Seeker(
            publisher,
            {"topic": topic, "sub": name, "by": name},
            SEED + number,
            stop,
            consumer.seek,
            consumer.receive,
            inclusive=bool(number),
            ack=consumer_acks(consumer, cumulative=consumer_type == ConsumerType.Exclusive),
        )
    for inclusive in (False, True):
        name = f"reader {'at' if inclusive else 'after'}"
        reader = connect(broker).create_reader(
            topic, pulsar.MessageId.earliest, start_message_id_inclusive=inclusive
        )
        seekers[name] = Seeker(
            publisher,
            {"topic": topic, "sub": name, "by": name},
            SEED + 10 + inclusive,
            stop,
            reader.seek,
            reader.read_next,
            inclusive=inclusive,
        )
    for name, seeker in seekers.items():
        history.note("join", topic=topic, sub=name, by=name, alone=True, ordered=True)
        seeker.start()
    while min(seeker.seeks for seeker in seekers.values()) < seeks and not stop.wait(0.003):
        publisher.publish()
    stop.set()
    for seeker in seekers.values():
        while seeker.is_alive():  # those at the end wait for one more message
            publisher.publish()
            seeker.join(0.05)
    publisher.close()
    return seekers


def judge(seekers: dict[str, Seeker]) -> None:
    for name, seeker in seekers.items():
        if seeker.failure is not None:
            raise AssertionError(f"{name}, seek {seeker.seeks}") from seeker.failure
        assert seeker.messages > seeker.seeks
    (history,) = {seeker.history for seeker in seekers.values()}
    assert checker.judge(history.lines()).anomalies == []
    assert sum(seeker.queues_lost for seeker in seekers.values()) <= 1


def test_a_seek_storm(broker: BrokerProcess, connect: Any, topic: str) -> None:
    judge(storm(broker, connect, topic, SEEKS))


def test_a_seek_storm_on_the_disk(own_broker: Any, connect: Any, topic: str) -> None:
    """Little is kept in memory: seeks overtake reads that are under way, and cross ledgers."""
    broker = own_broker(tail_cache_size=0, journal_size_max=1 << 20, ledger_entries_max=100)
    seekers = storm(broker, connect, topic, SEEKS // 2, padding=b"x" * 3000)
    judge(seekers)
    assert len(list((broker.data_of(topic) / "ledgers").glob("**/*"))) > 3
