"""A log: the next index is where the last durable block ends, whatever the journal answers."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from milepost.errors import (
    CorruptData,
    IndexNotFound,
    LedgerNotFound,
    PersistenceError,
)
from milepost.positions.ids import Position
from milepost.positions.spans import Span
from milepost.storage.journal.queue import Done
from milepost.storage.journal.records import ENTRIES, LEDGER, LEDGER_BODY
from milepost.storage.ledgers import log as log_module
from milepost.storage.ledgers.entry import BATCH, Block, NewEntry
from milepost.storage.ledgers.ledger import FOLDER, Ledger
from milepost.storage.ledgers.log import Log, RollPolicy
from milepost.testing import MemoryFiles

NOW_MS = 1_700_000_000_000


class Owner:
    """The store as a log sees it: a journal that answers when it is told to."""

    def __init__(self) -> None:
        self.files = MemoryFiles(folders=[FOLDER])
        self.roll_policy = RollPolicy()
        self.refused_through = -1
        self.records: list[tuple[int, int, Sequence[bytes]]] = []
        self.dirty: list[Ledger] = []
        self._waiting: list[Done] = []
        self._refused: list[Done] = []
        self._ledgers = 0

    def submit(self, kind: int, owner: int, body: Sequence[bytes], done: Done) -> int:
        self.records.append((kind, owner, body))
        self._waiting.append(done)
        return len(self.records)

    def next_ledger_id(self) -> int:
        self._ledgers += 1
        return self._ledgers

    def touched(self, ledger: Ledger) -> None:
        self.dirty.append(ledger)

    def answer(self, count: int | None = None) -> None:
        """The oldest `count` submissions are durable; all of them if not told."""
        answered = self._waiting[:count]
        del self._waiting[:count]
        for done in answered:
            done(None)

    def refuse(self) -> None:
        """Everything that waits is refused, as behind a failed group."""
        self.fail()
        self.answer_refused()

    def fail(self) -> None:
        """A group failed: whatever waits will be refused, and is not told yet."""
        self.refused_through = len(self.records)
        self._refused, self._waiting = self._waiting, []

    def answer_refused(self) -> None:
        for done in self._refused:
            done(PersistenceError("no"))


class Bench:
    def __init__(self) -> None:
        self.owner = Owner()
        self.log = Log(5, "topic", [], self.owner)
        self.answers: list[PersistenceError | None] = []
        self.now_ms = NOW_MS

    def append(self, *counts: int) -> Block:
        items = [NewEntry(b"payload", count, BATCH if count > 1 else 0) for count in counts]
        return self.log.append(items, self.now_ms, self.answers.append)

    def stored(self, *counts: int) -> Block:
        block = self.append(*counts)
        self.owner.answer()
        return block


@pytest.fixture
def bench() -> Bench:
    return Bench()


class TestAppending:
    def test_nothing_is_visible_before_it_is_durable(self, bench: Bench) -> None:
        block = bench.append(1, 3)
        assert (block.ledger_id, block.first_entry_id, block.end_index) == (1, 0, 4)
        assert (bench.log.end_index, bench.log.next_index, bench.answers) == (0, 4, [])
        with pytest.raises(IndexNotFound):
            bench.log.locate(0)
        bench.owner.answer()
        assert (bench.log.end_index, bench.log.next_index, bench.answers) == (4, 4, [None])
        assert bench.log.locate(3).position == Position(1, 1)

    def test_the_answer_comes_when_the_log_has_it(self, bench: Bench) -> None:
        seen: list[int] = []
        bench.log.append([NewEntry(b"x")], NOW_MS, lambda error: seen.append(bench.log.end_index))
        bench.owner.answer()
        assert seen == [1]

    def test_the_first_block_begins_a_ledger(self, bench: Bench) -> None:
        bench.append(1)
        (ledger, entries) = bench.owner.records
        assert ledger == (LEDGER, 1, (LEDGER_BODY.pack(5, 0, NOW_MS),))
        assert entries[:2] == (ENTRIES, 1)

    def test_blocks_in_flight_are_numbered_behind_each_other(self, bench: Bench) -> None:
        blocks = [bench.append(2), bench.append(3), bench.append(1)]
        assert [block.first_entry_id for block in blocks] == [0, 1, 2]
        assert [block.end_index for block in blocks] == [2, 5, 6]
        bench.owner.answer(2)  # the ledger and the first block
        assert (bench.log.end_index, bench.log.next_index) == (2, 6)
        bench.owner.answer()
        assert [bench.log.locate(i).position.entry_id for i in range(6)] == [0, 0, 1, 1, 1, 2]

    def test_a_block_of_nothing_is_a_bug(self, bench: Bench) -> None:
        with pytest.raises(AssertionError, match="a block of nothing"):
            bench.append()

    def test_a_damaged_log_takes_nothing(self, bench: Bench) -> None:
        bench.log.damage = "entry 3 is gone"
        with pytest.raises(CorruptData, match="topic takes no messages: entry 3 is gone"):
            bench.append(1)
        assert bench.owner.records == []


class TestRefusals:
    def test_refused_indexes_are_given_again_and_positions_are_not(self, bench: Bench) -> None:
        bench.stored(4)
        lost = [bench.append(1), bench.append(2)]
        assert bench.log.next_index == 7
        bench.owner.refuse()
        assert (bench.log.end_index, bench.log.next_index) == (4, 4)
        block = bench.stored(1)
        assert block.last_indexes == [4]
        assert (block.ledger_id, block.first_entry_id) == (2, 0)
        assert not {(b.ledger_id, b.first_entry_id) for b in lost} & {(2, 0)}
        assert [ledger.sealed for ledger in bench.log.ledgers] == [True, False]
        assert bench.log.locate(4).position == Position(2, 0)

    def test_everyone_who_waits_is_told(self, bench: Bench) -> None:
        bench.stored(1)
        bench.append(1)
        bench.append(1)
        bench.owner.refuse()
        assert [error is None for error in bench.answers] == [True, False, False]

    def test_whoever_tries_again_at_once_is_behind_nothing_lost(self, bench: Bench) -> None:
        """The answer to one refused block sends the next, before the others were answered."""
        bench.stored(1)
        again: list[Block] = []
        bench.log.append(
            [NewEntry(b"x")], NOW_MS, lambda error: again.append(bench.append(1)) if error else None
        )
        bench.append(5)
        bench.owner.refuse()
        bench.owner.answer()
        assert bench.log.end_index == 2
        (block,) = again
        assert (block.last_indexes, block.ledger_id) == ([1], 2)
        assert bench.stored(1).first_entry_id == 1

    @pytest.mark.parametrize("first", [0, 4])
    @pytest.mark.parametrize("rolled", [False, True])
    def test_what_comes_between_the_failure_and_its_answers(
        self, bench: Bench, first: int, rolled: bool
    ) -> None:
        """Another topic's group failed: what is in flight here is lost, and nobody was told yet."""
        if first:
            bench.stored(first)
        bench.append(1)
        bench.append(2)
        bench.owner.fail()
        if rolled:
            bench.log.roll(NOW_MS, bench.answers.append)
        block = bench.append(1)
        assert block.last_indexes == [first], "not numbered behind what is lost"
        assert block.first_entry_id == 0, "nor put into its ledger"
        bench.owner.answer_refused()
        bench.owner.answer()
        assert (bench.log.end_index, bench.log.next_index) == (first + 1, first + 1)
        assert bench.log.locate(first).position == Position(block.ledger_id, 0)
        assert bench.stored(1).first_entry_id == 1

    def test_a_refused_ledger_never_was(self, bench: Bench) -> None:
        bench.append(3)
        bench.owner.refuse()
        assert (bench.log.ledgers, bench.log.end_index) == ([], 0)
        assert bench.stored(1).ledger_id == 2

    def test_a_refused_roll_rolls_later(self, bench: Bench) -> None:
        bench.stored(1)
        bench.log.roll(NOW_MS, bench.answers.append)
        bench.owner.refuse()
        assert len(bench.log.ledgers) == 1
        assert bench.stored(1).ledger_id == 3


