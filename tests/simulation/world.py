"""Everything that may happen to a broker and its clients, by a seed; then the healing, and the verdict.

Clients speak bytes over loopback connections, files are in memory and fail, and everything that happens
follows from the seed: what is done, in which order, how often, and what a lost power leaves on the disk.
First everything may happen; then it heals, producers send again what has no answer, and every subscription
must get all that is left. The checker alone judges. `trace_hash` is the same for the same seed.

    python -m simulation.world 4711        # from tests/: one seed again, its history on standard output
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import logging
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any

from crash.checker import LogState, read_log
from stage.stage import TOPIC
from stage.transactions import OTHER

from milepost.broker.messages.lookup_by_index import EXPIRED, message_at
from milepost.broker.operations import compaction_run, retention, topic_lifecycle
from milepost.broker.operations.reset import Reset, Target, reset
from milepost.errors import IndexNotFound
from milepost.positions.names import TopicName
from milepost.testing import MemoryFiles
from milepost.testing.checker import EventHistory, Verdict, judge_events
from milepost.testing.clock import ManualClock
from milepost.wire.batches import split_batch
from milepost.wire.chunks import ChunkAssembler, Whole
from milepost.wire.metadata import chunk_info, is_batch, split_entry
from simulation.consumer import Consumer, Held
from simulation.dials import BROADCAST, Dials, steps_of
from simulation.producer import Producer
from simulation.site import Site
from simulation.transactor import Transactor

CONSUMERS_MAX = {"one": 1, "many": 2, "keys": 2, "spare": 2, BROADCAST: 2}
MEMBERS = "ab"
DELAY_MAX_MS = 3000
# Time that passes while a subscription is drained: for its read loop to rest, and for the longest delay.
DRAIN_S = (0.0, 0.0, 0.1, DELAY_MAX_MS / 1000 + 2, 1.0)
# What a lost power may leave of what was not synced: nothing, all, either kind alone, torn writes.
OUTCOMES = ("dropped", "kept", "subset 0", "subset 1", "names", "data", "sectors 0", "sectors 1")
KEPT_S = 86_400
HOUR_MS = 3_600_000


class World:
    members: Sequence[str] = MEMBERS
    resets_max = 1
    """How many resets may be under way at once."""

    def __init__(
        self, seed: int, files: MemoryFiles | None = None, steps: int | None = None
    ) -> None:
        self.random = Random(seed)
        self.dials = dials = self._draw(steps_of(seed) if steps is None else steps)
        self.clock = ManualClock()
        self.history = EventHistory(clock=self.clock.monotonic)
        self.history.note("start")
        self.topics = [TOPIC, OTHER] if dials.has_transactions else [TOPIC]
        for topic in self.topics:
            self.history.note("topic", topic=topic, deduplicated=dials.deduplicated)
        self.site = Site.fresh(
            self.clock,
            files,
            on_bucket=dials.on_bucket,
            deduplication=dials.deduplicated,
            ledger_entries_max=dials.ledger_entries_max,
            tail_size=dials.tail_size,
            retention_check_interval_s=KEPT_S,
        )
        self.producers = [Producer(f"p{n}", TOPIC, self.history) for n in range(dials.producers)]
        self.transactor = Transactor(self.topics, dials.subscriptions, self.history)
        self.consumers: list[Consumer] = []
        self.resets: list[tuple[list[int], asyncio.Task[Any]]] = []
        self._sequence = self._named = 0
        self._kept: dict[str, list[Held]] = {}
        """By subscription, what consumers had received when the broker was killed."""
        self._disk_failed = False
        self._set_back_ms = 0

    def _draw(self, steps: int) -> Dials:
        return Dials.drawn(self.random, steps)

    def run(self) -> Verdict:
        try:
            self._begin()
            odds = self.dials.odds
            for _ in range(self.dials.steps):
                count = self.random.choice(self.dials.verbs)
                for verb in self.random.choices([*odds], [*odds.values()], k=count):
                    getattr(self, f"_{verb}")()
                    if odds.get("unload"):
                        # No consumer acks what it holds no more: it hears at once that it is closed.
                        self._turn()
                self._pass(self.random.choice((0.0, 0.001, 0.05)))
                self._turn()
            self._heal()
            self._scan()
            self._drain()
            self.site.check_all()
        finally:
            self.site.close()
        return judge_events(self.history.events)

    def trace_hash(self) -> str:
        return hashlib.sha256("".join(self.history.lines()).encode()).hexdigest()

    # -- time --------------------------------------------------------------------------------------

    def _pass(self, seconds: float) -> None:
        """Time stands while the disk hangs, and on a broker whose disk has failed: acks without an answer
        that met the failure are written with the next checkpoint, and no window can be kept."""
        engine = self.site.engine
        if not (engine.holds_journal or engine.holds_reads or self._disk_failed):
            self.clock.advance(seconds)

    def _turn(self) -> None:
        self.site.turn()
        for producer in self.producers:
            producer.hear()
        self.transactor.hear()
        for consumer in list(self.consumers):
            consumer.hear_moves()
            if consumer.is_closed:
                self._leave(consumer)
        for consumer in list(self.consumers):
            consumer.hear()
            if consumer.is_closed:
                self._leave(consumer)
        # By now each of them has heard who is active: the last one steps down before the next one steps up.
        for over in (True, False):
            for consumer in self.consumers:
                consumer.note_active(over=over)
        for asked, task in list(self.resets):
            if task.done():
                self.resets.remove((asked, task))
                for n in asked:
                    self.history.unknown(n) if task.exception() else self.history.ok(n)

    def _leave(self, consumer: Consumer) -> None:
        self.consumers.remove(consumer)
        consumer.leave()

    # -- what clients do ---------------------------------------------------------------------------

    def _begin(self) -> None:
        """Bring producers and consumers in, so that what happens in a small world meets one of them."""
        for producer in self.producers:
            producer.connect(self.site)
        for name in self.dials.subscriptions:
            # A member of a group that comes later begins where the group is.
            for member in self._of_group(name):
                self._come(name, member)
        self._turn()
        for _ in range(self.dials.stored):
            self._publish()
        self._turn()

    def _next(self) -> int:
        self._sequence += 1
        return self._sequence

    def _fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        if self.dials.keys:
            fields["partition_key"] = f"k{self.random.randrange(self.dials.keys)}"
        if self.random.random() < self.dials.delayed:
            fields["deliver_at_time"] = self.clock.wall_ms() + self.random.randrange(DELAY_MAX_MS)
        return fields

    def _publish(self) -> None:
        producer = self.random.choice(self.producers)
        if producer.client is None or producer.client.is_lost:
            producer.connect(self.site)
            self.site.turn()
        if not producer.is_ready:
            return
        fields, dials = self._fields(), self.dials
        chunked = self.random.random() < dials.chunked
        batched = self.random.random() < dials.batched
        for _ in range(self.random.choice((1, 1, 2))):
            producer.send(self._next(), chunked=chunked, batched=batched and not chunked, **fields)

    def _receive(self) -> None:
        name = self.random.choice(self.dials.subscriptions)
        there = [one for one in self.consumers if one.subscription == name]
        if len(there) < CONSUMERS_MAX[name]:
            member = ""
            if name == BROADCAST:
                taken = {one.name.partition(" ")[0] for one in there}
                member = self._member_but(taken)
            self._come(name, member)
            if self.consumers[-1].old:
                return
        if self.consumers:
            self.random.choice(self.consumers).flow(self.random.choice((1, 3, 20)))

    def _member_but(self, taken: set[str]) -> str:
        return next(one for one in self.members if one not in taken)

    def _of_group(self, name: str) -> Sequence[str]:
        """The members that the subscription has, if it is a group; or the one that nobody names."""
        return self.members if name == BROADCAST else ("",)

    def _come(self, subscription: str, member: str = "") -> None:
        self._named += 1
        follows = self.random.random() < self.dials.follows
        name = f"{member or 'c'} {self._named}"
        consumer = Consumer(self.site, subscription, name, self.history, follows=follows)
        consumer.has_transactions = self.dials.has_transactions
        self.consumers.append(consumer)
        kept = self._kept.pop(consumer.group["sub"], None)
        if kept:
            consumer.old += kept  # and its queue is full of them: it asks for no more yet
        else:
            consumer.flow(self.random.choice((1, 3, 20)))

    def _holder(self) -> Consumer | None:
        """One of the consumers that have something to ack, to give back or to seek to."""
        there = [one for one in self.consumers if one.held or one.old]
        return self.random.choice(there) if there else None

    def _ack(self) -> None:
        consumer = self._holder()
        if consumer is not None:
            for _ in range(self.random.choice((1, 1, 3))):
                consumer.ack(self.random)

    def _give_back(self) -> None:
        consumer = self._holder()
        if consumer is not None:
            consumer.give_back(self.random)

    def _seek(self) -> None:
        consumer = self._holder()
        if consumer is not None:
            known = {
                index: id_
                for held in consumer.held
                if len(held.positions) == 1
                for index, id_ in zip(held.indexes, held.ids, strict=True)
            }
            if consumer.subscription != BROADCAST:
                consumer.seek(self.random, known)

    def _transact(self) -> None:
        self.transactor.step(self.site, self.random, self._next(), self.consumers)

    def _hang_up(self) -> None:
        if self.consumers:
            self._leave(self.random.choice(self.consumers))

    def _cut(self) -> None:
        """A producer loses its connection behind a message that may be stored, and hears no answer."""
        producer = self.random.choice(self.producers)
        if producer.is_ready and not producer.unanswered:
            assert producer.client is not None
            producer.client.reads = False
            producer.send(self._next())
            self.site.turn()
            producer.cut()

    def _slow(self) -> None:
        if self.consumers:
            client = self.random.choice(self.consumers).client
            client.reads = not client.reads

    # -- what operators do -------------------------------------------------------------------------

    def _reset(self) -> None:
        topic = self.site.broker.topics.get(TOPIC)
        name = self.random.choice(self.dials.subscriptions)
        if topic is None or name not in topic.subscriptions or len(self.resets) >= self.resets_max:
            return
        index = self.random.randint(topic.log.first_index, topic.visible_end)
        self._named += 1
        by = f"operator {self._named}"  # of two resets at once either may be the last
        asked = [
            self.history.invoke(
                "reset", topic=TOPIC, sub=f"{name} {one}".strip(), by=by, index=index
            )
            for one in self._of_group(name)
        ]
        work = reset(
            self.site.broker,
            TopicName.parse(TOPIC),
            name,
            Reset(Target(index=index)),
            by="operator",
        )
        self.resets.append((asked, self.site.loop.begin(work)))

    def _reset_and_hang(self) -> None:
        """A reset waits for the disk, and clients ack what they have received before it."""
        self._reset()
        self._hold_journal()
        self._turn()
        for consumer in self.consumers:
            for _ in range(2):
                consumer.ack(self.random)
        self._turn()

    def _unload(self) -> None:
        """Every client of the topic is told to come again, and what it had in memory is opened anew."""
        topic = self.site.broker.topics.get(TOPIC)
        # What the disk refused of acks without an answer is forgotten with the topic, as by a crash.
        if topic is not None and not self.resets and not self._disk_failed:
            work = topic_lifecycle.close_topic(self.site.broker, topic)
            self.resets.append(([], self.site.loop.begin(work)))

    def _compact(self) -> None:
        topic = self.site.broker.topics.get(TOPIC)
        if topic is not None and topic.compactions.status != "RUNNING":
            self.site.loop.do(lambda: compaction_run.start(self.site.broker, topic))

    def _trim(self) -> None:
        """Retention takes what every subscription has acked."""
        if self._disk_failed or self.site.engine.holds_journal:
            return
        self.site.turn()
        asked = []
        for name, topic in self.site.broker.topics.items():
            index = retention.trim_index(
                retention.kept(topic.log.ledgers),
                topic_lifecycle.trimmable_index(topic),
                self.site.broker.policies.book.of(topic.name).retention,
                self.clock.wall_ms(),
            )
            asked.append((topic, self.history.invoke("trim", topic=name, index=index)))
        self.site.loop.do(self.site.broker.housekeeping.trim)
        self.site.turn()
        for topic, n in asked:
            self.history.ok(n, first=topic.log.first_index)

    def _count(self) -> None:
        """An operator looks at the numbers of every subscription."""
        topic = self.site.broker.topics.get(TOPIC)
        for name, subscription in topic.subscriptions.items() if topic is not None else ():
            cursor = subscription.cursor
            # Of a group the history knows the members, not what is the least of them.
            known = {} if name == BROADCAST else {"mark": cursor.mark_delete_index, "now": True}
            self.history.note(
                "counts",
                topic=TOPIC,
                sub=name,
                **cursor.counts()._asdict(),
                first=cursor.first,
                end=cursor.end,
                **known,
            )

    # -- what goes wrong ---------------------------------------------------------------------------

    def _hold_journal(self) -> None:
        self.site.engine.holds_journal = True

    def _hold_reads(self) -> None:
        self.site.engine.holds_reads = True

    def _fault(self) -> None:
        if any(not asked for asked, _ in self.resets):
            return  # the topic is being unloaded
        self._disk_failed = True
        call = self.random.choice(("sync", "append"))
        keep = self.random.choice((0, 10))
        self.site.files.faults.fail(call, under="journal", keep=keep)

    def _let_go(self) -> None:
        self.site.engine.holds_journal = self.site.engine.holds_reads = False
        self.site.files.faults.heal()

    def _checkpoint(self) -> None:
        self._let_go()
        self.site.checkpoint()

    def _pass_time(self) -> None:
        """What was said before is heard before, and what is due in the meantime is done."""
        self._turn()
        self._pass(self.random.choice((0.2, 1.0, 70.0)))
        self._turn()

    def _jump(self) -> None:
        """The wall clock is set, forward or back."""
        ms = self.random.choice((-HOUR_MS, 60_000, HOUR_MS))
        self.clock.jump(ms)
        self._set_back_ms += max(-ms, 0)

    def _kill(self) -> None:
        self._end_broker("")

    def _come_back(self) -> None:
        """The broker is killed, and clients ack what they have received before they ask for more."""
        self._kill()
        for name in self.dials.subscriptions:
            if name in self._kept:
                self._come(name)
        self._turn()
        for consumer in self.consumers:
            for _ in range(2):
                consumer.ack(self.random)
        self._turn()

    def _lose_power(self) -> None:
        self._end_broker(self.random.choice(OUTCOMES))

    def _end_broker(self, power_lost: str) -> None:
        for asked, task in self.resets:
            task.cancel()
            for n in asked:
                self.history.unknown(n)
        self.resets.clear()
        self.site.loop.turn()
        self.history.note("kill")
        for consumer in list(self.consumers):
            # Its client has the messages still, and may ack them when it has come again.
            self._kept.setdefault(consumer.group["sub"], []).extend(consumer.held)
            self._leave(consumer)
        for producer in self.producers:
            producer.client = None
        self.transactor.lost()
        self.history.note("start")
        self._disk_failed = False
        self.site = self.site.restarted(power_lost=power_lost, seed=self.random.randrange(100))

    # -- the end -----------------------------------------------------------------------------------

    def _heal(self) -> None:
        """From here on everything works: what has no answer gets one, and every transaction ends."""
        if not self.dials.ends_abruptly:
            self._let_go()
            self._turn()
        self._end_broker(self.random.choice((*OUTCOMES, "", "", "")))
        self.clock.jump(self._set_back_ms)  # or delays would wait for the time before
        if self.dials.opens_twice:
            self._open_twice()
        for producer in self.producers:
            if producer.unanswered:
                producer.connect(self.site)
                self._turn()
                producer.send_again()
                self._turn()
            assert not producer.unanswered, f"{producer.name}: {producer.unanswered}"
        if not self.transactor.is_idle:
            self.transactor.connect(self.site)
            self.transactor.end("abort")
            self._turn()
            assert self.transactor.is_idle, "a transaction has no end"

    def _open_twice(self) -> None:
        for _ in range(2):
            topic = self.site.topic()
            state = self.site.here(lambda: read_log(topic.log))  # noqa: B023
            cursors = {
                name: (one.cursor.counts(), one.cursor.mark_delete_index)
                for name, one in sorted(topic.subscriptions.items())
            }
            digest = hashlib.sha256(repr((state, cursors)).encode()).hexdigest()
            self.history.note("opened", topic=TOPIC, state=digest)
            self.site = self.site.restarted()

    def _scan(self) -> None:
        for name in self.topics:
            if self.site.broker.directory.row(TopicName.parse(name)) is None:
                continue
            log = self.site.topic(name).log
            state = self.site.here(lambda: read_log(log))  # noqa: B023
            indexes = self._tell_stored(name, state)
            self._look_up(name, indexes, state.end_index)

    def _tell_stored(self, topic: str, state: LogState) -> list[int]:
        """Write down what every index holds: those of markers, aborted messages and chunks but the last hold
        no message of their own."""
        chunks = ChunkAssembler()
        of_topic = self.site.broker.topics[topic].transactions
        indexes = []
        self.history.note("scan", topic=topic, first=state.first_index)
        for item in state.items:
            parts = split_entry(item.payload)
            names = [parts.payload]
            info = chunk_info(parts.metadata)
            if info is not None:
                whole = chunks.add(info, item.position, parts.payload, now_ms=0)
                names = [whole.payload] if isinstance(whole, Whole) else []
            elif is_batch(parts.metadata):
                names = [one.payload for one in split_batch(parts.payload, item.count)]
            is_hidden = of_topic is not None and item.first_index in of_topic.hidden
            if parts.metadata.HasField("marker_type") or is_hidden or not names:
                end = item.first_index + item.count
                self.history.note("fill", topic=topic, **{"from": item.first_index, "to": end})
                continue
            for number, name in enumerate(names):
                indexes.append(item.first_index + number)
                self.history.note(
                    "stored",
                    topic=topic,
                    message=name.decode(),
                    id=[*item.position, number if is_batch(parts.metadata) else -1],
                    index=indexes[-1],
                )
        self.history.note("scanned", topic=topic, end=state.end_index)
        return indexes

    def _look_up(self, name: str, indexes: list[int], end: int) -> None:
        topic = self.site.broker.topics[name]

        async def look() -> None:
            for index in [-1, *self.random.sample(indexes, min(3, len(indexes))), end]:
                try:
                    found = await message_at(topic, index, self.site.broker.engine)
                except IndexNotFound:
                    id_ = None
                else:
                    id_ = None if found is EXPIRED else [*found.position, found.batch_index]
                self.history.note("lookup", topic=name, index=index, id=id_)

        self.site.run(look())

    def _drain(self) -> None:
        """Every subscription gets all that is left."""
        consumers = [
            Consumer(self.site, name, f"{member or 'last'} of {name}", self.history)
            for name in self.dials.subscriptions
            for member in self._of_group(name)
        ]
        for last in consumers:
            last.flow(10_000)
        for seconds in DRAIN_S if self.dials.delayed else DRAIN_S[:3]:
            self.clock.advance(seconds)
            self.site.turn()
            for last in consumers:
                last.hear()
        for last in consumers:
            assert not last.is_closed, f"{last.name} is sent away"
            self.history.note("drained", topic=TOPIC, sub=last.group["sub"], again=True)


@contextmanager
def hurried() -> Iterator[None]:
    """Worlds by the thousand: no line of a log, and the collector has its turn between worlds alone, where
    it looks at nothing that was there before. Of a world that ends in the middle, work is left that was
    never begun: Python warns of its coroutines when it collects them."""
    collects = gc.isenabled()
    gc.disable()
    gc.freeze()
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
        try:
            yield
        finally:
            logging.disable(disabled)
            gc.collect()
            gc.unfreeze()
            if collects:
                gc.enable()


COLLECT_EVERY = 10


def run_seed(seed: int, files: MemoryFiles | None = None, steps: int | None = None) -> str:
    """Simulate one; what goes wrong names its seed. Returns the hash of its trace."""
    again = f"seed {seed}; again: cd tests && python -m simulation.world {seed}"
    try:
        world = World(seed, files, steps)
        verdict = world.run()
    except Exception as error:
        raise AssertionError(f"{again}: {error!r}") from error
    assert not verdict.anomalies, f"{again}: {verdict.anomalies[:3]}"
    if seed % COLLECT_EVERY == 0:
        gc.collect()
    return world.trace_hash()


def run_seeds(seeds: Iterable[int]) -> list[str]:
    """Simulate one after the other; the hash of each trace."""
    with hurried():
        return [run_seed(seed) for seed in seeds]


def numbers(told: Sequence[str]) -> list[int]:
    """Seeds, or counts, as the command line has them."""
    try:
        return [int(one) for one in told]
    except ValueError:
        raise SystemExit(f"whole numbers are wanted, not {' '.join(told)!r}") from None


def main(seeds: list[str]) -> None:
    if not seeds:
        raise SystemExit("which seeds? python -m simulation.world SEED…")
    for seed in numbers(seeds):
        world = World(seed)
        verdict = world.run()
        sys.stdout.writelines(world.history.lines())
        print(f"{world.dials}\n{verdict.anomalies}\n{world.trace_hash()}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
