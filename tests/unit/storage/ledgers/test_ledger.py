"""A ledger: entry last + 1 and nothing else; memory and file give the same answers."""

from __future__ import annotations

import logging

import pytest

from milepost.errors import CorruptData, LedgerNotFound, OutOfOrderAppend, UnknownFormat
from milepost.positions.ids import Position
from milepost.positions.spans import Span
from milepost.storage.header import HEADER_SIZE, LEDGER, FileHeader
from milepost.storage.ledgers import ledger as ledger_module
from milepost.storage.ledgers.entry import (
    BATCH,
    CHUNK,
    DELAYED,
    LAST_CHUNK,
    MARKER,
    Block,
    Entry,
    NewEntry,
    decode_entries,
)
from milepost.storage.ledgers.ledger import (
    FOLDER,
    Ledger,
    LedgerRow,
    ledger_path,
    mileposts_path,
)
from milepost.storage.ledgers.stored_run import RunLimits
from milepost.testing import MemoryFiles
from milepost.testing.damage import copy_block, cut, flip_bit

TIME_MS = 1_700_000_000_000
INCARNATION = bytes(range(16))
NEW = LedgerRow(7, 1, 100, TIME_MS)


@pytest.fixture
def files() -> MemoryFiles:
    return MemoryFiles(folders=[FOLDER])


def fill(ledger: Ledger, files: MemoryFiles, *counts: int, blocks: int = 1) -> None:
    for _ in range(blocks):
        items = [NewEntry(b"entry %d" % (ledger.entries + n), c) for n, c in enumerate(counts)]
        time_ms = TIME_MS + ledger.entries
        ledger.admit(
            Block.encode(ledger.ledger_id, ledger.entries, ledger.end_index, time_ms, items), files
        )


def checkpoint(ledger: Ledger, files: MemoryFiles) -> bool:
    flush = ledger.plan_flush(INCARNATION)
    began = flush.perform(files)
    ledger.flushed(flush, files)
    return began


def forget(ledger: Ledger) -> None:
    """Let only the file answer."""
    while ledger.stored_blocks():
        ledger.drop_blocks(1)


def read(ledger: Ledger, files: MemoryFiles, first: int, end: int, size: int = 9**9) -> list[Entry]:
    return ledger.plan_read(first, end, size, files).perform(files)


class TestGrowing:
    def test_it_begins_where_its_row_says(self) -> None:
        ledger = Ledger(NEW)
        assert (ledger.entries, ledger.end_index, ledger.last_time_ms) == (0, 100, TIME_MS)
        assert not ledger.is_dirty

    def test_entries_are_numbered_on(self, files: MemoryFiles) -> None:
        ledger = Ledger(NEW)
        fill(ledger, files, 1, 5, blocks=2)
        assert (ledger.entries, ledger.end_index) == (4, 112)
        assert [ledger.span(n, files) for n in range(4)] == [
            Span(100, 1),
            Span(101, 5),
            Span(106, 1),
            Span(107, 5),
        ]
        assert ledger.indexes(0, files) == (100, 101, 0)
        assert ledger.indexes(3, files) == (107, 112, 0)
        assert [ledger.entry_with(index, files) for index in (100, 101, 105, 106, 111)] == [
            0,
            1,
            1,
            2,
            3,
        ]

    @pytest.mark.parametrize(("ledger_id", "entry_id"), [(7, 0), (7, 2), (8, 1)])
    def test_anything_but_the_next_entry_is_refused(
        self, files: MemoryFiles, ledger_id: int, entry_id: int
    ) -> None:
        ledger = Ledger(NEW)
        fill(ledger, files, 1)
        block = Block.encode(ledger_id, entry_id, 101, TIME_MS, [NewEntry(b"x")])
        with pytest.raises(OutOfOrderAppend, match="ledger 7 expected entry 1, got entry"):
            ledger.admit(block, files)
        assert ledger.entries == 1

    def test_a_sealed_one_takes_nothing(self, files: MemoryFiles) -> None:
        ledger = Ledger(NEW)
        ledger.sealed = True
        with pytest.raises(OutOfOrderAppend, match="it is sealed"):
            fill(ledger, files, 1)


