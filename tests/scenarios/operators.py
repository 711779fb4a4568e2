"""Operators, clients and a bad disk at once, by a seed, judged by what clients were told.

`witness.py` writes what was published, received, acked and answered, and the checker alone judges it. Behind
a last restart the topic must open: nothing that was on its way when it was unloaded keeps it shut. Then all
that it holds is scanned, and consumers of every subscription get what is left (the numbers add up: the
stage checks that).

Anything that is raised on the way, or answered as an internal error, fails the seed.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from functools import partial
from random import Random
from typing import Any, NamedTuple

from crash.checker import read_log
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
from milepost.broker.topic.topic import Topic
from milepost.errors import MilepostError
from milepost.storage.ledgers.entry import BATCH, CHUNK, LAST_CHUNK
from milepost.testing.peer import Loopback
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import Delivery, Receipt
from scenarios.witness import BATCH_COUNT, CHUNK_COUNT, Witness

STEPS = 120
CLIENTS_MAX = 4
TYPES = {"shared": SHARED, "failover": FAILOVER, "keys": KEY_SHARED, "group": SHARED}
VERBS = {
    "produce": 3, "send": 8, "subscribe": 6, "flow": 7, "ack": 8, "redeliver": 3, "leave": 2, "hang_up": 2,
    "unload": 4, "deduplicate": 4, "limit": 1, "tick": 2, "checkpoint": 1, "fault": 4, "kill": 2, "slow": 1,
    "hold_journal": 1, "hold_catalog": 3, "hold_reads": 1, "let_go": 3, "change_one": 4, "turn": 4,
}  # fmt: skip
# With these alone hardly an ack is answered: something always hangs, or has failed. In every other world
# clients get on with their work, and operators come between.
WORK = {
    "produce": 6, "send": 20, "flow": 14, "ack": 30, "let_go": 20, "turn": 10, "fault": 1, "kill": 1,
    "unload": 2, "deduplicate": 1,
}  # fmt: skip


class Who(NamedTuple):
    """Whose progress it is."""

    subscription: str
    member: str = ""

    @property
    def name(self) -> str:
        """As the history has it."""
        return f"{self.subscription} {self.member}".strip()

    @property
    def group(self) -> str:
        """The broadcast group that it is a member of, or nothing."""
        return self.subscription if self.member else ""


class Client:
    def __init__(self, loopback: Loopback) -> None:
        self.loopback = loopback
        self.consumers: dict[int, Who] = {}
        self.deliveries: list[Delivery] = []

    @property
    def can_publish(self) -> bool:
        producer = self.loopback.session.producers.get(0)
        return producer is not None and producer.waiting_request_id is None


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
        self.witness = Witness()
        self.verbs = VERBS if seed % 2 else VERBS | WORK

    def play(self) -> None:
        try:
            for _ in range(STEPS):
                (verb,) = self.random.choices([*self.verbs], [*self.verbs.values()])
                getattr(self, f"_{verb}")()
                if self.random.random() < 0.6:
                    self.stage.turn()
                self._hear()
            self._kill(loses=False)
            self._come_back()
        finally:
            self.stage.close()
        assert not (found := self.witness.anomalies()), found[:3]

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
        number = self._next_id()
        ready = [one.loopback for one in self.clients if one.can_publish]
        if not ready:
            return
        client = self.random.choice(ready)
        later = self.stage.clock.wall_ms() + 2000
        frames, names = self.random.choice(
            [
                ([message(number, partition_key=self.random.choice("abc"))], [f"{number}"]),
                ([batch(number, BATCH_COUNT)], [f"{number}.{one}" for one in range(BATCH_COUNT)]),
                ([chunk(number, one, CHUNK_COUNT) for one in range(CHUNK_COUNT)], [f"{number}/"]),
                ([chunk(number, one, CHUNK_COUNT) for one in range(CHUNK_COUNT - 1)], []),
                ([message(number, deliver_at_time=later)], [f"{number}"]),
                ([marker(number)], []),
            ]
        )
        self.witness.sent(number, names, len(frames))
        client.say(*frames)

    def _subscribe(self) -> None:
        client, consumer_id = self._client(), self._next_id()
        name = self.random.choice([*TYPES])
        who = Who(name, self.random.choice("ab") if name == "group" else "")
        client.consumers[consumer_id] = who
        self.witness.join(who.name, who.group, consumer_id)
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
        """One that there is, or hardly ever one that is not."""
        there = [(client, one) for client in self.clients for one in client.consumers]
        if not there or self.random.random() < 0.05:
            return self._client(), 0
        return self.random.choice(there)

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
        holders = [one for one in self.clients if one.deliveries]
        topic = self.stage.broker.topics.get(TOPIC)
        if not holders or topic is None:
            return
        client = self.random.choice(holders)
        delivery = self.random.choice(client.deliveries)
        ledger_id, entry_id = delivery.ledger_id, delivery.entry_id
        _, _, flags = self.stage.here(partial(topic.lookup, ledger_id, entry_id))
        if flags & CHUNK and not flags & LAST_CHUNK:
            return  # a client acks the message
        acked_id = wire_id(ledger_id, entry_id)
        only = None
        if flags & BATCH and self.random.random() < 0.6:
            bits = self.random.choice([0b001, 0b010, 0b101, 0b110])
            acked_id.ack_set.append(bits)
            only = {one for one in range(BATCH_COUNT) if not bits >> one & 1}
        who, request_id = client.consumers[delivery.consumer_id], self._next_id()
        # Its consumer may have been closed: then the one that came in its place says so.
        consumer_id = max(one for one, other in client.consumers.items() if other == who)
        self.witness.acks(who.name, consumer_id, request_id, delivery, only)
        client.loopback.say(ack_command(acked_id, consumer_id=consumer_id, request_id=request_id))

    def _hang_up(self) -> None:
        if self.clients:
            self._hear()
            client = self.clients.pop(self.random.randrange(len(self.clients)))
            client.loopback.hang_up()
            self._gone(client)

    def _gone(self, client: Client) -> None:
        for consumer_id, who in client.consumers.items():
            self.witness.leave(who.name, consumer_id)

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
        for client in self.clients:
            self._gone(client)
        self.clients.clear()
        for one in self.work:
            one.cancel()
        self.stage.loop.turn()
        self.work.clear()
        self.witness.killed()
        self.stage = self.stage.restarted()

    # -- what they hear ----------------------------------------------------------------------------

    def _hear(self) -> None:
        for client in self.clients:
            for heard in client.loopback.take():
                assert "internal error" not in text_of(heard), heard
                if isinstance(heard, Delivery) and heard.ledger_id >= 0:
                    client.deliveries.append(heard)
                    who = client.consumers[heard.consumer_id]
                    self.witness.received(who.name, heard.consumer_id, heard)
                elif isinstance(heard, Receipt):
                    self.witness.receipt(heard)
                elif isinstance(heard, pb.CommandAckResponse):
                    self.witness.acked(heard.request_id, refused=bool(error_of(heard)))
        for one in [one for one in self.work if one.done()]:
            self.work.remove(one)
            assert isinstance(one.exception(), MilepostError | None), one

    # -- the end -----------------------------------------------------------------------------------

    def _come_back(self) -> None:
        """Consumers that come now get everything that is left, and nothing that was acked."""
        stage, topic = self.stage, self.stage.topic()
        book = stage.broker.policies.book
        stage.run(book.set(Level.TOPIC, TOPIC, POLICIES["max_unacked_per_consumer"], None))
        self.witness.scan(stage.here(lambda: read_log(topic.log)))
        for who in [*_parts(topic)]:
            client, consumer_id = stage.client(), self._next_id()
            self.witness.join(who.name, who.group, consumer_id)
            subscribe(
                stage,
                client,
                who.subscription,
                TYPES[who.subscription],
                permits=10_000,
                metadata=_properties(who),
            )
            stage.tick(5)
            for delivery in client.take_all(Delivery):
                if delivery.ledger_id >= 0:
                    self.witness.received(who.name, consumer_id, delivery)
            self.witness.drained(who.name)


def _properties(who: Who) -> list[pb.KeyValue]:
    if not who.member:
        return []
    said = {"milepost.mode": "broadcast", "milepost.member": who.member}
    return [pb.KeyValue(key=key, value=value) for key, value in said.items()]


def _parts(topic: Topic) -> Iterator[Who]:
    for name, subscription in topic.subscriptions.items():
        if isinstance(subscription, BroadcastGroup):
            yield from (Who(name, member.member) for member in subscription.members.values())
        else:
            yield Who(name)


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
