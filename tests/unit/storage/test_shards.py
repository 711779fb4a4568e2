"""The directory of shards: its number is kept, and neither kind is taken for an empty other."""

from __future__ import annotations

from pathlib import Path

import pytest

from milepost.clock import SystemClock
from milepost.errors import CorruptData, UnknownFormat, WrongDataDirectory
from milepost.storage import shards
from milepost.storage.engine import open_store


def test_the_number_is_that_of_the_first_start(tmp_path: Path) -> None:
    assert shards.count_of(tmp_path) is None
    shards.check_shards(tmp_path, 4, of_one_process=False)
    shards.make(tmp_path, 4)
    shards.make(tmp_path, 8)
    assert shards.count_of(tmp_path) == 4
    shards.check_shards(tmp_path, 4, of_one_process=False)
    with pytest.raises(WrongDataDirectory, match="has 4 shards, not 2: start with --workers 4, or"):
        shards.check_shards(tmp_path, 2, of_one_process=False)


def test_a_directory_of_shards_is_not_for_one_process_nor_the_other_way_round(
    tmp_path: Path,
) -> None:
    shards.check_one(tmp_path)
    with pytest.raises(WrongDataDirectory, match="is of a broker without workers: start without"):
        shards.check_shards(tmp_path, 2, of_one_process=True)
    shards.make(tmp_path, 3)
    with pytest.raises(WrongDataDirectory, match="has 3 shards: start with --workers 3"):
        shards.check_one(tmp_path)


def test_what_cannot_be_read_is_refused_and_not_taken_for_none(tmp_path: Path) -> None:
    for text in ("", "[]", "{}", '{"format": 1, "shards": 1}', '{"format": 1, "shards": "2"}'):
        (tmp_path / shards.FILE).write_text(text)
        with pytest.raises(CorruptData, match=r"shards\.json"):
            shards.check_one(tmp_path)
    (tmp_path / shards.FILE).write_text('{"format": 2, "shards": 2}')
    with pytest.raises(UnknownFormat, match="format 2; this release reads 1"):
        shards.check_shards(tmp_path, 2, of_one_process=False)


def test_a_directory_that_has_lost_a_part_is_refused(tmp_path: Path) -> None:
    shards.make(tmp_path, 2)
    shards.shard_path(tmp_path, 1).rmdir()
    with pytest.raises(CorruptData, match="shards/1: the shard is missing"):
        shards.check_shards(tmp_path, 2, of_one_process=False)
    (tmp_path / shards.FILE).unlink()
    shards.check_one(tmp_path)  # a first start that was killed leaves empty folders
    (shards.shard_path(tmp_path, 0) / "catalog.sqlite").write_bytes(b"")
    for check in (
        lambda: shards.check_one(tmp_path),
        lambda: shards.check_shards(tmp_path, 2, of_one_process=False),
    ):
        with pytest.raises(CorruptData, match=r"it is missing, and .*shards is there"):
            check()


def test_no_two_shards_have_a_ledger_of_one_number(tmp_path: Path) -> None:
    assert shards.first_ledger_id(0) == 1
    for number in range(2):
        store, lock = open_store(
            tmp_path / str(number),
            SystemClock(),
            first_ledger_id=shards.first_ledger_id(number),
        )
        assert store.next_ledger_id() == (number << 40) + 1
        store.close()
        lock.release()
