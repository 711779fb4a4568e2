"""docs/format.md is true: a reader written from it finds what the store holds, and its bytes are ours.

`format_reader.py` knows the page and nothing else. The examples in the page are written anew by every
run and compared; when the format changes on purpose, the failure prints what the page should say.
"""

from __future__ import annotations

import errno
import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crash import format_reader
from crash.checker import read_log
from crash.format_reader import (
    Damaged,
    Message,
    State,
    read_directory,
    read_fact,
    read_records,
    read_snapshot,
)
from milepost.cursor import facts, snapshot
from milepost.cursor.cursor import Cursor
from milepost.positions.ranges import IndexRanges
from milepost.storage.catalog.catalog import StateRow, TopicRow
from milepost.storage.catalog.sqlite_catalog import SqliteCatalog
from milepost.storage.files import Buffer, RealAppendFile, RealFiles
from milepost.storage.header import HEADER_SIZE
from milepost.storage.journal import records
from milepost.storage.journal.records import FACT, body_crc, encode_header, scan, seed_of
from milepost.storage.ledgers.entry import BATCH, NewEntry
from milepost.storage.ledgers.log import RollPolicy
from milepost.storage.store import Store
from milepost.testing.clock import ManualClock

PAGE = Path(__file__).resolve().parents[2] / "docs" / "format.md"


def open_store(root: Path, **options: object) -> Store:
    files = RealFiles(root)
    catalog = SqliteCatalog(root / "catalog.sqlite")
    return Store(files, catalog, ManualClock(), **options)  # type: ignore[arg-type]


def abandon(store: Store) -> None:
    """As if the process had been killed: nothing is folded in."""
    store.journal.close()
    store.catalog.close()


def told(error: Exception | None) -> None:
    assert error is None


# -- the reader against the store -------------------------------------------------------------------


