"""`replay`: a lake into a topic, exactly once.

One task a partition, one producer that is named by the replay and numbered by the archived index: a
replay that is killed and run again under the same name adds what is missing. A topic that is missing is made
with deduplication and as many partitions as the lake has; one that is there must have both. Every file and
every partition of the topic is asked before the first message is sent.

    replay(spark, connection, Path("lake"), "copy", name="march")
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from milepost.client.connection.endpoint import Endpoint
from milepost.positions.names import TopicName
from milepost.spark.pipelines.lake.lakes import open_lake
from milepost.spark.pipelines.lake.parts import Part, check_part, read_part
from milepost.spark.pipelines.tasks import Watcher, run
from milepost.spark.writing.publish import Outgoing, Publisher
from milepost.spark.writing.target_topic import ready_target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = ("index", "key", "value", "properties", "event_time")


class Replayed(NamedTuple):
    messages: int
    """In the lake."""
    sent: int
    """The rest was there already."""


class Route(NamedTuple):
    """What one task does: everything of one partition, in order."""

    source: str
    target: str
    parts: list[Part]


def replay(
    spark: SparkSession,
    connection: Endpoint,
    directory: Path,
    topic: str,
    *,
    name: str,
    on_done: Watcher | None = None,
) -> Replayed:
    """Write everything that a lake has to a topic. `on_done` hears of partitions."""
    lake = open_lake(directory)
    sources = sorted(lake.end, key=lambda name: TopicName.parse(name).partition)
    parts = sorted(lake.parts, key=lambda one: one.first_index)
    for one in parts:
        check_part(str(directory.absolute()), one)
    is_partitioned = any(TopicName.parse(one).partition >= 0 for one in sources)
    partitions = len(sources) if is_partitioned else 0
    targets = ready_target(connection, topic, partitions=partitions)
    routes = [
        Route(source, target, [one for one in parts if one.topic == source])
        for source, target in zip(sources, targets, strict=True)
    ]
    found = run(
        spark, routes, partial(_send, connection, str(directory.absolute()), name), on_done=on_done
    )
    return Replayed(sum(all_ for all_, _ in found), sum(sent for _, sent in found))


def _send(connection: Endpoint, directory: str, name: str, route: Route) -> tuple[int, int]:
    producer = f"{name}/{route.source}"
    rows = sent = 0
    with Publisher(connection, route.target, producer, needs_deduplication=True) as publisher:
        for part in route.parts:
            for batch in read_part(directory, part, COLUMNS):
                messages = _messages(batch)
                rows += len(messages)
                sent += publisher.send(messages)
    return rows, sent


def _messages(batch: pa.RecordBatch) -> list[Outgoing]:
    return [
        Outgoing(
            row["index"],
            row["key"],
            row["value"],
            row["properties"],
            None if row["event_time"] is None else round(row["event_time"].timestamp() * 1000),
        )
        for row in batch.to_pylist()
    ]
