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

import pyarrow.parquet as pq

from milepost.positions.names import TopicName
from milepost.spark.options import Connection
from milepost.spark.pipelines.lake import Lake
from milepost.spark.pipelines.tasks import run
from milepost.spark.publish import Outgoing, Publisher, check_deduplication
from milepost.spark.survey import partitions_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Replayed(NamedTuple):
    messages: int
    """In the lake."""
    sent: int
    """The rest was there already."""


def replay(
    spark: SparkSession, connection: Connection, directory: Path, topic: str, *, name: str
) -> Replayed:
    """Write everything that a lake has to a topic."""
    lake = Lake.load(directory)
    targets = partitions_of(connection, topic)
    pairs = [
        (source, targets[max(TopicName.parse(source).partition, 0) % len(targets)])
        for source in lake.end
    ]
    found = run(spark, pairs, partial(_send, connection, str(directory), name))
    return Replayed(sum(all_ for all_, _ in found), sum(sent for _, sent in found))


def _send(
    connection: Connection, directory: str, name: str, pair: tuple[str, str]
) -> tuple[int, int]:
    source, target = pair
    producer = f"{name}/{source}"
    columns = ["index", "key", "value", "properties", "event_time"]
    rows = sent = 0
    is_checked = False
    publisher = Publisher(connection, target, producer)
    try:
        for one in Lake.load(Path(directory)).files:
            if one.topic != source:
                continue
            for batch in pq.ParquetFile(f"{directory}/{one.path}").iter_batches(
                batch_size=10_000, columns=columns
            ):
                messages = [
                    Outgoing(
                        row["index"],
                        row["key"],
                        row["value"],
                        row["properties"],
                        None
                        if row["event_time"] is None
                        else round(row["event_time"].timestamp() * 1000),
                    )
                    for row in batch.to_pylist()
                ]
                rows += len(messages)
                sent += publisher.send(messages)
                if sent and not is_checked:
                    # Before much is written: a topic that forgets would be written twice one day.
                    publisher.__exit__(None, None, None)
                    check_deduplication(connection, target, producer, messages[-1].sequence_id)
                    publisher = Publisher(connection, target, producer)
                    is_checked = True
    except BaseException as error:
        publisher.__exit__(type(error), error, None)
        raise
    publisher.__exit__(None, None, None)
    return rows, sent
