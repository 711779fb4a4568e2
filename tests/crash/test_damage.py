"""A medium that lies: flipped bits, lost ends, blocks in the wrong place, files that are gone.

Never a wrong payload, never a reused index, never a silent loss. What damage may cost, and who is told:

    a ledger file     the entries it struck, each named when it is read; nothing else
    a mileposts file  nothing: it is made again
    a journal file    where the owner of the lost record is known, that topic takes no messages and
                      names what it has lost, or that subscription is not opened; everyone else is
                      served. Where it is not known, the directory is not opened.
    its last group    is cut. After a crash nobody can tell a damaged last group from a torn one, of
                      which nobody had been told, so that is all that can be promised: it is cut as
                      a whole tail, counted in `report.cut_bytes`, and everything before it stays.
    the catalog       (SQLite has no checksums; what is promised of it here is its format version)
"""

# ruff: noqa: PT017 (what an error says is judged beside what else came of it)
from __future__ import annotations

import functools
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import google_crc32c
import pytest

from crash.campaign import FACTOR, IS_SHORT, scaled
from crash.checker import Fate, History, Publish
from crash.machine import Machine
from milepost.errors import CorruptData, LedgerNotFound, UnknownFormat
from milepost.storage.catalog.sqlite_catalog import SqliteCatalog
from milepost.storage.header import HEADER_SIZE
from milepost.storage.journal.journal import file_name
from milepost.storage.journal.records import ENTRIES, FACT, LEDGER, Record, scan, seed_of
from milepost.storage.ledgers.entry import decode_entries
from milepost.testing import MemoryFiles
from milepost.testing.damage import copy_block, cut, flip_bit, swap_blocks, zero
from milepost.testing.trace import Mark

Summary = Callable[[str], None]
TOPICS = ("a", "b", "c")


class Disk(NamedTuple):
    """A machine that stopped, with everything it had promised durable."""

    contents: dict[str, bytes]
    catalog: bytes
    events: list[tuple[object, ...]]

    def files(self) -> MemoryFiles:
        return MemoryFiles(self.contents, ("journal", "ledgers"))

    def machine(self, files: MemoryFiles) -> Machine:
        return Machine(files, self.catalog, History.of(self.events), traced=False)

    def paths(self, suffix: str) -> list[str]:
        return [path for path in self.contents if path.endswith(suffix)]


@functools.cache
def disk() -> Disk:
    """Ledgers sealed and open, two journal files in force, groups of one record and of several."""
    machine = Machine()
    for topic in TOPICS:
        machine.create_topic(topic, "s", "t")
    for turn in range(16):
        for topic in TOPICS:
            machine.publish(topic, 1, 1 + turn % 3, size=30 + 9 * turn)
            if turn % 3 == 0:
                machine.pump()
        machine.pump()
        for topic in TOPICS:
            machine.ack(topic, "s", 1 + turn % 4, skip=turn % 2)
        machine.pump()
        if turn == 9:
            machine.checkpoint()
        if turn == 12:
            machine.kill()
        if turn == 14:
            machine.seek("b", "t", 3)
        machine.clock.advance(1)
    machine.pump()
    events = [m.payload for m in machine.files.trace.ops if isinstance(m, Mark)]
    return Disk(
        machine.files.contents(),
        machine.catalog.image(),
        [event for event in events if isinstance(event, tuple)],
    )


def records_of(path: str) -> list[Record]:
    data = disk().contents[path]
    seed = seed_of(SqliteCatalog(None, image=disk().catalog).meta().incarnation)
    first_sequence = int.from_bytes(data[52:60], "little")
    return scan(data, HEADER_SIZE, path, first_sequence, seed, whole=False).records


def last_group_at() -> int:
    """Where the last group of the newest journal file begins."""
    records = records_of(newest_journal())
    return next(record.offset for record in records if record.group == records[-1].group)


def newest_journal() -> str:
    return max(disk().paths(".journal"))


@dataclass
class Verdict:
    """What a damaged disk still gives."""

    refused: CorruptData | None = None
    # By topic: publishes with a receipt that cannot be read, and whether that is named or not there.
    unreadable: dict[str, list[Publish]] = field(default_factory=dict)
    missing: dict[str, list[Publish]] = field(default_factory=dict)
    # Subscriptions that cannot be opened, and facts that are not there though they were answered.
    closed_states: list[str] = field(default_factory=list)
    lost_facts: list[str] = field(default_factory=list)
    closed_topics: list[str] = field(default_factory=list)
    cut_bytes: int = 0

    @property
    def is_untouched(self) -> bool:
        return not (self.refused or self.lost or self.closed_states or self.closed_topics)

    @property
    def lost(self) -> list[Publish]:
        lists = (*self.unreadable.values(), *self.missing.values())
        return [publish for publishes in lists for publish in publishes]

    @property
    def topics(self) -> set[str]:
        """Those that noticed."""
        return {*self.unreadable, *self.missing, *self.closed_topics}


