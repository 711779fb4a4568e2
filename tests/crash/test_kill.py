"""A real process under load is killed, again and again, and nothing it was told is lost.

`kill_worker.py` runs the engine on real files. It is killed at a random moment, its directory is opened
and judged by everything that was answered since the directory was made, and it is started again on the
same directory. Entries, trims and deletions are judged by `checker.py`; cursors by a twin that replays
the facts that were answered, and perhaps some that were not.

`make campaign` kills 507 times.
"""

from __future__ import annotations

import os
import pickle
import random
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from stage.acksets import is_clean
from stage.counts import campaign_count

from crash.checker import History, LogState, State, check, check_lookups, read_log
from crash.kill_worker import CURSOR, FRAME, OPAQUE, OPAQUE_FACT, OPTIONS, decode_cursor
from milepost.clock import SystemClock
from milepost.cursor import facts, snapshot
from milepost.cursor.cursor import Cursor
from milepost.positions.ids import Position
from milepost.storage.catalog.catalog import Snapshot
from milepost.storage.engine import open_store
from milepost.storage.ledgers.log import Log
from milepost.storage.lock import DirectoryLock
from milepost.storage.store import Store

KILLS_PER_DIRECTORY = 13
KILLS_MAX = 20 * KILLS_PER_DIRECTORY
DIRECTORIES = campaign_count("MILEPOST_KILL_DIRECTORIES", 1, 39)
START_SECONDS_MAX = 60.0

TOPICS = tuple(f"persistent://public/default/{name}" for name in "abc")
CURSORS = ("s0", "s1")

Key = tuple[str, str]

# What the worker says in the words of a history.
PLAIN_EVENTS = ("create", "created", "delete", "deleted", "trim", "trimmed")


# -- what a directory holds ---------------------------------------------------------------------------


def abandon(store: Store, lock: DirectoryLock) -> None:
    """Leave the directory as a killed process would."""
    store.journal.close()
    store.catalog.close()
    lock.release()


def prepare(root: Path, history: History) -> None:
    """The topics and states that stay."""
    store, lock = open_store(root, SystemClock(), **OPTIONS)
    for name in TOPICS:
        history.create(name)
        topic = store.catalog.create_topic(name, {})
        history.created(name)
        history.create(name, OPAQUE)
        store.catalog.create_state(topic.topic_id, OPAQUE, OPAQUE, {})
        history.created(name, OPAQUE)
        for cursor in CURSORS:
            state = store.catalog.create_state(topic.topic_id, CURSOR, cursor, {})
            first = Snapshot(store.journal.last_sequence, snapshot.encode(Cursor()), [])
            store.catalog.put_snapshot(state.state_id, first)
    abandon(store, lock)


def read_directory(root: Path, *, lookups: bool) -> tuple[State, dict[Key, Cursor]]:
    """Everything in the directory after a start; nothing is folded in."""
    store, lock = open_store(root, SystemClock(), **OPTIONS)
    try:
        assert not store.report.damages
        state = State()
        cursors: dict[Key, Cursor] = {}
        for topic in store.catalog.topics():
            log = store.log(topic)
            assert log.damage is None, log.damage
            state.logs[topic.name] = read_log(log)
            if lookups:
                assert check_lookups(topic.name, log, state.logs[topic.name]) == []
            for row in store.catalog.states(topic.topic_id):
                found = store.open_state(row.state_id, lambda: b"")
                if row.kind == CURSOR:
                    cursors[topic.name, row.name] = seen_from(log, decode_cursor(found))
                else:
                    told = (found.data or b"") + b"".join(found.facts)
                    size = OPAQUE_FACT.size
                    state.facts[topic.name, row.name] = [
                        told[at : at + size] for at in range(0, len(told), size)
                    ]
        return state, cursors
    finally:
        abandon(store, lock)


def seen_from(log: Log, cursor: Cursor) -> Cursor:
    """A start tells a cursor where its log ends. What it acked must be there."""
    assert cursor.end <= log.end_index, f"{cursor.end} of {log}"
    cursor.extend(log.end_index)
    return cursor


def comparable(cursor: Cursor) -> tuple[object, ...]:
    """What facts tell of a cursor; the rest may be as old as its last snapshot."""
    state = cursor.state()
    return state.first, state.epoch, list(state.backlog), list(state.stale)


class CursorTwin:
    """The facts of one cursor in order, and how many of them were answered."""

    def __init__(self) -> None:
        self.changes: list[bytes] = []
        self.kept_count = 0

    def match(self, key: Key, found: Cursor, log: LogState) -> None:
        """The cursor is what some first part of the facts makes, all that were answered in it."""
        twin = Cursor()
        for count in range(len(self.changes) + 1):
            if count:
                twin.replay(facts.decode(self.changes[count - 1]))
            if count < self.kept_count:
                continue
            seen = snapshot.decode(snapshot.encode(twin))
            seen.extend(log.end_index)
            if comparable(seen) == comparable(found):
                del self.changes[count:]
                self.kept_count = count
                return
        raise AssertionError(
            f"{key}: {comparable(found)} is none of the states behind fact {self.kept_count} "
            f"to {len(self.changes)}; the last of them is {comparable(twin)}"
        )


# -- the worker, from outside -------------------------------------------------------------------------


