"""How close storage comes to the bare file, and what topics, look-ups and restarts cost.

    python -m bench storage

The journal is measured with its thread, on a loop as the broker's: entries of 1 KiB, a fixed number in
flight; each completion makes room for the next append, in a later turn of the loop. The sizes of the
groups that were really committed are then written to a bare file, one write and one sync a group. Rounds
of the two alternate, and the median of their ratios counts.

Large logs are built without syncing; what is measured on them runs in a process of its own.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import uvloop

from bench import Result, at_least, at_most
from milepost.clock import SystemClock
from milepost.cursor.facts import encode_ack_range
from milepost.storage.catalog.sqlite_catalog import FILE as CATALOG_FILE
from milepost.storage.catalog.sqlite_catalog import SqliteCatalog
from milepost.storage.engine import StorageEngine, open_store
from milepost.storage.files import AppendFile, Buffer, RealFiles
from milepost.storage.ledgers.entry import BATCH, NewEntry
from milepost.storage.ledgers.log import Log
from milepost.storage.store import JOURNAL_SIZE_DEFAULT, Store

MIB = 1024 * 1024
ENTRY_SIZE = 1024
ROUNDS = 5
ENTRIES_PER_ROUND = 10_000
NEVER = 2**40  # no checkpoint by size

TOPICS_MANY = 1000
CURSORS = 100

LOOKUP_ENTRIES = 10_000_000
LOOKUPS = 100_000

RESTART_ENTRIES = 1_000_000
RESTART_FACTOR = 4


# -- files that tell or forget -------------------------------------------------------------------------


class WatchedFile:
    """An append file that notes the size of every append, or leaves out the syncs."""

    def __init__(self, file: AppendFile, groups: list[int] | None) -> None:
        self._file = file
        self._groups = groups

        self.size = file.size

    def append(self, buffers: Sequence[Buffer]) -> None:
        before = self.size
        self._file.append(buffers)
        self.size = self._file.size
        if self._groups is not None:
            self._groups.append(self.size - before)

    def sync(self) -> None:
        if self._groups is not None:
            self._file.sync()

    def close(self) -> None:
        self._file.close()


class RecordingFiles(RealFiles):
    """Notes the groups that are written to the journal."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.groups: list[int] = []

    def create(self, path: str) -> AppendFile:  # type: ignore[override]
        file = super().create(path)
        return WatchedFile(file, self.groups) if path.startswith("journal/") else file


class UnsyncedFiles(RealFiles):
    """For building what is to be measured: nothing waits for the disk."""

    def create(self, path: str) -> AppendFile:  # type: ignore[override]
        return WatchedFile(super().create(path), None)

    def open_append(self, path: str, size: int) -> AppendFile:  # type: ignore[override]
        return WatchedFile(super().open_append(path, size), None)

    def sync_dir(self, folder: str) -> None:
        pass


@contextmanager
def scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="milepost-bench-") as folder:
        yield Path(folder)


def nothing(error: Exception | None) -> None:
    if error is not None:
        raise error


# -- the journal -----------------------------------------------------------------------------------


class Round(NamedTuple):
    """Some thousand entries through the whole path."""

    wall_s: float
    cpu_s: float
    groups: list[int]


class Rig:
    """An engine on real files, and logs to append to."""

    def __init__(self, root: Path, topics: int) -> None:
        self.files = RecordingFiles(root)
        catalog = SqliteCatalog(root / CATALOG_FILE)
        self.store = Store(self.files, catalog, SystemClock(), journal_size_max=NEVER)
        self.engine = StorageEngine(self.store)
        self.loop = asyncio.get_running_loop()
        with catalog.transaction():
            rows = [catalog.create_topic(f"topic-{number}", {}) for number in range(topics)]
        self.logs = [self.store.log(row) for row in rows]

    async def round(
        self,
        in_flight: int,
        run: int = 1,
        *,
        entries: int = ENTRIES_PER_ROUND,
        beside: Callable[[int], object] = lambda number: None,
    ) -> Round:
        """`entries` entries, `run` of them an append; `beside` is called with each append."""
        loop, logs, count = self.loop, self.logs, len(self.logs)
        items = [NewEntry(os.urandom(ENTRY_SIZE)) for _ in range(run)]
        now_ms = self.store.clock.wall_ms()
        at_once, left = in_flight // run, entries // run
        finished: asyncio.Future[None] = loop.create_future()
        sent = answered = 0

        def send() -> None:
            nonlocal sent
            beside(sent)
            logs[sent % count].append(items, now_ms, done)
            sent += 1

        def done(error: Exception | None) -> None:
            nonlocal answered, left
            nothing(error)
            answered += 1
            if left:
                left -= 1
                loop.call_soon(send)
            elif answered == entries // run:
                finished.set_result(None)

        self.files.groups.clear()
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(at_once):
            left -= 1
            send()
        await finished
        return Round(time.perf_counter() - wall, time.process_time() - cpu, list(self.files.groups))


