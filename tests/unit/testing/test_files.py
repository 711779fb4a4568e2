"""MemoryFiles behaves like the machine's own files, and fails as it is told."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import pytest

from milepost.storage.files import Files, RealFiles
from milepost.testing.files import MemoryFiles
from milepost.testing.trace import (
    Append,
    Create,
    Delete,
    MakeFolder,
    Op,
    Rename,
    Sync,
    SyncDir,
    SyncEffect,
    Truncate,
)


@pytest.fixture(params=["real", "memory"])
def any_files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    return RealFiles(tmp_path) if request.param == "real" else MemoryFiles()


class TestLikeRealFiles:
    """Each test runs against both implementations: the double must not be kinder or stricter."""

    def test_what_is_appended_is_read(self, any_files: Files) -> None:
        file = any_files.create("a")
        file.append([b"one", bytearray(b"two"), memoryview(b"three")])
        file.append([])
        file.append([b"", b"!"])
        assert file.size == 12
        assert any_files.size("a") == 12
        assert any_files.read("a", 0, 100) == b"onetwothree!"
        assert any_files.read("a", 3, 3) == b"two"
        assert any_files.read("a", 12, 5) == b""
        assert any_files.read("a", 99, 5) == b""

    def test_more_buffers_than_one_vectored_write_takes(self, any_files: Files) -> None:
        file = any_files.create("a")
        file.append([b"%04d" % number for number in range(3_000)])
        assert file.size == 12_000
        assert any_files.read("a", 11_992, 8) == b"29982999"

    def test_appends_go_over_what_was_laid_ahead_of_them(self, any_files: Files) -> None:
        file = any_files.create("a")
        file.append([b"one"])
        any_files.lay("a", 5, 12)
        assert file.size == 3
        assert any_files.read("a", 0, 100) == b"one" + bytes(9)
        file.append([b"two", b"three"])
        assert file.size == 11
        assert any_files.read("a", 0, 100) == b"onetwothree\0"
        file.append([b"four"])
        file.sync()
        assert any_files.read("a", 0, 100) == b"onetwothreefour"
        assert any_files.size("a") == file.size == 15
        file.close()
        again = any_files.open_append("a", 3)
        assert any_files.size("a") == again.size == 3
        again.close()

    def test_only_what_exists_is_laid(self, any_files: Files) -> None:
        with pytest.raises(FileNotFoundError):
            any_files.lay("a", 0, 10)

    def test_create_refuses_what_exists(self, any_files: Files) -> None:
        any_files.create("a").close()
        with pytest.raises(FileExistsError):
            any_files.create("a")

    def test_create_needs_its_folder(self, any_files: Files) -> None:
        with pytest.raises(FileNotFoundError):
            any_files.create("no/a")
        any_files.make_folder("no/such")
        any_files.create("no/such/a").close()
        assert any_files.exists("no/such/a")

    def test_open_append_cuts_and_continues(self, any_files: Files) -> None:
        file = any_files.create("a")
        file.append([b"abcdef"])
        file.close()
        file = any_files.open_append("a", 4)
        assert file.size == 4
        file.append([b"X"])
        assert any_files.read("a", 0, 10) == b"abcdX"

    def test_open_append_beyond_the_end_fills_with_zeros(self, any_files: Files) -> None:
        any_files.create("a").close()
        file = any_files.open_append("a", 3)
        file.append([b"X"])
        assert any_files.read("a", 0, 10) == b"\0\0\0X"

    def test_a_missing_file_is_said(self, any_files: Files) -> None:
        for attempt in (
            lambda: any_files.open_append("a", 0),
            lambda: any_files.read("a", 0, 1),
            lambda: any_files.size("a"),
            lambda: any_files.rename("a", "b"),
        ):
            with pytest.raises(FileNotFoundError):
                attempt()

    def test_names_are_sorted_and_know_folders(self, any_files: Files) -> None:
        any_files.make_folder("f/deep")
        for path in ("f/b", "f/a", "f/deep/x", "top"):
            any_files.create(path).close()
        assert any_files.names("f") == ["a", "b", "deep"]
        assert any_files.names("") == ["f", "top"]
        assert any_files.names("f/none") == []
        assert any_files.exists("f/deep")
        assert not any_files.exists("f/c")

    def test_make_folder_twice_is_once(self, any_files: Files) -> None:
        any_files.make_folder("f")
        any_files.make_folder("f")
        any_files.make_folder("")
        assert any_files.names("") == ["f"]

    def test_make_folder_refuses_the_name_of_a_file(self, any_files: Files) -> None:
        any_files.create("a").close()
        with pytest.raises(FileExistsError):
            any_files.make_folder("a")
        with pytest.raises(NotADirectoryError):
            any_files.make_folder("a/b")
        with pytest.raises(NotADirectoryError):
            any_files.create("a/b")

    def test_delete_twice_is_once(self, any_files: Files) -> None:
        any_files.create("a").close()
        any_files.delete("a")
        any_files.delete("a")
        assert not any_files.exists("a")

    def test_a_deleted_file_takes_appends_and_stays_deleted(self, any_files: Files) -> None:
        file = any_files.create("a")
        any_files.delete("a")
        file.append([b"x"])
        file.sync()
        file.close()
        assert not any_files.exists("a")

    def test_rename_replaces(self, any_files: Files) -> None:
        for path in ("old", "new"):
            file = any_files.create(path)
            file.append([path.encode()])
            file.close()
        any_files.rename("old", "new")
        assert any_files.names("") == ["new"]
        assert any_files.read("new", 0, 9) == b"old"

    def test_rename_to_itself_changes_nothing(self, any_files: Files) -> None:
        any_files.create("a").close()
        any_files.rename("a", "a")
        assert any_files.names("") == ["a"]

    def test_rename_needs_the_target_folder(self, any_files: Files) -> None:
        any_files.create("a").close()
        with pytest.raises(FileNotFoundError):
            any_files.rename("a", "no/a")
        assert any_files.exists("a")

    def test_a_folder_is_no_file(self, any_files: Files) -> None:
        any_files.make_folder("f")
        any_files.create("a").close()
        for attempt in (
            lambda: any_files.delete("f"),
            lambda: any_files.rename("a", "f"),
            lambda: any_files.open_append("f", 0),
        ):
            with pytest.raises(IsADirectoryError):
                attempt()
        with pytest.raises(FileExistsError):
            any_files.create("f")

    def test_sync_dir_needs_the_folder(self, any_files: Files) -> None:
        any_files.sync_dir("")
        with pytest.raises(FileNotFoundError):
            any_files.sync_dir("no")

    def test_a_closed_descriptor_refuses(self, any_files: Files) -> None:
        file = any_files.create("a")
        file.close()
        file.close()
        with pytest.raises(OSError) as caught:
            file.append([b"x"])
        assert caught.value.errno == errno.EBADF
        with pytest.raises((OSError, ValueError)):  # os.fdatasync says ValueError for no descriptor
            file.sync()


def ops(files: MemoryFiles) -> list[Op]:
    return files.trace.ops


def test_everything_goes_to_the_trace() -> None:
    files = MemoryFiles()
    files.make_folder("f/g")
    file = files.create("f/a")
    file.append([b"ab", b"c"])
    file.sync()
    file.close()
    files.open_append("f/a", 3).close()  # nothing to cut, nothing to trace
    files.open_append("f/a", 1)
    files.trace.mark("receipt", 17)
    files.rename("f/a", "f/b")
    files.sync_dir("f")
    files.delete("f/b")
    files.delete("f/none")
    assert [str(op) for op in ops(files)] == [
        "make folder f",
        "make folder f/g",
        "create f/a",
        "append f/a [0, 3)",
        "sync f/a",
        "truncate f/a to 1",
        "mark receipt 17",
        "rename f/a to f/b",
        "sync folder f",
        "delete f/b",
    ]
    assert ops(files)[3] == Append("f/a", 0, 0, b"abc")
    assert ops(files)[4] == Sync("f/a", 0, 4, SyncEffect.STORED)
    assert ops(files)[8] == SyncDir("f", SyncEffect.STORED)
    assert [type(op) for op in ops(files)][:3] == [MakeFolder, MakeFolder, Create]
    assert Truncate("f/a", 0, 1) in ops(files)
    assert ops(files)[-1] == Delete("f/b", 0)


def test_a_name_used_again_is_another_node() -> None:
    files = MemoryFiles({"kept": b""})
    files.create("a").close()
    files.delete("a")
    files.create("a").close()
    assert ops(files) == [Create("a", 1), Delete("a", 1), Create("a", 2)]


def test_a_rename_to_itself_is_not_traced() -> None:
    files = MemoryFiles({"a": b"abc"})
    files.open_append("a", 3)
    files.rename("a", "a")
    assert ops(files) == []
    assert files.used_bytes == 3


def test_it_starts_with_contents_and_their_folders() -> None:
    files = MemoryFiles({"f/g/a": b"abc"}, ["empty"])
    assert files.contents() == {"f/g/a": b"abc"}
    assert files.folders() == ["empty", "f", "f/g"]
    assert ops(files) == []
    file = files.open_append("f/g/a", 3)
    file.append([b"d"])
    assert files.contents() == {"f/g/a": b"abcd"}
    assert files.trace.contents == {"f/g/a": b"abc"}


def test_a_failed_append_leaves_the_part_it_wrote() -> None:
    files = MemoryFiles()
    file = files.create("a")
    files.faults.fail("append", 2, error=errno.ENOSPC, keep=4)
    file.append([b"first "])
    with pytest.raises(OSError, match="a") as caught:
        file.append([b"sec", b"ond"])
    assert caught.value.errno == errno.ENOSPC
    assert file.size == 10
    assert files.contents() == {"a": b"first seco"}
    assert ops(files)[-1] == Append("a", 0, 6, b"seco")
    file.append([b"!"])
    assert file.size == 11


def test_a_failed_call_changes_nothing() -> None:
    files = MemoryFiles({"a": b"abc", "f/b": b""})
    files.faults.fail("any", forever=True)
    for attempt in (
        lambda: files.create("new"),
        lambda: files.open_append("a", 0),
        lambda: files.read("a", 0, 1),
        lambda: files.size("a"),
        lambda: files.names(""),
        lambda: files.make_folder("g"),
        lambda: files.delete("a"),
        lambda: files.rename("a", "b"),
    ):
        with pytest.raises(OSError):
            attempt()
    assert ops(files) == []
    assert files.contents() == {"a": b"abc", "f/b": b""}
    with pytest.raises(OSError):
        files.sync_dir("f")
    assert ops(files) == [SyncDir("f", SyncEffect.FAILED)]


def test_a_full_disk_takes_what_fits_and_works_again_when_freed() -> None:
    files = MemoryFiles({"old": b"12345"}, capacity=8)
    file = files.create("a")
    with pytest.raises(OSError) as caught:
        file.append([b"abcd"])
    assert caught.value.errno == errno.ENOSPC
    assert (file.size, files.used_bytes) == (3, 8)
    with pytest.raises(OSError):
        file.append([b"d"])
    files.delete("old")
    file.append([b"d"])
    assert files.contents() == {"a": b"abcd"}
    files.capacity = 2  # an operator shrinks it below what is used
    with pytest.raises(OSError):
        file.append([b"e"])
    files.capacity = None
    file.append([b"e"])
    assert file.size == 5


def test_a_deleted_file_frees_its_space_when_it_is_closed() -> None:
    files = MemoryFiles(capacity=4)
    deleted, replaced = files.create("a"), files.create("b")
    deleted.append([b"12"])
    replaced.append([b"34"])
    files.delete("a")
    files.create("c").close()
    files.rename("c", "b")
    assert files.used_bytes == 4
    deleted.close()
    assert files.used_bytes == 2
    replaced.close()
    assert files.used_bytes == 0


def test_a_second_sync_on_a_failed_descriptor_is_a_violation() -> None:
    files = MemoryFiles()
    file = files.create("a")
    files.faults.fail("sync")
    with pytest.raises(OSError) as caught:
        file.sync()
    assert caught.value.errno == errno.EIO
    assert file.sync_failed
    assert files.violations == []
    file.sync()
    assert files.violations == ["sync after a failed sync on one descriptor: a"]


def test_reopening_after_a_failed_sync_is_the_right_way() -> None:
    files = MemoryFiles()
    file = files.create("a")
    files.faults.fail("sync")
    with pytest.raises(OSError):
        file.sync()
    file.close()
    files.open_append("a", 0).sync()
    assert files.violations == []


def test_two_descriptors_on_one_file_are_a_violation() -> None:
    files = MemoryFiles()
    file = files.create("a")
    assert files.open_paths == ["a"]
    files.open_append("a", 0)
    assert files.violations == ["opened for appending twice at the same time: a"]
    file.close()
    assert files.open_paths == ["a"]


def test_a_slow_sync_covers_only_what_was_there_when_it_began() -> None:
    files = MemoryFiles()
    file = files.create("a")
    file.append([b"before"])
    began, go_on = threading.Event(), threading.Event()

    def wait(path: str) -> None:
        began.set()
        assert go_on.wait(10)

    files.on_sync = wait
    thread = threading.Thread(target=file.sync)
    thread.start()
    assert began.wait(10)
    file.append([b"during"])  # the disk is slow, not locked
    go_on.set()
    thread.join(10)
    assert ops(files)[-1] == Sync("a", 0, 2, SyncEffect.STORED)
    assert ops(files)[-2] == Append("a", 0, 6, b"during")


def test_a_lying_sync_is_in_the_trace_as_a_lie() -> None:
    files = MemoryFiles(sync_lies=True, sync_dir_lies=True)
    files.create("a").sync()
    files.sync_dir("")
    assert ops(files)[1:] == [
        Sync("a", 0, 1, SyncEffect.NOTHING),
        SyncDir("", SyncEffect.NOTHING),
    ]


def test_a_rename_is_counted_under_its_old_path() -> None:
    files = MemoryFiles({"x.new": b""})
    files.faults.fail("rename", under="x.")
    with pytest.raises(OSError):
        files.rename("x.new", "x")
    files.rename("x.new", "x")
    assert ops(files) == [Rename("x.new", "x", 0)]


class TestLaying:
    def test_zeros_are_durable_when_they_are_laid(self) -> None:
        files = MemoryFiles()
        file = files.create("a")
        file.append([b"x"])
        files.lay("a", 1, 5)
        kinds = [type(op) for op in files.trace.ops]
        assert kinds == [Create, Append, Append, Sync]
        assert files.open_paths == ["a"]

    def test_it_can_fail_half_way_and_in_its_sync(self) -> None:
        files = MemoryFiles()
        files.create("a").close()
        files.faults.fail("lay", keep=2)
        with pytest.raises(OSError):
            files.lay("a", 0, 5)
        assert files.size("a") == 2
        files.faults.fail("sync")
        with pytest.raises(OSError):
            files.lay("a", 2, 5)
        assert files.size("a") == 5

    def test_a_disk_may_have_room_for_a_part(self) -> None:
        files = MemoryFiles(capacity=8)
        file = files.create("a")
        with pytest.raises(OSError) as full:
            files.lay("a", 2, 20)
        assert full.value.errno == errno.ENOSPC
        file.append([b"12345678"])  # takes no room that is not there
        assert files.used_bytes == 8
        with pytest.raises(OSError):
            file.append([b"9"])

    def test_whoever_writes_over_anything_but_zeros_is_found_out(self) -> None:
        files = MemoryFiles()
        file = files.create("a")
        file.append([b"abc"])
        files.lay("a", 2, 5)
        assert len(files.violations) == 1
