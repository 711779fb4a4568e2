"""A live topic into Spark: rates, what each layer takes, the overhead of a micro-batch. Minutes, so `--full`.

The same messages go four ways, each with one layer more, so that the differences say where the time is:

    entries off the socket          the broker, the wire
    … decoded to Arrow              the compiled reader
    Arrow from memory → noop        Spark's hand-over from Arrow to its rows, the JVM
    the topic → noop                everything

Spark and its Python workers talk over Unix sockets, as docs/spark.md advises; `SPARK_UNIX=false` is TCP.

CPU seconds of a million messages are steadier than rates on a shared machine: those of the broker and of
Spark (the JVM and its Python workers) stand apart.
"""

from __future__ import annotations

import asyncio
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

import milepost.spark
from bench import Result, at_least, at_most
from bench.load.target import Target, started
from milepost.client.connection.endpoint import Endpoint
from milepost.spark.offsets import Slice
from milepost.spark.reading.fetch import BrokerFeed, fetch
from milepost.spark.reading.link import Link
from milepost.spark.values.columns import COLUMNS, ddl
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.batches import SingleMessage, join_batch
from milepost.wire.scanners.encode import send_frame

TOPIC = "persistent://public/default/bench"
BATCH = 1_000
MESSAGES = 400_000
# Messages that were not batched, of which each is an entry.
SINGLES_TOPIC = f"{TOPIC}-singles"
SINGLES = 100_000
ROUNDS = 2
# What Spark's Kafka source did on such a machine, at least.
KAFKA_RATE = 0.515
# The columns that it has.
KAFKA_COLUMNS = ("key", "value", "topic", "partition", "index", "publish_time")
MICRO_BATCHES = 20
_TICKS = os.sysconf("SC_CLK_TCK")


class HeldSource(DataSource):
    """Arrow batches from memory, as many rows as the topic has: what Spark alone takes."""

    @classmethod
    def name(cls) -> str:
        return "held"

    def schema(self) -> str:
        return ddl(self.options["columns"].split(","))

    def reader(self, schema: Any) -> DataSourceReader:
        return HeldReader(dict(self.options))