def bare_file(root: Path, groups: Sequence[int]) -> float:
    """Seconds to write and sync groups of these sizes, and nothing else."""
    data = os.urandom(max(groups))
    fd = os.open(root / "bare", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    try:
        began = time.perf_counter()
        for size in groups:
            os.write(fd, data[:size])
            os.fdatasync(fd)
        return time.perf_counter() - began
    finally:
        os.close(fd)


async def journal() -> list[Result]:
    """Against the bare file, with few and many in flight, one by one and in runs."""
    results: list[Result] = []
    for in_flight, run in ((16, 1), (256, 1), (256, 16), (1024, 16)):
        how = f"{in_flight} in flight" + (f", in runs of {run}" if run > 1 else "")
        ratios: list[float] = []
        rates: list[float] = []
        sizes: list[float] = []
        syncs: list[float] = []
        with scratch() as root:
            rig = Rig(root, 1)
            entries = min(ENTRIES_PER_ROUND, in_flight * 150)
            for _ in range(ROUNDS):
                took = await rig.round(in_flight, run, entries=entries)
                bare = bare_file(root, took.groups)
                ratios.append(bare / took.wall_s)
                syncs.append(bare / len(took.groups) * 1000)
                rates.append(entries / took.wall_s)
                sizes.append(entries / len(took.groups))
            await rig.engine.close()
        results.append(
            at_least(
                f"1 KiB appends, {how}: share of the bare file", statistics.median(ratios), "", 0.6
            )
        )
        results.append(Result("    entries a second", statistics.median(rates), "/s"))
        results.append(Result("    entries a group", statistics.median(sizes), ""))
        results.append(Result("    one group on the bare file", statistics.median(syncs), "ms"))
    return results


async def topics() -> list[Result]:
    """The same load on one topic and on a thousand."""
    wall: list[float] = []
    cpu: list[float] = []
    with scratch() as one_root, scratch() as many_root:
        one, many = Rig(one_root, 1), Rig(many_root, TOPICS_MANY)
        await one.round(256)
        await many.round(256)  # every topic has its ledger now
        for _ in range(ROUNDS):
            few, lot = await one.round(256), await many.round(256)
            wall.append(lot.wall_s / few.wall_s)
            cpu.append(lot.cpu_s / few.cpu_s)
        await one.engine.close()
        await many.engine.close()
    name = f"{TOPICS_MANY:,} topics against one"
    return [
        at_most(f"{name}: CPU an entry", statistics.median(cpu), "x", 1.5),
        at_most(f"{name}: time an entry", statistics.median(wall), "x", 1.5),
    ]


async def cursors() -> list[Result]:
    """Acks of a hundred cursors, as many as there are entries, beside the entries."""
    with scratch() as root:
        rig = Rig(root, 1)
        store = rig.store
        topic_id = rig.logs[0].topic_id
        states = [
            store.catalog.create_state(topic_id, "cursor", f"s{number}", {}).state_id
            for number in range(CURSORS)
        ]
        for state_id in states:
            store.open_state(state_id, lambda: b"")

        def ack(number: int) -> None:
            fact = encode_ack_range(0, number, number + 1)
            store.fact(states[number % CURSORS], fact, nothing)

        await rig.round(256)
        ratios: list[float] = []
        commits: list[int] = []
        for _ in range(ROUNDS):
            before = store.journal.commits
            await rig.round(256)
            middle = store.journal.commits
            await rig.round(256, beside=ack)
            await rig.engine.flush()
            commits.append(store.journal.commits - middle)
            ratios.append(commits[-1] / (middle - before))
        await rig.engine.close()
    return [
        at_most(
            f"commits with acks of {CURSORS} cursors, against without",
            statistics.median(ratios),
            "x",
            1.2,
        ),
        Result("    records a commit", 2 * ENTRIES_PER_ROUND / statistics.median(commits), ""),
    ]


# -- large logs --------------------------------------------------------------------------------------


def in_a_process(function: Callable[[Path], dict[str, float]], root: Path) -> dict[str, float]:
    """Run a function of this module in a fresh interpreter."""
    code = (
        "import json, pathlib, sys; from bench import storage; "
        f"print(json.dumps(storage.{function.__name__}(pathlib.Path(sys.argv[1]))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(root)],
        cwd=Path(__file__).resolve().parent.parent,
        stdout=subprocess.PIPE,
        check=True,
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def building(root: Path) -> Store:
    catalog = SqliteCatalog(root / CATALOG_FILE)
    return Store(UnsyncedFiles(root), catalog, SystemClock(), journal_size_max=NEVER)


def checkpoint_when_due(store: Store) -> None:
    store.pump()
    if store.journal.size_submitted >= JOURNAL_SIZE_DEFAULT:
        store.checkpoint()


def resident_mib() -> float:
    with open("/proc/self/smaps_rollup") as lines:
        for line in lines:
            if line.startswith("Rss:"):
                return int(line.split()[1]) / 1024
    raise RuntimeError("no resident size in /proc/self/smaps_rollup")


def lookups() -> list[Result]:
    """Look-ups by index in one large log, every eighth entry a batch."""
    with scratch() as root:
        store = building(root)
        log = store.log(store.catalog.create_topic("large", {}))
        block = ([NewEntry(b"12345678")] * 7 + [NewEntry(b"12345678", 3, BATCH)]) * 2500
        now_ms = store.clock.wall_ms()
        for number in range(LOOKUP_ENTRIES // len(block)):
            log.append(block, now_ms + number, nothing)
            checkpoint_when_due(store)
        store.close()
        found = in_a_process(measure_lookups, root)
    name = f"look-up by index, {LOOKUP_ENTRIES // 10**6} M entries"
    return [
        at_most(f"{name}: median", found["median_us"], "µs", 20),
        Result("    99 of 100 within", found["p99_us"], "µs"),
        Result("    the first of a ledger", found["max_us"], "µs"),
        at_most(f"{name}: resident", found["resident_mib"], "MiB", 64),
    ]


def measure_lookups(root: Path) -> dict[str, float]:
    chance = random.Random(1)
    times = [0.0] * LOOKUPS
    gc.collect()
    before = resident_mib()
    store, lock = open_store(root, SystemClock())
    (topic,) = store.catalog.topics()
    log = store.log(topic)
    highest = 0.0
    for number in range(LOOKUPS):
        index = chance.randrange(log.end_index)
        began = time.perf_counter()
        found = log.locate(index)
        times[number] = time.perf_counter() - began
        assert index in range(found.span.first_index, found.span.end_index)
        if number % 1000 == 999:
            highest = max(highest, resident_mib())
    times.sort()
    abandon(store)
    lock.release()
    return {
        "median_us": times[LOOKUPS // 2] * 1e6,
        "p99_us": times[LOOKUPS * 99 // 100] * 1e6,
        "max_us": times[-1] * 1e6,
        "resident_mib": highest - before,
    }


def abandon(store: Store) -> None:
    """Leave the directory as a killed process would."""
    store.journal.close()
    store.catalog.close()


def restart() -> list[Result]:
    """After a crash: with some data, with more data, and with a shorter tail."""
    some = restart_after(RESTART_ENTRIES, JOURNAL_SIZE_DEFAULT)
    more = restart_after(RESTART_ENTRIES * RESTART_FACTOR, JOURNAL_SIZE_DEFAULT)
    short = restart_after(RESTART_ENTRIES, JOURNAL_SIZE_DEFAULT // RESTART_FACTOR)
    name = f"restart, {RESTART_ENTRIES // 10**6} M entries, {TOPICS_MANY:,} topics"
    return [
        at_most(f"{name}, a whole journal to replay", some["wall_s"], "s", 3),
        Result("    CPU", some["cpu_s"], "s"),
        Result("    records replayed", some["records"], ""),
        at_most(
            f"    CPU with {RESTART_FACTOR} times the data", more["cpu_s"] / some["cpu_s"], "x", 1.5
        ),
        at_most(
            f"    CPU with a journal of one in {RESTART_FACTOR}",
            short["cpu_s"] / some["cpu_s"],
            "x",
            0.5,
        ),
    ]


def restart_after(entries: int, tail_size: int) -> dict[str, float]:
    """Open a directory whose last checkpoint is `tail_size` bytes of journal ago."""
    with scratch() as root:
        store = building(root)
        catalog = store.catalog
        with catalog.transaction():
            rows = [catalog.create_topic(f"topic-{number}", {}) for number in range(TOPICS_MANY)]
            states = [catalog.create_state(row.topic_id, "cursor", "s", {}) for row in rows]
        logs: list[Log] = [store.log(row) for row in rows]
        for state in states:
            store.open_state(state.state_id, lambda: b"")
        now_ms = store.clock.wall_ms()
        block = [NewEntry(bytes(100))] * 100
        for _ in range(entries // TOPICS_MANY // len(block)):
            for log in logs:
                log.append(block, now_ms, nothing)
            checkpoint_when_due(store)
        store.checkpoint()
        number = 0
        while store.journal.size_submitted < tail_size:
            logs[number % TOPICS_MANY].append([NewEntry(bytes(200))], now_ms, nothing)
            fact = encode_ack_range(0, number, number + 1)
            store.fact(states[number % TOPICS_MANY].state_id, fact, nothing)
            number += 1
            if number % TOPICS_MANY == 0:
                store.pump()
        store.pump()
        abandon(store)
        os.sync()  # as it would be: the journal was synced record by record
        return in_a_process(measure_restart, root)


def measure_restart(root: Path) -> dict[str, float]:
    wall: list[float] = []
    cpu: list[float] = []
    for _ in range(3):
        wall_began, cpu_began = time.perf_counter(), time.process_time()
        store, lock = open_store(root, SystemClock())
        wall.append(time.perf_counter() - wall_began)
        cpu.append(time.process_time() - cpu_began)
        records = store.report.records
        abandon(store)
        lock.release()
        del store
    # The best counts: a shared machine only ever adds.
    return {"wall_s": min(wall), "cpu_s": min(cpu), "records": records}


def run() -> list[Result]:
    """Everything; about a minute."""
    results: list[Result] = []
    for measure in (journal, topics, cursors):
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            results += runner.run(measure())
    return results + lookups() + restart()