def judge(files: MemoryFiles, *, may_be_silent: bool = False) -> Verdict:
    """Open a damaged disk and read everything that had a receipt. Asserts what always holds."""
    try:
        machine = disk().machine(files)
    except CorruptData as error:
        assert "/" in str(error), f"no file is named: {error}"
        return Verdict(refused=error)
    verdict = Verdict(cut_bytes=machine.store.report.cut_bytes)
    for topic, log in machine.logs.items():
        of = machine.history.topics[topic]
        if log.refusal is not None:
            verdict.closed_topics.append(topic)
            with pytest.raises(CorruptData, match=f"{topic} takes no messages"):
                machine.publish(topic, 1)
        _nothing_is_made_up(machine, topic)
        for publish in of.publishes:
            if publish.fate is not Fate.STORED:
                continue
            assert publish.position is not None
            try:
                (entry, *_) = log.read(publish.position, entries_max=1)
            except CorruptData as error:
                assert f"{publish.position.ledger_id:016x}.ledger: " in str(error)
                # Named is the entry; or the file, if its header is another file's.
                named = (f"entry {publish.position} ", "belongs to ledger", "holds b'")
                assert any(name in str(error) for name in named), error
                verdict.unreadable.setdefault(topic, []).append(publish)
            except LedgerNotFound:
                verdict.missing.setdefault(topic, []).append(publish)
            else:
                assert bytes(entry.payload) == publish.payload
                assert tuple(entry.span) == (publish.first_index, publish.count)
                assert log.locate(publish.first_index).position == publish.position
                assert log.at(publish.position).span == entry.span
        for state, known in of.states.items():
            told = [fact.data for fact in known.facts if fact.fate is Fate.STORED]
            if (topic, state) not in machine.subscriptions:
                verdict.closed_states.append(f"{topic}/{state}")
            elif machine.subscriptions[topic, state].facts != told:
                there = machine.subscriptions[topic, state].facts
                assert there == told[: len(there)], "a fact that nobody told"
                verdict.lost_facts.append(f"{topic}/{state}")
    if not may_be_silent:
        _no_loss_is_silent(machine, verdict)
    return verdict


def _nothing_is_made_up(machine: Machine, topic: str) -> None:
    """Whatever can be read had been published, and stands where it stood."""
    known = {publish.payload: publish for publish in machine.history.topics[topic].publishes}
    log = machine.logs[topic]
    for ledger in log.ledgers:
        for entry_id in range(ledger.entries):
            try:
                (entry, *_) = ledger.plan_read(entry_id, entry_id + 1, 0, machine.files).perform(
                    machine.files
                )
            except CorruptData:
                continue
            publish = known.get(bytes(entry.payload))
            assert publish is not None, f"never published: {entry}"
            assert publish.position == entry.position
    index = log.first_index
    for ledger in log.ledgers:
        assert ledger.first_index == index
        index = ledger.end_index
    assert index == log.end_index


def _no_loss_is_silent(machine: Machine, verdict: Verdict) -> None:
    for topic in verdict.missing:
        assert topic in verdict.closed_topics or verdict.cut_bytes, "lost without a word"
    for name in verdict.lost_facts:
        assert verdict.cut_bytes, f"facts of {name} are gone without a word"
    damages = machine.store.report.damages
    assert len(verdict.closed_states) <= len(damages)
    for damage in damages:
        assert damage.file in disk().contents
        assert 0 <= damage.offset <= len(disk().contents[damage.file])


def test_the_disk_without_damage_is_whole() -> None:
    verdict = judge(disk().files())
    assert verdict.is_untouched
    assert not verdict.lost_facts
    assert len(disk().paths(".journal")) == 2
    assert len(disk().paths(".ledger")) >= 9