class Run:
    """One life of the worker: what it told until it died."""

    def __init__(self, root: Path, seed: int) -> None:
        worker = Path(__file__).with_name("kill_worker.py")
        self._stderr = root.with_suffix(".stderr").open("w+b")
        self._process = subprocess.Popen(
            [sys.executable, str(worker), str(root), str(seed)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
        )
        assert self._process.stdout is not None
        self._pipe = self._process.stdout.fileno()
        os.set_blocking(self._pipe, False)
        self._received = bytearray()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *failure: object) -> None:
        """Whatever went wrong here, no worker is left behind."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._stderr):
            assert stream is not None
            stream.close()

    def receive(self, seconds: float) -> bool:
        """Take what comes for so long; False when nothing can come any more."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if select.select([self._pipe], [], [], left)[0]:
                data = os.read(self._pipe, 1 << 20)
                if not data:
                    return False
                self._received += data
        return True

    def wait_until_ready(self) -> None:
        end = time.monotonic() + START_SECONDS_MAX
        while not self._received:
            assert time.monotonic() < end, "the worker does not start"
            assert self.receive(0.01), self.problem()

    def kill(self) -> list[tuple[object, ...]]:
        self._process.send_signal(signal.SIGKILL)
        return self._end(-signal.SIGKILL)

    def stop(self) -> list[tuple[object, ...]]:
        """Let it close in order."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._end(0)

    def _end(self, status: int) -> list[tuple[object, ...]]:
        assert not self.receive(START_SECONDS_MAX), "the worker does not end"
        assert self._process.wait(START_SECONDS_MAX) == status, self.problem()
        assert not self.problem(), self.problem()
        return self._events()

    def problem(self) -> str:
        self._stderr.seek(0)
        return self._stderr.read().decode()

    def _events(self) -> list[tuple[object, ...]]:
        events: list[tuple[object, ...]] = []
        at = 0
        while at + FRAME.size <= len(self._received):
            (size,) = FRAME.unpack_from(self._received, at)
            frame = self._received[at + FRAME.size : at + FRAME.size + size]
            if len(frame) < size:
                break  # it died in the middle of a word: whatever it meant, it did not do
            events += pickle.loads(frame)
            at += FRAME.size + size
        return events


# The load was a load: everything happened, and much of it was answered.
WANTED = {
    "stored": 200, "told": 200, "kept": 200, "trimmed": 4, "created": 4, "deleted": 4, "checkpoint": 3,
}  # fmt: skip


class Judge:
    """Everything that was promised in this directory, over all lives of the worker."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.history = History()
        self.twins: dict[Key, CursorTwin] = {
            (topic, cursor): CursorTwin() for topic in TOPICS for cursor in CURSORS
        }
        self.seen: Counter[str] = Counter()

    def hear(self, events: list[tuple[object, ...]]) -> None:
        tickets: dict[object, int] = {}
        changed: dict[object, tuple[CursorTwin, int]] = {}
        history = self.history
        for name, *arguments in events:
            self.seen[str(name)] += 1
            match name, arguments:
                case "publish", [number, topic, payload, count]:
                    tickets[number] = history.publish(topic, payload, count)
                case "stored", [number, position, first_index]:
                    history.stored(tickets[number], Position(*position), first_index)
                case "tell", [number, topic, state, fact]:
                    tickets[number] = history.tell(topic, state, fact)
                case "told", [number]:
                    history.told(tickets[number])
                case "changed", [number, key, fact]:
                    twin = self.twins[key]
                    twin.changes.append(fact)
                    changed[number] = twin, len(twin.changes)
                case "kept", [number]:
                    twin, count = changed[number]
                    twin.kept_count = count
                case str(), _ if name in PLAIN_EVENTS:
                    getattr(history, name)(*arguments)
                case (("ready" | "checkpoint"), []):
                    pass
                case _:
                    raise AssertionError(f"the worker said {name} {arguments}")

    def lacks(self) -> list[str]:
        """What has not happened often enough."""
        return [name for name, count in WANTED.items() if self.seen[name] < count]

    def judge(self, *, lookups: bool = False) -> None:
        """The directory keeps every promise, and a second start finds what the first one found."""
        state, cursors = read_directory(self.root, lookups=lookups)
        assert check(self.history, state) == []
        again, cursors_again = read_directory(self.root, lookups=False)
        assert again == state
        assert {key: comparable(cursor) for key, cursor in cursors_again.items()} == {
            key: comparable(cursor) for key, cursor in cursors.items()
        }
        assert cursors.keys() == self.twins.keys()
        for key, cursor in cursors.items():
            self.twins[key].match(key, cursor, state.logs[key[0]])
        self.history.settle(state)


@pytest.mark.parametrize("seed", range(DIRECTORIES))
def test_nothing_that_was_answered_is_lost_when_the_process_is_killed(
    seed: int, tmp_path: Path
) -> None:
    root = tmp_path / "data"
    chance = random.Random(seed)
    judge = Judge(root)
    prepare(root, judge.history)
    number = -1
    # Where the machine is busy with something else, little happens before a kill: there are more then.
    while (number := number + 1) < KILLS_PER_DIRECTORY or judge.lacks():
        assert number < KILLS_MAX, f"the load is none: {judge.lacks()}"
        with Run(root, seed * 1000 + number) as run:
            if number % 4 == 3:
                run.receive(chance.uniform(0.02, 0.4))  # in the middle of its start, perhaps
            else:
                run.wait_until_ready()
                run.receive(chance.uniform(0.05, 0.4))
            judge.hear(run.kill())
        judge.judge(lookups=number % 5 == 0)

    with Run(root, seed * 1000 + number) as run:
        run.wait_until_ready()
        run.receive(0.2)
        judge.hear(run.stop())
    store, lock = open_store(root, SystemClock(), **OPTIONS)
    assert is_clean(store.report), store.report
    abandon(store, lock)
    judge.judge(lookups=True)
