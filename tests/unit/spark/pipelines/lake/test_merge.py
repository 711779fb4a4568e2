"""Merging keeps every row, also when it is killed before any of its touches of the disk."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from unit.spark.pipelines.conftest import TOPIC, rows_of, stored

from milepost.errors import CorruptData
from milepost.spark.pipelines.lake import merge as merging
from milepost.spark.pipelines.lake.lake import Lake, LakeFile
from milepost.spark.pipelines.lake.merge import merge, plan
from milepost.testing import ManualClock

OTHER = f"{TOPIC}2"


def sized(*rows: int, topic: str = TOPIC) -> list[LakeFile]:
    at, found = 0, []
    for n, count in enumerate(rows):
        found.append(LakeFile(f"{topic}{n}", topic, at, at + count, count, count * 100))
        at += count
    return found


def planned(*rows: int, files_min: int) -> list[list[int]]:
    return [[one.rows for one in run] for run in plan(sized(*rows), files_min=files_min)]


def test_neighbours_are_merged_when_there_are_enough() -> None:
    assert planned(5, 5, 5, files_min=4) == []
    assert planned(5, 5, 5, 5, files_min=4) == [[5, 5, 5, 5]]
    assert plan([], files_min=2) == []
    assert plan(sized(5, 5) + sized(5, 5, topic="u"), files_min=3) == []
    assert planned(5, files_min=0) == []


def test_a_large_neighbour_waits_until_it_is_worth_it() -> None:
    assert planned(1000, 10, 10, 10, files_min=3) == [[10, 10, 10]]
    assert planned(1000, 600, 10, 10, 10, files_min=3) == [[10, 10, 10]]
    assert planned(60, 30, 10, 10, 10, files_min=3) == [[60, 30, 10, 10, 10]]


def test_what_is_large_enough_stays_as_it_is() -> None:
    most = merging.FILE_MESSAGES_MAX
    assert planned(most, most, most, files_min=2) == []
    assert planned(most // 2, most // 2, most // 2, files_min=2) == [[most // 2, most // 2]]


def test_a_message_is_copied_a_few_times_only() -> None:
    files: list[LakeFile] = []
    copied = 0
    for step in range(2000):
        files.append(LakeFile(str(step), TOPIC, step * 10, step * 10 + 10, 10))
        for run in plan(files, files_min=8):
            merged = LakeFile("m", TOPIC, run[0].first_index, run[-1].end_index, 0)
            merged = LakeFile(
                "m", TOPIC, merged.first_index, merged.end_index, sum(r.rows for r in run)
            )
            at = files.index(run[0])
            files[at : at + len(run)] = [merged]
            copied += merged.rows
    assert copied / 20_000 < 12
    assert len(files) < 40


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks are run on the spot."""

    def run(spark: object, things: list[Any], work: Callable[[Any], Any]) -> list[Any]:
        return [work(thing) for thing in things]

    monkeypatch.setattr(merging, "run", run)


def small_lake(directory: Path) -> Lake:
    lake = Lake.load(directory)
    for at in range(0, 40, 10):
        files = [stored(directory, at, at + 10), stored(directory, at, at + 10, OTHER)]
        lake = lake.publish({TOPIC: at, OTHER: at}, {TOPIC: at + 10, OTHER: at + 10}, files)
    return lake


def merged(lake: Lake, clock: ManualClock, age_s: float = 0.0) -> Any:
    return merge(None, lake, files_min=3, sweep_age_s=age_s, clock=clock)  # type: ignore[arg-type]


@pytest.fixture
def later() -> ManualClock:
    """A clock by which everything was long ago."""
    return ManualClock(wall_ms=1 << 45)


@pytest.mark.usefixtures("here")
def test_rows_and_ranges_are_the_same_in_fewer_files(tmp_path: Path, later: ManualClock) -> None:
    before = small_lake(tmp_path)
    rows = rows_of(before)
    lake, gone = merged(before, later)
    assert (gone, len(lake.files), lake.start, lake.end) == (8, 2, before.start, before.end)
    again = Lake.load(tmp_path)
    assert rows_of(again) == rows
    assert (again.start, again.end, again.files) == (lake.start, lake.end, lake.files)
    assert len(list((tmp_path / "data").iterdir())) == 2
    # One manifest is enough to load it; steps go on behind it.
    assert [path.name for path in (tmp_path / "manifests").iterdir()] == ["00000004.json"]
    assert merged(lake, later) == (lake, 0)
    lake = lake.publish(lake.end, {TOPIC: 45, OTHER: 40}, [stored(tmp_path, 40, 45)])
    assert Lake.load(tmp_path).end == {TOPIC: 45, OTHER: 40}


