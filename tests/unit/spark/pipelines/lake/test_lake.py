"""A lake: steps are taken once, ranges have no gaps, and what is published stays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql.types import IntegerType, StructType

from milepost.errors import Busy, CorruptData
from milepost.spark.pipelines.lake.lake import Lake, LakeFile


def part(topic: str, first: int, end: int) -> LakeFile:
    return LakeFile(f"data/{topic}-{first}.parquet", topic, first, end, end - first)


def test_what_was_published_is_found_again(tmp_path: Path) -> None:
    lake = Lake.load(tmp_path)
    assert (lake.end, lake.start, lake.files, lake.rows) == ({}, {}, [], 0)
    lake = lake.publish({"a": 3}, {"a": 9}, [part("a", 5, 9), part("a", 3, 5)])
    lake = lake.publish({"a": 9, "b": 0}, {"a": 9, "b": 2}, [part("b", 0, 2)])
    again = Lake.load(tmp_path)
    assert again.steps == lake.steps
    assert (again.start, again.end, again.rows) == ({"a": 3, "b": 0}, {"a": 9, "b": 2}, 8)
    assert [one.first_index for one in again.files] == [3, 5, 0]
    assert [path.name for path in sorted(tmp_path.rglob("*"))] == [
        "manifests",
        "00000000.json",
        "00000001.json",
    ]


def test_a_step_is_taken_once(tmp_path: Path) -> None:
    one, other = Lake.load(tmp_path), Lake.load(tmp_path)
    one.publish({"a": 0}, {"a": 2}, [part("a", 0, 2)])
    with pytest.raises(Busy, match="another archive has taken step 0"):
        other.publish({"a": 0}, {"a": 5}, [part("a", 0, 5)])
    assert Lake.load(tmp_path).end == {"a": 2}


@pytest.mark.parametrize(
    "files",
    [[], [part("a", 0, 4)], [part("a", 1, 5)], [part("a", 0, 2), part("a", 3, 5)]],
)
def test_a_step_with_a_gap_is_never_published(tmp_path: Path, files: list[LakeFile]) -> None:
    with pytest.raises(CorruptData, match="step 0 has a up to"):
        Lake.load(tmp_path).publish({"a": 0}, {"a": 5}, files)
    assert Lake.load(tmp_path).steps == ()


def test_a_lake_that_was_tampered_with_is_refused(tmp_path: Path) -> None:
    lake = Lake.load(tmp_path).publish({"a": 0}, {"a": 2}, [part("a", 0, 2)])
    lake.publish({"a": 2}, {"a": 3}, [part("a", 2, 3)])
    first, second = sorted((tmp_path / "manifests").iterdir())
    text = second.read_text()
    for changed, said in (
        (json.loads(text) | {"start": {"a": 1}}, "starts at 1 of a, the one before it ends at 2"),
        (json.loads(text) | {"format": 9}, "a format that this release does not know"),
        (json.loads(text) | {"files": [{}]}, "is no manifest"),
    ):
        second.write_text(json.dumps(changed))
        with pytest.raises(CorruptData, match=said):
            Lake.load(tmp_path)
    second.write_text(text)
    first.unlink()
    with pytest.raises(CorruptData, match="manifest 0 is missing"):
        Lake.load(tmp_path)


def test_the_type_of_the_schemas_column_is_kept(tmp_path: Path) -> None:
    kind = StructType().add("a", IntegerType())
    lake = Lake.load(tmp_path).publish({"t": 0}, {"t": 5}, [part("t", 0, 5)])
    assert lake.decoded is None
    lake = lake.publish({"t": 5}, {"t": 10}, [part("t", 5, 10)], kind)
    # Kept by steps that have none, and by a base.
    lake = lake.publish({"t": 10}, {"t": 15}, [part("t", 10, 15)])
    assert lake.decoded == Lake.load(tmp_path).decoded == kind
    assert lake.rebase(lake.files).decoded == Lake.load(tmp_path).decoded == kind
    path = tmp_path / "manifests" / "00000003.json"
    path.write_text(path.read_text("utf-8").replace('"integer"', '"what"'), "utf-8")
    with pytest.raises(CorruptData, match="no manifest"):
        Lake.load(tmp_path)
