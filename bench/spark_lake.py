"""Topics into lakes and out of them again, and what a task keeps in memory. Part of `--full spark`.

the topic → Parquet, by Spark's own writer
the topic → a lake, by `milepost pipeline archive`
milepost.spark.table → noop          against Spark reading the same files by itself
chunked messages of 5 MiB            the memory of a process that reads few of them, and many
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from pyspark.sql import SparkSession

import milepost.spark
from bench import Result, at_least, at_most
from bench.load.target import Target
from bench.spark_live import KAFKA_COLUMNS, TOPIC, Receipts, fill, noop
from milepost.client.connection.endpoint import Endpoint
from milepost.spark.options import read_options
from milepost.spark.pipelines.archive import archive
from milepost.spark.pipelines.lake.lakes import open_lake
from milepost.spark.reading.link import Link
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.scanners.encode import send_frame

ROUNDS = 3
MESSAGES = 1_000_000
LAKE_TOPIC = f"{TOPIC}-lake"
CHUNKED_TOPIC = f"{TOPIC}-chunked"
CHUNKS, CHUNK_SIZE = 5, 1 << 20
FEW, MANY = 5, 60

# What a task does, in a process of its own. It prints the most memory that it ever had, in KiB: not by
# getrusage, which counts what the process was forked from.
_READ = """
import sys
from pathlib import Path
from milepost.spark.reading.fetch import fetch
from milepost.spark.offsets import Slice
from milepost.client.connection.endpoint import Endpoint
url, topic, end = sys.argv[1:]
for batch in fetch(Endpoint(url=url), Slice(topic, 0, int(end)), ("index", "value")):
    del batch
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print(status["VmHWM"].split()[0])
"""


def best(work: Callable[[], None], messages: int = MESSAGES) -> float:
    """Millions a second, behind a round that warms up."""
    work()
    taken = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return messages / min(taken) / 1e6


def lakes(spark: SparkSession, target: Target) -> Iterator[Result]:
    fill(target.url, MESSAGES, LAKE_TOPIC)
    options = {"serviceUrl": target.url, "topic": LAKE_TOPIC}
    live = spark.read.format("milepost").options(**options)
    with tempfile.TemporaryDirectory(prefix="milepost-bench-") as folder:
        narrow = live.option("columns", ",".join(KAFKA_COLUMNS)).load()
        figure = best(lambda: narrow.write.mode("overwrite").parquet(f"{folder}/spark"))
        yield Result("topic → Parquet, Kafka's columns, by Spark's writer", figure, "M/s")
        rounds = iter(range(ROUNDS + 1))

        def archived() -> None:
            made = archive(spark, read_options(options), Path(folder, f"lake-{next(rounds)}"))
            assert made.messages == MESSAGES

        yield Result("topic → lake, all columns, by the archive", best(archived), "M/s")
        lake = Path(folder, "lake-0")
        paths = open_lake(lake).paths([LAKE_TOPIC])
        for what, columns in (("all columns", ["*"]), ("index alone", ["index"])):
            native = spark.read.parquet(*paths).select(*columns)
            joined = milepost.spark.table(spark, LAKE_TOPIC, lake, serviceUrl=target.url).select(
                *columns
            )
            alone = best(lambda frame=native: noop(frame))
            ours = best(lambda frame=joined: noop(frame))
            label = f"archived table → noop, {what}: {ours:.2f} M/s, plain Parquet {alone:.2f}"
            yield (
                at_least(label, ours / alone, "×", 0.8)
                if what == "all columns"
                else Result(f"{label}; more", (1 / ours - 1 / alone) * MESSAGES / 1000, "ms")
            )


def memory(target: Target) -> Iterator[Result]:
    payload = bytes(CHUNK_SIZE)
    with Link.open(Endpoint(url=target.url), CHUNKED_TOPIC) as link:
        producer_id = link.next_id()
        link.ask(pb.CommandProducer(topic=CHUNKED_TOPIC, producer_id=producer_id))
        receipts = Receipts(link, producer_id)
        for number in range(MANY * CHUNKS):
            metadata = pb.MessageMetadata(
                producer_name="bench",
                sequence_id=number // CHUNKS,
                publish_time=1_794_741_333_444,
                uuid=f"bench-{number // CHUNKS}",
                chunk_id=number % CHUNKS,
                num_chunks_from_msg=CHUNKS,
                total_chunk_msg_size=CHUNKS * CHUNK_SIZE,
            )
            frame = send_frame(
                producer_id, number // CHUNKS, metadata.SerializeToString(), payload, num_messages=1
            )
            link.write(*frame)
            receipts.wait(number + 1)
    few, many = (
        int(
            subprocess.run(
                [sys.executable, "-c", _READ, target.url, CHUNKED_TOPIC, str(count * CHUNKS)],
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )
        / 1024
        for count in (FEW, MANY)
    )
    label = f"memory of a task: {FEW} chunked messages of 5 MiB {few:.0f} MiB; {MANY} more by"
    yield at_most(label, many - few, "MiB", 32)