@pytest.mark.usefixtures("here")
def test_who_reads_the_lake_as_it_was_can_go_on(tmp_path: Path) -> None:
    before = small_lake(tmp_path)
    rows = rows_of(before)
    now = ManualClock(wall_ms=int((tmp_path / before.files[0].path).stat().st_mtime * 1000))
    lake, _ = merged(before, now, age_s=3600)
    assert rows_of(before) == rows_of(lake) == rows
    # An hour after the merge, however old the files are themselves.
    base = tmp_path / "manifests" / "00000004.json"
    for path in (tmp_path / "data").iterdir():
        os.utime(path, (0, 0))
    assert lake.sweep(base.stat().st_mtime + 3500, 3600) == 0
    assert rows_of(before) == rows
    assert lake.sweep(base.stat().st_mtime + 3700, 3600) == 8
    assert rows_of(Lake.load(tmp_path)) == rows


def test_a_step_that_was_killed_is_swept_when_it_is_old(tmp_path: Path) -> None:
    lake = small_lake(tmp_path)
    left = stored(tmp_path, 40, 50)
    made = (tmp_path / left.path).stat().st_mtime
    assert lake.sweep(made + 10, 3600) == 0
    assert (tmp_path / left.path).exists()
    assert lake.sweep(made + 4000, 3600) == 1
    assert rows_of(Lake.load(tmp_path)) == rows_of(lake)
    assert Lake.load(tmp_path / "empty").sweep(0, 0) == 0


class Killed(BaseException):
    """A process that is gone: nothing of it touches the disk any more."""


@contextmanager
def killed_at(touch: int) -> Iterator[list[str]]:
    """Die at the so-many-th touch of the disk, and at every later one."""
    touches: list[str] = []

    def dying(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            touches.append(name)
            if len(touches) > touch:
                raise Killed(name)
            return real(*args, **kwargs)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in ("link", "unlink", "fsync", "open"):
            patch.setattr(os, name, dying(name, getattr(os, name)))
        patch.setattr(Path, "open", dying("write", Path.open))
        patch.setattr(merging.RowGroups, "_flush", dying("rows", merging.RowGroups._flush))
        yield touches


@pytest.mark.usefixtures("here")
def test_killed_before_any_touch_of_the_disk_the_lake_is_whole(
    tmp_path: Path, later: ManualClock
) -> None:
    touch = 0
    while True:
        directory = tmp_path / str(touch)
        lake = small_lake(directory)
        rows = rows_of(lake)
        with killed_at(touch) as touches:
            try:
                merged(lake, later)
                is_done = True
            except Killed:
                is_done = False
        found = Lake.load(directory)
        assert rows_of(found) == rows, touches[-1]
        assert (found.start, found.end) == (lake.start, lake.end)
        # Whoever comes next finishes it, and nothing is left over.
        found, _ = merged(found, later)
        assert isinstance(found, Lake)
        found.sweep(later.wall_ms() / 1000, 0)
        assert rows_of(Lake.load(directory)) == rows
        assert len(found.files) == 2
        assert {f"data/{path.name}" for path in (directory / "data").iterdir()} == {
            one.path for one in found.files
        }
        if is_done:
            break
        touch += 1
    assert touch == len(touches)
    assert touch > 20


@pytest.mark.usefixtures("here")
def test_a_file_with_other_rows_than_its_manifest_says_is_not_merged(
    tmp_path: Path, later: ManualClock
) -> None:
    lake = small_lake(tmp_path)
    wrong = stored(tmp_path, 0, 3)
    os.replace(tmp_path / wrong.path, tmp_path / lake.files[0].path)
    with pytest.raises(CorruptData, match="has 3 rows, its manifest says 8"):
        merged(lake, later)
    assert len(Lake.load(tmp_path).files) == 8
