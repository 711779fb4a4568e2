"""The store: logs, states and checkpoints of one directory, as plain steps."""

from __future__ import annotations

import errno
from contextlib import suppress

import pytest
from crash.checker import read_log
from crash.machine import Machine
from stage.acksets import is_clean

from milepost.errors import CorruptData, PersistenceError, TopicNotFound
from milepost.storage.catalog.catalog import Snapshot
from milepost.storage.catalog.sqlite_catalog import SqliteCatalog
from milepost.storage.journal.journal import file_name
from milepost.storage.ledgers.entry import NewEntry
from milepost.storage.store import Store
from milepost.testing import ManualClock, MemoryFiles, power_loss
from milepost.testing.damage import flip_bit

NOW_MS = 1_700_000_000_000


class Bench:
    """A store and one state of it, which is its facts in a row."""

    def __init__(self) -> None:
        self.files = MemoryFiles()
        self.image: bytes | None = None
        self.open()
        topic = self.store.catalog.create_topic("a", {})
        self.state_id = self.store.catalog.create_state(topic.topic_id, "kind", "s", {}).state_id
        self.facts = b""
        self.open_state()

    def open(self) -> None:
        self.catalog = SqliteCatalog(None, image=self.image)
        self.store = Store(self.files, self.catalog, ManualClock())

    def open_state(self) -> Snapshot:
        found = self.store.open_state(self.state_id, lambda: self.facts)
        self.facts = (found.data or b"") + b"".join(found.facts)
        return found

    def tell(self, fact: bytes) -> list[PersistenceError | None]:
        answers: list[PersistenceError | None] = []
        self.facts += fact
        self.store.fact(self.state_id, fact, answers.append)
        return answers

    def told(self, fact: bytes) -> PersistenceError | None:
        answers = self.tell(fact)
        self.store.pump()
        (answer,) = answers
        return answer

    def crash(self) -> Snapshot:
        self.image = self.catalog.image()
        self.files = power_loss(self.files)
        self.open()
        return self.open_state()


@pytest.fixture
def bench() -> Bench:
    return Bench()


