"""The part of the tour that archives events by Spark.

Ten thousand events are published and read by a group that forgets to ack one of them, while its positions are
recorded; the topic is archived as Parquet, compared message by message, and the recording becomes a page
with pictures. Where Java or Spark is missing, one line says how to get it, and the tour ends well without it.
"""

from __future__ import annotations

import importlib.util
import threading
import time
from pathlib import Path
from types import ModuleType
from typing import Any

from milepost.cli import java
from milepost.cli.tour.tour import expect, step, told

TOPIC = "persistent://public/default/events"
GROUP = "analytics"
EVENTS = 10_000
# Of each look at the broker while the events come and go.
EVENTS_A_LOOK = 500
FORGOTTEN = 1234
LOOK_EVERY_S = 0.1
# When everything is read, so many looks more; and an end for a machine that is far too slow.
LOOKS_AFTER = 10
RECORD_S_MAX = 90.0
RECEIVE_MS = 20_000
MASTER = "local[2]"


def lack() -> str | None:
    """What is missing for this half, and how to get it."""
    for name in ("pyspark", "pyarrow", "deltalake", "matplotlib", "numba"):
        if importlib.util.find_spec(name) is None:
            return f"{name} is missing: pip install 'milepost[spark]'"
    return java.missing()


def show(ready: dict[str, Any], pulsar: ModuleType, folder: Path, out: Path, first: int) -> None:
    """Steps from number `first` on; `folder` is for the lake, `out` for the page."""
    if missing := lack():
        step(first, "Next would come Spark, an archive and a picture; this machine cannot yet.")
        told(missing)
        return
    history, lake = folder / "history", folder / "lake"
    step(
        first, f"Publish {EVENTS:,} events while a group reads them; one it forgets to acknowledge."
    )
    published = _work(ready, pulsar, history)
    told(f"{published:,} events, and a sample of the group's positions every {LOOK_EVERY_S:g} s.")

    step(
        first + 1, "Start Spark and archive the topic: Parquet files and a manifest, exactly once."
    )
    began = time.perf_counter()
    from milepost.cli.pipeline import start_spark

    spark = start_spark(MASTER)
    told(f"Spark is up after {time.perf_counter() - began:.0f} s.")
    try:
        _archive(spark, ready, lake, published, first + 2)
        step(first + 3, "Make tables and pictures of the recorded positions, by Spark too.")
        _picture(spark, history, out)
    finally:
        spark.stop()


def _work(ready: dict[str, Any], pulsar: ModuleType, history: Path) -> int:
    """Publish and read, a little before every look. How many were published."""
    from milepost.admin import Admin
    from milepost.spark.pipelines.report.history import record

    stop = threading.Event()
    client = pulsar.Client(
        ready["pulsar_url"], logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    )
    try:
        consumer = client.subscribe(
            TOPIC,
            GROUP,
            consumer_type=pulsar.ConsumerType.Shared,
            initial_position=pulsar.InitialPosition.Earliest,
        )
        producer = client.create_producer(
            TOPIC, batching_max_publish_delay_ms=5, block_if_queue_full=True
        )
        published = received = looks_after = 0

        def look() -> Any:
            nonlocal published, received, looks_after
            end = min(published + EVENTS_A_LOOK, EVENTS)
            for number in range(published, end):
                producer.send_async(b"event %d" % number, None, partition_key=f"user-{number % 9}")
            producer.flush()
            published = end
            # A little slower than they come, and the rest when no more do.
            end = received + EVENTS_A_LOOK * 3 // 4 if published < EVENTS else published
            while received < end:
                message = consumer.receive(RECEIVE_MS)
                if received != FORGOTTEN:
                    consumer.acknowledge(message)
                received += 1
            looks_after += received == EVENTS
            if looks_after == LOOKS_AFTER:
                stop.set()
            return admin.get_progress(TOPIC, subscription=GROUP)

        with Admin(ready["http_url"]) as admin:
            record(look, history, for_s=RECORD_S_MAX, every_s=LOOK_EVERY_S, until=stop)
    finally:
        client.close()
    expect("events published", EVENTS, published)
    return published


def _archive(spark: Any, ready: dict[str, Any], lake: Path, published: int, number: int) -> None:
    from milepost.client.connection.endpoint import Endpoint
    from milepost.spark.options import ReadOptions
    from milepost.spark.pipelines.archive import archive
    from milepost.spark.pipelines.verify import verify

    connection = Endpoint(url=ready["pulsar_url"])
    done = archive(spark, ReadOptions(connection, topics=(TOPIC,)), lake)
    expect("messages archived", published, done.messages)
    told(f"{done.messages:,} messages in {done.files} files, indexes 0 to {done.end[TOPIC] - 1:,}.")

    step(number, "Verify: compare every message of the topic with the lake, in all columns.")
    checked = verify(spark, connection, lake)
    expect("differences", [], checked.problems)
    expect("messages compared", published, checked.messages)
    told(f"{checked.messages:,} compared, every index once, none missing, none different.")


def _picture(spark: Any, history: Path, out: Path) -> None:
    from milepost.spark.pipelines.progress import reduce
    from milepost.spark.pipelines.report.report import write_report

    tables = reduce(spark, history)
    expect("groups", [GROUP], [row["subscription"] for row in tables.groups])
    for row in tables.holes[:1]:
        told(f"The message that was forgotten: index {row['index']}, held by {row['holder']}.")
        expect("the index of the forgotten message", FORGOTTEN, row["index"])
    (page, *_) = write_report(tables, out)
    told(f"Backlog, lag time, inflight age, ack latency and holes: open {page}")
