"""A whole broker and its clients in one process, on a virtual clock, by a seed; judged by the checker.

Clients speak bytes over loopback connections, files are in memory and fail, and everything that happens
follows from the seed: what is done, in which order, how often (each seed draws its own odds), and what a
lost power leaves on the disk. First everything may happen; then it heals, producers send again what has no
answer, and every subscription must get all that is left. `trace_hash` is the same for the same seed.
"""

from __future__ import annotations

import hashlib
from random import Random
from typing import Any

from crash.checker import read_log
from stage.acksets import is_pending
from stage.frames import batch, message
from stage.stage import TOPIC, Stage
from stage.talk import EXCLUSIVE, SHARED, ack_command, ask, error_of, subscribe_command, wire_id

from milepost.broker.operations.reset import Reset, Target, reset
from milepost.positions.ackset import AckSet
from milepost.positions.names import TopicName
from milepost.testing import MemoryFiles
from milepost.testing.checker import History, Verdict, judge
from milepost.testing.clock import ManualClock
from milepost.testing.peer import Loopback
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.batches import split_batch
from milepost.wire.events import Delivery, Receipt
from milepost.wire.metadata import is_batch, split_entry

STEPS = 60
PRODUCERS = 2
SUBSCRIPTIONS = {"one": EXCLUSIVE, "many": SHARED}
BATCH_COUNT = 3
# What a lost power may leave of what was not synced.
OUTCOMES = ("dropped", "kept", "subset 0", "subset 1", "names", "data")


class SimulatedProducer:
    """Sends again, to the next broker, what the last one did not answer."""

    def __init__(self, name: str, history: History) -> None:
        self.name, self.history = name, history
        self.client: Loopback | None = None
        self.unanswered: dict[int, tuple[bytes, list[int]]] = {}
        """By sequence id: the frame, and the numbers of its messages in the history."""
        self._sent_on: Loopback | None = None

    def connect(self, stage: Stage) -> None:
        self.client = stage.client(address=f"{self.name}:1")
        command = pb.CommandProducer(topic=TOPIC, producer_id=0, producer_name=self.name)
        ask(self.client, command)

    @property
    def is_ready(self) -> bool:
        if self.client is None or self.client.is_lost:
            return False
        producer = self.client.session.producers.get(0)
        return producer is not None and producer.waiting_request_id is None

    def send(self, sequence_id: int, *, batched: bool) -> None:
        names = [str(sequence_id)]
        frame = message(sequence_id, producer=self.name)
        if batched:
            frame = batch(sequence_id, BATCH_COUNT, producer=self.name)
            names = [f"{sequence_id}.{number}" for number in range(BATCH_COUNT)]
        asked = [
            self.history.invoke("publish", topic=TOPIC, message=name, by=self.name)
            for name in names
        ]
        self.unanswered[sequence_id] = frame, asked
        self._say(frame)

    def _say(self, frame: bytes) -> None:
        assert self.client is not None
        if self._sent_on is not self.client:
            # The first thing that a connection hears is what the last one did not answer, in order.
            self._sent_on = self.client
            self.client.say(*[one for one, _ in self.unanswered.values()])
        else:
            self.client.say(frame)

    def send_again(self) -> None:
        if self.unanswered and self._sent_on is not self.client:
            self._say(b"")

    def hear(self) -> None:
        for heard in self.client.take() if self.client is not None else ():
            if isinstance(heard, Receipt):
                _, asked = self.unanswered.pop(heard.sequence_id)
                for number, n in enumerate(asked):
                    place = [heard.ledger_id, heard.entry_id, number if len(asked) > 1 else -1]
                    self.history.ok(n, id=None if heard.entry_id < 0 else place)
            elif isinstance(heard, pb.CommandSendError):
                self.client = None  # a client reconnects, and sends again
                return