class TestReading:
    @pytest.mark.parametrize("stored", ["nothing", "some", "all"])
    def test_any_range_from_memory_file_or_both(self, files: MemoryFiles, stored: str) -> None:
        ledger = Ledger(NEW)
        fill(ledger, files, 1, 2, 3, blocks=2)
        if stored != "nothing":
            checkpoint(ledger, files)
            forget(ledger)
        if stored != "all":
            fill(ledger, files, 1, 2, 3, blocks=2)
        for first in range(ledger.entries):
            for end in range(first + 1, ledger.entries + 1):
                plan = ledger.plan_read(first, end, 9**9, files)
                entries = plan.perform(files)
                # One read is from the file or from memory: it ends where the one ends.
                ends = 6 if stored == "some" and first < 6 < end else end
                assert [bytes(e.payload) for e in entries] == [
                    b"entry %d" % n for n in range(first, ends)
                ]
                assert [e.position for e in entries] == [Position(7, n) for n in range(first, ends)]
                assert (plan.data is None) == (stored == "all" or (stored == "some" and first < 6))
                assert plan.end <= ledger.stored.size_bytes or plan.data is not None

    def test_no_more_than_asked_for_and_one_at_least(self, files: MemoryFiles) -> None:
        ledger = Ledger(NEW)
        fill(ledger, files, 1, blocks=5)
        size = ledger.size_bytes - HEADER_SIZE
        assert len(read(ledger, files, 0, 5, size)) == 5
        assert len(read(ledger, files, 0, 5, size - 1)) == 4
        assert len(read(ledger, files, 0, 5, 0)) == 1
        assert len(read(ledger, files, 1, 3)) == 2

    def test_the_newest_block_is_there_as_it_came(self, files: MemoryFiles) -> None:
        ledger = Ledger(NEW)
        no_limit = {"entries_max": 100, "size_max": 10**6}
        assert ledger.newest(100, **no_limit) == []
        fill(ledger, files, 1, 5)
        fill(ledger, files, 2, 1)
        assert ledger.newest(106, **no_limit) == read(ledger, files, 2, 4)
        assert [ledger.newest(index, **no_limit) for index in (100, 105, 107, 109)] == [[]] * 4
        assert ledger.newest(106, entries_max=2, size_max=10**6) == []
        assert ledger.newest(106, entries_max=100, size_max=10) == []

    def test_the_newest_block_is_not_looked_for_once_blocks_were_joined_or_dropped(
        self, files: MemoryFiles
    ) -> None:
        ledger = Ledger(NEW)
        fill(ledger, files, 1, blocks=3)
        checkpoint(ledger, files)
        assert ledger.newest(102, entries_max=100, size_max=10**6) == []
        fill(ledger, files, 1)
        assert len(ledger.newest(103, entries_max=100, size_max=10**6)) == 1
        forget(ledger)
        assert ledger.newest(103, entries_max=100, size_max=10**6) == []

    def test_from_memory_no_file_is_touched(self, files: MemoryFiles) -> None:
        ledger = Ledger(NEW)
        fill(ledger, files, 1, blocks=3)
        files.faults.fail("any", forever=True)
        assert len(read(ledger, files, 0, 3)) == 3


