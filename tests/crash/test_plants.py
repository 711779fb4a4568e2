"""Tests of the tests: bugs planted on purpose, each of which must turn a campaign red.

A plant breaks one promise in one line, as somebody might by mistake. It runs through the very checkers
that the real store passes; within the budget of one ordinary run at least one of them must object. The
store without a plant passes the same run, so that it is the plant they object to.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import google_crc32c
import pytest
from stage.acksets import pending_runs

from crash import test_damage
from crash.campaign import IS_SHORT, judge
from crash.machine import Machine
from crash.workload import Workload
from milepost.errors import PersistenceError
from milepost.positions.ackset import AckSet
from milepost.storage import checkpoint, recovery, store
from milepost.storage.interface import Done
from milepost.storage.journal import journal, records
from milepost.storage.ledgers import entry, ledger, log
from milepost.testing import MemoryFiles, images
from milepost.testing.damage import flip_bit

Patch = pytest.MonkeyPatch
Plant = Callable[[Patch], None]

BUDGET_SEEDS = 8
BUDGET_IMAGES = 150
OPERATIONS = 90


# -- what must object ------------------------------------------------------------------------------


def crash_images(make: Callable[[], MemoryFiles] = MemoryFiles) -> list[str]:
    """What the image campaign says, at its first objection."""
    for seed in range(BUDGET_SEEDS):
        machine = Machine(make())
        workload = Workload(machine, seed)
        try:
            workload.run(OPERATIONS)
            machine.pump()
            found = machine.problems()
        except Exception as error:
            return [f"{type(error).__name__}: {error}"]
        if found:
            return [f"{problem.anomaly} {problem.text}" for problem in found]
        for image in images(machine.files.trace, seed, count=BUDGET_IMAGES):
            if found := judge(image, checkpoint=image.point % 4 == 0):
                return [f"{problem.anomaly} {problem.text}" for problem in found]
    return []


def failing_disk() -> list[str]:
    """What the fault campaign says, at its first objection."""
    for seed in range(BUDGET_SEEDS):
        for call in ("append", "sync", "sync_dir"):
            for nth in range(1, 12):
                machine = Machine()
                machine.files.faults.fail(call, nth, keep=nth * 7)
                try:
                    Workload(machine, seed, tolerant=True).run(OPERATIONS)
                    machine.files.faults.heal()
                    machine.pump()
                    found = machine.problems()
                    for image in images(machine.files.trace, seed, count=4):
                        found += judge(image)
                except Exception as error:
                    return [f"{type(error).__name__}: {error}"]
                if found:
                    return [f"{problem.anomaly} {problem.text}" for problem in found]
    return []


def damage() -> list[str]:
    """What the damage campaign says, at its first objection."""
    for seed in range(60):
        for suffix in (".ledger", ".journal"):
            path, bit = test_damage.TestFlippedBits.draw(suffix, seed)
            files = test_damage.disk().files()
            flip_bit(files, path, bit)
            try:
                verdict = test_damage.judge(files)
                if suffix == ".ledger":
                    assert len(verdict.lost) == (bit // 8 >= 64)
                else:
                    test_damage.TestFlippedBits.check_journal(path, bit // 8, verdict)
            except AssertionError as objection:
                return [str(objection)]
    return []


def batch_acks() -> list[str]:
    """Acks of single messages of a batch, sent as clients send them: lost or made up by a crash?

    PIP-54: bit i of the set stands for message i, and a set bit means that it is still to be acked.
    """
    machine = Machine()
    machine.create_topic("a", "s")
    draw = random.Random(54)
    acked: set[int] = set()
    for _ in range(20):
        size = draw.choice((2, 5, 64, 70))
        first_index = machine.publish("a", size).end_index - size
        machine.pump()
        meant = {n for n in range(size) if draw.random() < 0.5} or {0}
        pending = sum(1 << n for n in range(size) if n not in meant)
        words = [_signed(pending >> 64 * n & 2**64 - 1) for n in range((size + 63) // 64)]
        machine.ack_set("a", "s", first_index, size, words)
        machine.pump()
        acked |= {first_index + n for n in meant}
    machine.kill()
    cursor = machine.subscriptions["a", "s"].cursor
    backlog = {n for first, end in cursor.backlog_ranges() for n in range(first, end)}
    found = set(range(machine.logs["a"].end_index)) - backlog
    return [f"acked and not meant: {found - acked}; meant and not acked: {acked - found}"] * (
        found != acked
    )


def _signed(word: int) -> int:
    return word - 2**64 if word >= 2**63 else word


CHECKERS = {check.__name__: check for check in (crash_images, failing_disk, damage, batch_acks)}


@pytest.mark.parametrize("name", CHECKERS)
def test_without_a_plant_nobody_objects(name: str, monkeypatch: Patch) -> None:
    """With the same budget, if there is time: the other campaigns say the same of other seeds."""
    if IS_SHORT:
        monkeypatch.setattr(sys.modules[__name__], "BUDGET_SEEDS", 2)
    assert CHECKERS[name]() == []


# -- plants ----------------------------------------------------------------------------------------


class _LateSync:
    """A descriptor whose sync returns at once; the bytes are synced before the next are written."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._late = False

    @property
    def size(self) -> int:
        size: int = self._file.size
        return size

    def append(self, buffers: Sequence[Any]) -> None:
        if self._late:
            self._file.sync()
        self._file.append(buffers)

    def sync(self) -> None:
        self._late = True

    def close(self) -> None:
        self._file.close()