class TestStates:
    def test_a_new_one_has_nothing(self, bench: Bench) -> None:
        bench.store.close_state(bench.state_id)
        assert bench.open_state() == Snapshot(-1, None, [])

    def test_facts_survive_a_crash_in_order(self, bench: Bench) -> None:
        for fact in (b"a", b"b", b"c"):
            assert bench.told(fact) is None
        assert bench.crash().facts == [b"a", b"b", b"c"]
        assert bench.told(b"d") is None
        assert bench.crash().facts == [b"a", b"b", b"c", b"d"]

    def test_a_snapshot_replaces_them(self, bench: Bench) -> None:
        bench.told(b"a")
        bench.store.checkpoint()
        bench.told(b"b")
        found = bench.crash()
        assert (found.data, found.facts) == (b"a", [b"b"])
        bench.store.checkpoint()
        assert bench.crash() == Snapshot(bench.store.journal.last_sequence, b"ab", [])

    def test_facts_of_one_that_nobody_opened_are_kept_as_they_are(self, bench: Bench) -> None:
        bench.told(b"a")
        bench.image = bench.catalog.image()
        for _ in range(2):
            bench.open()
            bench.store.checkpoint()
            bench.image = bench.catalog.image()
        bench.open()
        assert is_clean(bench.store.report)
        found = bench.open_state()
        assert (found.data, found.facts) == (None, [b"a"])

    def test_one_that_is_closed_is_stored_by_the_next_checkpoint(self, bench: Bench) -> None:
        bench.told(b"a")
        bench.store.close_state(bench.state_id)
        assert bench.store.is_dirty
        bench.store.checkpoint()
        assert not bench.store.is_dirty
        assert bench.crash().data == b"a"

    def test_one_that_changes_without_a_fact_can_say_so(self, bench: Bench) -> None:
        bench.facts = b"changed"
        bench.store.mark_dirty(bench.state_id)
        bench.store.checkpoint()
        assert bench.crash().data == b"changed"

    def test_what_the_caller_fetched_is_used_unless_newer_is_known(self, bench: Bench) -> None:
        bench.told(b"a")
        bench.store.checkpoint()
        bench.store.close_state(bench.state_id)
        fetched = bench.catalog.snapshot(bench.state_id)
        assert bench.store.open_state(bench.state_id, lambda: b"", fetched) is fetched
        bench.facts = b"a"
        bench.store.close_state(bench.state_id)
        bench.open_state()
        bench.told(b"b")
        bench.store.close_state(bench.state_id)
        assert bench.store.open_state(bench.state_id, lambda: b"", fetched).data == b"ab"

    def test_a_deleted_one_is_forgotten_with_its_facts(self, bench: Bench) -> None:
        bench.told(b"a")
        bench.tell(b"in flight")
        bench.store.delete_state(bench.state_id)
        bench.store.pump()
        assert not bench.store.is_dirty
        bench.image = bench.catalog.image()
        bench.open()
        assert bench.catalog.state_by_id(bench.state_id) is None
        with pytest.raises(AssertionError, match="is not open"):
            bench.store.fact(bench.state_id, b"late", lambda error: None)

    def test_opening_twice_is_a_bug(self, bench: Bench) -> None:
        with pytest.raises(AssertionError, match="is open"):
            bench.open_state()

    def test_a_damaged_one_is_refused_by_name_and_the_rest_served(self, bench: Bench) -> None:
        other = bench.catalog.create_state(1, "kind", "other", {}).state_id
        bench.store.open_state(other, lambda: b"")
        bench.told(b"damaged")
        bench.store.fact(other, b"intact", lambda error: None)
        bench.store.pump()
        place = bench.files.contents()[file_name(1)].index(b"damaged")
        flip_bit(bench.files, file_name(1), 8 * place)
        bench.image = bench.catalog.image()
        bench.open()
        assert bench.store.open_state(other, lambda: b"").facts == [b"intact"]
        with pytest.raises(CorruptData, match=r"0001\.journal: byte \d+: sequence 1: a fact of st"):
            bench.open_state()


class TestTogether:
    """Facts of several states as one record."""

    def two(self, bench: Bench) -> int:
        topic = bench.catalog.topic("a")
        assert topic is not None
        other = bench.catalog.create_state(topic.topic_id, "kind", "other", {}).state_id
        bench.store.open_state(other, lambda: b"all of it")
        return other

    def test_they_are_one_record_and_answered_in_order(self, bench: Bench) -> None:
        other = self.two(bench)
        answers: list[str] = []
        before = bench.store.journal.last_sequence
        with bench.store.together():
            bench.store.fact(bench.state_id, b"one", lambda error: answers.append(f"one {error}"))
            bench.store.fact(other, b"two", lambda error: answers.append(f"two {error}"))
            bench.store.fact(bench.state_id, b"three", lambda e: answers.append(f"three {e}"))
            assert bench.store.journal.last_sequence == before
        assert bench.store.journal.last_sequence == before + 1
        bench.store.pump()
        assert answers == ["one None", "two None", "three None"]
        assert bench.crash().facts == [b"one", b"three"]
        assert bench.store.open_state(other, lambda: b"").facts == [b"two"]

    def test_a_checkpoint_folds_them_in(self, bench: Bench) -> None:
        other = self.two(bench)
        with bench.store.together():
            bench.tell(b"one")
            bench.store.fact(other, b"two", lambda error: None)
        bench.store.checkpoint()
        assert bench.crash().data == b"one"
        assert bench.store.open_state(other, lambda: b"").data == b"all of it"

    def test_of_a_deleted_state_nothing_is_left(self, bench: Bench) -> None:
        other = self.two(bench)
        with bench.store.together():
            bench.tell(b"one")
            bench.store.fact(other, b"two", lambda error: None)
        bench.store.pump()
        bench.store.delete_state(other)
        assert bench.crash().facts == [b"one"]

    def test_behind_a_refusal_they_take_the_whole_states_with_them(self, bench: Bench) -> None:
        other = self.two(bench)
        bench.files.faults.fail("sync", under="journal")
        assert bench.told(b"refused") is not None
        with bench.store.together():
            bench.tell(b", but true")
            bench.store.fact(other, b"two", lambda error: None)
        bench.store.pump()
        assert bench.crash().data == b"refused, but true"
        assert bench.store.open_state(other, lambda: b"").data == b"all of it"

    def test_nothing_together_is_no_record(self, bench: Bench) -> None:
        before = bench.store.journal.last_sequence
        with bench.store.together():
            pass
        assert bench.store.journal.last_sequence == before

    def test_what_happened_before_an_error_has_happened(self, bench: Bench) -> None:
        with suppress(ZeroDivisionError), bench.store.together():
            bench.tell(b"one")
            raise ZeroDivisionError
        assert bench.told(b"two") is None
        assert bench.crash().facts == [b"one", b"two"]


