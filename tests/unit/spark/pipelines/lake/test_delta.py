"""A Delta table as a lake: positions and files in one commit, whoever rewrites the files later."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql.types import IntegerType, LongType, StringType, StructType
from unit.spark.pipelines.conftest import TOPIC, batch, rows_of, stored

from milepost.errors import Busy, CorruptData, InvalidOption
from milepost.spark.pipelines.lake.delta import DeltaLake
from milepost.spark.pipelines.lake.lake import Lake
from milepost.spark.pipelines.lake.lakes import kind_of, open_lake
from milepost.spark.pipelines.lake.parts import read_part
from milepost.spark.values.columns import arrow_schema

OTHER = f"{TOPIC}2"


def rows(first: int, end: int, topic: str = TOPIC) -> list[dict[str, object]]:
    return batch(first, end, topic).to_pylist()


def test_a_step_is_one_commit(tmp_path: Path) -> None:
    lake = DeltaLake.load(tmp_path)
    assert (lake.start, lake.end, lake.parts, lake.files, lake.rows) == ({}, {}, [], [], 0)
    lake = lake.publish({TOPIC: 3}, {TOPIC: 10}, [stored(tmp_path, 3, 10)])
    lake = lake.publish({TOPIC: 10}, {TOPIC: 12, OTHER: 0}, [stored(tmp_path, 10, 12)])
    # Markers only: positions move, and there is no file.
    lake = lake.publish({OTHER: 4}, {TOPIC: 12, OTHER: 5}, [stored(tmp_path, 4, 5, OTHER)])
    assert DeltaTable(str(tmp_path)).version() == 2
    again = open_lake(tmp_path, topics=(TOPIC, OTHER))
    assert again.start == {TOPIC: 3, OTHER: 0}
    assert again.end == lake.end == {TOPIC: 12, OTHER: 5}
    assert rows_of(again) == rows(3, 12)
    assert (again.rows, len(again.files)) == (7, 2)
    # The newest step names the topic that has no file, too.
    assert DeltaLake.load(tmp_path).end == lake.end


def test_a_step_is_taken_once(tmp_path: Path) -> None:
    empty, other = DeltaLake.load(tmp_path), DeltaLake.load(tmp_path)
    one = empty.publish({TOPIC: 0}, {TOPIC: 5}, [stored(tmp_path, 0, 5)])
    with pytest.raises(Busy, match="another job has made it"):
        other.publish({TOPIC: 0}, {TOPIC: 9}, [stored(tmp_path, 0, 9)])
    late = DeltaLake.load(tmp_path)
    one.publish({TOPIC: 5}, {TOPIC: 10}, [stored(tmp_path, 5, 10)])
    with pytest.raises(Busy, match="another archive has taken the step"):
        late.publish({TOPIC: 5}, {TOPIC: 8}, [stored(tmp_path, 5, 8)])
    found = DeltaLake.load(tmp_path)
    assert (found.end, rows_of(found)) == ({TOPIC: 10}, rows(0, 10))


def test_who_merges_meanwhile_is_in_nobodys_way(tmp_path: Path) -> None:
    lake = DeltaLake.load(tmp_path)
    for at in range(0, 30, 10):
        lake = lake.publish({TOPIC: at}, {TOPIC: at + 10}, [stored(tmp_path, at, at + 10)])
    late = DeltaLake.load(tmp_path)
    assert DeltaLake.load(tmp_path).merge(files_min=3, size_max=1 << 20) == 3
    late.publish({OTHER: 0}, {OTHER: 5}, [stored(tmp_path, 0, 5, OTHER)])
    # Another topic's archive is another one's step.
    lake = lake.publish({TOPIC: 30}, {TOPIC: 40}, [stored(tmp_path, 30, 40)])
    found = DeltaLake.load(tmp_path)
    assert found.end == {TOPIC: 40, OTHER: 5}
    assert rows_of(found) == rows(0, 40) + rows(0, 5, OTHER)


def test_others_may_rewrite_the_files(tmp_path: Path) -> None:
    lake = DeltaLake.load(tmp_path)
    for at in range(0, 40, 10):
        files = [stored(tmp_path, at, at + 10), stored(tmp_path, at, at + 10, OTHER)]
        lake = lake.publish({TOPIC: at, OTHER: at}, {TOPIC: at + 10, OTHER: at + 10}, files)
    wanted = rows(0, 40) + rows(0, 40, OTHER)
    assert rows_of(lake) == wanted
    assert lake.merge(files_min=9, size_max=1 << 20) == 0
    assert lake.merge(files_min=8, size_max=1 << 20) == 8
    merged = DeltaLake.load(tmp_path)
    assert len(merged.files) == 1
    assert rows_of(merged) == wanted
    assert merged.end == {TOPIC: 40, OTHER: 40}
    (part,) = (one for one in merged.parts if one.topic == OTHER)
    (narrow,) = read_part(str(tmp_path), part, ("value",))
    assert narrow.to_pylist() == [{"value": one["value"]} for one in rows(0, 40, OTHER)]
    # Positions are in the log for good, also when old commits are gone.
    table = DeltaTable(str(tmp_path))
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    table = DeltaTable(str(tmp_path))
    table.create_checkpoint()
    for path in (tmp_path / "_delta_log").glob("*.json"):
        if int(path.stem) < table.version():
            path.unlink()
    last = DeltaLake.load(tmp_path)
    assert (last.start, last.end) == ({TOPIC: 0, OTHER: 0}, {TOPIC: 40, OTHER: 40})
    last = last.publish(last.end, {TOPIC: 43, OTHER: 40}, [stored(tmp_path, 40, 43)])
    assert rows_of(last) == rows(0, 43) + rows(0, 40, OTHER)
    assert DeltaLake.load(tmp_path / "none").merge(1, 1) == 0


def test_a_table_of_something_else_is_refused(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "a"), pa.table({"x": [1]}))
    with pytest.raises(CorruptData, match="of something else: it has x"):
        open_lake(tmp_path / "a")
    table = pa.Table.from_batches([batch(0, 3)], arrow_schema())
    write_deltalake(str(tmp_path / "b"), table, partition_by=["topic"])
    with pytest.raises(CorruptData, match="partition columns"):
        open_lake(tmp_path / "b")
    (tmp_path / "c" / "_delta_log").mkdir(parents=True)
    (tmp_path / "c" / "_delta_log" / "00000000000000000000.json").write_text("no json")
    with pytest.raises(CorruptData, match="is no Delta table"):
        open_lake(tmp_path / "c")


def test_a_lake_is_of_one_kind(tmp_path: Path) -> None:
    assert kind_of(tmp_path) is None
    Lake.load(tmp_path / "p").publish({TOPIC: 0}, {TOPIC: 5}, [stored(tmp_path / "p", 0, 5)])
    DeltaLake.load(tmp_path / "d").publish({TOPIC: 0}, {TOPIC: 5}, [stored(tmp_path / "d", 0, 5)])
    assert (kind_of(tmp_path / "p"), kind_of(tmp_path / "d")) == ("parquet", "delta")
    assert rows_of(open_lake(tmp_path / "p")) == rows_of(open_lake(tmp_path / "d"))
    with pytest.raises(InvalidOption, match="is a lake of the format parquet, not delta"):
        open_lake(tmp_path / "p", kind="delta")
    with pytest.raises(InvalidOption, match="there is no format 'csv'"):
        open_lake(tmp_path, kind="csv")
    assert open_lake(tmp_path / "new", kind="delta").end == {}


def test_its_columns_grow_with_the_schema(tmp_path: Path) -> None:
    one = StructType().add("a", IntegerType())
    two = StructType().add("a", IntegerType()).add("b", StringType())
    lake = DeltaLake.load(tmp_path).publish({TOPIC: 0}, {TOPIC: 5}, [stored(tmp_path, 0, 5)])
    assert lake.decoded is None
    for at, kind in ((5, one), (10, two)):
        lake = lake.publish({TOPIC: at}, {TOPIC: at + 5}, [stored(tmp_path, at, at + 5)], kind)
        assert lake.decoded == DeltaLake.load(tmp_path).decoded == kind
    # A step without them, as when a schema is gone, leaves them.
    lake = lake.publish({TOPIC: 15}, {TOPIC: 20}, [stored(tmp_path, 15, 20)])
    assert (lake.decoded, lake.end) == (two, {TOPIC: 20})
    assert lake.merge(files_min=2, size_max=1 << 20) == 4
    assert rows_of(DeltaLake.load(tmp_path)) == rows(0, 20)


def test_who_takes_the_step_while_columns_grow_is_seen(tmp_path: Path) -> None:
    kind = StructType().add("a", IntegerType())
    first = DeltaLake.load(tmp_path).publish({TOPIC: 0}, {TOPIC: 5}, [stored(tmp_path, 0, 5)])
    late = DeltaLake.load(tmp_path)
    first.publish({TOPIC: 5}, {TOPIC: 10}, [stored(tmp_path, 5, 10)])
    with pytest.raises(Busy):
        late.publish({TOPIC: 5}, {TOPIC: 8}, [stored(tmp_path, 5, 8)], kind)
    assert rows_of(DeltaLake.load(tmp_path)) == rows(0, 10)
    # Delta has no wider numbers for an old column: nobody may ask for them.
    found = DeltaLake.load(tmp_path)
    grown = found.publish({TOPIC: 10}, {TOPIC: 15}, [stored(tmp_path, 10, 15)], kind)
    wider = StructType().add("a", LongType())
    with pytest.raises(CorruptData, match="could not be changed"):
        grown.publish({TOPIC: 15}, {TOPIC: 20}, [stored(tmp_path, 15, 20)], wider)
