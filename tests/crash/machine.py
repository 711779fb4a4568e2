"""A machine in memory: a store on a disk that can fail, its catalog beside it, and a history.

Runs the shipped `Store` without threads, but in the steps that the engine's threads take, so that a
test can stop between any two of them: submit, commit, finish; plan, flush, record, finish, drop. All
it asks for and is told goes into the history, and into the disk's trace as marks, together with the
catalog at each of its commits: a crash image of that trace is a whole machine again (`Machine.from_image`).

Subscriptions are real cursors. A state's snapshot holds the cursor and, beside it, every fact that
made it, so that a recovered cursor can be compared with the facts that the history knows.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from crash.checker import History, LogState, Problem, State, check, check_lookups, read_log
from milepost.cursor import facts as cursor_facts
from milepost.cursor import snapshot as cursor_snapshot
from milepost.cursor.cursor import Cursor
from milepost.errors import OutcomeUnknown, PersistenceError
from milepost.positions.ackset import AckSet
from milepost.positions.ids import Position
from milepost.storage.catalog.catalog import Snapshot, TopicRow
from milepost.storage.catalog.sqlite_catalog import SqliteCatalog
from milepost.storage.checkpoint import Checkpoint
from milepost.storage.journal.queue import Commit
from milepost.storage.journal.runway import INTERVAL_S
from milepost.storage.ledgers.entry import BATCH, Block, NewEntry
from milepost.storage.ledgers.log import Log, RollPolicy
from milepost.storage.store import Store
from milepost.testing import Image, ManualClock, MemoryFiles

KIND = "cursor"
HOLDER = 1

# Small, so that a short workload rolls, maps, evicts and reads from files.
ROLL_POLICY = RollPolicy(entries_max=6)
TAIL_SIZE_MAX = 600


class Killed(BaseException):
    """The process dies here."""


class CatalogImage(bytes):
    """The catalog at one of its commits; does not fill a screen."""

    def __repr__(self) -> str:
        return f"of {len(self)} bytes"


class Subscription:
    """A cursor that is a state of the store, with every fact that was ever true of it."""

    def __init__(self, topic: str, name: str, state_id: int) -> None:
        self.topic = topic
        self.name = name
        self.state_id = state_id
        self.cursor = Cursor()
        self.facts: list[bytes] = []

    def take_snapshot(self) -> bytes:
        cursor = cursor_snapshot.encode(self.cursor)
        return b"".join(struct.pack("<I", len(part)) + part for part in (cursor, *self.facts))

    def load(self, stored: Snapshot) -> None:
        if stored.data is not None:
            at, parts = 0, []
            while at < len(stored.data):
                (size,) = struct.unpack_from("<I", stored.data, at)
                parts.append(stored.data[at + 4 : at + 4 + size])
                at += 4 + size
            self.cursor = cursor_snapshot.decode(parts[0])
            self.facts = parts[1:]
        for fact in stored.facts:
            self.cursor.replay(cursor_facts.decode(fact))
            self.facts.append(fact)

    def progress(self, log: LogState) -> tuple[Any, ...]:
        """What a consumer could tell: epoch and backlog, on the log as it is."""
        cursor = cursor_snapshot.decode(cursor_snapshot.encode(self.cursor))
        return _progress(cursor, log)

    def expected(self, log: LogState) -> tuple[Any, ...]:
        """The same from the facts alone."""
        cursor = Cursor()
        for fact in self.facts:
            cursor.replay(cursor_facts.decode(fact))
        return _progress(cursor, log)


def _progress(cursor: Cursor, log: LogState) -> tuple[Any, ...]:
    cursor.extend(max(cursor.end, log.end_index))
    cursor.trim(max(cursor.first, log.first_index))
    return cursor.epoch, list(cursor.backlog_ranges())


class Machine:
    def __init__(
        self,
        files: MemoryFiles | None = None,
        catalog_image: bytes | None = None,
        history: History | None = None,
        clock: ManualClock | None = None,
        *,
        traced: bool = True,
        **options: Any,
    ) -> None:
        """`traced` False: the trace will not be crashed again, so spare the marks."""
        self.files = MemoryFiles() if files is None else files
        self.clock = clock or ManualClock()
        self.history = history or History()
        if traced:
            self.history.record = lambda event: self.files.trace.mark("event", event)
        self.options: dict[str, Any] = {
            "roll_policy": ROLL_POLICY,
            "tail_size_max": TAIL_SIZE_MAX,
            "journal_ahead": 2048,
            "journal_piece": 512,
            **options,
        }
        self._catalog_image = catalog_image
        self._traced = traced
        self.serial = 0
        self._asked_s = 0.0
        self.boot()

    @classmethod
    def from_image(cls, image: Image, **options: Any) -> Machine:
        """The machine after that crash, recovered; its history is what had been promised before."""
        history = History.of(image.payloads("event"))
        return cls(image.files, image.last("catalog"), history, **options)

    # -- power -------------------------------------------------------------------------------------

    def boot(self) -> None:
        """Open the data directory and everything in it."""
        self.catalog = SqliteCatalog(
            None,
            image=self._catalog_image,
            on_commit=self._committed if self._traced else None,
        )
        self.store = Store(self.files, self.catalog, self.clock, **self.options)
        self.logs: dict[str, Log] = {}
        self.topics: dict[str, TopicRow] = {}
        self.subscriptions: dict[tuple[str, str], Subscription] = {}
        self.plan: Checkpoint | None = None
        self._recorded = False
        self._commits: list[Commit] = []
        self._lay: Callable[[], None] | None = None
        self._reply: list[Checkpoint | PersistenceError] = []
        for topic in self.catalog.topics():
            self._adopt(topic)

    def _committed(self, catalog: SqliteCatalog) -> None:
        self.files.trace.mark("catalog", CatalogImage(catalog.image()))

    def _adopt(self, topic: TopicRow) -> None:
        self.topics[topic.name] = topic
        self.logs[topic.name] = self.store.log(topic)
        for state in self.catalog.states(topic.topic_id):
            if state.state_id not in self.store.damaged_states:
                self._open(Subscription(topic.name, state.name, state.state_id))

    def _open(self, subscription: Subscription) -> None:
        subscription.load(self.store.open_state(subscription.state_id, subscription.take_snapshot))
        log = self.logs[subscription.topic]
        # An end index in a fact or snapshot was durable before it was written down.
        subscription.cursor.extend(max(subscription.cursor.end, log.end_index))
        self.subscriptions[subscription.topic, subscription.name] = subscription

    def kill(self) -> None:
        """The process dies, its files stay as the kernel has them; then it is started again."""
        self.files.on_sync = None
        for call in ("rename", "sync_dir"):
            vars(self.files).pop(call, None)
        for node in (*self.files._names.values(), *self.files._unnamed):
            node.writers = 0  # the kernel closes what the process had open
        self._catalog_image = self.catalog.image()
        self.boot()

    def die_in_next(self, call: str) -> None:
        """The next `sync`, `rename` or `sync_dir` raises `Killed` before it does anything; then call
        `kill`."""

        def die(*arguments: str) -> None:
            raise Killed

        setattr(self.files, "on_sync" if call == "sync" else call, die)

    def close(self) -> None:
        """An orderly end; a checkpoint that was under way is given up."""
        self.pump()
        if self.plan is not None:
            self.finish_checkpoint(OSError())
        self.store.close()

    # -- asking ------------------------------------------------------------------------------------

    def create_topic(self, name: str, *subscriptions: str) -> None:
        self.history.create(name)
        topic = self.catalog.create_topic(name, {})
        self.history.created(name)
        self._adopt(topic)
        for subscription in subscriptions:
            self.subscribe(name, subscription)

    def subscribe(self, topic: str, name: str) -> None:
        self.history.create(topic, name)
        state = self.catalog.create_state(self.topics[topic].topic_id, KIND, name, {})
        self.history.created(topic, name)
        self._open(Subscription(topic, name, state.state_id))

    def publish(self, topic: str, *counts: int, size: int = 20) -> Block:
        """One block with an entry for each count."""
        items, tickets = [], []
        for count in counts:
            self.serial += 1
            # Nothing else is called so, not even in a topic of this name that was deleted.
            payload = f"{topic}/{self.history.asked}/".encode()
            payload += bytes(self.serial % 251 for _ in range(size))
            tickets.append(self.history.publish(topic, payload, count))
            items.append(NewEntry(payload, count, BATCH if count > 1 else 0))
        log = self.logs[topic]

        def done(error: PersistenceError | None) -> None:
            first_index = block.end_index - sum(counts)
            for number, (ticket, count) in enumerate(zip(tickets, counts, strict=True)):
                if error is None:
                    position = Position(block.ledger_id, block.first_entry_id + number)
                    self.history.stored(ticket, position, first_index)
                elif isinstance(error, OutcomeUnknown):
                    self.history.unknown(ticket)
                else:
                    self.history.refused(ticket)
                first_index += count
            if error is None and self.logs.get(topic) is log:  # not deleted meanwhile
                for subscription in self._subscriptions_of(topic):
                    subscription.cursor.extend(max(subscription.cursor.end, block.end_index))

        block = log.append(items, self.clock.wall_ms(), done)
        return block

    def _subscriptions_of(self, topic: str) -> list[Subscription]:
        return [s for s in self.subscriptions.values() if s.topic == topic]

    def ack(self, topic: str, name: str, count: int, *, skip: int = 0) -> None:
        """Deliver what is ready and ack `count` of it, leaving `skip` before it inflight."""
        subscription = self.subscriptions[topic, name]
        ready = subscription.cursor.next_ready(0)
        if ready is None or ready[1] - ready[0] <= skip:
            return
        first, end = ready[0], min(ready[1], ready[0] + skip + count)
        subscription.cursor.deliver(first, end, HOLDER)
        acked = subscription.cursor.ack([(first + skip, end)], HOLDER)
        self._tell(subscription, cursor_facts.encode_ack(subscription.cursor.epoch, acked.ranges))

    def ack_set(self, topic: str, name: str, first_index: int, size: int, words: list[int]) -> None:
        """An ack of part of a batch, by the words that a client sends (PIP-54)."""
        subscription = self.subscriptions[topic, name]
        ranges = AckSet.from_ack_words(words, size).acked_runs(first_index)
        acked = subscription.cursor.ack(ranges, HOLDER)
        self._tell(subscription, cursor_facts.encode_ack(subscription.cursor.epoch, acked.ranges))

    def seek(self, topic: str, name: str, index: int) -> None:
        subscription = self.subscriptions[topic, name]
        index = min(max(index, subscription.cursor.first), subscription.cursor.end)
        self._tell(subscription, cursor_facts.encode(subscription.cursor.seek(index)))

    def _tell(self, subscription: Subscription, fact: bytes) -> None:
        subscription.facts.append(fact)
        ticket = self.history.tell(subscription.topic, subscription.name, fact)

        def done(error: PersistenceError | None) -> None:
            if error is None:
                self.history.told(ticket)
            elif isinstance(error, OutcomeUnknown):
                self.history.unknown(ticket)
            else:
                self.history.refused(ticket)

        self.store.fact(subscription.state_id, fact, done)

    def close_subscription(self, topic: str, name: str) -> None:
        subscription = self.subscriptions.pop((topic, name))
        self.store.close_state(subscription.state_id)

    def open_subscription(self, topic: str, name: str) -> None:
        for state in self.catalog.states(self.topics[topic].topic_id):
            if state.name == name:
                self._open(Subscription(topic, name, state.state_id))

    def unsubscribe(self, topic: str, name: str) -> None:
        subscription = self.subscriptions.pop((topic, name))
        self.history.delete_state(topic, name)
        self.store.delete_state(subscription.state_id)

    def roll(
        self, topic: str, done: Callable[[PersistenceError | None], None] | None = None
    ) -> None:
        self.logs[topic].roll(self.clock.wall_ms(), done or (lambda error: None))

    def trim(self, topic: str, before_index: int) -> int:
        self.history.trim(topic, before_index)
        count = self.store.trim(self.logs[topic], before_index)
        self.history.trimmed(topic, self.logs[topic].first_index if count else 0)
        return count

    def delete_topic(self, name: str) -> None:
        self.history.delete(name)
        try:
            self.store.delete(self.topics[name])
        finally:
            if self.catalog.topic(name) is None:  # its files may be there still
                self.history.deleted(name)
                del self.topics[name], self.logs[name]
                for subscription in self._subscriptions_of(name):
                    del self.subscriptions[name, subscription.name]

    # -- the steps of the engine's threads ---------------------------------------------------------

    def commit(self) -> None:
        """The journal's thread: whatever waits is made durable; nobody is told yet."""
        self._commits += self.store.journal.commit()

    def finish(self) -> None:
        """The loop: tell those who wait."""
        commits, self._commits = self._commits, []
        self.store.journal.finish(commits)

    def pump(self) -> None:
        self.finish()
        self.store.pump()

    def lay(self) -> None:
        """By turns: the journal is asked whether it wants more runway; and a thread lays it."""
        work, self._lay = self._lay, None
        if work is not None:
            work()
        else:
            self._asked_s += INTERVAL_S
            self._lay = self.store.journal.more_runway(self._asked_s)

    def begin_checkpoint(self) -> bool:
        """Roll the journal; the plan is made when that is durable and told."""
        if self.plan is not None or self.store._checkpointing:
            return False
        self._reply.clear()
        self.store.begin_checkpoint(self._planned)
        return True

    def _planned(self, plan: Checkpoint | PersistenceError) -> None:
        self._reply.append(plan)
        self.plan = plan if isinstance(plan, Checkpoint) else None

    def flush(self) -> None:
        assert self.plan is not None
        self.plan.flush(self.files)

    def record(self) -> None:
        assert self.plan is not None
        self.plan.record(self.catalog)
        self._recorded = True

    def finish_checkpoint(self, error: BaseException | None = None) -> None:
        assert self.plan is not None
        plan, self.plan = self.plan, None
        if self._recorded:
            error = None  # it has happened, whatever came after
        self._recorded = False
        self.store.finish_checkpoint(plan, error)
        if error is None:
            plan.drop_journal(self.files)

    def checkpoint(self) -> None:
        self.finish()
        if self.plan is not None:  # given up half-way
            self.finish_checkpoint(OSError())
        self.store.checkpoint()

    # -- judging -----------------------------------------------------------------------------------

    def state(self) -> State:
        """Everything that can be seen."""
        state = State()
        for name, log in self.logs.items():
            state.logs[name] = read_log(log)
        for name, topic in self.topics.items():
            for row in self.catalog.states(topic.topic_id):
                if (name, row.name) not in self.subscriptions:
                    self.open_subscription(name, row.name)
        for key, subscription in self.subscriptions.items():
            state.facts[key] = list(subscription.facts)
        return state

    def settle(self) -> None:
        """After a restart: what is visible now stays, what is not there never comes back."""
        self.history.settle(self.state())

    def problems(self) -> list[Problem]:
        """What is wrong with the machine, all told."""
        self.finish()
        state = self.state()
        problems = check(self.history, state)
        for name, log in self.logs.items():
            problems += check_lookups(name, log, state.logs[name])
        for (topic, name), subscription in self.subscriptions.items():
            found = subscription.progress(state.logs[topic])
            wanted = subscription.expected(state.logs[topic])
            if found != wanted:
                problems.append(
                    Problem("bad-cursor", topic, f"{name}: {found}, facts say {wanted}")
                )
        problems += [Problem("violation", "", text) for text in self.files.violations]
        return problems
