"""Runs Python functions on Spark's executors.

Every thing is one Spark task, so that each has a core of its own and Spark tries it again where it may. An
error of ours comes back as it was raised, not wrapped in Spark's.

    run(spark, [1, 2, 3], double)      # [2, 4, 6], in any order
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa

from milepost.errors import MilepostError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")

Watcher = Callable[[int, int], None]
"""Hears of tasks done, and of how many there are."""
WATCH_INTERVAL_S: Final = 0.5


def run(
    spark: SparkSession,
    things: Sequence[T],
    work: Callable[[T], R],
    *,
    on_done: Watcher | None = None,
) -> list[R]:
    if not things:
        return []
    # Numbers and no shuffle: each is a partition, and what it stands for comes with the function.
    frame = spark.range(0, len(things), 1, len(things))

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch["id"].to_pylist():
                result = _attempt(work, things[number])
                yield pa.RecordBatch.from_pydict({"result": [result]})

    with warnings.catch_warnings(), _watched(spark, len(things), on_done):
        # Spark checks for pandas here, though none is used, and warns of its newer versions.
        warnings.simplefilter("ignore", FutureWarning)
        found = frame.mapInArrow(task, "result BINARY").collect()
    # Ours, from our own processes.
    results = [pickle.loads(bytes(row.result)) for row in found]  # noqa: S301
    for result in results:
        if isinstance(result, MilepostError):
            raise result
    return results


def _attempt(work: Callable[[Any], Any], thing: Any) -> bytes:
    try:
        return pickle.dumps(work(thing))
    except MilepostError as error:
        return pickle.dumps(error)


@contextmanager
def _watched(spark: SparkSession, total: int, on_done: Watcher | None) -> Iterator[None]:
    """Tell how many tasks are done while a job runs, where Spark's driver can be asked."""
    try:
        context = None if on_done is None else spark.sparkContext
    except Exception:  # a client of Spark Connect has none, and says so in its own way
        context = None
    if context is None or on_done is None:
        yield
        return
    group = f"milepost-{uuid.uuid4().hex}"
    context.setJobGroup(group, "milepost")
    is_over = threading.Event()

    def watch() -> None:
        tracker = context.statusTracker()
        while not is_over.wait(WATCH_INTERVAL_S):
            stages = [
                tracker.getStageInfo(stage)
                for job in tracker.getJobIdsForGroup(group)
                if (info := tracker.getJobInfo(job)) is not None
                for stage in info.stageIds
            ]
            # The stage of the work is the one with a task for each thing; the last, if several have.
            done = [one.numCompletedTasks for one in stages if one and one.numTasks == total]
            if done:
                on_done(done[-1], total)

    watcher = threading.Thread(target=watch, name="milepost-watch", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        is_over.set()
        watcher.join()
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]  # None takes it back
    on_done(total, total)


def session(master: str) -> SparkSession:
    """A session for a pipeline."""
    from pyspark.sql import SparkSession

    if master.startswith("sc://"):
        # Spark Connect: the server has its own settings, and its own idea of the time zone.
        remote = SparkSession.builder.remote(master).getOrCreate()
        remote.conf.set("spark.sql.session.timeZone", "UTC")
        return remote
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = (
        SparkSession.builder.master(master)
        .appName("milepost")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.log.level", "ERROR")
    )
    if master.startswith("local"):
        # One machine, and Python does the work: a quick start is worth more than a fast JVM.
        builder = (
            builder.config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.sql.shuffle.partitions", "4")
            # Over TCP each task waits 45 ms: its worker and the JVM delay their ACKs.
            .config("spark.python.unix.domain.socket.enabled", "true")
            .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        )
    return builder.getOrCreate()