class SimulatedConsumer:
    def __init__(self, stage: Stage, subscription: str, name: str, history: History) -> None:
        self.name, self.history, self.subscription = name, history, subscription
        self.group = {"topic": TOPIC, "sub": subscription, "by": name}
        self.held: list[tuple[Delivery, list[list[int]], int]] = []
        """What was received and not acked: the delivery, the ids in it, how many its entry has."""
        self._asked: dict[int, int] = {}
        self.is_closed = False
        history.note("join", **self.group, mode="connection")
        self.client = stage.client(address=f"{name}:1")
        ask(
            self.client,
            subscribe_command(
                subscription,
                SUBSCRIPTIONS[subscription],
                consumer_name=name,
                initialPosition=pb.CommandSubscribe.Earliest,
            ),
        )

    def flow(self, permits: int) -> None:
        self.client.say(pb.CommandFlow(consumer_id=0, messagePermits=permits))

    def hear(self) -> None:
        for heard in self.client.take():
            if isinstance(heard, Delivery):
                self._delivered(heard)
            elif isinstance(heard, pb.CommandAckResponse):
                n = self._asked.pop(heard.request_id)
                self.history.unknown(n) if error_of(heard) else self.history.ok(n)
            elif isinstance(heard, pb.CommandCloseConsumer | pb.CommandError):
                self.is_closed = True

    def _delivered(self, delivery: Delivery) -> None:
        parts = split_entry(delivery.entry)
        assert parts.broker is not None
        assert parts.broker.index is not None
        names, size = [parts.payload.decode()], 1
        if is_batch(parts.metadata):
            size = parts.metadata.num_messages_in_batch
            names = [one.payload.decode() for one in split_batch(parts.payload, size)]
        shown = AckSet.from_message_words(delivery.ack_set, size)
        ids = []
        for number, name in enumerate(names):
            if not is_pending(shown, number):
                continue
            ids.append([delivery.ledger_id, delivery.entry_id, number if size > 1 else -1])
            index = parts.broker.index - size + 1 + number
            self.history.note("receive", **self.group, message=name, id=ids[-1], index=index)
        self.held.append((delivery, ids, size))

    def ack(self, random: Random) -> None:
        if not self.held or self.is_closed:
            return
        delivery, ids, size = self.held.pop(random.randrange(len(self.held)))
        acked_id = wire_id(delivery.ledger_id, delivery.entry_id)
        if size > 1 and random.random() < 0.5:  # a part of the batch
            ids = ids[:1]
            pending = AckSet.full(size).without(ids[0][2])
            acked_id.ack_set.extend(pending.to_ack_words())
        cumulative = self.subscription == "one" and size == 1 and random.random() < 0.3
        fields = {**self.group, "ids": ids, "cumulative": cumulative}
        command = ack_command(acked_id, cumulative=cumulative)
        if random.random() < 0.6:
            n = self.history.invoke("ack", **fields)
            self._asked[ask(self.client, command)] = n
        else:
            self.history.note("ack", **fields)
            self.client.say(command)