def completion_before_sync(patch: Patch) -> None:
    """The group is answered when it is written; the sync comes right after."""
    begin = journal.Journal._begin_file

    def hasty(self: journal.Journal, *arguments: Any) -> None:
        begin(self, *arguments)
        self._file = _LateSync(self._file)

    patch.setattr(journal.Journal, "_begin_file", hasty)


def sequence_unchecked(patch: Patch) -> None:
    """Replay takes whatever record is intact, wherever it stands."""

    def careless(
        data: bytes, start: int, file: str, first_sequence: int, seed: int, *, whole: bool
    ) -> records.Scan:
        found = [r for r in records._walk(data, start, file, seed) if isinstance(r, records.Record)]
        return records.Scan(found, [], len(data))

    patch.setattr(recovery, "scan", careless)


def entries_unchecked(patch: Patch) -> None:
    """The checksum of an entry is computed and not looked at."""
    decode = entry.decode_entries

    def trusting(data: bytes, where: str, *, check: bool = True) -> list[entry.Entry]:
        return decode(data, where, check=False)

    patch.setattr(ledger, "decode_entries", trusting)


def records_unchecked(patch: Patch) -> None:
    """The checksum of a record's body is not looked at."""

    class Trusting:
        extend = staticmethod(google_crc32c.extend)

        @staticmethod
        def value(data: bytes) -> object:
            # The incarnation's, which seeds the checksum of headers, stays what it is.
            return google_crc32c.value(data) if len(data) == 16 else _Anything()

    patch.setattr(records, "google_crc32c", Trusting)


