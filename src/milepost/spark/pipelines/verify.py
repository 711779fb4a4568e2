"""`verify`: do a lake and a topic hold the same messages?

Every file is compared with what the topic holds in its range: row by row, all columns. That ranges
follow each other without a gap is the lake's own rule; what is found is named by topic and index.

    for problem in verify(spark, connection, Path("lake")): print(problem)
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from milepost.errors import MilepostError
from milepost.positions.names import TopicName
from milepost.spark.columns import COLUMNS, arrow_schema
from milepost.spark.fetch import fetch
from milepost.spark.offsets import Slice
from milepost.spark.options import Connection
from milepost.spark.pipelines.lake import Lake, LakeFile
from milepost.spark.pipelines.tasks import run
from milepost.spark.survey import partitions_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What a message is, wherever it lies: the columns that a copy has too.
CONTENT: Final = ("key", "value", "properties", "event_time")
PROBLEMS_MAX: Final = 20


class Verified(NamedTuple):
    messages: int
    files: int
    problems: list[str]
    """Empty: they are equal."""


def verify(spark: SparkSession, connection: Connection, directory: Path) -> Verified:
    """Compare a lake with the topics that it was archived from, index by index."""
    lake = Lake.load(directory)
    found = run(spark, lake.files, partial(_compare, connection, str(directory)))
    problems = [problem for _, ones in found for problem in ones]
    return Verified(sum(rows for rows, _ in found), len(lake.files), sorted(problems))


def verify_copy(
    spark: SparkSession, connection: Connection, directory: Path, topic: str
) -> Verified:
    """Compare a lake with a topic that it was replayed to: the same content in the same order, partition
    by partition. Indexes and times of publishing are the copy's own."""
    lake = Lake.load(directory)
    targets = partitions_of(connection, topic)
    sources = sorted(lake.end, key=lambda name: TopicName.parse(name).partition)
    if len(targets) != len(sources):
        problem = f"{topic} has {len(targets)} partitions, the lake has {len(sources)}"
        return Verified(0, len(lake.files), [problem])
    pairs = list(zip(sources, targets, strict=True))
    found = run(spark, pairs, partial(_compare_copy, connection, str(directory)))
    problems = [problem for _, ones in found for problem in ones]
    return Verified(sum(rows for rows, _ in found), len(lake.files), sorted(problems))


def _compare(connection: Connection, directory: str, one: LakeFile) -> tuple[int, list[str]]:
    part = Slice(one.topic, one.first_index, one.end_index)
    try:
        archived = pq.read_table(f"{directory}/{one.path}", partitioning=None)
    except (OSError, pa.ArrowException) as error:
        return 0, [f"{one.path} cannot be read: {error}"]
    try:
        batches = list(fetch(connection, part, COLUMNS))
    except MilepostError as error:
        return 0, [str(error)]
    live = pa.Table.from_batches(batches, arrow_schema())
    return archived.num_rows, list(differences(archived, live, one))


def differences(archived: pa.Table, live: pa.Table, one: LakeFile) -> Iterator[str]:
    """What differs between a file and the range that it is of, by index."""
    if archived.schema.names == live.schema.names and archived.equals(live):
        return
    where = f"{one.topic} in {one.path}"
    stored, present = _by_index(archived), _by_index(live)
    if len(stored) != archived.num_rows:
        yield f"{where}: {archived.num_rows - len(stored)} indexes are there twice"
    named = 0
    for index in sorted(stored.keys() | present.keys()):
        if named == PROBLEMS_MAX:
            yield f"{where}: and more"
            return
        if index not in stored:
            yield f"{where}: message {index} is missing"
        elif index not in present:
            yield f"{where}: message {index} is not in the topic"
        elif stored[index] != present[index]:
            names = [name for name in COLUMNS if stored[index].get(name) != present[index][name]]
            yield f"{where}: message {index} differs in {', '.join(names)}"
        else:
            continue
        named += 1


def _by_index(table: pa.Table) -> dict[int, dict[str, Any]]:
    return {row["index"]: row for row in table.to_pylist()}


def _compare_copy(
    connection: Connection, directory: str, pair: tuple[str, str]
) -> tuple[int, list[str]]:
    source, target = pair
    lake = Lake.load(Path(directory))
    from milepost.spark.link import Link
    from milepost.spark.places import Places

    with Link.open(connection, target) as link:
        end = Places(link, target).end_index()
    copied = (
        row
        for batch in (fetch(connection, Slice(target, 0, end), CONTENT) if end else ())
        for row in batch.to_pylist()
    )
    rows = 0
    for one in lake.files:
        if one.topic != source:
            continue
        archived = pq.read_table(
            f"{directory}/{one.path}", columns=["index", *CONTENT], partitioning=None
        )
        for row in archived.to_pylist():
            index = row.pop("index")
            other = next(copied, None)
            if other is None:
                return rows, [f"{target} ends before message {index} of {source}"]
            if other != row:
                names = [name for name in CONTENT if other[name] != row[name]]
                return rows, [
                    f"{target}: message {index} of {source} differs in {', '.join(names)}"
                ]
            rows += 1
    if next(copied, None) is not None:
        return rows, [f"{target} has more messages than {source} in the lake"]
    return rows, []