class Simulation:
    def __init__(self, seed: int, files: MemoryFiles | None = None) -> None:
        self.random = Random(seed)
        self.clock = ManualClock()
        self.history = History(clock=self.clock.monotonic)
        self.history.note("start")
        self.stage = Stage(
            files=files,
            clock=self.clock,
            deduplication=True,
            ledger_entries_max=self.random.choice((3, 1000)),
            tail_size=self.random.choice((0, 1 << 20)),
        )
        self.producers = [SimulatedProducer(f"p{n}", self.history) for n in range(PRODUCERS)]
        self.consumers: list[SimulatedConsumer] = []
        self.resets: list[tuple[int, Any]] = []
        self._sequence = self._named = 0
        self._disk_failed = False
        # Swarm testing: a seed does some things often and others never.
        self._odds = {
            verb: self.random.choice((0, 1, 1, 3)) * weight for verb, weight in VERBS.items()
        }
        self._odds |= {"_publish": 8, "_receive": 6, "_ack": 6}

    def run(self) -> Verdict:
        try:
            for verb in self.random.choices([*self._odds], [*self._odds.values()], k=STEPS):
                getattr(self, verb)()
                self._pass(self.random.choice((0.0, 0.001, 0.05)))
                self._turn()
            self._heal()
            self._drain()
        finally:
            self.stage.close()
        return judge(self.history.lines())

    def _pass(self, seconds: float) -> None:
        """Time stands while nothing becomes durable, and on a broker whose disk has failed: acks without an
        answer that met the failure are written with the next checkpoint, and no window can be kept."""
        if not self.stage.engine.holds_journal and not self._disk_failed:
            self.clock.advance(seconds)

    def trace_hash(self) -> str:
        return hashlib.sha256("".join(self.history.lines()).encode()).hexdigest()

    def _turn(self) -> None:
        self.stage.turn()
        for producer in self.producers:
            producer.hear()
        for consumer in list(self.consumers):
            consumer.hear()
            if consumer.is_closed:
                self._leave(consumer)
        for n, task in list(self.resets):
            if task.done():
                self.resets.remove((n, task))
                self.history.unknown(n) if task.exception() else self.history.ok(n)

    def _leave(self, consumer: SimulatedConsumer) -> None:
        self.consumers.remove(consumer)
        self.history.note("leave", **consumer.group)
        consumer.client.hang_up()

    # -- what happens ------------------------------------------------------------------------------

    def _publish(self) -> None:
        producer = self.random.choice(self.producers)
        if producer.client is None or producer.client.is_lost:
            producer.connect(self.stage)
            self.stage.turn()
        if producer.is_ready:
            self._sequence += 1
            producer.send(self._sequence, batched=self.random.random() < 0.4)

    def _receive(self) -> None:
        name = self.random.choice([*SUBSCRIPTIONS])
        if sum(one.subscription == name for one in self.consumers) < 2:
            self._named += 1
            self.consumers.append(
                SimulatedConsumer(self.stage, name, f"c{self._named}", self.history)
            )
            self._turn()
        if self.consumers:
            self.random.choice(self.consumers).flow(self.random.choice((1, 3, 20)))

    def _ack(self) -> None:
        if self.consumers:
            self.random.choice(self.consumers).ack(self.random)

    def _hang_up(self) -> None:
        if self.consumers:
            self._leave(self.random.choice(self.consumers))

    def _slow(self) -> None:
        if self.consumers:
            client = self.random.choice(self.consumers).client
            client.reads = not client.reads

    def _reset(self) -> None:
        topic = self.stage.broker.topics.get(TOPIC)
        name = self.random.choice([*SUBSCRIPTIONS])
        if topic is None or name not in topic.subscriptions or self.resets:
            return
        index = self.random.randint(topic.log.first_index, topic.log.end_index)
        n = self.history.invoke("reset", topic=TOPIC, sub=name, by="operator", index=index)
        asked = Reset(Target(index=index))
        work = reset(self.stage.broker, TopicName.parse(TOPIC), name, asked, by="operator")
        self.resets.append((n, self.stage.loop.begin(work)))

    def _hold_journal(self) -> None:
        self.stage.engine.holds_journal = True

    def _hold_reads(self) -> None:
        self.stage.engine.holds_reads = True

    def _fault(self) -> None:
        self._disk_failed = True
        call = self.random.choice(("sync", "append"))
        self.stage.files.faults.fail(call, under="journal")

    def _let_go(self) -> None:
        self.stage.engine.holds_journal = self.stage.engine.holds_reads = False
        self.stage.files.faults.heal()

    def _checkpoint(self) -> None:
        self._let_go()
        self.stage.checkpoint()

    def _tick(self) -> None:
        self._pass(1.0)
        self.stage.loop.do(self.stage.broker._tick)

    def _kill(self) -> None:
        self._end_broker("")

    def _lose_power(self) -> None:
        self._end_broker(self.random.choice(OUTCOMES))

    def _end_broker(self, power_lost: str) -> None:
        for _, task in self.resets:
            task.cancel()
        self.stage.loop.turn()
        self.resets.clear()
        self.history.note("kill")
        for consumer in self.consumers:
            self.history.note("leave", **consumer.group)
        self.consumers.clear()
        for producer in self.producers:
            producer.client = None
        self.history.note("start")
        self._disk_failed = False
        self.stage = self.stage.restarted(power_lost=power_lost, seed=self.random.randrange(100))

    # -- the end -----------------------------------------------------------------------------------

    def _heal(self) -> None:
        """From here on everything works: what has no answer gets one."""
        self._let_go()
        self._turn()
        self._kill()
        for producer in self.producers:
            producer.connect(self.stage)
            self._turn()
            producer.send_again()
            self._turn()
            assert not producer.unanswered, f"{producer.name}: {producer.unanswered}"

    def _drain(self) -> None:
        """Every subscription gets all that is left, and everything is there."""
        log = self.stage.topic().log
        state = self.stage.here(lambda: read_log(log))
        self.history.note("scan", topic=TOPIC, first=state.first_index)
        for item in state.items:
            parts = split_entry(item.payload)
            names = [parts.payload]
            if is_batch(parts.metadata):
                names = [one.payload for one in split_batch(parts.payload, item.count)]
            for number, name in enumerate(names):
                self.history.note(
                    "stored",
                    topic=TOPIC,
                    message=name.decode(),
                    id=[*item.position, number if is_batch(parts.metadata) else -1],
                    index=item.first_index + number,
                )
        self.history.note("scanned", topic=TOPIC, end=state.end_index)
        for name in SUBSCRIPTIONS:
            last = SimulatedConsumer(self.stage, name, f"last of {name}", self.history)
            self.stage.turn()
            last.flow(10_000)
            self.stage.turn()
            last.hear()
            self.history.note("drained", topic=TOPIC, sub=name)


VERBS = {
    "_hang_up": 1, "_slow": 1, "_reset": 1, "_hold_journal": 1, "_hold_reads": 1, "_fault": 1, "_let_go": 3,
    "_checkpoint": 1, "_tick": 1, "_kill": 1, "_lose_power": 1,
}  # fmt: skip


def run_seed(seed: int, files: MemoryFiles | None = None) -> str:
    """Simulate one; what goes wrong names its seed. Returns the hash of its trace."""
    simulation = Simulation(seed, files)
    try:
        verdict = simulation.run()
    except Exception as error:
        raise AssertionError(f"seed {seed}: {error!r}") from error
    assert not verdict.anomalies, f"seed {seed}: {verdict.anomalies[:3]}"
    return simulation.trace_hash()


def first_caught(seeds: range, **options: Any) -> int | None:
    """The first seed that finds something wrong."""
    for seed in seeds:
        try:
            run_seed(seed, **{name: make() for name, make in options.items()})
        except AssertionError:
            return seed
    return None
