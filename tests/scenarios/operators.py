"""Operators, clients and a bad disk at once, by a seed, judged by what clients were told.

The judge knows no cursor. It keeps what was received, what was acked and what was answered, and asserts when
everything is quiet, before and after a restart,

- that every topic can be opened: nothing that was on its way when it was unloaded keeps it shut;
- that what had a receipt is there, and a chunked message with one for each chunk is whole (promises 1, 6);
- that no answered ack is undone, and that nothing is acked that nobody acked (promise 2);
- that whoever comes now gets everything that is left (and the numbers add up: the stage checks that).

Anything that is raised on the way, or answered as an internal error, fails the seed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Coroutine, Iterator
from functools import partial
from random import Random
from typing import Any, NamedTuple

from stage.acksets import pending_runs
from stage.frames import PRODUCER, batch, chunk, marker, message
from stage.stage import TOPIC, Stage
from stage.talk import (
    FAILOVER,
    KEY_SHARED,
    SHARED,
    ack_command,
    ask,
    error_of,
    subscribe,
    subscribe_command,
    text_of,
    wire_id,
)

from milepost.broker.operations import topic_lifecycle
from milepost.broker.policies.policy import Level
from milepost.broker.policies.table import POLICIES
from milepost.broker.subscription.broadcast import BroadcastGroup
from milepost.broker.subscription.subscription import Subscription
from milepost.broker.topic.topic import Topic
from milepost.errors import MilepostError
from milepost.positions.ackset import AckSet
from milepost.positions.ids import Position
from milepost.storage.ledgers.entry import BATCH, CHUNK, LAST_CHUNK, MARKER
from milepost.testing.peer import Loopback
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import Delivery, Receipt
from milepost.wire.metadata import chunk_info, split_entry

STEPS = 120
CLIENTS_MAX = 4
TYPES = {"shared": SHARED, "failover": FAILOVER, "keys": KEY_SHARED, "group": SHARED}
VERBS = {
    "produce": 3, "send": 8, "subscribe": 6, "flow": 7, "ack": 8, "redeliver": 3, "leave": 2, "hang_up": 2,
    "unload": 4, "deduplicate": 4, "limit": 1, "tick": 2, "checkpoint": 1, "fault": 4, "kill": 2, "slow": 1,
    "hold_journal": 1, "hold_catalog": 3, "hold_reads": 1, "let_go": 3, "change_one": 4, "turn": 4,
}  # fmt: skip


class Who(NamedTuple):
    """Whose progress it is."""

    subscription: str
    member: str = ""


class Client:
    def __init__(self, loopback: Loopback) -> None:
        self.loopback = loopback
        self.consumers: dict[int, Who] = {}
        self.deliveries: list[Delivery] = []
        self.asked: dict[int, tuple[Who, set[int]]] = {}
        """Acks that are not answered: whose they are, and of what."""


class Operators:
    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.stage = Stage(
            ledger_entries_max=random.choice([3, 1000]),
            tail_size=random.choice([0, 1 << 20]),
            deduplication=random.random() < 0.3,
        )
        self.clients: list[Client] = []
        self.work: list[Any] = []
        self.last_id = 0
        self.receipts: dict[Position, int] = {}
        """Where each message lies that had a receipt, and its sequence id."""
        self.acked: defaultdict[Who, set[int]] = defaultdict(set)
        self.answered: defaultdict[Who, set[int]] = defaultdict(set)

    def play(self) -> None:
        try:
            for _ in range(STEPS):
                (verb,) = self.random.choices([*VERBS], [*VERBS.values()])
                getattr(self, f"_{verb}")()
                if self.random.random() < 0.6:
                    self.stage.turn()
                self._hear()
            self._kill(loses=False)
            self._judge()
            self._come_back()
        finally:
            self.stage.close()

    # -- what they do ------------------------------------------------------------------------------

    def _client(self) -> Client:
        clients, random = self.clients, self.random
        if not clients or (len(clients) < CLIENTS_MAX and random.random() < 0.3):
            clients.append(Client(self.stage.client()))
        return random.choice(clients)

    def _next_id(self) -> int:
        self.last_id += 1
        return self.last_id

    def _produce(self) -> None:
        client = self._client().loopback
        # Messages of the stage name this producer, and its first.
        ask(client, pb.CommandProducer(topic=TOPIC, producer_id=0, producer_name=PRODUCER))

    def _send(self) -> None:
        client, number = self._client().loopback, self._next_id()
        producer = client.session.producers.get(0)
        if producer is None or producer.waiting_request_id is not None:
            return
        later = self.stage.clock.wall_ms() + 2000
        frames = self.random.choice(
            [
                [message(number, partition_key=self.random.choice("abc"))],
                [batch(number, 3)],
                [chunk(number, one, 3) for one in range(self.random.choice([2, 3, 3, 3]))],
                [message(number, deliver_at_time=later)],
                [marker(number)],
            ]
        )
        client.say(*frames)

    def _subscribe(self) -> None:
        client, consumer_id = self._client(), self._next_id()
        name = self.random.choice([*TYPES])
        who = Who(name, self.random.choice("ab") if name == "group" else "")
        client.consumers[consumer_id] = who
        ask(client.loopback, self._subscribe_command(who, consumer_id))

    def _subscribe_command(self, who: Who, consumer_id: int) -> pb.CommandSubscribe:
        return subscribe_command(
            who.subscription,
            TYPES[who.subscription],
            consumer_id,
            initialPosition=pb.CommandSubscribe.Earliest,
            metadata=_properties(who),
        )

    def _consumer(self) -> tuple[Client, int]:
        client = self._client()
        return client, self.random.choice([*client.consumers, 0])

    def _flow(self) -> None:
        client, consumer_id = self._consumer()
        permits = self.random.choice([1, 3, 100])
        client.loopback.say(pb.CommandFlow(consumer_id=consumer_id, messagePermits=permits))

    def _leave(self) -> None:
        client, consumer_id = self._consumer()
        ask(client.loopback, pb.CommandCloseConsumer(consumer_id=consumer_id))

    def _redeliver(self) -> None:
        client, consumer_id = self._consumer()
        ids = [
            wire_id(one.ledger_id, one.entry_id)
            for one in client.deliveries[-2:]
            if one.consumer_id == consumer_id
        ]
        client.loopback.say(
            pb.CommandRedeliverUnacknowledgedMessages(consumer_id=consumer_id, message_ids=ids)
        )

    def _ack(self) -> None:
        client, topic = self._client(), self.stage.broker.topics.get(TOPIC)
        if not client.deliveries or topic is None:
            return
        delivery = self.random.choice(client.deliveries)
        ledger_id, entry_id = delivery.ledger_id, delivery.entry_id
        first, end, flags = self.stage.here(partial(topic.lookup, ledger_id, entry_id))
        if flags & CHUNK and not flags & LAST_CHUNK:
            return  # a client acks the message
        indexes = set(range(first, end))
        acked_id = wire_id(ledger_id, entry_id)
        if flags & LAST_CHUNK:
            indexes |= set(topic.chunk_indexes(ledger_id, entry_id))
        elif flags & BATCH and self.random.random() < 0.6:
            bits = self.random.choice([0b001, 0b010, 0b101, 0b110])
            acked_id.ack_set.append(bits)
            indexes = {first + one for one in range(3) if not bits >> one & 1}
        who, request_id = client.consumers[delivery.consumer_id], self._next_id()
        # Its consumer may have been closed: then the one that came in its place says so.
        consumer_id = max(one for one, other in client.consumers.items() if other == who)
        self.acked[who] |= indexes
        client.asked[request_id] = who, indexes
        client.loopback.say(ack_command(acked_id, consumer_id=consumer_id, request_id=request_id))

    def _hang_up(self) -> None:
        if self.clients:
            self._hear()
            self.clients.pop(self.random.randrange(len(self.clients))).loopback.hang_up()

    def _slow(self) -> None:
        loopback = self._client().loopback
        loopback.reads = not loopback.reads

    def _unload(self) -> None:
        topic = self.stage.broker.topics.get(TOPIC)
        if topic is not None:
            self._begin(topic_lifecycle.close_topic(self.stage.broker, topic))

    def _deduplicate(self) -> None:
        self._set("deduplication", self.random.choice([True, False, None]))

    def _limit(self) -> None:
        self._set("max_unacked_per_consumer", self.random.choice([2, None]))

    def _set(self, policy: str, value: object) -> None:
        book = self.stage.broker.policies.book
        self._begin(book.set(Level.TOPIC, TOPIC, POLICIES[policy], value))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        self.work.append(self.stage.loop.begin(work))

    def _tick(self) -> None:
        self.stage.clock.advance(self.random.choice([0.3, 1, 2]))
        self.stage.loop.do(self.stage.broker._tick)

    def _checkpoint(self) -> None:
        self._let_go()
        self.stage.checkpoint()

    def _fault(self) -> None:
        call = self.random.choice(["sync", "append"])
        self.stage.files.faults.fail(call, under="journal")  # type: ignore[arg-type]

    def _hold_journal(self) -> None:
        self.stage.engine.holds_journal = True

    def _hold_catalog(self) -> None:
        self.stage.engine.holds_catalog = True

    def _hold_reads(self) -> None:
        self.stage.engine.holds_reads = True

    def _let_go(self) -> None:
        engine = self.stage.engine
        engine.holds_journal = engine.holds_catalog = engine.holds_reads = False
        self.stage.files.faults.heal()

    def _change_one(self) -> None:
        self.stage.engine.change_one()

    def _turn(self) -> None:
        self.stage.turn()

    def _kill(self, *, loses: bool = True) -> None:
        """The process ends; what it had on its way may be lost with it."""
        if not loses or self.random.random() < 0.5:
            self._let_go()
            self.stage.turn()
        self._hear()
        self.clients.clear()
        for one in self.work:
            one.cancel()
        self.stage.loop.turn()
        self.work.clear()
        self.stage = self.stage.restarted()

    # -- what they hear ----------------------------------------------------------------------------

    def _hear(self) -> None:
        for client in self.clients:
            for heard in client.loopback.take():
                assert "internal error" not in text_of(heard), heard
                if isinstance(heard, Delivery) and heard.ledger_id >= 0:
                    client.deliveries.append(heard)
                elif isinstance(heard, Receipt) and heard.entry_id >= 0:
                    position = Position(heard.ledger_id, heard.entry_id)
                    self.receipts[position] = heard.sequence_id
                elif isinstance(heard, pb.CommandAckResponse) and not error_of(heard):
                    who, indexes = client.asked.pop(heard.request_id)
                    self.answered[who] |= indexes
        for one in [one for one in self.work if one.done()]:
            self.work.remove(one)
            assert isinstance(one.exception(), MilepostError | None), one

    # -- the judge ---------------------------------------------------------------------------------

    def _judge(self) -> None:
        topic = self.stage.topic()
        log = topic.log
        received: defaultdict[str, dict[int, int]] = defaultdict(dict)
        for position, sequence_id in self.receipts.items():
            (entry,) = self.stage.here(partial(log.read, position, entries_max=1))
            metadata = split_entry(bytes(entry.payload)).metadata
            assert metadata.sequence_id == sequence_id, f"{position} is not {sequence_id}"
            info = chunk_info(metadata)
            if info is not None:
                received[info.uuid][info.chunk_id] = entry.last_index
        free, halves = self.stage.here(lambda: _what_nobody_acks(topic))
        for uuid, indexes in received.items():
            if len(indexes) == 3:
                assert not halves & set(indexes.values()), f"{uuid}: a receipt for each chunk"
        for who, part in _parts(topic):
            left = _left(part)
            done = set(range(log.first_index, log.end_index)) - left
            named = self.acked[who]
            if who.member:  # a stranger starts at the minimum of all
                named = self.acked[Who("group", "a")] | self.acked[Who("group", "b")]
            assert done <= named | free, f"{who}: nobody acked {sorted(done - named - free)}"
            assert not self.answered[who] & left, f"{who}: {self.answered[who] & left} undone"

    def _come_back(self) -> None:
        """Whoever comes now gets everything that is left, and nothing that was acked."""
        stage, topic = self.stage, self.stage.topic()
        stage.run(
            stage.broker.policies.book.set(
                Level.TOPIC, TOPIC, POLICIES["max_unacked_per_consumer"], None
            )
        )
        _, halves = stage.here(lambda: _what_nobody_acks(topic))
        for who, part in [*_parts(topic)]:
            client = stage.client()
            subscribe(
                stage,
                client,
                who.subscription,
                TYPES[who.subscription],
                permits=10_000,
                metadata=_properties(who),
            )
            stage.tick(5)
            shown = {
                index
                for delivery in client.take_all(Delivery)
                if delivery.ledger_id >= 0
                for index in stage.here(partial(_shown, topic, delivery))
            }
            missed = _left(part) - shown - halves
            assert not missed, f"{who} never got {sorted(missed)}"
            assert not shown & self.answered[who], f"{who} got {shown & self.answered[who]} again"


def _properties(who: Who) -> list[pb.KeyValue]:
    if not who.member:
        return []
    said = {"milepost.mode": "broadcast", "milepost.member": who.member}
    return [pb.KeyValue(key=key, value=value) for key, value in said.items()]


def _parts(topic: Topic) -> Iterator[tuple[Who, Subscription]]:
    for name, subscription in topic.subscriptions.items():
        if isinstance(subscription, BroadcastGroup):
            for member in subscription.members.values():
                member.keep_up()
                yield Who(name, member.member), member
        else:
            yield Who(name), subscription


def _left(part: Subscription) -> set[int]:
    return {one for first, end in part.cursor.backlog_ranges() for one in range(first, end)}


def _shown(topic: Topic, delivery: Delivery) -> list[int]:
    first, end, _ = topic.lookup(delivery.ledger_id, delivery.entry_id)
    pending = AckSet.from_message_words(delivery.ack_set, end - first)
    return [index for run in pending_runs(pending, first) for index in range(*run)]


def _what_nobody_acks(topic: Topic) -> tuple[set[int], set[int]]:
    """Markers and chunks of no whole message; and of these the chunks."""
    markers: set[int] = set()
    chunks: set[int] = set()
    whole: set[int] = set()
    index = topic.log.first_index
    while index < topic.log.end_index:
        located = topic.log.locate(index)
        if located.flags & MARKER:
            markers.add(index)
        if located.flags & CHUNK:
            chunks.add(index)
        if located.flags & LAST_CHUNK:
            whole |= set(topic.chunk_indexes(*located.position))
        index = located.span.end_index
    return markers | chunks - whole, chunks - whole


def run_seed(seed: int) -> None:
    """Play one; what goes wrong names the seed."""
    try:
        Operators(seed).play()
    except Exception as error:
        raise AssertionError(f"seed {seed}: {error!r}") from error


def first_caught(seeds: int) -> int | None:
    """The first seed that finds something wrong."""
    for seed in range(seeds):
        try:
            run_seed(seed)
        except AssertionError:
            return seed
    return None
