"""The journal: groups, their order, and what is left of them when the disk says no."""

from __future__ import annotations

import errno

import pytest
from stage.journals import INCARNATION, Desk, bodies, chain

from milepost.errors import DiskFull, OutcomeUnknown, PersistenceError
from milepost.storage.journal import queue as journal_queue
from milepost.storage.journal.journal import FOLDER, Carried, Journal, file_name
from milepost.storage.journal.records import FACT, Scan
from milepost.testing import MemoryFiles, images, power_loss


class TestGroups:
    def test_everything_that_waits_shares_one_write_and_one_sync(self) -> None:
        desk = Desk()
        before = desk.files.faults.calls.copy()
        desk.submit("a", "b", "c")
        desk.journal.pump()
        assert desk.stored == ["a", "b", "c"]
        assert bodies(desk.files) == ["a", "b", "c"]
        made = desk.files.faults.calls - before
        assert (made["append"], made["sync"], desk.journal.commits) == (1, 1, 1)

    def test_a_group_is_durable_when_it_is_answered_and_not_before(self) -> None:
        desk = Desk()
        desk.submit("a")
        commits = desk.journal.commit()
        assert desk.answers == []
        assert bodies(power_loss(desk.files)) == ["a"]
        desk.journal.finish(commits)
        assert desk.stored == ["a"]

    def test_nothing_is_answered_while_the_sync_runs(self) -> None:
        desk = Desk()
        seen: list[list[str]] = []
        desk.files.on_sync = lambda path: seen.append(list(desk.stored))
        desk.submit("a")
        desk.journal.pump()
        assert seen == [[]]

    def test_the_sequence_grows_by_one_and_says_who_is_newest(self) -> None:
        desk = Desk()
        assert desk.journal.last_sequence == 0
        desk.submit("a", "b")
        assert desk.journal.last_sequence == 2
        desk.journal.pump()
        (found,) = chain(desk.files)
        assert [(record.sequence, record.group) for record in found.records] == [(1, 1), (2, 1)]

    def test_a_group_is_limited_in_size(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(journal_queue, "GROUP_SIZE_MAX", 10)
        desk = Desk()
        desk.submit("first", "second", "a single one that is larger", "d")
        desk.journal.pump()
        (found,) = chain(desk.files)
        assert [record.group for record in found.records] == [1, 2, 3, 4]
        assert desk.stored == ["first", "second", "a single one that is larger", "d"]

    def test_a_body_may_come_in_pieces_of_any_kind(self) -> None:
        desk = Desk()
        desk.journal.submit(
            FACT, 7, (b"by", bytearray(b"te"), memoryview(b"s")), desk.done("whole")
        )
        desk.journal.pump()
        assert bodies(desk.files) == ["bytes"]

    def test_it_tells_when_there_is_work_and_how_much(self) -> None:
        desk = Desk()
        told: list[str] = []
        desk.journal.on_waiting = lambda: told.append("work")
        assert (desk.journal.is_waiting, desk.journal.load()) == (False, (0, 0))
        desk.submit("a", "bcd")
        assert told == ["work"]
        assert (desk.journal.is_waiting, desk.journal.load()) == (True, (2, 4))
        desk.journal.pump()
        assert not desk.journal.is_waiting
        desk.submit("e")
        assert told == ["work"] * 2

    def test_what_is_too_large_for_a_group_is_still_work(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(journal_queue, "GROUP_SIZE_MAX", 3)
        desk = Desk()
        desk.submit("ab", "cd")
        desk.journal.finish(desk.journal.commit())
        assert (desk.stored, desk.journal.is_waiting) == (["ab"], True)
        assert desk.journal.load() == (1, 2)
        desk.journal.pump()
        assert (desk.stored, desk.journal.is_waiting) == (["ab", "cd"], False)

    def test_a_barrier_is_work_that_writes_nothing(self) -> None:
        desk = Desk()
        size = desk.files.used_bytes
        desk.journal.barrier(desk.done("barrier"))
        assert desk.journal.is_waiting
        desk.journal.pump()
        assert desk.files.used_bytes == size

    def test_a_commit_is_plain_unless_a_file_has_to_be_begun(self) -> None:
        desk = Desk()
        desk.submit("a")
        assert desk.journal.is_plain
        desk.journal.roll(desk.done("roll"))
        assert not desk.journal.is_plain
        desk.journal.pump()
        assert desk.journal.is_plain
        desk.files.faults.fail("sync")
        desk.files.faults.fail("create", 1)
        desk.submit("lost")
        desk.journal.pump()
        assert not desk.journal.is_plain

    def test_size_submitted_counts_since_the_last_roll(self) -> None:
        desk = Desk()
        desk.submit("12345")
        assert desk.journal.size_submitted > 5
        desk.journal.roll(desk.done("roll"))
        assert desk.journal.size_submitted == 0


class TestRollsAndBarriers:
    def test_a_roll_begins_a_file_behind_everything_before_it(self) -> None:
        desk = Desk()
        desk.submit("a")
        cut = desk.journal.roll(desk.done("roll"))
        desk.submit("b")
        desk.journal.pump()
        assert (cut, desk.journal.rolled_to, desk.journal.number) == (1, 2, 2)
        first, second = chain(desk.files)
        assert [record.sequence for record in first.records] == [1]
        assert [record.sequence for record in second.records] == [2]
        assert desk.stored == ["a", "roll", "b"]

    def test_an_empty_file_can_be_rolled(self) -> None:
        desk = Desk()
        desk.journal.roll(desk.done("roll"))
        desk.journal.roll(desk.done("again"))
        desk.submit("a")
        desk.journal.pump()
        assert desk.journal.number == 3
        assert bodies(desk.files) == ["a"]

    def test_a_barrier_waits_until_the_outcome_of_what_failed_is_certain(self) -> None:
        desk = Desk()
        desk.files.faults.fail("sync", forever=True)
        desk.files.faults.fail("create", forever=True)
        desk.submit("a")
        desk.journal.pump()
        desk.journal.barrier(desk.done("too early"))
        desk.journal.pump()
        assert isinstance(desk.error("a"), OutcomeUnknown)
        assert isinstance(desk.error("too early"), OutcomeUnknown)
        desk.files.faults.heal()
        desk.journal.barrier(desk.done("certain"))
        desk.journal.pump()
        assert desk.stored == ["certain"]
        assert [record.body for scanned in chain(desk.files) for record in scanned.records] == []

    def test_a_barrier_is_answered_in_order_and_writes_nothing(self) -> None:
        desk = Desk()
        desk.journal.barrier(desk.done("empty"))
        desk.submit("a")
        desk.journal.barrier(desk.done("behind a"))
        desk.submit("b")
        desk.journal.pump()
        assert desk.stored == ["empty", "a", "behind a", "b"]
        assert bodies(desk.files) == ["a", "b"]

    def test_a_roll_that_fails_refuses_no_record(self) -> None:
        """It stands in nobody's way: what was submitted behind it has lost nothing."""
        desk = Desk()
        desk.submit("a")
        desk.journal.roll(desk.done("roll"))
        desk.submit("b")
        desk.files.faults.fail("create")
        desk.journal.finish(desk.journal.commit())
        assert desk.refused == ["roll"]
        assert desk.journal.refused_through == -1
        desk.submit("c")
        desk.journal.pump()
        assert desk.stored == ["a", "b", "c"]
        assert bodies(desk.files) == ["a", "b", "c"]

    def test_a_failure_behind_a_failed_roll_refuses_all_that_stood_behind_it(self) -> None:
        """The failed roll must not make the journal forget who is of which generation."""
        desk = Desk()
        desk.journal.roll(desk.done("roll"))
        desk.submit("a")
        desk.files.faults.fail("create", 1)
        roll_failed = desk.journal.commit()
        desk.journal.finish(roll_failed)
        desk.files.faults.fail("append", 2)  # the header of the new file passes, a does not
        a_failed = desk.journal.commit()
        desk.submit("b")  # while the failure of a is not known yet
        desk.journal.finish(a_failed)
        desk.journal.pump()
        assert desk.stored == []
        assert desk.refused == ["roll", "a", "b"]
        assert bodies(desk.files) == []


class TestFailures:
    def test_a_failed_group_fails_everything_behind_it(self) -> None:
        desk = Desk()
        desk.submit("a")
        desk.journal.pump()
        desk.submit("b")
        desk.files.faults.fail("append")
        failed = desk.journal.commit()
        desk.submit("c", "d")  # positions were given out behind b
        desk.journal.finish(failed)
        assert desk.journal.refused_through == 4
        desk.submit("e")
        desk.journal.pump()
        assert desk.stored == ["a", "e"]
        assert desk.refused == ["b", "c", "d"]
        assert bodies(desk.files) == ["a", "e"]

    @pytest.mark.parametrize("call", ["append", "sync"])
    @pytest.mark.parametrize("keep", [0, 1, 60, 10_000])
    def test_what_is_refused_is_not_there_and_the_rest_is(self, call: str, keep: int) -> None:
        """Refused sequences leave a gap that recovery must not take for damage."""
        desk = Desk()
        desk.submit("a")
        desk.journal.pump()
        desk.submit("b", "c")
        desk.files.faults.fail(call, keep=keep)  # type: ignore[arg-type]
        desk.journal.pump()
        assert desk.refused == ["b", "c"]
        for outcome in ("dropped", "kept"):
            assert bodies(power_loss(desk.files, outcome)) == ["a"]
        desk.submit("d")
        desk.journal.pump()
        for outcome in ("dropped", "kept"):
            assert bodies(power_loss(desk.files, outcome)) == ["a", "d"]
        assert desk.files.violations == []

    def test_a_failed_sync_is_never_tried_again_on_its_file(self) -> None:
        desk = Desk()
        number = desk.journal.number
        desk.submit("a")
        desk.files.faults.fail("sync")
        desk.journal.pump()
        assert desk.journal.number == number + 1
        desk.submit("b")
        desk.journal.pump()
        assert desk.stored == ["b"]
        assert desk.files.violations == []
        size = desk.files.size(file_name(number))
        desk.submit("c")
        desk.journal.pump()
        assert desk.files.size(file_name(number)) == size

    def test_the_outcome_is_unknown_when_nothing_can_tell_it(self) -> None:
        desk = Desk()
        desk.submit("a")
        desk.files.faults.fail("sync", forever=True)
        desk.journal.pump()
        assert isinstance(desk.error("a"), OutcomeUnknown)
        # What comes now is not even tried on the old file: it is certainly not there.
        desk.submit("b")
        desk.journal.pump()
        assert not isinstance(desk.error("b"), OutcomeUnknown)
        desk.files.faults.heal()
        desk.submit("c")
        desk.journal.pump()
        assert desk.stored == ["c"]
        for outcome in ("dropped", "kept"):
            assert bodies(power_loss(desk.files, outcome)) == ["c"]

    def test_an_unknown_outcome_is_all_or_nothing_after_a_crash(self) -> None:
        desk = Desk()
        desk.submit("a", "b")
        desk.files.faults.fail("sync", forever=True)
        desk.journal.pump()
        assert isinstance(desk.error("a"), OutcomeUnknown)
        assert bodies(power_loss(desk.files, "dropped")) == []
        assert bodies(power_loss(desk.files, "kept")) in ([], ["a", "b"])

    def test_a_full_disk_is_named_and_leaves_nothing_behind(self) -> None:
        desk = Desk()
        desk.submit("a")
        desk.journal.pump()
        desk.files.capacity = desk.files.used_bytes + 10
        for number in range(50):
            desk.submit(f"full {number}")
            desk.journal.pump()
        assert len(desk.refused) == 50
        assert all(isinstance(error, DiskFull) for _, error in desk.answers[1:])
        assert len(desk.files.contents()) == 1
        desk.files.capacity = None
        desk.submit("b")
        desk.journal.pump()
        assert desk.stored == ["a", "b"]
        assert bodies(power_loss(desk.files)) == ["a", "b"]

    def test_what_failed_is_named(self) -> None:
        desk = Desk()
        desk.submit("a")
        desk.files.faults.fail("append", error=errno.EDQUOT)
        desk.journal.pump()
        assert isinstance(desk.error("a"), DiskFull)
        desk.submit("b")
        desk.files.faults.fail("append", 2, error=errno.EIO)
        desk.journal.pump()
        assert "Input/output error" in str(desk.error("b"))
        assert not isinstance(desk.error("b"), DiskFull)

    def test_a_roll_behind_a_failure_is_refused_and_the_next_one_is_not(self) -> None:
        desk = Desk()
        desk.submit("a")
        desk.journal.roll(desk.done("roll"))
        desk.files.faults.fail("append")
        failed = desk.journal.commit()
        desk.submit("b")
        desk.journal.finish(failed)
        desk.journal.roll(desk.done("next roll"))
        desk.journal.pump()
        assert desk.refused == ["a", "roll", "b"]
        assert desk.stored == ["next roll"]

    def test_a_name_left_behind_is_not_used_again(self) -> None:
        desk = Desk()
        desk.files.create(file_name(2)).close()
        desk.journal.roll(desk.done("roll"))
        desk.journal.pump()
        assert desk.journal.rolled_to == 3

    def test_beginning_the_first_file_may_fail_too(self) -> None:
        files = MemoryFiles(folders=[FOLDER])
        files.faults.fail("sync_dir")
        with pytest.raises(OSError, match="Input/output"):
            Desk(files)
        assert files.open_paths == []

    def test_every_error_path_of_a_short_life(self) -> None:
        """Fail the nth call of any kind: what is answered well is there, what is refused is not."""
        for nth in range(1, 200):
            desk = Desk()
            desk.files.faults.fail("any", nth, keep=30)
            for name in ("a", "b", "c", "d"):
                desk.submit(name, name * 2)
                desk.journal.pump()
                if name == "b":
                    desk.journal.roll(desk.done("roll"))
            found = bodies(power_loss(desk.files))
            assert found == [name for name in desk.stored if name != "roll"], nth
            assert desk.files.violations == []
            if not desk.files.faults.fired:
                assert nth > 10
                return
        raise AssertionError("no clean pass")


def test_a_disk_that_begins_to_refuse_and_takes_again_is_news_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    desk = Desk()
    desk.submit("a")
    desk.journal.pump()
    desk.files.faults.fail("append", forever=True, error=errno.ENOSPC)
    for name in "bcd":
        desk.submit(name)
        desk.journal.pump()
        desk.journal.barrier(lambda error: None)  # which needs no room, and proves none
        desk.journal.pump()
    assert desk.journal.is_failing
    desk.files.faults.heal()
    for name in "ef":
        desk.submit(name)
        desk.journal.pump()
    assert not desk.journal.is_failing
    assert [
        (record.levelname, record.getMessage().partition(":")[0]) for record in caplog.records
    ] == [
        ("ERROR", "publishes, acks and seeks are refused"),
        ("WARNING", "the disk takes publishes, acks and seeks again"),
    ]
    desk.journal.close()


def test_closing_twice_is_closing_once() -> None:
    desk = Desk()
    desk.journal.close()
    desk.journal.close()
    assert desk.files.open_paths == []


class TestCarriedOver:
    """A start writes the last group again: whoever wrote it may not have lived to sync it."""

    def killed(self, *names: str) -> tuple[MemoryFiles, Scan]:
        """A process died with this group written and not synced."""
        desk = Desk()
        desk.submit("before")
        desk.journal.pump()
        desk.submit(*names)
        desk.files.on_sync = _die
        with pytest.raises(KeyboardInterrupt):
            desk.journal.commit()
        desk.journal.close()
        desk.files.on_sync = None
        (found,) = chain(desk.files)
        return desk.files, found

    def go_on(self, files: MemoryFiles, found: Scan) -> Journal:
        first = next(r for r in found.records if r.group == found.records[-1].group)
        data = files.contents()[file_name(1)][first.offset : found.size]
        end = found.records[-1].sequence + 1
        return Journal(
            files,
            INCARNATION,
            previous_file=1,
            previous_size=first.offset,
            file_number=2,
            next_sequence=end + 5,
            carried=Carried(first.sequence, end, data),
        )

    def test_it_is_durable_before_anyone_builds_on_it(self) -> None:
        files, found = self.killed("a", "b")
        self.go_on(files, found)
        assert bodies(power_loss(files)) == ["before", "a", "b"]

    def test_also_when_a_sync_of_the_old_file_would_lie(self) -> None:
        """Its pages are clean in memory and not on disk, since a sync of it failed before."""
        files, found = self.killed("a")
        file = files.open_append(file_name(1), files.size(file_name(1)))
        files.faults.fail("sync")
        with pytest.raises(OSError, match="Input/output"):
            file.sync()
        file.close()
        self.go_on(files, found)
        assert bodies(power_loss(files)) == ["before", "a"]

    def test_the_new_file_has_it_or_is_not_there(self) -> None:
        files, found = self.killed("a", "b")
        for call in ("create", "append", "sync", "rename", "sync_dir"):
            files.faults.fail(call, keep=70)  # type: ignore[arg-type]
            with pytest.raises(OSError, match="Input/output"):
                self.go_on(files, found)
            for outcome in ("dropped", "kept"):
                there = bodies(power_loss(files, outcome))
                assert there == ["before", "a", "b"][: 1 if outcome == "dropped" else 3]
        for image in images(files.trace, first=len(files.trace)):
            assert bodies(image.files)[:1] == ["before"], image.description

    def test_what_comes_behind_it_may_leave_a_gap(self) -> None:
        """Sequences that only a snapshot knows are not given again."""
        files, found = self.killed("a")
        journal = self.go_on(files, found)
        assert journal.last_sequence == found.records[-1].sequence + 5
        journal.submit(FACT, 7, (b"behind",), lambda error: None)
        journal.pump()
        assert bodies(power_loss(files)) == ["before", "a", "behind"]


def _die(path: str) -> None:
    raise KeyboardInterrupt


def test_whoever_fails_to_take_an_answer_keeps_it_from_nobody_else() -> None:
    desk = Desk()

    def fail(error: PersistenceError | None) -> None:
        raise RuntimeError("cannot take it")

    desk.submit("a")
    desk.journal.submit(FACT, 7, (b"b",), fail)
    desk.journal.roll(fail)
    desk.submit("c")
    with pytest.raises(RuntimeError, match="cannot take it"):
        desk.journal.pump()
    desk.journal.pump()
    assert desk.stored == ["a", "c"]
    assert bodies(desk.files) == ["a", "b", "c"]