class HeldReader(DataSourceReader):
    def __init__(self, options: dict[str, str]) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        half = MESSAGES // 2
        return [InputPartition((0, half)), InputPartition((half, MESSAGES))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        first, end = partition.value
        columns = self._options["columns"].split(",")
        connection = Endpoint(url=self._options["serviceurl"])
        part = Slice(TOPIC, first, min(first + 40_000, end))
        *_, batch = fetch(connection, part, columns)
        left = end - first
        while left > 0:
            yield batch.slice(0, min(left, batch.num_rows))
            left -= batch.num_rows


class Receipts:
    """Counts what a producer on a link is told."""

    def __init__(self, link: Link, producer_id: int) -> None:
        self._link = link
        self._count = 0
        link.connection.producers[producer_id] = self

    def wait(self, count: int) -> None:
        """Until there are so many."""
        while self._count < count:
            self._link.wait(30.0)

    def receipt(self, receipt: object) -> None:
        self._count += 1
        self._link.heard()

    def send_error(self, error: object) -> None:
        raise RuntimeError(f"not stored: {error}")

    def detached(self, connection: object, reason: Exception, url: str | None) -> None:
        """The link was closed, or nothing more will be counted."""


def fill(url: str, messages: int = MESSAGES, topic: str = TOPIC) -> None:
    singles = [
        SingleMessage(
            pb.SingleMessageMetadata(partition_key=f"key-{at % 50}", payload_size=100), bytes(100)
        )
        for at in range(BATCH)
    ]
    payload = join_batch(singles)
    with Link.open(Endpoint(url=url), topic) as link:
        producer_id = link.next_id()
        link.ask(pb.CommandProducer(topic=topic, producer_id=producer_id, producer_name="bench"))
        receipts = Receipts(link, producer_id)
        for number in range(messages // BATCH):
            metadata = pb.MessageMetadata(
                producer_name="bench",
                sequence_id=number * BATCH,
                publish_time=1_794_741_333_444,
                num_messages_in_batch=BATCH,
            )
            frame = send_frame(
                producer_id,
                number * BATCH,
                metadata.SerializeToString(),
                payload,
                num_messages=BATCH,
            )
            link.write(*frame)
            receipts.wait(number - 50)
        receipts.wait(messages // BATCH)


def fill_singles(url: str) -> None:
    """The same messages, each on its own."""
    with Link.open(Endpoint(url=url), SINGLES_TOPIC) as link:
        producer_id = link.next_id()
        link.ask(pb.CommandProducer(topic=SINGLES_TOPIC, producer_id=producer_id))
        receipts = Receipts(link, producer_id)
        for first in range(0, SINGLES, BATCH):
            frames = []
            for number in range(first, first + BATCH):
                metadata = pb.MessageMetadata(
                    producer_name="bench",
                    sequence_id=number,
                    publish_time=1_794_741_333_444,
                    partition_key=f"key-{number % 50}",
                ).SerializeToString()
                frames += send_frame(producer_id, number, metadata, bytes(100), num_messages=1)
            link.write(*frames)
            receipts.wait(first + BATCH)


def own_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def tree_cpu(pid: int) -> float:
    """CPU seconds of a process and everything that it started and is there still."""
    parents, used = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            stat = path.read_text()
        except OSError:
            continue
        fields = stat[stat.rindex(")") + 2 :].split()
        one = int(path.parent.name)
        parents[one] = int(fields[1])
        used[one] = (int(fields[11]) + int(fields[12])) / _TICKS
    wanted, found = [pid], 0.0
    while wanted:
        one = wanted.pop()
        found += used.get(one, 0.0)
        wanted += [child for child, parent in parents.items() if parent == one]
    return found


def layers(target: Target) -> Iterator[Result]:
    connection = Endpoint(url=target.url)

    def entries() -> int:
        feed = BrokerFeed(connection, TOPIC)
        return sum(len(found) * BATCH for found in feed.entries(0, MESSAGES))

    def decoded() -> int:
        return sum(one.num_rows for one in fetch(connection, Slice(TOPIC, 0, MESSAGES)))

    def decoded_singles() -> int:
        return sum(one.num_rows for one in fetch(connection, Slice(SINGLES_TOPIC, 0, SINGLES)))

    fill_singles(target.url)
    for name, work, messages in (
        ("entries off the socket", entries, MESSAGES),
        ("… decoded, all columns", decoded, MESSAGES),
        ("the same of messages that were not batched", decoded_singles, SINGLES),
    ):
        work()
        best, reader, broker = 0.0, 9e9, 9e9
        for _ in range(ROUNDS):
            cpu, server, began = own_cpu(), target.cpu_seconds() or 0.0, time.perf_counter()
            assert work() == messages
            best = max(best, messages / (time.perf_counter() - began) / 1e6)
            reader = min(reader, own_cpu() - cpu)
            broker = min(broker, (target.cpu_seconds() or 0.0) - server)
        yield Result(f"one task without Spark: {name}", best, "M/s")
        scale = 1e6 / messages
        yield Result(f"  CPU a million: broker {broker * scale:.2f} s, reader", reader * scale, "s")


def session(jars: str = "") -> SparkSession:
    """Two cores; `jars` are paths with commas between."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join(p or os.getcwd() for p in sys.path)
    found = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.log.level", "ERROR")
        .config("spark.jars", jars)
        .config("spark.ui.showConsoleProgress", "false")
        # Over TCP Spark and its Python workers wait 45 ms a task for each other's delayed ACKs.
        .config("spark.python.unix.domain.socket.enabled", os.environ.get("SPARK_UNIX", "true"))
        .getOrCreate()
    )
    milepost.spark.register(found)
    found.dataSource.register(HeldSource)
    return found


def noop(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def timed(name: str, spark: SparkSession, target: Target, work: Callable[[], None]) -> Result:
    jvm: Any = spark.sparkContext._gateway  # type: ignore[attr-defined]
    work()
    best, cpus = 0.0, (9e9, 0.0)
    for _ in range(ROUNDS):
        server, tree = target.cpu_seconds() or 0.0, tree_cpu(jvm.proc.pid)
        began = time.perf_counter()
        work()
        best = max(best, MESSAGES / (time.perf_counter() - began) / 1e6)
        used = tree_cpu(jvm.proc.pid) - tree
        cpus = min(cpus, (used, (target.cpu_seconds() or 0.0) - server))
    used, served = (one * 1e6 / MESSAGES for one in cpus)
    label = f"{name} (CPU a million: Spark {used:.2f} s, broker {served:.2f} s)"
    is_promised = "→ noop, Kafka's" in name and "memory" not in name
    return at_least(label, best, "M/s", KAFKA_RATE) if is_promised else Result(label, best, "M/s")


def rates(spark: SparkSession, target: Target) -> Iterator[Result]:
    options = {"serviceUrl": target.url, "topic": TOPIC}
    for what, columns in (("Kafka's columns", KAFKA_COLUMNS), ("all columns", COLUMNS)):
        wanted = ",".join(columns)
        held = spark.read.format("held").options(serviceUrl=target.url, columns=wanted).load()
        yield timed(f"Arrow from memory → noop, {what}", spark, target, lambda one=held: noop(one))
        live = spark.read.format("milepost").options(columns=wanted, **options).load()
        yield timed(f"topic → noop, {what}", spark, target, lambda one=live: noop(one))

    def streamed() -> None:
        with tempfile.TemporaryDirectory() as folder:
            frame = spark.readStream.format("milepost").options(
                columns=",".join(KAFKA_COLUMNS), maxMessagesPerTrigger=500_000, **options
            )
            query = (
                frame.load()
                .writeStream.format("noop")
                .option("checkpointLocation", folder)
                .trigger(availableNow=True)
                .start()
            )
            assert query.awaitTermination(300)

    yield timed("topic → noop as a stream, start and end included", spark, target, streamed)


def overhead(spark: SparkSession, target: Target) -> Result:
    """Medians of small micro-batches: ours against Spark's own rate source."""
    sources = {
        "rate": spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 2),
        "milepost": spark.readStream.format("milepost").options(
            serviceUrl=target.url,
            topic=TOPIC,
            startingIndex=MESSAGES - 2 * MICRO_BATCHES,
            maxMessagesPerTrigger=2,
        ),
    }
    # Twice in turn: whoever is first warms Spark up for the others.
    found = dict.fromkeys(sources, 9e9)
    for _ in range(2):
        for name, source in sources.items():
            found[name] = min(found[name], _median_ms(source.load()))
    name = f"micro-batch: {found['milepost']:.0f} ms, of the rate source {found['rate']:.0f} ms"
    return at_most(f"{name}; more", found["milepost"] - found["rate"], "ms", 100)


def _median_ms(frame: DataFrame) -> float:
    """How long a trigger takes, once the first is done."""
    with tempfile.TemporaryDirectory() as folder:
        query = (
            frame.writeStream.format("noop")
            .option("checkpointLocation", folder)
            .trigger(processingTime="0 seconds")
            .start()
        )
        taken: dict[int, int] = {}
        deadline = time.monotonic() + 120
        while len(taken) < MICRO_BATCHES - 2 and time.monotonic() < deadline:
            for one in query.recentProgress:
                if one["numInputRows"] and one["batchId"]:
                    taken[one["batchId"]] = one["durationMs"]["triggerExecution"]
            time.sleep(0.2)
        query.stop()
    return statistics.median(taken.values())


def run() -> Iterator[Result]:
    """Each as soon as it is known: all of it takes a while."""
    from bench import spark_lake  # which needs what is here

    broker = started()
    with asyncio.Runner() as runner:
        target = runner.run(broker.__aenter__())
        try:
            fill(target.url)
            yield from layers(target)
            yield from spark_lake.memory(target)
            spark = session()
            try:
                yield overhead(spark, target)
                yield from rates(spark, target)
                yield from spark_lake.lakes(spark, target)
            finally:
                spark.stop()
        finally:
            runner.run(broker.__aexit__(None, None, None))
