"""Merges small files of a lake.

Which files: neighbours of one partition, from the newest back, as long as what is gathered is at least half
as large as the next older one. So a message is copied a few times only, however long an archive goes on with
small steps. New files are written beside the old ones and count from the moment at which one manifest says
so; killed before, they are garbage; killed after, the old ones are.

    >>> small = [LakeFile(f"{n}", "t", n, n + 1, rows=1, size_bytes=10) for n in range(4)]
    >>> [[one.path for one in run] for run in plan(small, files_min=3)]
    [['0', '1', '2', '3']]
    >>> plan(small, files_min=5)
    []
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from milepost.clock import Clock, SystemClock
from milepost.errors import CorruptData
from milepost.spark.pipelines.lake.lake import Lake, LakeFile
from milepost.spark.pipelines.lake.lakes import AnyLake
from milepost.spark.pipelines.lake.parts import read_file
from milepost.spark.pipelines.lake.row_groups import RowGroups
from milepost.spark.pipelines.lake.schema_columns import filled, lake_schema
from milepost.spark.pipelines.names import data_path
from milepost.spark.pipelines.tasks import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A file that is large enough.
FILE_MESSAGES_MAX: Final = 1_000_000
FILE_SIZE_MAX: Final = 256 << 20
FILES_MIN: Final = 8
# Who opened a lake before its files were merged can read it for so long.
SWEEP_AGE_S: Final = 24 * 3600.0


def merge(
    spark: SparkSession,
    lake: AnyLake,
    *,
    files_min: int = FILES_MIN,
    sweep_age_s: float = SWEEP_AGE_S,
    clock: Clock | None = None,
) -> tuple[AnyLake, int]:
    """Merge what is worth it. The lake as it is then, and how many files went."""
    if not isinstance(lake, Lake):
        from milepost.spark.pipelines.lake.delta import DeltaLake

        assert isinstance(lake, DeltaLake)
        gone = lake.merge(files_min, FILE_SIZE_MAX)
        return (DeltaLake.load(lake.directory, lake.end) if gone else lake), gone
    runs = plan(lake.files, files_min=files_min)
    if runs:
        made = run(
            spark, runs, partial(combine, str(lake.directory.absolute()), lake_schema(lake.decoded))
        )
        old = {one.path for files in runs for one in files}
        kept = [one for one in lake.files if one.path not in old]
        lake = lake.rebase([*kept, *made])
        lake.sweep((clock or SystemClock()).wall_ms() / 1000, sweep_age_s)
    return lake, sum(map(len, runs))


def plan(files: Sequence[LakeFile], *, files_min: int = FILES_MIN) -> list[list[LakeFile]]:
    """Runs of neighbours to merge, each into one file. `files` in the order of a lake."""
    found = []
    for _, ones in groupby(files, key=lambda one: one.topic):
        gathered: list[LakeFile] = []
        for one in reversed(list(ones)):
            rows = sum(each.rows for each in gathered)
            size = sum(each.size_bytes for each in gathered)
            fits = rows + one.rows <= FILE_MESSAGES_MAX and size + one.size_bytes <= FILE_SIZE_MAX
            if gathered and not (fits and one.rows <= 2 * rows + files_min):
                found.append(gathered[::-1])
                gathered = []
            gathered.append(one)
        found.append(gathered[::-1])
    return [run for run in found if len(run) >= max(files_min, 2)]


def combine(directory: str, schema: pa.Schema, files: Sequence[LakeFile]) -> LakeFile:
    """Neighbours into one new file with the lake's columns of today, in an executor."""
    first, last = files[0], files[-1]
    path = data_path(first.topic, first.first_index, last.end_index)
    with RowGroups(Path(directory) / path, schema) as out:
        for one in files:
            rows = 0
            for batch in read_file(f"{directory}/{one.path}", schema.names):
                out.write(filled(batch, schema))
                rows += batch.num_rows
            if rows != one.rows:
                raise CorruptData(f"{one.path} has {rows} rows, its manifest says {one.rows}")
    return LakeFile(
        path,
        first.topic,
        first.first_index,
        last.end_index,
        out.rows,
        out.size_bytes,
        sum(one.corrupt for one in files),
    )