class TestRolling:
    def test_on_request(self, bench: Bench) -> None:
        bench.stored(2)
        bench.log.roll(NOW_MS, bench.answers.append)
        bench.owner.answer()
        assert bench.answers == [None, None]
        first, second = bench.log.ledgers
        assert (first.sealed, second.sealed, second.first_index) == (True, False, 2)
        assert bench.stored(1).ledger_id == 2
        assert first in bench.owner.dirty

    def test_by_entries(self, bench: Bench) -> None:
        bench.owner.roll_policy = RollPolicy(entries_max=2)
        ledgers = [bench.append(1).ledger_id for _ in range(5)]
        bench.owner.answer()
        ledgers += [bench.stored(1).ledger_id for _ in range(2)]
        assert ledgers == [1, 1, 2, 2, 3, 3, 4]

    def test_by_size_also_of_what_is_in_flight(self, bench: Bench) -> None:
        bench.owner.roll_policy = RollPolicy(size_bytes_max=64 + 2 * len(bench.append(1).data))
        ledgers = [bench.append(1).ledger_id for _ in range(4)]
        assert ledgers == [1, 2, 2, 3]
        bench.owner.answer()
        assert [ledger.entries for ledger in bench.log.ledgers] == [2, 2, 1]

    def test_by_age(self, bench: Bench) -> None:
        bench.stored(1)
        bench.now_ms += RollPolicy().age_ms_max - 1
        assert bench.stored(1).ledger_id == 1
        bench.now_ms += 1
        assert bench.stored(1).ledger_id == 2

    def test_an_empty_ledger_is_not_rolled(self, bench: Bench) -> None:
        bench.log.roll(NOW_MS, bench.answers.append)
        bench.owner.answer()
        bench.now_ms += 10 * RollPolicy().age_ms_max
        assert bench.stored(1).ledger_id == 1

    @pytest.mark.parametrize("in_flight", [False, True])
    def test_before_the_mileposts_overflow(self, bench: Bench, in_flight: bool) -> None:
        """Half a million batches of a million messages have more indexes than 32 bits."""
        append = bench.append if in_flight else bench.stored
        blocks = [append(2**30) for _ in range(9)]
        bench.owner.answer()
        assert [block.ledger_id for block in blocks] == [1, 1, 2, 2, 3, 3, 4, 4, 5]
        assert bench.log.locate(9 * 2**30 - 1).position == Position(5, 0)
        assert bench.log.at(Position(4, 1)).span == Span(7 * 2**30, 2**30)

    def test_before_offsets_overflow(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(log_module, "OFFSET_MAX", 300)
        bench.owner.roll_policy = RollPolicy(size_bytes_max=2**40)
        assert {bench.append(1).ledger_id for _ in range(6)} == {1, 2, 3}


class TestTimes:
    def test_they_never_go_back(self, bench: Bench) -> None:
        times = []
        for step in (0, 10, -50, -50, 200, -500):
            bench.now_ms += step
            times.append(bench.append(1).timestamp_ms - NOW_MS)
            if step < 0:
                bench.log.roll(bench.now_ms, bench.answers.append)
        bench.owner.answer()
        assert times == sorted(times)
        assert times == [0, 10, 10, 10, 110, 110]
        found = [bench.log.index_at(NOW_MS + t) for t in (-1, 0, 1, 10, 11, 110, 111)]
        assert found == [0, 0, 1, 1, 4, 4, 6]

    def test_a_ledger_begun_behind_what_is_in_flight_is_not_older(self, bench: Bench) -> None:
        bench.now_ms += 100
        bench.append(1)
        bench.log.roll(NOW_MS, bench.answers.append)
        bench.owner.answer()
        assert bench.log.ledgers[1].first_time_ms == NOW_MS + 100

    def test_a_clock_far_ahead_is_as_far_as_32_bits_go(self, bench: Bench) -> None:
        bench.owner.roll_policy = RollPolicy(age_ms_max=2**60)
        bench.stored(1)
        bench.now_ms += 2**40
        assert bench.stored(1).timestamp_ms == NOW_MS + 2**32 - 1
        assert bench.log.index_at(NOW_MS + 1) == 1


class TestLookingUp:
    @pytest.fixture
    def full(self, bench: Bench) -> Log:
        """Ledger 1: 0, 1–3; ledger 2 is empty; ledger 3: 4, 5–8."""
        bench.stored(1, 3)
        for _ in range(2):
            bench.log.roll(bench.now_ms, bench.answers.append)
            bench.owner.answer()
            bench.now_ms += 10
        bench.stored(1)
        bench.now_ms += 10
        bench.stored(4)
        return bench.log

    def test_index_and_position_are_inverse(self, full: Log) -> None:
        found = [full.locate(index) for index in range(9)]
        assert [tuple(located.position) for located in found] == [
            (1, 0), (1, 1), (1, 1), (1, 1), (3, 0), (3, 1), (3, 1), (3, 1), (3, 1),
        ]  # fmt: skip
        for index, located in enumerate(found):
            assert index in located.span
            assert full.at(located.position) == located
            assert full.indexes_at(*located.position)[:2] == (
                located.span.first_index,
                located.span.end_index,
            )
        assert [located.flags for located in found] == [0, 2, 2, 2, 0, 2, 2, 2, 2]

    @pytest.mark.parametrize("index", [-1, 9, 2**63])
    def test_an_index_outside_is_named(self, full: Log, index: int) -> None:
        with pytest.raises(IndexNotFound, match=rf"index {index} is not in \[0, 9\)"):
            full.locate(index)

    @pytest.mark.parametrize("position", [(0, 0), (1, 2), (1, -1), (2, 0), (3, 2), (4, 0)])
    def test_a_position_without_an_entry_is_named(
        self, full: Log, position: tuple[int, int]
    ) -> None:
        name = f"topic holds no entry {position[0]}:{position[1]}"
        for ask in (full.at, full.plan_read):
            with pytest.raises(LedgerNotFound, match=name):
                ask(Position(*position))
        with pytest.raises(LedgerNotFound, match=name):
            full.indexes_at(*position)

    def test_a_seek_goes_to_the_nearest_place_that_exists(self, full: Log) -> None:
        found = {
            (0, 5): 0, (1, -1): 0, (1, 0): 0, (1, 1): 1, (1, 2): 4, (2, 0): 4, (3, 0): 4, (3, 1): 5,
            (3, 2): 9, (4, 0): 9,
        }  # fmt: skip
        assert {p: full.index_from(Position(*p)) for p in found} == found

    def test_the_last_position_skips_empty_ledgers(self, bench: Bench, full: Log) -> None:
        full.roll(bench.now_ms, bench.answers.append)
        bench.owner.answer()
        assert full.last_position() == Position(3, 1)
        assert (full.entry_count, full.size_bytes > 4 * 64) == (4, True)

    def test_an_empty_log_has_no_position(self) -> None:
        log = Bench().log
        assert log.last_position() is None
        assert (log.first_index, log.end_index, log.last_timestamp_ms) == (0, 0, 0)
        assert log.index_from(Position(3, 3)) == 0
        assert log.index_at(NOW_MS) == 0
        assert log.entries_from(0, 10) == []

    def test_consecutive_entries(self, full: Log) -> None:
        found = full.entries_from(2, 10)
        assert found == [full.at(Position(1, 1))]
        found = full.entries_from(4, 10)
        assert found == [full.at(Position(3, 0)), full.at(Position(3, 1))]
        assert full.entries_from(4, 1) == found[:1]
        assert full.entries_from(9, 10) == []

    def test_reading_stays_in_one_ledger(self, full: Log) -> None:
        assert [e.entry_id for e in full.read(Position(1, 0))] == [0, 1]
        assert [e.entry_id for e in full.read(Position(3, 0), entries_max=1)] == [0]
        assert [e.entry_id for e in full.read(Position(3, 0), size_max=1)] == [0]

    @pytest.mark.parametrize(
        ("index", "end_index", "positions"),
        [
            (0, 1, [(1, 0)]),
            (0, 2, [(1, 0), (1, 1)]),
            (0, 9, [(1, 0), (1, 1)]),  # no further than its ledger
            (2, 3, [(1, 1)]),
            (4, 5, [(3, 0)]),
            (4, 6, [(3, 0), (3, 1)]),
            (4, 99, [(3, 0), (3, 1)]),
            (8, 9, [(3, 1)]),
        ],
    )
    def test_reading_by_index_brings_what_holds_it(
        self, bench: Bench, full: Log, index: int, end_index: int, positions: list[tuple[int, int]]
    ) -> None:
        plan = full.plan_read_from(index, end_index, entries_max=10, size_max=10**6)
        assert [tuple(e.position) for e in plan.perform(bench.owner.files)] == positions
        plan = full.plan_read_from(index, end_index, entries_max=1, size_max=10**6)
        assert [tuple(e.position) for e in plan.perform(bench.owner.files)] == positions[:1]
        plan = full.plan_read_from(index, end_index, entries_max=10, size_max=1)
        assert [tuple(e.position) for e in plan.perform(bench.owner.files)] == positions[:1]

    def test_the_newest_block_if_that_is_what_is_asked_for(self, bench: Bench) -> None:
        def newest(index: int, end_index: int) -> list[int]:
            found = bench.log.newest(index, end_index, entries_max=10, size_max=10**6)
            return [entry.last_index for entry in found]

        assert newest(0, 9) == []
        bench.stored(1, 1)
        bench.stored(2, 1)
        assert newest(2, 5) == [3, 4]
        assert newest(2, 99) == [3, 4]
        assert newest(2, 4) == []  # more than is asked for
        assert (newest(0, 5), newest(3, 5), newest(5, 6)) == ([], [], [])

    def test_reading_by_an_index_outside_names_it(self, full: Log) -> None:
        with pytest.raises(IndexNotFound, match=r"index 9 is not in \[0, 9\)"):
            full.plan_read_from(9, 10, entries_max=1, size_max=1)


class TestTrimming:
    def test_only_whole_ledgers_and_never_the_last(self, bench: Bench) -> None:
        bench.owner.roll_policy = RollPolicy(entries_max=1)
        for _ in range(3):
            bench.stored(5)
        assert [len(bench.log.trimmable(index)) for index in (0, 4, 5, 9, 10, 15, 99)] == [
            0, 0, 1, 1, 2, 2, 2,
        ]  # fmt: skip
        first, second = bench.log.trimmable(10)
        bench.log.trimmed(2)
        assert (bench.log.first_index, bench.log.end_index) == (10, 15)
        assert (first.is_gone, second.is_gone, bench.log.ledgers[0].is_gone) == (True, True, False)
        with pytest.raises(IndexNotFound):
            bench.log.locate(9)
        assert bench.log.locate(10).position == Position(3, 0)
        assert bench.log.index_from(Position(1, 0)) == 10


class TestAppendingOne:
    """One plain entry is appended in fewer steps, and nothing else about it differs."""

    @pytest.mark.parametrize("seed", range(60))
    def test_it_does_what_append_does(self, seed: int) -> None:
        dice = random.Random(seed)
        benches = Bench(), Bench()
        for bench in benches:
            bench.owner.roll_policy = RollPolicy(entries_max=7, size_bytes_max=900, age_ms_max=500)

        def appended(bench: Bench, count: int, *, by_one: bool) -> Block | str:
            log = bench.log

            def heard(error: PersistenceError | None) -> None:
                bench.answers.append(log.hear(error))

            try:
                if by_one:
                    return log.append_one(b"payload", count, bench.now_ms, heard)
                return log.append([NewEntry(b"payload", count)], bench.now_ms, bench.answers.append)
            except CorruptData as error:
                return str(error)

        for _ in range(60):
            what = dice.choice(
                ["one", "one", "one", "many", "answer", "refuse", "time", "stall", "roll", "seal"]
            )
            number, moved = dice.randrange(1, 4), dice.choice([-50, 1, 40, 600])
            if what == "one":
                first, second = (
                    appended(bench, number, by_one=bench is benches[0]) for bench in benches
                )
                assert first == second
            for bench in benches:
                if what == "time":
                    bench.now_ms += moved
                elif what == "answer":
                    bench.owner.answer(number)
                elif what == "refuse" and number == 1:
                    bench.owner.refuse()
                elif what == "stall":
                    bench.log.stall = "it is away" if number == 1 else None
                elif what == "seal" and bench.log.ledgers and not bench.owner._waiting:
                    bench.log.ledgers[-1].sealed = True
                elif bench.log.stall is None and what == "many":
                    bench.append(*[1] * number)
                elif bench.log.stall is None and what == "roll":
                    bench.log.roll(bench.now_ms, bench.answers.append)
            one, other = benches
            assert one.owner.records == other.owner.records
            assert list(map(repr, one.answers)) == list(map(repr, other.answers))
            assert repr(one.log) == repr(other.log)
            assert (one.log.next_index, one.log.ledger_ids) == (
                other.log.next_index,
                other.log.ledger_ids,
            )
