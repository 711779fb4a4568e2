"""Spark reading Milepost against Spark reading Kafka by its own source: the same rows, one session, in turns.

    MILEPOST_PEER=… python -m bench spark-kafka             # a program that runs a Kafka and has the jars
    KAFKA_BOOTSTRAP=127.0.0.1:9092 SPARK_KAFKA_JARS=… python -m bench spark-kafka

`bench/peers.py` says what such a program does; `$MILEPOST_PEER jars spark-kafka` prints the folder with the
jars of Spark's Kafka source. Without either there is nothing to compare with, and one line says so. `--full`
takes 2,000,000 rows instead of 500,000; `SPARK_KAFKA_ONLY=stream` some of it.

Both topics have one partition, split over two tasks, in batches of 1,000 messages of 100 B with keys. Each
workload is run once to warm up and then in turns; the best round of each counts, as a shared machine only
ever adds. Of a stream two rates are shown: from `start()` to the end of the query, and of its micro-batches
but the first alone, by Spark's own times, which leaves out what starting and ending a query takes.

Both sources are as they are loaded, without choosing columns. Two more are shown beside them: at the end of a
topic Kafka holds back an answer for half a second, for more to come, and one of its sources asks not to wait
(`fetch.max.wait.ms`); one of ours has only the columns that Kafka's source has.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession

import bench
from bench import Result, at_least, peers
from bench.load.target import started
from bench.spark_live import KAFKA_COLUMNS, TOPIC, fill, noop, session

KAFKA_TOPIC = "bench"
ROUNDS = 3
TASKS = 2
TRIGGERS = 4

# Our rate by Kafka's, at least: at work, and of a stream with what starting it takes.
AT_WORK = 1.2
WITH_START = 1.0


class Kafka(NamedTuple):
    bootstrap: str
    jars: str
    """Paths with commas between, as `spark.jars` takes them."""


class Pass(NamedTuple):
    """One way through the rows: rows a second in all, and of a stream without start and end."""

    whole: float
    steady: float | None = None


@contextmanager
def kafka() -> Iterator[Kafka]:
    """The one that the environment names, or one of its own for as long as it is wanted."""
    bootstrap, jars = os.environ.get("KAFKA_BOOTSTRAP"), os.environ.get("SPARK_KAFKA_JARS")
    if bootstrap and jars:
        yield Kafka(bootstrap, _jars(jars))
        return
    jars = peers.jars("spark-kafka")
    with peers.running("kafka") as peer:
        yield Kafka(peer.address, _jars(jars))


def _jars(folder: str) -> str:
    jars = sorted(str(one) for one in Path(folder).glob("*.jar"))
    if not jars:
        raise peers.Unavailable(f"there are no jars in {folder}")
    return ",".join(jars)


def fill_kafka(spark: SparkSession, bootstrap: str, messages: int) -> None:
    """The same keys and values, in record batches of about as many."""
    rows = spark.range(0, messages, 1, 1).selectExpr(
        "CAST(concat('key-', id % 50) AS BINARY) AS key",
        "CAST(repeat('x', 100) AS BINARY) AS value",
    )
    (
        rows.write.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("kafka.batch.size", 128 << 10)
        .option("kafka.linger.ms", 100)
        .option("topic", KAFKA_TOPIC)
        .save()
    )


class Comparison:
    """Both sources over the same rows."""

    def __init__(self, spark: SparkSession, url: str, bootstrap: str, messages: int) -> None:
        self._spark = spark
        self._messages = messages
        per_trigger = messages // TRIGGERS
        ours = {"serviceUrl": url, "topic": TOPIC, "minPartitions": TASKS}
        theirs = {
            "kafka.bootstrap.servers": bootstrap,
            "subscribe": KAFKA_TOPIC,
            "startingOffsets": "earliest",
            "minPartitions": TASKS,
        }
        # By source: format, options, and those that a stream has besides.
        self._sources = {
            "milepost": ("milepost", ours, {"maxMessagesPerTrigger": per_trigger}),
            "kafka": ("kafka", theirs, {"maxOffsetsPerTrigger": per_trigger}),
            "kafka that does not wait": (
                "kafka",
                {**theirs, "kafka.fetch.max.wait.ms": 10},
                {"maxOffsetsPerTrigger": per_trigger},
            ),
            "milepost, the columns of Kafka's": (
                "milepost",
                {**ours, "columns": ",".join(KAFKA_COLUMNS)},
                {"maxMessagesPerTrigger": per_trigger},
            ),
        }

    def results(self) -> Iterator[Result]:
        only = os.environ.get("SPARK_KAFKA_ONLY", "")
        for name, work in (
            ("batch → noop", self.batch_noop),
            ("batch → Parquet", self.batch_parquet),
            ("stream, AvailableNow → noop", self.stream_now),
            ("stream, one micro-batch after another → noop", self.stream_on),
            ("stream, AvailableNow → Parquet", self.stream_parquet),
        ):
            if only in name:
                yield from self._turns(name, work)

    def _turns(self, name: str, work: Callable[[str], Pass]) -> Iterator[Result]:
        passes: dict[str, list[Pass]] = {source: [] for source in self._sources}
        for number in range(ROUNDS + 1):
            for source, taken in passes.items():
                one = work(source)
                if number:  # the first warms up
                    taken.append(one)
        is_stream = passes["milepost"][0].steady is not None
        whole = [max(one.whole for one in taken) for taken in passes.values()]
        yield _ratio(name, whole, WITH_START if is_stream else AT_WORK)
        if is_stream:
            steady = [
                max(one.steady for one in taken if one.steady is not None)
                for taken in passes.values()
            ]
            yield _ratio("  its micro-batches", steady, AT_WORK)

    def batch_noop(self, source: str) -> Pass:
        return self._timed(lambda: noop(self._batch(source)))

    def batch_parquet(self, source: str) -> Pass:
        with tempfile.TemporaryDirectory(prefix="milepost-bench-") as folder:
            return self._timed(
                lambda: self._batch(source).write.mode("overwrite").parquet(f"{folder}/out")
            )

    def stream_now(self, source: str) -> Pass:
        with tempfile.TemporaryDirectory(prefix="milepost-bench-") as folder:
            return self._streamed(self._stream(source, folder).format("noop"), ends=True)

    def stream_on(self, source: str) -> Pass:
        with tempfile.TemporaryDirectory(prefix="milepost-bench-") as folder:
            return self._streamed(self._stream(source, folder).format("noop"), ends=False)

    def stream_parquet(self, source: str) -> Pass:
        with tempfile.TemporaryDirectory(prefix="milepost-bench-") as folder:
            writer = self._stream(source, folder).format("parquet").option("path", f"{folder}/out")
            return self._streamed(writer, ends=True)

    def _timed(self, work: Callable[[], None]) -> Pass:
        began = time.perf_counter()
        work()
        return Pass(self._messages / (time.perf_counter() - began))

    def _batch(self, source: str) -> DataFrame:
        kind, options, _ = self._sources[source]
        return self._spark.read.format(kind).options(**options).load()

    def _stream(self, source: str, folder: str) -> Any:
        kind, options, limits = self._sources[source]
        frame = self._spark.readStream.format(kind).options(**options, **limits).load()
        return frame.writeStream.option("checkpointLocation", f"{folder}/checkpoint")

    def _streamed(self, writer: Any, *, ends: bool) -> Pass:
        """Run a query over all rows; `ends`: by AvailableNow, otherwise stopped when it has them."""
        trigger = {"availableNow": True} if ends else {"processingTime": "0 seconds"}
        began = time.perf_counter()
        query = writer.trigger(**trigger).start()
        if ends:
            assert query.awaitTermination(300)
        else:
            while sum(one["numInputRows"] for one in query.recentProgress) < self._messages:
                assert query.isActive, query.exception()
                time.sleep(0.05)
        took = time.perf_counter() - began
        batches = [one for one in query.recentProgress if one["numInputRows"]]
        query.stop()
        assert sum(one["numInputRows"] for one in batches) == self._messages
        if os.environ.get("SPARK_KAFKA_SHOW"):
            for one in batches:
                print("   ", one["numInputRows"], one["durationMs"])
        later = [one for one in batches if one["batchId"]]
        seconds = sum(one["durationMs"]["triggerExecution"] for one in later) / 1000
        return Pass(self._messages / took, sum(one["numInputRows"] for one in later) / seconds)


def _ratio(name: str, rates: list[float], wanted: float) -> Result:
    """The rates of all sources, and ours as it is loaded by Kafka's as it is loaded."""
    ours, theirs, quick, same = (one / 1e6 for one in rates)
    label = (
        f"{name}: {ours:.2f} M/s; Kafka's {theirs:.2f}, not waiting {quick:.2f}; with Kafka's columns "
        f"{same:.2f}"
    )
    return at_least(label, ours / theirs, "×", wanted)


def run() -> Iterator[Result]:
    messages = 2_000_000 if bench.FULL else 500_000
    try:
        with kafka() as found, asyncio.Runner() as runner:
            broker = started()
            target = runner.run(broker.__aenter__())
            try:
                fill(target.url, messages)
                spark = session(found.jars)
                try:
                    fill_kafka(spark, found.bootstrap, messages)
                    yield from Comparison(spark, target.url, found.bootstrap, messages).results()
                finally:
                    spark.stop()
            finally:
                runner.run(broker.__aexit__(None, None, None))
    except peers.Unavailable as reason:
        print(f"  not compared with Kafka: {reason}", flush=True)
