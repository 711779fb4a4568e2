"""`replay`: a lake into a topic, exactly once, each partition in its order.

One task a partition, one producer that is named by the replay and numbered by the archived index: a
replay that is killed and run again under the same name adds what is missing. Deduplication must be on
for the topic.

    replay(spark, connection, Path("lake"), "copy", name="march")
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from milepost.positions.names import TopicName
from milepost.spark.options import Connection
from milepost.spark.pipelines.lakes import open_lake
from milepost.spark.pipelines.parts import Part, read_part
from milepost.spark.pipelines.tasks import Watcher, run
from milepost.spark.publish import Outgoing, Publisher, check_deduplication
from milepost.spark.survey import partitions_of

if TYPE_CHECKING:
    import pyarrow as pa
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
    connection: Connection,
    directory: Path,
    topic: str,
    *,
    name: str,
    on_done: Watcher | None = None,
) -> Replayed:
    """Write everything that a lake has to a topic. `on_done` hears of partitions."""
    lake = open_lake(directory)
    targets = partitions_of(connection, topic, make=True)
    parts = sorted(lake.parts, key=lambda one: one.first_index)
    routes = [
        Route(
            source,
            targets[max(TopicName.parse(source).partition, 0) % len(targets)],
            [one for one in parts if one.topic == source],
        )
        for source in lake.end
    ]
    found = run(spark, routes, partial(_send, connection, str(directory), name), on_done=on_done)
    return Replayed(sum(all_ for all_, _ in found), sum(sent for _, sent in found))


def _send(connection: Connection, directory: str, name: str, route: Route) -> tuple[int, int]:
    producer = f"{name}/{route.source}"
    rows = sent = 0
    is_checked = False
    publisher = Publisher(connection, route.target, producer)
    try:
        for part in route.parts:
            for batch in read_part(directory, part, COLUMNS):
                messages = _messages(batch)
                rows += len(messages)
                sent += publisher.send(messages)
                if sent and not is_checked:
                    # Before much is written: a topic that forgets would be written twice one day.
                    publisher.__exit__(None, None, None)
                    last = messages[-1].sequence_id
                    check_deduplication(connection, route.target, producer, last)
                    publisher = Publisher(connection, route.target, producer)
                    is_checked = True
    except BaseException as error:
        publisher.__exit__(type(error), error, None)
        raise
    publisher.__exit__(None, None, None)
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