class Workload:
    """A few topics and states, driven through a store that is opened again and again."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.numbers = iter(range(10**6))
        self.states: dict[str, tuple[StateRow, list[bytes]]] = {}
        self.store = self._open()
        for name in ("a", "b", "gone"):
            topic = self.store.catalog.create_topic(f"persistent://public/default/{name}", {})
            self.store.log(topic)
            state = self.store.catalog.create_state(topic.topic_id, "opaque", f"of {name}", {})
            self.states[name] = state, []
            self._watch(name)

    def _open(self) -> Store:
        return open_store(self.root, roll_policy=RollPolicy(entries_max=7))

    def topics(self) -> list[TopicRow]:
        return self.store.catalog.topics()

    def _watch(self, name: str) -> None:
        state, facts = self.states[name]
        found = self.store.open_state(state.state_id, lambda: b"".join(facts))
        assert (found.data or b"") + b"".join(found.facts) == b"".join(facts)

    def work(self, turns: int, watched: tuple[str, ...]) -> None:
        for turn in range(turns):
            for topic in self.topics():
                items = [
                    NewEntry(b"payload %d" % next(self.numbers), *shape)
                    for shape in ((1, 0), (3, BATCH), (1, 0, b"beside"))[: 1 + turn % 3]
                ]
                self.store.log(topic).append(items, 1_700_000_000_000 + turn, told)
            for name in watched:
                state, facts = self.states[name]
                facts.append(b"fact %d;" % next(self.numbers))
                self.store.fact(state.state_id, facts[-1], told)
            if turn % 2:
                self.store.pump()
        self.store.pump()

    def crash(self, watched: tuple[str, ...] = ()) -> None:
        abandon(self.store)
        self.store = self._open()
        for name in watched:
            self._watch(name)

    def messages(self) -> Iterator[Message]:
        for topic in self.topics():
            for item in read_log(self.store.log(topic)).items:
                for index in range(item.first_index, item.first_index + item.count):
                    yield Message(topic.name, *item.position, index, item.payload)

    def compare(self) -> None:
        found = read_directory(self.root)
        assert sorted(found.messages) == sorted(self.messages())
        assert {s.name: (s.snapshot or b"") + b"".join(s.facts) for s in found.states} == {
            state.name: b"".join(facts) for state, facts in self.states.values()
        }


def test_the_reader_finds_what_the_store_holds(tmp_path: Path) -> None:
    workload = Workload(tmp_path)
    everyone = ("a", "b", "gone")
    workload.compare()  # nothing yet
    workload.work(6, everyone)
    workload.compare()  # all of it in the journal
    workload.store.checkpoint()
    workload.compare()  # all of it in ledgers and snapshots
    workload.work(5, everyone)
    workload.compare()

    log = workload.store.log(workload.topics()[0])
    assert workload.store.trim(log, log.end_index - 9) > 0
    doomed = workload.topics()[-1]
    workload.store.delete(doomed)
    del workload.states["gone"]
    workload.compare()  # the journal still speaks of what was trimmed and deleted
    assert all(message.topic != doomed.name for message in read_directory(tmp_path).messages)

    workload.crash(watched=("a",))
    workload.work(4, ("a",))
    workload.store.checkpoint()
    (unwatched,) = (s for s in read_directory(tmp_path).states if s.name == "of b")
    assert unwatched.facts, "facts of a state that nobody opened are kept in the catalog"
    workload.compare()
    workload.work(3, ("a",))
    workload.crash()
    workload.compare()  # a chain of journal files


def newest_journal(root: Path) -> Path:
    return max((root / "journal").iterdir())


def test_the_reader_cuts_a_torn_tail_and_names_damage(tmp_path: Path) -> None:
    workload = Workload(tmp_path)
    workload.work(4, ("a", "b"))
    expected = list(workload.messages())
    path = newest_journal(tmp_path)
    whole = path.read_bytes()
    workload.work(2, ("a", "b"))  # two more turns, one group
    torn = path.read_bytes()
    abandon(workload.store)

    path.write_bytes(torn[:-1])
    assert [m for m in read_directory(tmp_path).messages if m in expected] == expected
    path.write_bytes(whole + torn[len(whole) : len(whole) + 20])
    assert sorted(read_directory(tmp_path).messages) == sorted(expected)
    flipped = bytearray(torn)
    flipped[HEADER_SIZE + 50] ^= 1
    path.write_bytes(flipped)
    with pytest.raises(Damaged, match="byte 64"):
        read_directory(tmp_path)


class FillsUp(RealFiles):
    """A disk that has no room while `is_full`."""

    is_full = False

    def create(self, path: str) -> RealAppendFile:
        made = super().create(path)
        return FileThatFillsUp(self, path, made._fd)


class FileThatFillsUp(RealAppendFile):
    __slots__ = ("_disk",)

    def __init__(self, disk: FillsUp, path: str, fd: int) -> None:
        super().__init__(path, fd, 0)
        self._disk = disk

    def append(self, buffers: Sequence[Buffer]) -> None:
        if self._disk.is_full:
            raise OSError(errno.ENOSPC, "no space left")
        super().append(buffers)


def test_the_reader_knows_a_state_that_was_journalled_whole(tmp_path: Path) -> None:
    disk = FillsUp(tmp_path)
    store = Store(disk, SqliteCatalog(tmp_path / "catalog.sqlite"), ManualClock())
    topic = store.catalog.create_topic("persistent://public/default/a", {})
    state_id = store.catalog.create_state(topic.topic_id, "opaque", "s", {}).state_id
    happened: list[bytes] = []
    answers: list[Exception | None] = []
    store.open_state(state_id, lambda: b"".join(happened))
    for fact, is_full in ((b"A", False), (b"B", True), (b"C", False), (b"D", False)):
        disk.is_full = is_full
        happened.append(fact)
        store.fact(state_id, fact, answers.append)
        store.pump()
    abandon(store)
    assert [error is None for error in answers] == [True, False, True, True]
    (found,) = read_directory(tmp_path).states
    assert (found.snapshot, found.facts) == (b"ABC", [b"D"])


def test_the_reader_refuses_what_it_does_not_know(tmp_path: Path) -> None:
    workload = Workload(tmp_path)
    workload.work(1, ())
    path = newest_journal(tmp_path)
    data = bytearray(path.read_bytes())
    abandon(workload.store)
    data[8] = 2
    bare = bytes(data[:60])
    path.write_bytes(bare + format_reader.google_crc32c.value(bare).to_bytes(4, "little"))
    with pytest.raises(Damaged, match="format 2"):
        read_directory(tmp_path)


# -- torn or damaged: the page's rule against the one in the code ------------------------------------

INCARNATION = bytes(range(16))


def journal_of(groups: list[list[int]]) -> bytes:
    """A journal file, header left blank, with records of these body sizes, by group."""
    out = bytearray(HEADER_SIZE)
    sequence = 1
    for sizes in groups:
        group = sequence
        for size in sizes:
            body = bytes([sequence % 256]) * size
            crc = body_crc([body])
            out += encode_header(seed_of(INCARNATION), FACT, size, crc, 7, sequence, group) + body
            sequence += 1
    return bytes(out)


GROUPS = st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=4), min_size=1, max_size=6)


@given(GROUPS, st.data())
def test_the_page_and_the_code_agree_on_torn_and_damaged(
    groups: list[list[int]], data: st.DataObject
) -> None:
    written = bytearray(journal_of(groups))
    end = data.draw(st.integers(HEADER_SIZE, len(written)), "end")
    del written[end:]
    places = st.integers(HEADER_SIZE, max(end - 1, HEADER_SIZE))
    for place in data.draw(st.lists(places, max_size=3), "flips"):
        if place < end:
            written[place] ^= 0x10
    journal = bytes(written)

    found = scan(journal, HEADER_SIZE, "j", 1, seed_of(INCARNATION), whole=False)
    header = format_reader.Header(b"JRNL", INCARNATION, 1, 0, 0, 1)
    read = []
    damaged = False
    try:
        for record in read_records(journal, header, newest=True):
            read.append((record.sequence, record.body))
    except Damaged:
        damaged = True
    assert damaged == bool(found.damages)
    kept = [(record.sequence, record.body) for record in found.records]
    assert kept[: len(read)] == read
    if not damaged:
        assert kept == read

    # What the first start called valid is what the second one reads: it finds the same.
    again = scan(journal[: found.size], HEADER_SIZE, "j", 1, seed_of(INCARNATION), whole=True)
    assert again.records == found.records
    assert bool(again.damages) == bool(found.damages)


# -- cursors ------------------------------------------------------------------------------------------

RANGES = st.lists(
    st.tuples(st.integers(0, 4000), st.integers(1, 90)).map(lambda at: (at[0], at[0] + at[1])),
    max_size=40,
)


def indexes(ranges: Iterable[tuple[int, int]]) -> set[int]:
    return {index for first, end in ranges for index in range(first, end)}


@given(RANGES.filter(bool), st.integers(0, 2**63))
def test_the_page_tells_what_a_cursor_fact_says(ranges: list[tuple[int, int]], epoch: int) -> None:
    some = IndexRanges(ranges)
    ack = read_fact(facts.encode_ack(epoch, ranges))
    assert (ack.kind in (1, 2), ack.epoch, ack.indexes) == (True, epoch, indexes(ranges))
    assert read_fact(facts.encode(facts.SeekFact(epoch, 5, some))) == (3, epoch, 5, some_of(some))
    assert read_fact(facts.encode(facts.TrimFact(epoch, 7))) == (4, epoch, 7, set())
    again = facts.encode(facts.DeliveryFact(epoch, some))
    assert read_fact(again) == (5, epoch, None, indexes(ranges))


def some_of(ranges: IndexRanges) -> set[int]:
    return indexes(iter(ranges))


@given(RANGES, RANGES, st.integers(0, 5000))
def test_the_page_tells_what_a_cursor_snapshot_holds(
    delivered: list[tuple[int, int]], acked: list[tuple[int, int]], target: int
) -> None:
    cursor = Cursor(0, 5000)
    for first, end in delivered:
        cursor.deliver(first, end, holder=1)
    cursor.release_holder(1, count=True)
    cursor.ack(acked)
    cursor.seek(target)
    found = read_snapshot(snapshot.encode(cursor))
    state = cursor.state()
    assert found[:3] == (0, 5000, 1)
    sets = [state.backlog, state.returned, state.stale, *state.redeliveries]
    assert found.sets == [some_of(each) for each in sets]
    assert found.sets[0] == set(range(target, 5000))


# -- the examples in the page -------------------------------------------------------------------------

EXAMPLE_NAME = re.compile(r"<!-- example: (\w+) -->\n```\n(.*?)```", re.DOTALL)


def write_example(root: Path) -> dict[str, bytes]:
    """One topic with a message and a batch of three, one fact; then a checkpoint."""
    SqliteCatalog(root / "catalog.sqlite").close()
    with sqlite3.connect(root / "catalog.sqlite") as database:
        database.execute("update meta set incarnation = ?", (INCARNATION,))
    database.close()
    store = open_store(root)
    topic = store.catalog.create_topic("persistent://public/default/orders", {})
    state = store.catalog.create_state(topic.topic_id, "cursor", "s", {})
    store.open_state(state.state_id, lambda: b"")
    items = [NewEntry(b"hello"), NewEntry(b"a batch", 3, BATCH)]
    store.log(topic).append(items, store.clock.wall_ms(), told)
    store.fact(
        state.state_id, bytes.fromhex("0101000000000000000000000000000000000200000000000000"), told
    )
    store.pump()
    files = {"journal": newest_journal(root).read_bytes()}
    store.checkpoint()
    abandon(store)
    for kind in ("ledger", "mileposts"):
        files[kind] = (root / f"ledgers/{1:016x}.{kind}").read_bytes()
    return files


def dump(data: bytes) -> str:
    lines = []
    for at in range(0, len(data), 16):
        row = data[at : at + 16]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{at:04x}  {row[:8].hex(' '):<23}  {row[8:].hex(' '):<23}  {text}\n")
    return "".join(lines)


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    root = tmp_path_factory.mktemp("example")
    return root, write_example(root)


@pytest.mark.parametrize("name", ["journal", "ledger", "mileposts"])
def test_the_examples_are_what_is_written(
    name: str, example: tuple[Path, dict[str, bytes]]
) -> None:
    printed = dict(EXAMPLE_NAME.findall(PAGE.read_text("utf-8")))
    written = dump(example[1][name])
    assert printed.get(name) == written, f"the page should say:\n{written}"


def test_the_examples_mean_what_the_page_says(example: tuple[Path, dict[str, bytes]]) -> None:
    topic = "persistent://public/default/orders"
    found = read_directory(example[0])
    assert found.messages == [
        Message(topic, 1, 0, 0, b"hello"),
        *(Message(topic, 1, 1, index, b"a batch") for index in (1, 2, 3)),
    ]
    assert found.states == [State(topic, "cursor", "s", b"", [])]
    journal = example[1]["journal"]
    header = format_reader.file_header(journal)
    assert header == format_reader.Header(b"JRNL", INCARNATION, 1, 0, 0, 1)
    kinds = [(r.kind, r.owner, r.group) for r in read_records(journal, header, newest=True)]
    assert kinds == [(2, 1, 1), (1, 1, 1), (3, 1, 1)]


def test_the_page_names_every_number_of_the_code() -> None:
    """Sizes, kinds and magics stand in the page as they stand in the source."""
    page = PAGE.read_text("utf-8")
    for number, heading in (
        (HEADER_SIZE, "## File header, {} bytes"),
        (records.RECORD_HEADER_SIZE, "### Record, {} bytes and a body"),
        (format_reader.ENTRY_HEADER.size, "### Entry, {} bytes and more"),
        (format_reader.MILEPOST.size, "### Mileposts, {} bytes a row"),
    ):
        assert heading.format(number) in page
    kinds = {
        records.ENTRIES: "entries",
        records.LEDGER: "ledger",
        records.FACT: "fact",
        records.STATE: "state",
        records.FACTS: "facts",
        records.STEP: "step",
        records.CATALOG: "catalog",
    }
    for kind, word in kinds.items():
        assert f"**{kind}, {word}.**" in page
    assert set(kinds) == records.KINDS
    assert facts.VERSION == snapshot.VERSION == 1
    assert "| cursor facts and snapshots | first byte | 1 |" in page