class TestCheckpoints:
    def test_what_is_stored_comes_back(self, files: MemoryFiles) -> None:
        ledger = Ledger(NEW)
        fill(ledger, files, 1, 2, blocks=3)
        assert ledger.is_dirty
        assert checkpoint(ledger, files)
        assert not ledger.is_dirty
        fill(ledger, files, 4)
        assert not checkpoint(ledger, files), "its name is durable already"
        again = Ledger(ledger.stored)
        assert (again.entries, again.end_index, again.size_bytes) == (7, 113, ledger.size_bytes)
        assert read(again, files, 0, 7) == read(ledger, files, 0, 7)
        assert [again.span(n, files) for n in range(7)] == [ledger.span(n, files) for n in range(7)]

    def test_sealing_alone_writes_no_file(self, files: MemoryFiles) -> None:
        ledger = Ledger(NEW)
        fill(ledger, files, 1)
        checkpoint(ledger, files)
        before = files.contents()
        ledger.sealed = True
        assert ledger.is_dirty
        assert not checkpoint(ledger, files)
        assert (files.contents(), ledger.is_dirty, ledger.stored.sealed) == (before, False, True)

    def test_an_empty_one_has_a_row_and_no_file(self, files: MemoryFiles) -> None:
        ledger = Ledger(NEW)
        assert not checkpoint(ledger, files)
        assert files.contents() == {}
        assert ledger.stored.size_bytes == 0

    def test_bytes_behind_what_is_stored_are_cut(self, files: MemoryFiles) -> None:
        """Left by a checkpoint that did not get to tell the catalog."""
        ledger = Ledger(NEW)
        fill(ledger, files, 1, blocks=2)
        checkpoint(ledger, files)
        stored = ledger.stored
        fill(ledger, files, 1, blocks=2)
        ledger.plan_flush(INCARNATION).perform(files)
        again = Ledger(stored)
        fill(again, files, 3)
        checkpoint(again, files)
        assert files.size(ledger_path(7)) == again.size_bytes
        once_more = Ledger(again.stored)
        assert [e.count for e in read(once_more, files, 0, 3)] == [1, 1, 3]
        assert once_more.span(2, files) == Span(102, 3)

    def test_a_file_shorter_than_what_was_synced_is_not_written_to(
        self, files: MemoryFiles
    ) -> None:
        ledger = Ledger(NEW)
        fill(ledger, files, 1, blocks=2)
        checkpoint(ledger, files)
        files.damage(ledger_path(7), files.contents()[ledger_path(7)][:-1])
        before = files.contents()
        fill(ledger, files, 1)
        with pytest.raises(CorruptData, match=r"0007\.ledger: \d+ bytes are left of the \d+"):
            ledger.plan_flush(INCARNATION).perform(files)
        assert files.contents() == before

    @pytest.mark.parametrize("joined_size", [1, 57, 150, 10**6])
    def test_small_blocks_are_joined_when_they_are_stored(
        self, files: MemoryFiles, monkeypatch: pytest.MonkeyPatch, joined_size: int
    ) -> None:
        monkeypatch.setattr(ledger_module, "JOINED_SIZE", joined_size)
        ledger = Ledger(NEW)
        fill(ledger, files, 1, blocks=5)
        checkpoint(ledger, files)
        flush = ledger.plan_flush(INCARNATION)
        assert not flush.blocks
        fill(ledger, files, 2, blocks=4)
        flush = ledger.plan_flush(INCARNATION)
        fill(ledger, files, 3, blocks=3)  # while it is being stored
        flush.perform(files)
        flush.perform(files)  # tried again
        ledger.flushed(flush, files)
        sizes = [len(block) for block in flush.blocks]
        assert all(size >= joined_size for size in sizes[:-1])
        assert flush.block_offsets()[-1] + sizes[-1] == flush.row.size_bytes
        entries = read(ledger, files, 0, 12)
        assert [entry.count for entry in entries] == [1] * 5 + [2] * 4 + [3] * 3
        for entry_id in range(12):
            plan = ledger.plan_read(entry_id, 12, 9**9, files)
            assert plan.data is not None
            assert plan.perform(files) == entries[entry_id:]
        checkpoint(ledger, files)
        forget(ledger)
        assert read(ledger, files, 0, 12) == entries

    def test_large_blocks_are_not_copied(self, files: MemoryFiles) -> None:
        ledger = Ledger(NEW)
        large = [Block.encode(7, n, 100 + n, TIME_MS, [NewEntry(bytes(20_000))]) for n in (1, 4)]
        fill(ledger, files, 1)
        ledger.admit(large[0], files)
        fill(ledger, files, 1, blocks=2)
        ledger.admit(large[1], files)
        flush = ledger.plan_flush(INCARNATION)
        flush.perform(files)
        assert [len(block) for block in flush.blocks] == [55, 20_048, 110, 20_048]
        assert flush.blocks[1] is large[0].data
        assert flush.blocks[3] is large[1].data

    def test_blocks_are_forgotten_oldest_first_and_only_when_stored(
        self, files: MemoryFiles, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ledger_module, "JOINED_SIZE", 1)
        ledger = Ledger(NEW)
        fill(ledger, files, 1, blocks=3)
        assert ledger.stored_blocks() == 0
        with pytest.raises(AssertionError):
            ledger.drop_blocks(1)
        checkpoint(ledger, files)
        fill(ledger, files, 1)
        assert ledger.stored_blocks() == 3
        ledger.drop_blocks(1)
        assert ledger.plan_read(0, 1, 1, files).data is None
        assert ledger.plan_read(1, 2, 1, files).data is not None
        assert len(read(ledger, files, 0, 4)) == 3
        assert len(read(ledger, files, 1, 4)) == 3

    def test_the_newest_rows_of_an_open_ledger_stay_in_memory(self, files: MemoryFiles) -> None:
        ledger = Ledger(NEW)
        fill(ledger, files, 1, blocks=3)
        checkpoint(ledger, files)
        assert ledger.mileposts(files).mapped_count == 0
        ledger.sealed = True
        checkpoint(ledger, files)
        assert ledger.mileposts(files).mapped_count == 3


