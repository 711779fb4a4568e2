"""The journal over zeros that lie ready: where records go, and what is left of them."""

from __future__ import annotations

from stage.journals import Desk, bodies

from milepost.errors import DiskFull
from milepost.storage.journal.journal import file_name
from milepost.testing import images, power_loss


class TestRunway:
    def laid(self) -> Desk:
        desk = Desk()
        work = desk.journal.more_runway(0.0)
        assert work is not None
        work()
        return desk

    def test_records_go_over_the_zeros(self) -> None:
        desk = self.laid()
        size = desk.files.size(file_name(1))
        desk.submit("a", "b")
        desk.journal.pump()
        assert desk.files.size(file_name(1)) == size
        for files in (desk.files, power_loss(desk.files, "dropped")):
            assert bodies(files) == ["a", "b"]
        assert desk.files.violations == []

    def test_it_is_laid_only_when_it_is_short(self) -> None:
        desk = self.laid()
        assert desk.journal.more_runway(100.0) is None
        desk.submit("x" * 900)
        desk.journal.pump()
        assert desk.journal.more_runway(100.0) is not None
        assert desk.journal.more_runway(200.0) is None  # somebody does it already

    def test_records_longer_than_it_run_past_its_end(self) -> None:
        desk = self.laid()
        desk.submit("x" * 5000, "b")
        desk.journal.pump()
        assert bodies(power_loss(desk.files, "dropped")) == ["x" * 5000, "b"]

    def test_the_loop_does_not_wait_for_who_lays_it(self) -> None:
        desk = Desk()
        work = desk.journal.more_runway(0.0)
        assert work is not None
        desk.submit("small")
        assert desk.journal.is_plain
        desk.submit("x" * 600)
        assert not desk.journal.is_plain
        work()
        assert desk.journal.is_plain

    def test_a_torn_group_over_the_zeros_is_cut(self) -> None:
        desk = self.laid()
        desk.submit("a")
        desk.journal.pump()
        begun = len(desk.files.trace)
        desk.submit("x" * 700, "y" * 700)
        desk.journal.commit()
        cuts: set[int] = set()
        for image in images(desk.files.trace, 5, first=begun):
            found = bodies(image.files)  # no damage is reported
            assert found == ["a", "x" * 700, "y" * 700][: len(found)], image.description
            cuts.add(len(found))
        assert cuts == {1, 2, 3}

    def test_a_file_that_could_not_be_laid_gets_no_more_records(self) -> None:
        desk = Desk()
        work = desk.journal.more_runway(0.0)
        assert work is not None
        desk.files.faults.fail("lay")
        work()
        assert not desk.journal.is_plain
        desk.submit("a")
        desk.journal.pump()
        assert desk.stored == ["a"]
        assert desk.journal.number == 2
        assert bodies(power_loss(desk.files, "dropped")) == ["a"]

    def test_a_disk_with_no_room_for_it_takes_records_as_before(self) -> None:
        desk = Desk()
        desk.files.capacity = desk.files.used_bytes + 100
        work = desk.journal.more_runway(0.0)
        assert work is not None
        work()
        desk.submit("a")
        desk.journal.pump()
        assert desk.stored == ["a"]
        desk.submit("x" * 500)
        desk.journal.pump()
        assert isinstance(desk.error("x" * 500), DiskFull)
        desk.files.capacity = None
        desk.submit("b")
        desk.journal.pump()
        assert bodies(power_loss(desk.files)) == ["a", "b"]

    def test_a_write_that_fails_over_the_zeros_is_taken_back(self) -> None:
        desk = self.laid()
        desk.files.faults.fail("append", keep=30)
        desk.submit("a")
        desk.journal.pump()
        assert desk.refused == ["a"]
        desk.submit("b")
        desk.journal.pump()
        assert bodies(power_loss(desk.files, "dropped")) == ["b"]
