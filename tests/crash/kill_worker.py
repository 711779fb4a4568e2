"""A process under load that waits to be killed: the real engine, its threads, real files, no mercy.

Run by test_kill.py as `python kill_worker.py <directory> <seed>`. It appends,
acks, seeks, trims, and makes and deletes topics until it dies; or until its standard input ends, then it
closes in order.

What it does is told through standard output, as frames of pickled events: an intent before anything is
submitted, an answer after the engine gave it. A pipe outlives its writer, so the parent knows of every
intent that can have had an effect, and never of an answer that was not given.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import random
import struct
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from milepost.clock import SystemClock
from milepost.cursor import facts, snapshot
from milepost.cursor.cursor import Cursor
from milepost.errors import PersistenceError
from milepost.positions.ranges import IndexRanges
from milepost.storage.catalog.catalog import Snapshot, TopicRow
from milepost.storage.engine import StorageEngine, open_store
from milepost.storage.journal.loop_commit import Shortcut
from milepost.storage.ledgers.entry import BATCH, NewEntry
from milepost.storage.ledgers.log import Log, RollPolicy


class _Always(Shortcut):
    def allows(self, now: float, cpu_s: Callable[[], float], count: int, size: int) -> bool:
        return True


# Who commits: runs take turns, so that both ways are killed.
ALWAYS, NEVER = _Always(), Shortcut(0.0)

FRAME = struct.Struct("<I")

# Small, so that a run of some hundred milliseconds rolls ledgers and takes checkpoints all the time.
OPTIONS = {
    "roll_policy": RollPolicy(entries_max=250),
    "journal_size_max": 32 * 1024,
    "journal_ahead": 16 * 1024,
    "journal_piece": 4 * 1024,
    "tail_size_max": 64 * 1024,
}
# Submitted and not answered. More would only make groups larger.
IN_FLIGHT_MAX = 40
# Logs are kept about this long, so that checking them stays cheap.
RETAINED_MESSAGES = 1500

# Topics that come and go; the others are there when the worker starts.
DOOMED = "persistent://public/default/doomed-"

CURSOR, OPAQUE = "cursor", "opaque"
OPAQUE_FACT = struct.Struct("<QI")


def decode_cursor(found: Snapshot) -> Cursor:
    """A cursor as a start finds it."""
    assert found.data is not None
    cursor = snapshot.decode(found.data)
    for fact in found.facts:
        cursor.replay(facts.decode(fact))
    return cursor


class Reporter:
    """Events to the parent, in order."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._events: list[tuple[object, ...]] = []
        self._scheduled = False

    def say(self, *event: object) -> None:
        """Tell it before the loop goes on to something else."""
        self._events.append(event)
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Tell it now: intents must be out before they can have an effect."""
        self._scheduled = False
        if self._events:
            data = pickle.dumps(self._events)
            self._events.clear()
            view = memoryview(FRAME.pack(len(data)) + data)
            while view:
                view = view[os.write(1, view) :]


class Subscription:
    """A real cursor, whose changes are facts in the journal."""

    def __init__(self, state_id: int, key: tuple[str, str], cursor: Cursor, log: Log) -> None:
        self.state_id = state_id
        self.key = key
        self.cursor = cursor
        self.log = log

    def act(self, chance: random.Random) -> list[bytes]:
        """One random step; the facts it made."""
        cursor = self.cursor
        cursor.extend(self.log.end_index)
        if cursor.end == 0:
            return []
        if chance.random() < 0.05:
            return [facts.encode(cursor.seek(chance.randrange(cursor.end + 1)))]
        first = chance.randrange(cursor.end)
        end = min(first + chance.randrange(1, 30), cursor.end)
        made: list[bytes] = []
        if chance.random() < 0.7:
            delivered = cursor.deliver(first, end, holder=1)
            if delivered.stale:
                again = facts.DeliveryFact(cursor.epoch, IndexRanges(delivered.ranges))
                made.append(facts.encode(again))
        middle = chance.randrange(first, end)
        acked = cursor.ack([(first, middle + 1)] if chance.random() < 0.5 else [(middle, end)])
        if acked.ranges:
            made.append(facts.encode_ack(cursor.epoch, acked.ranges))
        return made


class Worker:
    def __init__(self, engine: StorageEngine, seed: int) -> None:
        self.engine = engine
        self.store = engine.store
        self.chance = random.Random(seed)
        self.seed = seed
        self.loop = asyncio.get_running_loop()
        self.reporter = Reporter(self.loop)
        self.say = self.reporter.say
        self.in_flight = 0
        self.checkpoints = 0
        self.numbers = iter(range(2**32))
        self.stopping = False
        self.stopped: asyncio.Future[None] = self.loop.create_future()
        self.chore: asyncio.Task[None] | None = None
        self.logs: dict[str, Log] = {}
        self.topics: dict[str, TopicRow] = {}
        self.subscriptions: list[Subscription] = []
        self.opaque: dict[str, tuple[int, list[bytes]]] = {}

    def open(self) -> None:
        store = self.store
        for topic in store.catalog.topics():
            log = self.logs[topic.name] = store.log(topic)
            self.topics[topic.name] = topic
            assert log.damage is None, log.damage
            for state in store.catalog.states(topic.topic_id):
                if state.kind == OPAQUE:
                    self._open_opaque(state.state_id, topic.name)
                else:
                    self._open_cursor(state.state_id, (topic.name, state.name), log)

    def _open_opaque(self, state_id: int, name: str) -> None:
        told: list[bytes] = []
        found = self.store.open_state(state_id, lambda: b"".join(told))
        told += [found.data or b"", *found.facts]
        self.opaque[name] = state_id, told

    def _open_cursor(self, state_id: int, key: tuple[str, str], log: Log) -> None:
        def take() -> bytes:
            return snapshot.encode(subscription.cursor)

        cursor = decode_cursor(self.store.open_state(state_id, take))
        subscription = Subscription(state_id, key, cursor, log)
        self.subscriptions.append(subscription)

    # -- turns -------------------------------------------------------------------------------------

    def turn(self) -> None:
        """Some random steps: decided, told as intents, then submitted."""
        if self.stopping:
            self._stop_if_idle()
            return
        while self.checkpoints < self.store.checkpoints:
            self.checkpoints += 1
            self.say("checkpoint")
        submits: list[Callable[[], object]] = []
        for _ in range(self.chance.randrange(1, 6)):
            kind = self.chance.random()
            if kind < 0.5:
                submits.append(self._append())
            elif kind < 0.85:
                submits += self._act()
            elif kind < 0.98:
                submits.append(self._tell())
            else:
                self._do_chore()
        self.reporter.flush()
        for submit in submits:
            submit()
        if self.in_flight < IN_FLIGHT_MAX:
            self.loop.call_soon(self.turn)

    def _answer(self, then: Callable[[], object]) -> Callable[[PersistenceError | None], None]:
        self.in_flight += 1

        def done(error: PersistenceError | None) -> None:
            if error is not None:
                raise error
            then()
            self.in_flight -= 1
            if self.in_flight == IN_FLIGHT_MAX - 1 or self.stopping:
                self.loop.call_soon(self.turn)

        return done

    def _append(self) -> Callable[[], object]:
        name = self.chance.choice(list(self.logs))
        items: list[NewEntry] = []
        numbers: list[int] = []
        for _ in range(self.chance.choice((1, 1, 1, 4, 12))):
            number = next(self.numbers)
            count = self.chance.choice((1, 1, 5))
            payload = b"%d/%d " % (self.seed, number) + bytes(self.chance.randrange(200))
            items.append(NewEntry(payload, count, BATCH if count > 1 else 0))
            numbers.append(number)
            self.say("publish", number, name, payload, count)

        def stored() -> None:
            positions = range(block.first_entry_id, block.first_entry_id + len(items))
            for number, entry_id, last, item in zip(
                numbers, positions, block.last_indexes, items, strict=True
            ):
                self.say("stored", number, (block.ledger_id, entry_id), last - item.count + 1)

        def submit() -> None:
            nonlocal block
            block = self.logs[name].append(items, self.store.clock.wall_ms(), self._answer(stored))

        block = None  # type: ignore[assignment]
        return submit

    def _act(self) -> list[Callable[[], object]]:
        subscription = self.chance.choice(self.subscriptions)
        submits = []
        for fact in subscription.act(self.chance):
            number = next(self.numbers)
            self.say("changed", number, subscription.key, fact)
            submits.append(self._fact(subscription.state_id, fact, "kept", number))
        return submits

    def _tell(self) -> Callable[[], object]:
        name = self.chance.choice(list(self.opaque))
        state_id, told = self.opaque[name]
        number = next(self.numbers)
        fact = OPAQUE_FACT.pack(self.seed, number)
        told.append(fact)
        self.say("tell", number, name, OPAQUE, fact)
        return self._fact(state_id, fact, "told", number)

    def _fact(self, state_id: int, fact: bytes, answer: str, number: int) -> Callable[[], object]:
        def submit() -> None:
            done = self._answer(lambda: self.say(answer, number))
            self.store.fact(state_id, fact, done)

        return submit

    # -- chores: what takes more than one step -----------------------------------------------------

    def _do_chore(self) -> None:
        if self.chore is not None and not self.chore.done():
            return
        doomed = [name for name in self.logs if DOOMED in name]
        if self.chance.random() < 0.5:
            chore = self._trim(self.chance.choice(list(self.logs)))
        elif doomed:
            chore = self._delete(doomed[0])
        else:
            chore = self._create(f"{DOOMED}{self.seed}-{next(self.numbers)}")
        self.chore = self.loop.create_task(chore)
        self.chore.add_done_callback(lambda task: task.result())

    async def _trim(self, name: str) -> None:
        log = self.logs[name]
        before = max(log.end_index - RETAINED_MESSAGES, 0)
        self.say("trim", name, before)
        self.reporter.flush()
        await self.engine.trim(log, before)
        if name in self.logs:
            self.say("trimmed", name, log.first_index)

    async def _create(self, name: str) -> None:
        self.say("create", name)
        self.reporter.flush()
        topic = await self.engine.catalog(lambda catalog: catalog.create_topic(name, {}))
        self.say("created", name)
        self.topics[name] = topic
        self.logs[name] = self.store.log(topic)

    async def _delete(self, name: str) -> None:
        self.say("delete", name)
        self.reporter.flush()
        log = self.logs.pop(name)
        await self.engine.flush()  # what is on its way to it is answered first
        await self.engine.delete_topic(self.topics[name], log)
        self.say("deleted", name)

    # -- the end -----------------------------------------------------------------------------------

    def stop(self) -> None:
        self.loop.remove_reader(0)
        self.stopping = True
        self.loop.call_soon(self.turn)

    def _stop_if_idle(self) -> None:
        if self.in_flight == 0 and not self.stopped.done():
            self.stopped.set_result(None)


def die(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """Anything unexpected ends the run with something to read."""
    error = context.get("exception")
    if isinstance(error, BaseException):
        traceback.print_exception(error)
    else:
        print(context, file=sys.stderr)
    sys.stderr.flush()
    os._exit(3)


async def main(root: Path, seed: int) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(die)
    store, lock = open_store(root, SystemClock(), **OPTIONS)
    worker = Worker(StorageEngine(store, lock, ALWAYS if seed % 2 else NEVER), seed)
    worker.open()
    worker.say("ready")
    worker.reporter.flush()
    loop.add_reader(0, worker.stop)
    worker.turn()
    await worker.stopped
    if worker.chore is not None:
        await worker.chore
    await worker.engine.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
