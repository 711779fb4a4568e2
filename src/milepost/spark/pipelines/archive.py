"""`archive`: a topic into a lake, exactly once.

The lake knows how far it is; a step reads from there to the end, or as far as a limit allows, and
publishes what it wrote with one manifest. Killed at any moment it leaves files that no manifest names,
and the next step begins where the last published one ended.

    summary = archive(spark, read_options({"topic": "events"}), Path("lake"))
    summary.messages
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow.parquet as pq

from milepost.errors import InvalidCheckpoint
from milepost.spark.columns import COLUMNS, arrow_schema
from milepost.spark.fetch import fetch
from milepost.spark.offsets import Offsets, Slice, admit, check_resume, count, slices
from milepost.spark.options import Connection, ReadOptions
from milepost.spark.pipelines.lake import Lake, LakeFile, prepare
from milepost.spark.pipelines.tasks import run
from milepost.spark.survey import Survey

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A step, if nothing else is asked for; a file holds a core's part of it.
STEP_MESSAGES_MAX: Final = 4_000_000
FILE_MESSAGES_MAX: Final = 1_000_000


class Archived(NamedTuple):
    steps: int
    messages: int
    files: int
    end: Offsets


def archive(
    spark: SparkSession,
    options: ReadOptions,
    directory: Path,
    *,
    on_step: Callable[[int, int], None] | None = None,
) -> Archived:
    """Archive what is there now. `on_step` hears of indexes done and to be done."""
    prepare(directory)
    survey = Survey(options)
    try:
        target = survey.ends()
        lake = Lake.load(directory)
        at = lake.end
        if at:
            check_resume(at, target)
        firsts = survey.resolve(options.starting, [one for one in target if one not in at])
    finally:
        survey.close()
    at = {**at, **firsts}
    total, done, messages, files, steps = count(at, target), 0, 0, 0, 0
    tasks = options.partitions_min or os.cpu_count() or 1
    while count(at, target):
        end = admit(at, target, messages_max=options.messages_max or STEP_MESSAGES_MAX)
        parts = slices(
            at, end, partitions_min=tasks, messages_max=options.slice_max or FILE_MESSAGES_MAX
        )
        write = partial(
            _write,
            options.connection,
            str(directory),
            fail_on_data_loss=options.fail_on_data_loss,
        )
        made = run(spark, parts, write)
        lake = lake.publish(at, end, made)
        done += count(at, end)
        messages += sum(one.rows for one in made)
        files += len(made)
        steps += 1
        at = end
        if on_step is not None:
            on_step(done, total)
    return Archived(steps, messages, files, lake.end)


def _write(
    connection: Connection, directory: str, part: Slice, *, fail_on_data_loss: bool
) -> LakeFile:
    """One slice into one file, in an executor."""
    name = hashlib.sha256(part.topic.encode()).hexdigest()[:12]
    path = f"data/{name}-{part.first_index:016}-{part.end_index:016}-{uuid.uuid4().hex}.parquet"
    rows = 0
    with pq.ParquetWriter(f"{directory}/{path}", arrow_schema(), compression="zstd") as writer:
        for batch in fetch(connection, part, COLUMNS, fail_on_data_loss=fail_on_data_loss):
            writer.write_batch(batch)
            rows += batch.num_rows
    return LakeFile(path, part.topic, part.first_index, part.end_index, rows)


def check_topic(lake: Lake, topic: str) -> None:
    """A lake keeps one set of topics."""
    if lake.end and topic not in lake.end:
        raise InvalidCheckpoint(f"{lake.directory} has no {topic}")
