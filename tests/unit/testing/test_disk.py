"""The disk model, rule by rule, then against promises that a dumb observer writes down."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stage.counts import examples

from milepost.storage.files import AppendFile
from milepost.testing.crash import images
from milepost.testing.disk import Disk
from milepost.testing.files import MemoryFiles
from milepost.testing.trace import Append


def disk_of(files: MemoryFiles) -> Disk:
    disk = Disk(files.trace)
    disk.advance(len(files.trace))
    return disk


def kept(disk: Disk, *, but: tuple[int, ...] = ()) -> MemoryFiles:
    """Everything volatile survived, but the operations at these places of the trace."""
    names = {name.place for name in disk.volatile_names} - set(but)
    writes = {
        write.place: ((write.op.offset, write.op.data),) if isinstance(write.op, Append) else ()
        for write in disk.volatile_writes
        if write.place not in but
    }
    return disk.image(names, writes)


def dropped(disk: Disk) -> MemoryFiles:
    return disk.image((), {})


def with_file(content: bytes = b"") -> MemoryFiles:
    return MemoryFiles({"a": content})


def test_rule_1_appends_are_volatile_until_a_sync() -> None:
    files = with_file()
    file = files.open_append("a", 0)
    file.append([b"stored"])
    assert dropped(disk_of(files)).contents() == {"a": b""}
    file.sync()
    file.append([b" not"])
    assert dropped(disk_of(files)).contents() == {"a": b"stored"}
    assert kept(disk_of(files)).contents() == {"a": b"stored not"}


def test_rule_1_a_sync_stores_what_another_descriptor_appended() -> None:
    files = with_file()
    file = files.open_append("a", 0)
    file.append([b"abc"])
    file.close()
    files.open_append("a", 3).sync()
    assert dropped(disk_of(files)).contents() == {"a": b"abc"}


def test_rule_1_a_sync_does_not_store_what_came_while_it_ran() -> None:
    files = with_file()
    file = files.open_append("a", 0)
    file.append([b"abc"])
    files.on_sync = lambda _: file.append([b"late"])
    file.sync()
    assert dropped(disk_of(files)).contents() == {"a": b"abc"}


def test_rules_2_and_4_a_missing_append_reads_as_zeros_or_not_at_all() -> None:
    files = with_file(b"<")
    file = files.open_append("a", 1)
    for data in (b"one", b"two", b"three"):  # places 0, 1, 2
        file.append([data])
    disk = disk_of(files)
    assert kept(disk, but=(1,)).contents() == {"a": b"<one\0\0\0three"}
    assert kept(disk, but=(0, 1)).contents() == {"a": b"<\0\0\0\0\0\0three"}
    assert kept(disk, but=(1, 2)).contents() == {"a": b"<one"}


def test_rule_2_files_are_independent() -> None:
    files = MemoryFiles({"a": b"", "b": b""})
    files.open_append("a", 0).append([b"first"])
    files.open_append("b", 0).append([b"second"])
    disk = disk_of(files)
    assert kept(disk, but=(0,)).contents() == {"a": b"", "b": b"second"}
    assert kept(disk, but=(1,)).contents() == {"a": b"first", "b": b""}


def test_rule_3_an_append_may_survive_in_pieces() -> None:
    files = with_file()
    files.open_append("a", 0).append([b"abcdef"])
    image = disk_of(files).image((), {0: [(1, b"b"), (4, b"e")]})
    assert image.contents() == {"a": b"\0b\0\0e"}


def test_rule_6_a_truncation_is_volatile_too() -> None:
    files = with_file(b"abcdef")
    file = files.open_append("a", 2)  # place 0
    file.append([b"X"])  # place 1
    disk = disk_of(files)
    assert dropped(disk).contents() == {"a": b"abcdef"}
    assert kept(disk).contents() == {"a": b"abX"}
    assert kept(disk, but=(0,)).contents() == {"a": b"abXdef"}
    assert kept(disk, but=(1,)).contents() == {"a": b"ab"}
    file.sync()
    assert dropped(disk_of(files)).contents() == {"a": b"abX"}


def test_rule_6_growing_fills_with_zeros() -> None:
    files = with_file(b"a")
    files.open_append("a", 3).sync()
    assert dropped(disk_of(files)).contents() == {"a": b"a\0\0"}


def fail_sync(files: MemoryFiles, data: bytes) -> None:
    size = files.size("a")
    file = files.open_append("a", size)
    file.append([data])
    files.faults.fail("sync")
    with pytest.raises(OSError):
        file.sync()
    file.close()


def test_rule_7_after_a_failed_sync_pages_are_clean_but_maybe_lost() -> None:
    files = with_file(b"<")
    fail_sync(files, b"lost")
    assert files.contents() == {"a": b"<lost"}  # a reader sees them still
    file = files.open_append("a", 5)
    file.sync()  # returns, and stores nothing
    file.append([b">"])
    file.sync()
    disk = disk_of(files)
    assert dropped(disk).contents() == {"a": b"<\0\0\0\0>"}
    assert kept(disk).contents() == {"a": b"<lost>"}


def test_rule_7_what_is_stored_in_place_of_doubtful_bytes_stays() -> None:
    """Zeros are laid ahead of the journal; a sync of them may fail, and records come in their place."""
    files = with_file(b"ab")
    file = files.open_append("a", 2)
    files.faults.fail("sync")
    with pytest.raises(OSError):
        files.lay("a", 2, 8)
    file.append([b"cdef"])
    file.sync()
    assert dropped(disk_of(files)).contents() == {"a": b"abcdef"}
    assert kept(disk_of(files)).contents() == {"a": b"abcdef\0\0"}


def test_rule_7_a_truncation_takes_doubtful_bytes_away() -> None:
    files = with_file(b"<")
    fail_sync(files, b"lost")
    file = files.open_append("a", 3)
    file.sync()
    assert dropped(disk_of(files)).contents() == {"a": b"<\0\0"}
    assert kept(disk_of(files)).contents() == {"a": b"<lo"}
    file.close()
    file = files.open_append("a", 1)
    file.append([b"new"])
    file.sync()
    assert dropped(disk_of(files)).contents() == {"a": b"<new"}
    assert kept(disk_of(files)).contents() == {"a": b"<new"}


def test_rule_7_a_truncation_not_synced_leaves_the_doubt() -> None:
    files = with_file(b"<")
    fail_sync(files, b"lost")
    files.open_append("a", 1)
    truncation = len(files.trace) - 1
    disk = disk_of(files)
    assert kept(disk).contents() == {"a": b"<"}
    assert kept(disk, but=(truncation,)).contents() == {"a": b"<lost"}


def test_rule_7_a_failed_sync_leaves_a_truncation_to_the_next_one() -> None:
    files = with_file(b"abc")
    file = files.open_append("a", 1)
    files.faults.fail("sync")
    with pytest.raises(OSError):
        file.sync()
    assert dropped(disk_of(files)).contents() == {"a": b"abc"}
    file.close()
    files.open_append("a", 1).sync()
    assert dropped(disk_of(files)).contents() == {"a": b"a"}


def test_rule_8_names_are_volatile_until_sync_dir() -> None:
    files = MemoryFiles({"f/old": b"old", "f/gone": b"gone"})
    file = files.create("f/new")
    file.append([b"new"])
    file.sync()  # does not store the name
    files.rename("f/old", "f/renamed")
    files.delete("f/gone")
    before = {"f/old": b"old", "f/gone": b"gone"}
    after = {"f/new": b"new", "f/renamed": b"old"}
    assert dropped(disk_of(files)).contents() == before
    assert kept(disk_of(files)).contents() == after
    files.sync_dir("")  # another folder
    assert dropped(disk_of(files)).contents() == before
    files.sync_dir("f")
    assert dropped(disk_of(files)).contents() == after


def test_rule_8_across_folders_both_must_be_synced() -> None:
    files = MemoryFiles({"f/a": b"a"}, ["g"])
    files.rename("f/a", "g/a")
    files.sync_dir("g")
    assert dropped(disk_of(files)).contents() == {"f/a": b"a"}
    files.sync_dir("f")
    assert dropped(disk_of(files)).contents() == {"g/a": b"a"}


def test_rule_9_one_files_names_survive_as_a_prefix() -> None:
    files = MemoryFiles()
    files.create("a").close()  # place 0
    files.rename("a", "b")  # place 1
    files.create("x").close()  # place 2
    files.delete("b")  # place 3
    disk = disk_of(files)
    assert list(kept(disk, but=(3,)).contents()) == ["b", "x"]
    assert list(kept(disk, but=(1,)).contents()) == ["a", "x"]  # the deletion is lost with it
    assert list(kept(disk, but=(0,)).contents()) == ["x"]
    assert list(kept(disk, but=(2,)).contents()) == []


def test_rule_9_a_later_stored_name_implies_the_earlier_ones() -> None:
    files = MemoryFiles({"f/a": b"a"}, ["g"])
    files.rename("f/a", "g/a")  # waits for f and g
    files.delete("g/a")  # waits for g
    files.sync_dir("g")
    assert dropped(disk_of(files)).contents() == {}
    assert kept(disk_of(files)).contents() == {}


def test_rule_9_a_replaced_name_is_never_nothing() -> None:
    files = MemoryFiles({"a": b"old", "a.new": b"new"})
    files.rename("a.new", "a")
    assert dropped(disk_of(files)).contents() == {"a": b"old", "a.new": b"new"}
    assert kept(disk_of(files)).contents() == {"a": b"new"}


def test_rule_9_a_lost_deletion_does_not_hide_the_file_created_after_it() -> None:
    files = MemoryFiles({"a": b"old"})
    files.delete("a")  # place 0
    files.create("a").append([b"new"])  # places 1 and 2
    disk = disk_of(files)
    assert kept(disk, but=(0,)).contents() == {"a": b"new"}
    assert kept(disk, but=(1,)).contents() == {}


def test_rule_10_a_lost_folder_takes_its_files_with_it() -> None:
    files = MemoryFiles()
    files.make_folder("f/g")
    file = files.create("f/g/a")
    file.append([b"x"])
    file.sync()
    files.sync_dir("f/g")
    files.sync_dir("f")
    assert dropped(disk_of(files)).contents() == {}
    assert dropped(disk_of(files)).folders() == []
    files.sync_dir("")
    assert dropped(disk_of(files)).contents() == {"f/g/a": b"x"}
    assert dropped(disk_of(files)).folders() == ["f", "f/g"]


def test_rule_11_a_rename_may_survive_the_bytes_it_publishes() -> None:
    files = MemoryFiles({"a": b"old"})
    files.create("a.new").append([b"new"])
    files.rename("a.new", "a")
    disk = disk_of(files)
    names = {name.place for name in disk.volatile_names}
    assert disk.image(names, {}).contents() == {"a": b""}


def test_rule_12_a_failed_sync_dir_stores_nothing_and_a_later_one_may() -> None:
    files = MemoryFiles()
    files.create("a").close()
    files.faults.fail("sync_dir")
    with pytest.raises(OSError):
        files.sync_dir("")
    assert dropped(disk_of(files)).contents() == {}
    files.sync_dir("")
    assert dropped(disk_of(files)).contents() == {"a": b""}


def test_a_lie_stores_nothing() -> None:
    files = MemoryFiles({"a": b""}, sync_lies=True, sync_dir_lies=True)
    file = files.open_append("a", 0)
    file.append([b"x"])
    file.sync()
    files.create("b").close()
    files.sync_dir("")
    assert dropped(disk_of(files)).contents() == {"a": b""}


def test_damage_is_durable_at_once() -> None:
    files = with_file(b"abc")
    files.open_append("a", 3).append([b"d"])
    files.damage("a", b"aXc")
    assert dropped(disk_of(files)).contents() == {"a": b"aXc"}
    assert kept(disk_of(files)).contents() == {"a": b"aXc"}


def test_a_disk_only_goes_forward() -> None:
    files = with_file(b"abc")
    files.open_append("a", 3).append([b"d"])
    disk = disk_of(files)
    with pytest.raises(ValueError, match="from operation 1 to 0 of 1"):
        disk.advance(0)
    with pytest.raises(ValueError, match="from operation 1 to 2 of 1"):
        disk.advance(2)


class Observer:
    """The dumb twin: does random things to a disk and writes down what it may rely on."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.files = MemoryFiles()
        self.files.make_folder("f")
        self.files.sync_dir("")
        # What is promised from some operation on: name → least content. Nothing is ever deleted or
        # cut in this workload, so a promise stays true.
        self.promises: list[tuple[int, str, bytes]] = []
        self.opened: dict[str, AppendFile] = {}
        self.synced: dict[str, bytes] = {}
        self.named: set[str] = set()

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.draw.choice([self.create, self.append, self.append, self.sync, self.sync_dir])()

    def create(self) -> None:
        path = f"f/{len(self.opened)}"
        self.opened[path] = self.files.create(path)

    def append(self) -> None:
        if self.opened:
            path = self.draw.choice(list(self.opened))
            self.opened[path].append([self.draw.randbytes(self.draw.randrange(1, 1_500))])

    def sync(self) -> None:
        if self.opened:
            path = self.draw.choice(list(self.opened))
            self.opened[path].sync()
            self.synced[path] = self.files.contents()[path]
            self.promise(path)

    def sync_dir(self) -> None:
        self.files.sync_dir("f")
        self.named = set(self.opened)
        for path in self.named:
            self.promise(path)

    def promise(self, path: str) -> None:
        if path in self.named and path in self.synced:
            self.promises.append((len(self.files.trace), path, self.synced[path]))


@settings(max_examples=examples(25), deadline=None)
@given(st.integers(0, 2**32))
def test_no_image_breaks_a_promise_and_none_invents_a_file(seed: int) -> None:
    observer = Observer(seed)
    observer.run(25)
    seen = 0
    for image in images(observer.files.trace, seed, count=300):
        contents = image.files.contents()
        assert set(contents) <= set(observer.opened), image.description
        for since, path, content in observer.promises:
            if image.point >= since:
                seen += 1
                assert contents[path].startswith(content), image.description
    assert seen or not observer.promises
