"""Exactly once, whatever fails: brokers killed, queries that die before and after their commit, at random.

Each run publishes batches, single and chunked messages, copies them topic to topic with random limits while
things fail, and looks at what arrived: every message once, in order. The seed of a run is in its name.
`MILEPOST_CAMPAIGN=long` makes it twenty times as many.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pulsar
import pytest
from compat.broker_process import BrokerProcess
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from spark.conftest import MESSAGE_SIZE_MAX, Publisher

RUNS = 20 if os.environ.get("MILEPOST_CAMPAIGN") == "long" else 1
ATTEMPTS_MAX = 30
PATIENCE_S = 120


@pytest.fixture
def own(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(
        tmp_path / "broker", max_message_size=MESSAGE_SIZE_MAX, deduplication=True
    ) as process:
        yield process


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(RUNS))
def test_every_message_is_copied_once(
    spark: SparkSession, own: BrokerProcess, tmp_path: Path, seed: int
) -> None:
    random = Random(seed)
    source, target = (f"persistent://public/default/{name}-{seed}" for name in ("from", "to"))
    checkpoint = tmp_path / "checkpoint"
    client = pulsar.Client(own.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    publisher = Publisher(client, source)
    for _ in range(random.randint(3, 6)):
        publisher.batches(random.randint(2, 60), of=random.randint(2, 20))
        publisher.chunked(random.randint(70_000, 300_000))
        publisher.singles(random.randint(1, 5))
    client.shutdown()

    for attempt in range(ATTEMPTS_MAX):
        fails = attempt < 3
        # The later in the query, the more of it is done when the broker dies.
        killer = threading.Timer(random.uniform(0.2, 4.0), own.restart) if fails else None
        if killer is not None:
            killer.start()
        try:
            copy(spark, own, source, target, checkpoint, random)
            is_done = True
        except StreamingQueryException:
            is_done = False
        if killer is not None:
            killer.join()
            _forget_commits(checkpoint, random)
        elif is_done:
            break
    frame = spark.read.format("milepost").options(serviceUrl=own.url, topic=target).load()
    found = [bytes(row.value) for row in frame.orderBy("index").collect()]
    assert found == publisher.values


def copy(
    spark: SparkSession,
    broker: BrokerProcess,
    source: str,
    target: str,
    checkpoint: Path,
    random: Random,
) -> None:
    limits: dict[str, Any] = {"maxMessagesPerTrigger": random.randint(5, 60)}
    if random.random() < 0.5:
        limits["maxMessagesPerPartition"] = random.randint(1, 20)
    query = (
        spark.readStream.format("milepost")
        .options(serviceUrl=broker.url, topic=source, timeout="10s", **limits)
        .load()
        .writeStream.format("milepost")
        .options(
            serviceUrl=broker.url,
            topic=target,
            timeout="10s",
            delivery="exactlyOnce",
            checkpointLocation=str(checkpoint),
        )
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(PATIENCE_S)


def _forget_commits(checkpoint: Path, random: Random) -> None:
    """As if Spark had died behind the sink's commit and before its own."""
    commits = sorted(
        (path for path in (checkpoint / "commits").glob("[0-9]*")), key=lambda path: int(path.name)
    )
    if commits and random.random() < 0.7:
        path = commits[-1]
        path.unlink()
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