class _Anything:
    """Equal to every checksum."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = None  # type: ignore[assignment]


def index_from_a_counter(patch: Patch) -> None:
    """Numbers come from a counter ahead of storage, which a refusal does not take back."""
    next_index, append = log.Log.next_index, log.Log.append

    def counted(self: log.Log) -> int:
        return max(next_index.__get__(self), self.__dict__.get("planted", 0))

    def counting(self: log.Log, *arguments: Any) -> entry.Block:
        block = append(self, *arguments)
        self.__dict__["planted"] = block.end_index
        return block

    patch.setattr(log.Log, "next_index", property(counted))
    patch.setattr(log.Log, "append", counting)


def name_not_synced(patch: Patch) -> None:
    """A journal file is renamed into place, and nobody syncs the folder."""
    begin = journal.Journal._begin_file

    def forgetful(self: journal.Journal, *arguments: Any) -> None:
        files = self._files
        with patch.context() as inner:
            inner.setattr(type(files), "sync_dir", lambda files, folder: None)
            begin(self, *arguments)

    patch.setattr(journal.Journal, "_begin_file", forgetful)


def ledger_name_not_synced(patch: Patch) -> None:
    """A checkpoint creates ledger files and does not sync their folder."""
    patch.setattr(ledger.Flush, "perform", _without_result(ledger.Flush.perform))


def _without_result(perform: Callable[..., bool]) -> Callable[..., bool]:
    def performed(self: ledger.Flush, files: Any) -> bool:
        perform(self, files)
        return False

    return performed


def sync_tried_again(patch: Patch) -> None:
    """After a failed sync the same descriptor is synced again, which then says yes."""
    from milepost.testing.files import MemoryAppendFile

    sync = MemoryAppendFile.sync

    def stubborn(self: MemoryAppendFile) -> None:
        try:
            sync(self)
        except OSError:
            sync(self)

    patch.setattr(MemoryAppendFile, "sync", stubborn)


def trim_of_the_wrong_ledger(patch: Patch) -> None:
    """One ledger too many."""
    trimmable = log.Log.trimmable

    def greedy(self: log.Log, before_index: int) -> list[ledger.Ledger]:
        count = len(trimmable(self, before_index))
        return list(self.ledgers[: min(count + 1, len(self.ledgers) - 1)])

    patch.setattr(log.Log, "trimmable", greedy)


def journal_dropped_too_early(patch: Patch) -> None:
    """The old journal goes before the catalog knows of the checkpoint."""
    flush = checkpoint.Checkpoint.flush

    def eager(self: checkpoint.Checkpoint, files: Any) -> None:
        flush(self, files)
        self.drop_journal(files)

    patch.setattr(checkpoint.Checkpoint, "flush", eager)


def ledgers_not_synced(patch: Patch) -> None:
    """A checkpoint writes ledgers and leaves the sync to the kernel."""
    append = ledger.Flush._append

    def lazy(self: ledger.Flush, *arguments: Any, sync: bool) -> None:
        append(self, *arguments, sync=False)

    patch.setattr(ledger.Flush, "_append", lazy)


def snapshots_not_numbered(patch: Patch) -> None:
    """A snapshot forgets up to which fact it goes: facts are applied to it twice."""
    snapshot = store.Snapshot

    patch.setattr(
        store, "Snapshot", lambda sequence, data, facts: snapshot(sequence - 2, data, facts)
    )


def torn_tail_kept(patch: Patch) -> None:
    """The torn end of the newest file is taken for part of it."""
    real = records.scan

    def keeping(data: bytes, *arguments: Any, whole: bool) -> records.Scan:
        found = real(data, *arguments, whole=whole)
        return found._replace(size=len(data))

    patch.setattr(recovery, "scan", keeping)


def tombstones_forgotten(patch: Patch) -> None:
    """What was trimmed or deleted is deleted, and that is that."""
    from milepost.storage.catalog.sqlite_catalog import SqliteCatalog

    patch.setattr(SqliteCatalog, "_bury", lambda self, *arguments: None)


def refused_numbers_kept(patch: Patch) -> None:
    """Behind a refused block the log goes on as if it were there."""
    answered = log.Log._answered

    def deaf(self: log.Log, done: Done | None, error: PersistenceError | None) -> None:
        with suppress(Exception):
            answered(self, None, None)
        if done is not None:
            done(error)

    patch.setattr(log.Log, "_answered", deaf)


def last_group_not_carried(patch: Patch) -> None:
    """A start relies on what a killed process wrote and never synced."""
    patch.setattr(recovery._Replay, "_carry", lambda self, *arguments: None)


def ack_set_flipped_when_read(patch: Patch) -> None:
    """A set bit is taken for an ack."""
    read = AckSet.from_ack_words.__func__  # type: ignore[attr-defined]

    def flipped(cls: type[AckSet], words: Sequence[int], size: int) -> AckSet:
        return cls(~read(cls, words, size).bits, size)

    patch.setattr(AckSet, "from_ack_words", classmethod(flipped))


def ack_set_flipped_when_used(patch: Patch) -> None:
    """What is pending is acked."""
    patch.setattr(AckSet, "acked_runs", pending_runs)


PLANTS: dict[Plant, str] = {
    ack_set_flipped_when_read: "batch_acks",
    ack_set_flipped_when_used: "batch_acks",
    completion_before_sync: "crash_images",
    name_not_synced: "crash_images",
    ledger_name_not_synced: "crash_images",
    ledgers_not_synced: "crash_images",
    journal_dropped_too_early: "crash_images",
    trim_of_the_wrong_ledger: "crash_images",
    tombstones_forgotten: "crash_images",
    snapshots_not_numbered: "crash_images",
    torn_tail_kept: "crash_images",
    last_group_not_carried: "crash_images",
    sync_tried_again: "failing_disk",
    index_from_a_counter: "failing_disk",
    refused_numbers_kept: "failing_disk",
    sequence_unchecked: "damage",
    entries_unchecked: "damage",
    records_unchecked: "damage",
}


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_a_plant_is_found(plant: Plant, monkeypatch: Patch, summary: Callable[[str], None]) -> None:
    test_damage.disk()  # made while all was well
    plant(monkeypatch)
    objections = CHECKERS[PLANTS[plant]]()
    assert objections
    # A plant that does not even run proves nothing.
    assert not re.search("TypeError|AttributeError|NameError", " ".join(objections)), objections
    summary(", ".join(dict.fromkeys(objections))[:100])


@pytest.mark.parametrize("lie", ["sync_lies", "sync_dir_lies"])
def test_a_sync_that_does_nothing_is_found(lie: str, summary: Callable[[str], None]) -> None:
    objections = crash_images(lambda: MemoryFiles(**{lie: True}))
    assert objections != []
    summary(objections[0][:100])