class TestGathered:
    """Facts that share a record with their neighbours."""

    def gather(self, bench: Bench, fact: bytes, answers: list[object]) -> None:
        bench.facts += fact
        bench.store.gather(bench.state_id, fact, answers.append)

    def test_they_are_one_record_ahead_of_what_is_submitted_behind_them(self, bench: Bench) -> None:
        answers: list[object] = []
        before = bench.store.journal.last_sequence
        for fact in (b"one", b"two"):
            self.gather(bench, fact, answers)
        assert bench.store.journal.last_sequence == before
        bench.tell(b"three")
        assert bench.store.journal.last_sequence == before + 2
        bench.store.pump()
        assert answers == [None, None]
        assert bench.crash().facts == [b"one", b"two", b"three"]

    @pytest.mark.parametrize("count", [1, 2])
    @pytest.mark.parametrize("then", ["submit_gathered", "barrier", "together", "pump"])
    def test_none_is_left_behind(self, bench: Bench, then: str, count: int) -> None:
        answers: list[object] = []
        for _ in range(count):
            self.gather(bench, b"x", answers)
        if then == "barrier":
            bench.store.barrier(lambda error: answers.append("barrier"))
        elif then == "together":
            with bench.store.together():
                bench.tell(b"y")
        else:
            getattr(bench.store, then)()
        bench.store.pump()
        assert answers[:count] == [None] * count
        assert b"".join(bench.crash().facts).startswith(b"x" * count)

    def test_a_checkpoint_has_them(self, bench: Bench) -> None:
        answers: list[object] = []
        self.gather(bench, b"one", answers)
        self.gather(bench, b"two", answers)
        bench.store.checkpoint()
        found = bench.crash()
        assert (found.data, found.facts) == (b"onetwo", [])

    def test_behind_a_refusal_they_take_the_whole_state_with_them_once(self, bench: Bench) -> None:
        answers: list[object] = []
        bench.files.faults.fail("sync", under="journal")
        self.gather(bench, b"one", answers)
        self.gather(bench, b"two", answers)
        bench.store.pump()
        assert [type(answer) for answer in answers] == [PersistenceError] * 2
        answers.clear()
        self.gather(bench, b"three", answers)
        self.gather(bench, b"four", answers)
        bench.store.pump()
        assert answers == [None, None]
        found = bench.crash()
        assert (found.data, found.facts) == (b"onetwothreefour", [])

    def test_one_that_breaks_down_is_no_matter_of_the_others(self, bench: Bench) -> None:
        answers: list[object] = []
        bench.store.gather(bench.state_id, b"one", lambda error: 1 // 0)  # type: ignore[arg-type, return-value]
        self.gather(bench, b"two", answers)
        with pytest.raises(ZeroDivisionError):
            bench.store.pump()
        assert answers == [None]


class TestRefusedFacts:
    """A refused fact has changed its state all the same; what comes behind it builds on that."""

    def test_the_next_fact_takes_the_whole_state_with_it(self, bench: Bench) -> None:
        bench.told(b"a")
        bench.files.faults.fail("append")
        assert isinstance(bench.told(b"refused"), PersistenceError)
        assert bench.told(b"c") is None
        assert bench.told(b"d") is None
        found = bench.crash()
        assert (found.data, found.facts) == (b"arefusedc", [b"d"])
        assert bench.facts == b"arefusedcd"

    def test_nothing_behind_it_then_it_is_not_there(self, bench: Bench) -> None:
        bench.told(b"a")
        bench.files.faults.fail("sync")
        assert isinstance(bench.told(b"refused"), PersistenceError)
        bench.crash()
        assert bench.facts == b"a"

    def test_facts_in_flight_behind_it_are_refused_with_it(self, bench: Bench) -> None:
        bench.told(b"a")
        bench.files.faults.fail("append")
        first = bench.tell(b"1")
        failed = bench.store.journal.commit()
        second = bench.tell(b"2")
        bench.store.journal.finish(failed)
        third = bench.tell(b"3")
        bench.store.pump()
        assert [type(answer) for (answer,) in (first, second, third)] == [
            PersistenceError,
            PersistenceError,
            type(None),
        ]
        bench.crash()
        assert bench.facts == b"a123"

    def test_refused_again_it_is_written_again(self, bench: Bench) -> None:
        bench.files.faults.fail("append", 1)
        bench.files.faults.fail("append", 3)  # the second is the header of a new file
        answers = [bench.told(fact) for fact in (b"1", b"2", b"3", b"4")]
        assert [answer is None for answer in answers] == [False, False, True, True]
        bench.crash()
        assert bench.facts == b"1234"

    def test_closed_and_opened_in_between(self, bench: Bench) -> None:
        bench.files.faults.fail("append")
        bench.told(b"1")
        bench.store.close_state(bench.state_id)
        bench.open_state()
        assert bench.told(b"2") is None
        bench.crash()
        assert bench.facts == b"12"

    def test_a_checkpoint_in_between(self, bench: Bench) -> None:
        bench.told(b"a")
        bench.files.faults.fail("append")
        bench.told(b"b")
        bench.store.checkpoint()
        bench.told(b"c")
        bench.crash()
        assert bench.facts == b"abc"


class TestLogs:
    def test_a_log_is_opened_once(self) -> None:
        store = Store(MemoryFiles(), SqliteCatalog(None), ManualClock())
        topic = store.catalog.create_topic("a", {})
        assert store.log(topic) is store.log(topic)

    def test_rows_that_were_fetched_need_not_be_fetched_again(self) -> None:
        machine = Machine()
        machine.create_topic("a")
        machine.publish("a", 3)
        machine.checkpoint()
        catalog = SqliteCatalog(None, image=machine.catalog.image())
        store = Store(power_loss(machine.files), catalog, ManualClock())
        topic = catalog.topics()[0]
        rows = catalog.ledgers(topic.topic_id)
        catalog.ledgers = None  # type: ignore[assignment,method-assign]
        assert store.log(topic, rows).end_index == 3

    def test_a_deleted_topic_takes_nothing_and_leaves_nothing(self) -> None:
        machine = Machine()
        machine.create_topic("a", "s")
        machine.publish("a", 3)
        machine.pump()
        machine.checkpoint()
        log = machine.logs["a"]
        machine.delete_topic("a")
        assert machine.files.names("ledgers") == []
        with pytest.raises(TopicNotFound, match="a is deleted"):
            log.append([NewEntry(b"x")], NOW_MS, lambda error: None)
        with pytest.raises(TopicNotFound, match="a is deleted"):
            log.roll(NOW_MS, lambda error: None)
        assert not machine.store.is_dirty

    def test_a_topic_made_again_is_empty(self) -> None:
        machine = Machine()
        machine.create_topic("a", "s")
        machine.publish("a", 3)
        machine.pump()
        machine.delete_topic("a")
        machine.create_topic("a", "s")
        assert machine.logs["a"].end_index == 0
        machine.publish("a", 1)
        machine.pump()
        machine.kill()
        assert machine.problems() == []


class TestCheckpoints:
    def test_due_when_the_journal_has_grown(self) -> None:
        machine = Machine(journal_size_max=500)
        machine.create_topic("a")
        assert not machine.store.checkpoint_is_due
        machine.publish("a", 1, size=500)
        machine.pump()
        assert machine.store.checkpoint_is_due
        machine.begin_checkpoint()
        assert not machine.store.checkpoint_is_due, "one is under way"
        machine.pump()
        machine.finish_checkpoint(OSError())
        assert machine.store.checkpoint_is_due, "it failed: nothing was stored"
        machine.checkpoint()
        assert not machine.store.checkpoint_is_due

    def test_due_at_once_after_a_long_replay(self) -> None:
        machine = Machine(journal_size_max=500)
        machine.create_topic("a")
        machine.publish("a", 1, size=500)
        machine.pump()
        machine.kill()
        assert machine.store.checkpoint_is_due

    def test_it_drops_the_journal_and_bounds_the_replay(self) -> None:
        machine = Machine()
        machine.create_topic("a", "s")
        for _ in range(5):
            machine.publish("a", 2)
            machine.pump()
            machine.checkpoint()
        machine.publish("a", 1)
        machine.pump()
        assert machine.files.names("journal") == ["0000000000000006.journal"]
        machine.kill()
        assert (machine.store.report.records, machine.store.report.entries) == (1, 1)
        assert machine.problems() == []

    @pytest.mark.parametrize("call", ["create", "append", "sync", "sync_dir"])
    def test_one_that_fails_changes_nothing_and_the_next_does_it_all(self, call: str) -> None:
        machine = Machine()
        machine.create_topic("a", "s")
        machine.publish("a", 2)
        machine.pump()
        machine.ack("a", "s", 1)
        machine.pump()
        machine.files.faults.fail(call, under="ledgers", error=errno.ENOSPC)  # type: ignore[arg-type]
        with pytest.raises(OSError, match="No space"):
            machine.checkpoint()
        assert machine.store.is_dirty
        machine.checkpoint()
        assert not machine.store.is_dirty
        machine.kill()
        assert is_clean(machine.store.report)
        assert machine.problems() == []

    def test_while_something_is_damaged_the_journal_is_kept(self) -> None:
        machine = Machine()
        machine.create_topic("a")
        machine.create_topic("b")
        machine.publish("a", 1)
        machine.pump()
        machine.publish("b", 1)
        machine.pump()
        place = machine.files.contents()[file_name(1)].index(b"a/0/") - 8  # the entry's count
        flip_bit(machine.files, file_name(1), 8 * place)
        machine.kill()
        machine.publish("b", 1)
        machine.pump()
        machine.checkpoint()
        machine.kill()
        assert machine.files.exists(file_name(1))
        assert [item.first_index for item in read_log(machine.logs["b"]).items] == [0, 1]
        assert machine.logs["a"].damage is not None


def test_closing_folds_everything_in() -> None:
    machine = Machine()
    machine.create_topic("a", "s")
    machine.publish("a", 2)
    machine.pump()
    machine.ack("a", "s", 1)
    machine.close()
    assert machine.files.open_paths == []


def test_an_empty_directory_is_clean() -> None:
    store = Store(MemoryFiles(), SqliteCatalog(None), ManualClock())
    assert is_clean(store.report)
    store.close()