class TestDamage:
    def stored(self, files: MemoryFiles) -> Ledger:
        ledger = Ledger(NEW)
        fill(ledger, files, 1, 2, 3, blocks=2)
        checkpoint(ledger, files)
        return Ledger(ledger.stored)

    def test_a_damaged_entry_is_named_and_costs_only_itself(self, files: MemoryFiles) -> None:
        ledger = self.stored(files)
        row = ledger.mileposts(files).row(3)
        flip_bit(files, ledger_path(7), 8 * (row.offset + 50))
        assert [e.entry_id for e in read(ledger, files, 0, 6)] == [0, 1, 2]
        expected = rf"0007\.ledger: byte {row.offset}: entry 7:3 \(last index 106\) is damaged"
        with pytest.raises(CorruptData, match=expected):
            read(ledger, files, 3, 6)
        assert [e.entry_id for e in read(ledger, files, 4, 6)] == [4, 5]

    @pytest.mark.parametrize("target", [1, 2, 3, 5])
    def test_an_intact_entry_in_the_wrong_place_is_damage(
        self, files: MemoryFiles, target: int
    ) -> None:
        """A duplicated block: entry 0 again, where another of the same size belongs."""
        ledger = self.stored(files)
        rows = ledger.mileposts(files).rows(0, 6)
        size = rows[1].offset - rows[0].offset
        path = ledger_path(7)
        copy_block(files, (path, rows[0].offset), (path, rows[target].offset), size)
        assert [e.entry_id for e in read(ledger, files, 0, 6)] == list(range(target))
        with pytest.raises(CorruptData, match=rf"entry 7:{target} \(last index"):
            read(ledger, files, target, 6)

    def test_a_lost_file_is_damage_and_a_trimmed_one_is_not(self, files: MemoryFiles) -> None:
        ledger = self.stored(files)
        plan = ledger.plan_read(0, 6, 9**9, files)
        files.delete(ledger_path(7))
        with pytest.raises(CorruptData, match=r"byte 64: entry 7:0 \(last index 100\) is damaged"):
            plan.perform(files)
        ledger.is_gone = True
        with pytest.raises(LedgerNotFound, match="ledger 7 has been trimmed"):
            plan.perform(files)

    @pytest.mark.parametrize("how", ["deleted", "cut", "flipped"])
    def test_mileposts_are_made_again(
        self, files: MemoryFiles, how: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        ledger = self.stored(files)
        path = mileposts_path(7)
        if how == "deleted":
            files.delete(path)
        elif how == "cut":
            files.damage(path, files.contents()[path][:-1])
        else:
            flip_bit(files, path, 8 * (HEADER_SIZE + 5))
        with caplog.at_level(logging.INFO):
            spans = [ledger.span(n, files) for n in range(6)]
        assert [tuple(span) for span in spans] == [
            (100, 1),
            (101, 2),
            (103, 3),
            (106, 1),
            (107, 2),
            (109, 3),
        ]
        assert f"{path}: missing or not intact" in caplog.text
        # The next checkpoint writes them whole.
        fill(ledger, files, 1)
        checkpoint(ledger, files)
        again = Ledger(ledger.stored)
        caplog.clear()
        assert again.span(6, files) == Span(112, 1)
        assert again.span(0, files) == Span(100, 1)
        assert caplog.text == ""

    @pytest.mark.parametrize("path", [ledger_path(7), mileposts_path(7)])
    def test_a_damaged_header_costs_nothing_and_is_told(
        self, files: MemoryFiles, path: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        """But for mileposts, which a power failure may well leave so."""
        ledger = self.stored(files)
        flip_bit(files, path, 8 * 30)
        assert len(read(ledger, files, 0, 6)) == 6
        told = "" if path == mileposts_path(7) else f"{path}: its header is damaged"
        assert told in caplog.text
        assert bool(told) == bool(caplog.text)

    @pytest.mark.parametrize("path", [ledger_path(7), mileposts_path(7)])
    def test_a_newer_format_is_refused(
        self, files: MemoryFiles, path: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ledger = self.stored(files)
        data = files.contents()[path]
        kind = data[4:8]
        monkeypatch.setattr("milepost.storage.header.VERSION", 2)
        newer = FileHeader(kind, INCARNATION, 7, 1, 100, TIME_MS).encode()
        monkeypatch.undo()
        files.damage(path, newer + data[HEADER_SIZE:])
        with pytest.raises(UnknownFormat, match="format version 2; this release reads 1"):
            read(ledger, files, 0, 6)
        assert files.contents()[path][:HEADER_SIZE] == newer

    def test_a_file_of_another_ledger_is_refused(self, files: MemoryFiles) -> None:
        ledger = self.stored(files)
        other = FileHeader(LEDGER, INCARNATION, 8, 1, 100, TIME_MS).encode()
        files.damage(ledger_path(7), other + files.contents()[ledger_path(7)][HEADER_SIZE:])
        with pytest.raises(CorruptData, match=r"belongs to ledger \(8, 1, 100, "):
            read(ledger, files, 0, 6)


class TestRuns:
    """Entries as they are stored."""

    LIMITS = RunLimits(entries_max=100, size_max=1 << 20)

    @pytest.fixture(params=["memory", "half", "file"])
    def ledger(self, request: pytest.FixtureRequest, files: MemoryFiles) -> Ledger:
        ledger = Ledger(NEW)
        fill(ledger, files, 1, 5, 1, blocks=4)
        if request.param != "memory":
            checkpoint(ledger, files)
            forget(ledger)
        fill(ledger, files, 1, 1, 1)
        if request.param == "file":
            checkpoint(ledger, files)
            forget(ledger)
        return ledger

    def found(self, ledger: Ledger, files: MemoryFiles, first: int, end: int) -> list[Entry]:
        run = ledger.plan_run(first, end, self.LIMITS, files)
        if run is None:
            return []
        entries = decode_entries(run.perform(files), "the run")
        assert (len(entries), entries[0].entry_id) == (run.entries, run.first_entry_id)
        assert (entries[0].span.first_index, entries[-1].span.end_index) == (
            run.first_index,
            run.end_index,
        )
        assert run.payload_size == sum(len(one.payload) for one in entries)
        return entries

    def test_they_are_the_entries(self, ledger: Ledger, files: MemoryFiles) -> None:
        """All of them, in a few runs: memory and file are read apart."""
        entries: list[Entry] = []
        while entries == [] or entries[-1].span.end_index < ledger.end_index:
            index = entries[-1].span.end_index if entries else 100
            more = self.found(ledger, files, index, ledger.end_index)
            assert more
            entries += more
        assert [one.position for one in entries] == [(7, number) for number in range(15)]
        assert [bytes(one.payload) for one in entries] == [b"entry %d" % n for n in range(15)]

    def test_only_whole_entries_that_lie_in_the_range(
        self, ledger: Ledger, files: MemoryFiles
    ) -> None:
        assert [one.entry_id for one in self.found(ledger, files, 100, 108)] == [0, 1, 2, 3]
        assert [one.entry_id for one in self.found(ledger, files, 100, 107)] == [0, 1, 2]
        assert [one.entry_id for one in self.found(ledger, files, 101, 107)] == [1, 2]
        assert self.found(ledger, files, 102, 120) == []  # inside a batch
        assert self.found(ledger, files, 101, 106) == []  # one alone

    def test_limits(self, ledger: Ledger, files: MemoryFiles) -> None:
        run = ledger.plan_run(100, 120, RunLimits(3, 1 << 20), files)
        assert run is not None
        assert run.entries == 3
        sizes = [len(entry.payload) + 48 for entry in read(ledger, files, 0, 4)]
        run = ledger.plan_run(100, 120, RunLimits(100, sum(sizes) - 1), files)
        assert run is not None
        assert (run.entries, run.end - run.start) == (3, sum(sizes[:3]))
        assert ledger.plan_run(100, 120, RunLimits(100, sizes[0]), files) is None

    @pytest.mark.parametrize("flag", [MARKER, CHUNK, CHUNK | LAST_CHUNK, DELAYED, 1 << 9])
    def test_any_flag_but_that_of_a_batch_ends_it(self, files: MemoryFiles, flag: int) -> None:
        """Also one that a later version gives a meaning."""
        ledger = Ledger(NEW)
        items = [NewEntry(b"x", flags=one) for one in (0, BATCH, 0, flag, 0, 0)]
        ledger.admit(Block.encode(7, 0, 100, TIME_MS, items), files)
        assert [one.entry_id for one in self.found(ledger, files, 100, 106)] == [0, 1, 2]
        assert self.found(ledger, files, 103, 106) == []
        assert [one.entry_id for one in self.found(ledger, files, 104, 106)] == [4, 5]

    def test_a_file_that_is_short_or_gone(self, files: MemoryFiles) -> None:
        ledger = Ledger(NEW)
        fill(ledger, files, 1, 1, 1)
        checkpoint(ledger, files)
        forget(ledger)
        run = ledger.plan_run(100, 103, self.LIMITS, files)
        assert run is not None
        path = ledger_path(7)
        cut(files, path, len(files.contents()[path]) - 1)
        with pytest.raises(CorruptData, match="ends at byte"):
            run.perform(files)
        files.delete(path)
        with pytest.raises(CorruptData, match="ends at byte"):
            run.perform(files)
        ledger.is_gone = True
        with pytest.raises(LedgerNotFound, match="ledger 7 has been trimmed"):
            run.perform(files)


class TestEntriesInMemory:
    """Entries of ranges that lie apart are looked up together."""

    @pytest.mark.parametrize(
        ("ranges", "entry_ids"),
        [
            ([(100, 101)], [0]),
            ([(100, 101), (104, 105), (108, 109)], [0, 2, 4]),
            ([(101, 104)], [1]),
            ([(101, 102), (103, 104)], [1]),  # both in one entry
            ([(101, 102), (103, 105)], [1, 2]),
            ([(102, 106), (107, 108)], [1, 2, 3]),
            ([(108, 112)], [4]),
            ([(108, 109), (112, 113)], [4]),  # what is not there yet
        ],
    )
    def test_each_entry_comes_once_and_in_order(
        self, files: MemoryFiles, ranges: list[tuple[int, int]], entry_ids: list[int]
    ) -> None:
        ledger = Ledger(NEW)
        # [100, 101), [101, 104), [104, 105), [105, 108), and in a block of its own [108, 109).
        fill(ledger, files, 1, 3, 1, 3)
        fill(ledger, files, 1)
        found = ledger.entries_in_memory(ranges, files)
        assert [entry.entry_id for entry in found] == entry_ids
        assert found == [read(ledger, files, one, one + 1)[0] for one in entry_ids]

    def test_what_only_the_file_has_ends_them(self, files: MemoryFiles) -> None:
        ledger = Ledger(NEW)
        fill(ledger, files, 1, 1, 1)
        checkpoint(ledger, files)
        ledger.drop_blocks(1)
        fill(ledger, files, 1, 1)
        assert ledger.entries_in_memory([(101, 102), (104, 105)], files) == []
        found = ledger.entries_in_memory([(103, 104), (104, 105)], files)
        assert [entry.entry_id for entry in found] == [3, 4]

    def test_a_ledger_that_was_struck_gives_none_unchecked(self, files: MemoryFiles) -> None:
        ledger = Ledger(NEW)
        fill(ledger, files, 1, 1, 1)
        ledger.is_struck = True
        assert ledger.entries_in_memory([(100, 101), (102, 103)], files) == []

    def test_what_has_to_be_read_is_planned_together(self, files: MemoryFiles) -> None:
        ledger = Ledger(NEW)
        fill(ledger, files, 1, 3, 1, 3, 1)
        checkpoint(ledger, files)
        forget(ledger)
        plans = ledger.plan_reads([(100, 101), (102, 103), (105, 109)], 9**9, files)
        assert [[one.entry_id for one in plan.perform(files)] for plan in plans] == [
            [0],
            [1],
            [3, 4],
        ]

    def test_no_entry_is_left_out_between_two_that_are_read(self, files: MemoryFiles) -> None:
        """Where the size is at its end, so is the plan: it does not go on behind what it could not read."""
        ledger = Ledger(NEW)
        fill(ledger, files, *[1] * 9)
        checkpoint(ledger, files)
        forget(ledger)
        size = ledger.offset_of(1, files) - ledger.offset_of(0, files)
        ranges = [(100, 101), (102, 105), (106, 107)]
        found = [
            [entry.entry_id for plan in plans for entry in plan.perform(files)]
            for plans in (ledger.plan_reads(ranges, count * size, files) for count in range(1, 6))
        ]
        assert found == [[0], [0, 2], [0, 2, 3], [0, 2, 3, 4], [0, 2, 3, 4, 6]]
