"""`verify`: compares a lake with a topic.

Every part of the lake is compared with what the topic holds in its range: row by row, all columns, a few
thousand rows in memory. That ranges follow each other without a gap is the lake's own rule; what is found is
named by topic and index.

    for problem in verify(spark, connection, Path("lake")).problems: print(problem)
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from milepost.client.connection.endpoint import Endpoint
from milepost.errors import CorruptData, MilepostError
from milepost.positions.names import TopicName
from milepost.spark.offsets import Slice
from milepost.spark.pipelines.comparison import PROBLEMS_MAX, differences
from milepost.spark.pipelines.lake.lakes import open_lake
from milepost.spark.pipelines.lake.parts import Part, read_part
from milepost.spark.pipelines.tasks import Watcher, run
from milepost.spark.reading.fetch import fetch
from milepost.spark.reading.survey import partitions_of
from milepost.spark.values.columns import COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What a message is, wherever it lies: the columns that a copy has too.
CONTENT: Final = ("key", "value", "properties", "event_time")


class Verified(NamedTuple):
    messages: int
    files: int
    problems: list[str]
    """Empty: they are equal."""


class Pair(NamedTuple):
    """A partition of the lake, and the one that it was replayed to."""

    source: str
    target: str
    parts: list[Part]


def verify(
    spark: SparkSession,
    connection: Endpoint,
    directory: Path,
    *,
    on_done: Watcher | None = None,
) -> Verified:
    """Compare a lake with the topics that it was archived from, index by index."""
    try:
        lake = open_lake(directory)
    except CorruptData as error:
        return Verified(0, 0, [str(error)])
    compare = partial(_compare, connection, str(directory.absolute()))
    return _verified(len(lake.files), run(spark, lake.parts, compare, on_done=on_done))


def verify_copy(
    spark: SparkSession,
    connection: Endpoint,
    directory: Path,
    topic: str,
    *,
    on_done: Watcher | None = None,
) -> Verified:
    """Compare a lake with a topic that it was replayed to: the same content in the same order, partition
    by partition. Indexes and times of publishing are the copy's own."""
    try:
        lake = open_lake(directory)
    except CorruptData as error:
        return Verified(0, 0, [str(error)])
    targets = partitions_of(connection, topic)
    sources = sorted(lake.end, key=lambda name: TopicName.parse(name).partition)
    if len(targets) != len(sources):
        problem = f"{topic} has {len(targets)} partitions, the lake has {len(sources)}"
        return Verified(0, len(lake.files), [problem])
    parts = sorted(lake.parts, key=lambda one: one.first_index)
    pairs = [
        Pair(source, target, [one for one in parts if one.topic == source])
        for source, target in zip(sources, targets, strict=True)
    ]
    compare = partial(_compare_copy, connection, str(directory.absolute()))
    return _verified(len(lake.files), run(spark, pairs, compare, on_done=on_done))


def _verified(files: int, found: list[tuple[int, list[str]]]) -> Verified:
    problems = [problem for _, ones in found for problem in ones]
    return Verified(sum(rows for rows, _ in found), files, sorted(problems))


class Unreadable(Exception):
    """A file of the lake, and why."""


def _archived(directory: str, part: Part, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    try:
        yield from read_part(directory, part, columns)
    except (OSError, pa.ArrowException, KeyError) as error:
        # Of several files the error says which.
        where = part.paths[0] if len(part.paths) == 1 else part
        raise Unreadable(f"{where} cannot be read: {error}") from None


def _compare(connection: Endpoint, directory: str, part: Part) -> tuple[int, list[str]]:
    counted = 0

    def archived() -> Iterator[pa.RecordBatch]:
        nonlocal counted
        for batch in _archived(directory, part, COLUMNS):
            counted += batch.num_rows
            yield batch

    live = fetch(connection, Slice(part.topic, part.first_index, part.end_index), COLUMNS)
    problems: list[str] = []
    try:
        for problem in differences(archived(), live):
            problems.append(f"{part}: {problem}")
            if len(problems) == PROBLEMS_MAX:
                problems.append(f"{part}: and more")
                break
    except Unreadable as error:
        problems.append(str(error))
    except MilepostError as error:
        problems.append(f"{part}: {error}")
    return counted, problems


def _compare_copy(connection: Endpoint, directory: str, pair: Pair) -> tuple[int, list[str]]:
    from milepost.spark.reading.link import Link
    from milepost.spark.reading.places import Places

    source, target = pair.source, pair.target
    with Link.open(connection, target) as link:
        end = Places(link, target).end_index()
    copied = (
        row
        for batch in (fetch(connection, Slice(target, 0, end), CONTENT) if end else ())
        for row in batch.to_pylist()
    )
    rows = 0
    try:
        for part in pair.parts:
            for batch in _archived(directory, part, ("index", *CONTENT)):
                for row in batch.to_pylist():
                    index = row.pop("index")
                    other = next(copied, None)
                    if other is None:
                        return rows, [f"{target} ends before message {index} of {source}"]
                    if other != row:
                        names = [name for name in CONTENT if other[name] != row[name]]
                        text = f"message {index} of {source} differs in {', '.join(names)}"
                        return rows, [f"{target}: {text}"]
                    rows += 1
        if next(copied, None) is not None:
            return rows, [f"{target} has more messages than {source} in the lake"]
    except Unreadable as error:
        return rows, [str(error)]
    except MilepostError as error:
        return rows, [f"{target}: {error}"]
    return rows, []