class TestFlippedBits:
    """One bit anywhere: the damage is found, named, and costs no more than it must."""

    def test_in_ledgers(self, summary: Summary) -> None:
        struck: Counter[int] = Counter()
        for seed in range(scaled(500, 6)):
            path, bit = self.draw(".ledger", seed)
            files = disk().files()
            flip_bit(files, path, bit)
            verdict = judge(files)
            assert verdict.refused is None
            assert verdict.missing == {}
            assert verdict.closed_topics == verdict.closed_states == verdict.lost_facts == []
            assert len(verdict.lost) == (bit // 8 >= HEADER_SIZE), f"{path} bit {bit}"
            struck[len(verdict.lost)] += 1
        summary(f"{struck.total()} flips, {struck[1]} cost one entry, {struck[0]} hit a header")

    def test_in_mileposts(self, summary: Summary) -> None:
        flips = scaled(250, 6)
        for seed in range(flips):
            path, bit = self.draw(".mileposts", seed)
            files = disk().files()
            flip_bit(files, path, bit)
            assert judge(files).is_untouched, f"{path} bit {bit}"
        summary(f"{flips} flips cost nothing")

    def test_in_ledgers_whose_mileposts_are_lost(self, summary: Summary) -> None:
        """A power failure takes mileposts easily; that must not make one bit cost more."""
        flips = scaled(250, 6)
        for seed in range(flips):
            path, bit = self.draw(".ledger", seed)
            files = disk().files()
            flip_bit(files, path, bit)
            for mileposts in disk().paths(".mileposts"):
                files.delete(mileposts)
            verdict = judge(files)
            assert verdict.refused is None
            assert verdict.missing == {}
            assert len(verdict.lost) == (bit // 8 >= HEADER_SIZE), f"{path} bit {bit}"
        summary(f"{flips} flips cost no more than with mileposts")

    def test_in_the_journal(self, summary: Summary) -> None:
        outcomes: Counter[str] = Counter()
        for seed in range(scaled(700)):
            path, bit = self.draw(".journal", seed)
            files = disk().files()
            flip_bit(files, path, bit)
            outcomes[self.check_journal(path, bit // 8, judge(files))] += 1
        summary(f"{outcomes.total()} flips: {dict(outcomes)}")
        assert min(outcomes[kind] for kind in ("refused", "closed", "cut")) > 10

    @staticmethod
    def check_journal(path: str, place: int, verdict: Verdict) -> str:
        """Exactly what is promised of this byte; what came of it."""
        if path == newest_journal() and place >= last_group_at():
            # Nobody can tell this from a torn tail (see the top of the file).
            assert verdict.refused is None
            assert verdict.cut_bytes > 0
            assert verdict.closed_topics == verdict.closed_states == []
            return "cut"
        if place >= valid_size(path):
            # Behind what the next file vouches for: the group that was carried over into it.
            assert verdict.is_untouched
            return "not in force"
        record = next(
            (
                record
                for record in records_of(path)
                if record.offset <= place < record.offset + 44 + len(record.body)
            ),
            None,
        )
        if record is None or place < record.offset + 44 or record.kind == LEDGER:
            assert verdict.refused is not None, f"{path}: byte {place}: {record}"
            assert path in str(verdict.refused)
            return "refused"
        assert verdict.refused is None
        assert verdict.cut_bytes == 0
        owner = owner_of(record)
        if record.kind == FACT:
            assert verdict.closed_states == [owner]
            assert verdict.topics == set()
        else:
            assert record.kind == ENTRIES
            assert verdict.closed_states == []
            assert verdict.topics == {owner}
        assert verdict.lost_facts == []
        return "closed"

    @staticmethod
    def draw(suffix: str, seed: int) -> tuple[str, int]:
        draw = random.Random(f"{suffix}/{seed}")
        path = draw.choice(disk().paths(suffix))
        return path, draw.randrange(8 * len(disk().contents[path]))


def valid_size(path: str) -> int:
    """How much of a journal file counts."""
    if path == newest_journal():
        return len(disk().contents[path])
    return int.from_bytes(disk().contents[newest_journal()][44:52], "little")


def owner_of(record: Record) -> str:
    catalog = SqliteCatalog(None, image=disk().catalog)
    if record.kind == FACT:
        state = catalog.state_by_id(record.owner)
        assert state is not None
        topic = catalog.topic_by_id(state.topic_id)
        assert topic is not None
        return f"{topic.name}/{state.name}"
    machine = disk().machine(disk().files())
    (name,) = (
        name
        for name, log in machine.logs.items()
        if record.owner in {ledger.ledger_id for ledger in log.ledgers}
    )
    return name


def every_byte(path: str) -> Iterator[int]:
    """Every size of the file but its own. In a large one, unless there is time, every byte of its
    ends and some between: of the first and last kilobyte and every eleventh, or an eighth and a
    fifth of that."""
    size = len(disk().contents[path])
    whole, step = (128, 61) if IS_SHORT else (1024, 11)
    for n in range(size):
        if FACTOR > 1 or n < whole or n >= size - whole or n % step == 0:
            yield n


class TestLostEnds:
    def test_the_newest_journal_file_cut_at_every_byte(self) -> None:
        """What is wholly there stays. What was cut between two records leaves no trace at all: the
        file looks as if it had never been longer, and nobody else knows that it was."""
        path = newest_journal()
        records = records_of(path)
        ends = [record.offset + 44 + len(record.body) for record in records]
        entry_counts = [
            len(decode_entries(record.body, path)) if record.kind == ENTRIES else 0
            for record in records
        ]
        for size in every_byte(path):
            files = disk().files()
            cut(files, path, size)
            verdict = judge(files, may_be_silent=True)
            if size < HEADER_SIZE:
                assert path in str(verdict.refused)
                continue
            assert verdict.refused is None
            assert verdict.closed_topics == verdict.closed_states == []
            whole = max((end for end in ends if end <= size), default=HEADER_SIZE)
            assert verdict.cut_bytes == size - whole
            kept = sum(end <= size for end in ends)
            assert len(verdict.lost) == sum(entry_counts[kept:])

    def test_an_older_journal_file_cut_at_every_byte(self) -> None:
        """The next file vouches for its bytes: whatever is gone of them is missed."""
        path = min(disk().paths(".journal"))
        for size in every_byte(path):
            files = disk().files()
            cut(files, path, size)
            verdict = judge(files)
            if size >= valid_size(path):
                assert verdict.is_untouched
            else:
                assert path in str(verdict.refused)

    @pytest.mark.parametrize("number", range(4))
    def test_a_ledger_cut_at_every_byte(self, number: int) -> None:
        """Entries that are wholly there stay; its topic takes no messages until that is accepted."""
        paths = disk().paths(".ledger")
        path = paths[number * (len(paths) - 1) // 3]
        catalog = SqliteCatalog(None, image=disk().catalog)
        row = catalog.ledger(int(path[8:24], 16))
        assert row is not None
        owner = catalog.topic_by_id(row.topic_id)
        assert owner is not None
        for size in every_byte(path):
            files = disk().files()
            cut(files, path, size)
            verdict = judge(files)
            assert verdict.refused is None
            if size >= row.size_bytes:
                assert verdict.is_untouched
                continue
            assert verdict.topics == {owner.name}
            assert verdict.closed_topics == [owner.name]
            assert verdict.missing == {}
            assert all(p.position.ledger_id >= row.ledger_id for p in verdict.lost if p.position)

    def test_mileposts_cut_at_every_byte(self) -> None:
        path = disk().paths(".mileposts")[0]
        for size in every_byte(path):
            files = disk().files()
            cut(files, path, size)
            assert judge(files).is_untouched


class TestBlocksInTheWrongPlace:
    """Misdirected, duplicated and stale blocks: intact bytes where others belong."""

    @pytest.mark.parametrize("how", ["copied", "swapped", "zeroed"])
    def test_anywhere(self, how: str, summary: Summary) -> None:
        outcomes: Counter[str] = Counter()
        for seed in range(scaled(250, 6)):
            draw = random.Random(f"{how}/{seed}")
            files = disk().files()
            size = draw.choice((16, 64, 512, 512))
            source, target = self.place(draw, size), self.place(draw, size)
            if how == "copied":
                copy_block(files, source, target, size)
            elif how == "swapped":
                if source[0] == target[0] and abs(source[1] - target[1]) < size:
                    continue
                swap_blocks(files, source, target, size)
            else:
                zero(files, *target, size)
            verdict = judge(files)
            outcomes["refused" if verdict.refused else "harmless" if verdict.is_untouched else
                     "cut" if verdict.cut_bytes else "named"] += 1  # fmt: skip
            if how != "swapped" and target[0].endswith(".ledger"):
                self.check_ledger(verdict, target, size)
        summary(f"{outcomes.total()} blocks of 16 to 512 bytes {how}: {dict(outcomes)}")
        assert outcomes["named"] > 20

    @staticmethod
    def place(draw: random.Random, size: int) -> tuple[str, int]:
        path = draw.choice([path for path, data in disk().contents.items() if len(data) >= size])
        room = len(disk().contents[path]) - size
        return path, draw.choice((draw.randint(0, room), room // 512 * 512, 0))

    @staticmethod
    def check_ledger(verdict: Verdict, target: tuple[str, int], size: int) -> None:
        """Only entries under the block are lost, or all if the header is another ledger's now."""
        assert verdict.refused is None
        if target[1] < HEADER_SIZE:
            return
        machine = disk().machine(disk().files())
        for publish in verdict.lost:
            assert publish.position is not None
            log = next(
                log
                for log in machine.logs.values()
                if publish.position.ledger_id in {ledger.ledger_id for ledger in log.ledgers}
            )
            plan = log.plan_read(publish.position, entries_max=1)
            assert int(target[0][8:24], 16) == publish.position.ledger_id
            assert plan.start < target[1] + size
            assert target[1] < plan.end


class TestLostFiles:
    """A creation or rename that did not survive, or somebody's slip."""

    @pytest.mark.parametrize("suffix", [".journal", ".ledger", ".mileposts"])
    def test_every_single_one(self, suffix: str) -> None:
        for path in disk().paths(suffix):
            files = disk().files()
            files.delete(path)
            verdict = judge(files)
            if suffix == ".journal":
                assert path in str(verdict.refused)
            elif suffix == ".mileposts":
                assert verdict.is_untouched
            else:
                assert verdict.refused is None
                assert len(verdict.topics) == 1
                assert verdict.lost

    def test_an_old_journal_file_that_came_back(self) -> None:
        """A deletion that did not survive: what a checkpoint folded in is not replayed."""
        files = disk().files()
        assert not files.exists(file_name(1))
        file = files.create(file_name(1))
        file.append([disk().contents[newest_journal()]])
        file.close()
        assert judge(files).is_untouched


class TestNewerFormats:
    """Refused with both numbers, and left as it is."""

    @pytest.mark.parametrize("suffix", [".journal", ".ledger", ".mileposts"])
    def test_files(self, suffix: str) -> None:
        for path in disk().paths(suffix):
            files = disk().files()
            data = disk().contents[path]
            newer = data[:8] + b"\x02\x00" + data[10:60]
            newer += int(google_crc32c.value(newer)).to_bytes(4, "little")
            files.damage(path, newer + data[HEADER_SIZE:])
            before = files.contents()
            expected = rf"{path}: format version 2; this release reads 1"
            if suffix == ".journal":
                with pytest.raises(UnknownFormat, match=expected):
                    disk().machine(files)
                assert files.contents() == before
            else:
                self.only_its_topic_is_refused(disk().machine(files), path, expected)
            assert files.contents()[path] == before[path]

    @staticmethod
    def only_its_topic_is_refused(machine: Machine, path: str, expected: str) -> None:
        ledger_id = int(path[8:24], 16)
        for log in machine.logs.values():
            for ledger in log.ledgers:
                first_index = ledger.first_index
                if ledger.ledger_id == ledger_id:
                    with pytest.raises(UnknownFormat, match=expected):
                        log.locate(first_index)
                elif ledger.entries:
                    assert log.locate(first_index).span.first_index == first_index

    def test_the_catalog(self) -> None:
        catalog = SqliteCatalog(None, image=disk().catalog)
        catalog._db.execute("pragma user_version = 3")
        newer = catalog.image()
        with pytest.raises(UnknownFormat, match="format 3; this release reads 2"):
            Machine(disk().files(), newer)

    def test_records(self, monkeypatch: pytest.MonkeyPatch) -> None:
        files = disk().files()
        machine = disk().machine(files)
        monkeypatch.setattr("milepost.storage.store.FACT", 77)
        machine.ack("a", "s", 1)
        machine.pump()
        machine.publish("a", 1)
        machine.pump()
        monkeypatch.undo()
        before = files.contents()
        with pytest.raises(
            UnknownFormat, match=r"record kind 77; known are \[1, 2, 3, 4, 5, 6, 7\]"
        ):
            machine.kill()
        assert files.contents() == before


def test_a_file_of_another_directory_is_refused() -> None:
    stranger = Machine()
    stranger.create_topic("a")
    stranger.publish("a", 1)
    stranger.pump()
    files = disk().files()
    files.damage(newest_journal(), stranger.files.contents()[file_name(1)])
    assert "belongs to data directory" in str(judge(files).refused)
