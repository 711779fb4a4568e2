"""Exactly once, whatever fails: seeded runs that copy a topic while things fail, and look at what arrived.

Each run publishes batches, single and chunked messages, copies them topic to topic with random limits, by the
source's index or behind a shuffle by a unique key, while the broker is killed, commits fail before and after
they have done their work, tasks fail or their processes are killed in the middle of writing, and Spark
forgets its last commit as after a crash. Then every message must be there once: nothing more is tried than
one last run without a fault.

What is real: brokers and workers are killed by SIGKILL. All these runs share one JVM in `local[2,3]`, where
the driver cannot be killed; that is done to programs with a JVM of their own: in test_cluster.py, where an
executor is killed too, and here with `local[2,3]`. There are few of those, since each start costs what
several of the others do. `make campaign` makes many times as many of both kinds.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pulsar
import pytest
from compat.broker_process import BrokerProcess
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from stage.counts import campaign_count

import milepost.spark
from spark.cluster import Driver, wait_until
from spark.conftest import JAVA_VERSION_MIN, MESSAGE_SIZE_MAX, Publisher, java_version, values_of
from spark.faults import FAULTS, Faults, FaultySource
from spark.judged import anomalies_of

DRIVER_RUNS = campaign_count("MILEPOST_SPARK_RUNS", 1, 20)
IS_LONG = DRIVER_RUNS > 1
RUNS = 20 * DRIVER_RUNS if IS_LONG else 6
PATIENCE_S = 600
WORKER_PATIENCE_S = 600

KINDS = ("broker", "forget", *FAULTS)

# What happened, over all runs: a campaign whose faults do not strike proves nothing.
struck: Counter[str] = Counter()


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(
        tmp_path_factory.mktemp("own"), max_message_size=MESSAGE_SIZE_MAX, deduplication=True
    ) as process:
        yield process


def published(url: str, topic: str, random: Random) -> list[bytes]:
    client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    try:
        publisher = Publisher(client, topic)
        for _ in range(random.randint(2, 4)):
            publisher.batches(random.randint(2, 40), of=random.randint(2, 20))
            publisher.chunked(random.randint(70_000, 200_000))
            publisher.singles(random.randint(1, 5))
    finally:
        client.close()
    return publisher.values


@pytest.mark.parametrize("seed", range(RUNS))
def test_every_message_is_copied_once(
    spark: SparkSession, own: BrokerProcess, tmp_path: Path, seed: int
) -> None:
    random = Random(seed)
    spark.dataSource.register(FaultySource)
    source, target = (f"persistent://public/default/{name}-{seed}" for name in ("from", "to"))
    expected = published(own.url, source, random)
    by_key = seed % 3 == 2
    run = Run(spark, own, source, target, tmp_path, by_key, len(expected))
    # Every kind in turn, and another one with it.
    for kind in (KINDS[seed % len(KINDS)], random.choice(KINDS)):
        if run.copy(random, kind):
            break
    run.copy(random, None)
    found = values_of(own.url, target)
    assert not anomalies_of(expected, {target: found}, in_order=not by_key)


class Run:
    def __init__(
        self,
        spark: SparkSession,
        broker: BrokerProcess,
        source: str,
        target: str,
        path: Path,
        by_key: bool,
        count: int,
    ) -> None:
        self._spark = spark
        self._broker = broker
        self._source = source
        self._target = target
        self._checkpoint = path / "checkpoint"
        self._faults = path / "faults"
        self._by_key = by_key
        self._count = count

    def copy(self, random: Random, kind: str | None) -> bool:
        """Copy while a fault of this kind waits to happen. Is everything copied?"""
        self._faults.mkdir(exist_ok=True)
        killer = None
        if kind in FAULTS:
            Faults(str(self._faults)).tell(kind, random.randint(0, 3))
        elif kind == "broker":
            killer = threading.Timer(random.uniform(0.1, 3.0), self._broker.restart)
            killer.start()
        try:
            self._query(random)
            is_done = True
        except StreamingQueryException:
            if kind is None:
                raise
            is_done = False
        finally:
            if killer is not None:
                killer.join()
        if kind == "forget":
            is_done = not self._forget()
        elif kind == "broker" or (kind in FAULTS and not is_due(self._faults, kind)):
            struck[kind] += 1
        return is_done

    def _query(self, random: Random) -> None:
        deadline = time.monotonic() + WORKER_PATIENCE_S
        while True:
            try:
                self._attempt(random)
            except StreamingQueryException as error:
                # Spark gives a worker ten seconds to come up: no fault of ours where a machine is slower.
                is_slow = "Python worker failed to connect back" in str(error)
                if not is_slow or time.monotonic() > deadline:
                    raise
            else:
                return

    def _attempt(self, random: Random) -> None:
        connection = {"serviceUrl": self._broker.url, "timeout": "30s"}
        limits: dict[str, Any] = {
            "maxMessagesPerTrigger": random.randint(self._count // 4 + 1, self._count)
        }
        if random.random() < 0.5:
            limits["maxMessagesPerPartition"] = random.randint(1, 20)
        reader = self._spark.readStream.format("milepost")
        frame = reader.options(topic=self._source, **connection, **limits).load()
        how = {"topic": self._target, "delivery": "exactlyOnce", "faults": str(self._faults)}
        if self._by_key:
            frame = milepost.spark.arrange(frame.repartition(2), "index", tasks=2)
            how |= {"uniqueKey": "index", "mixed": "true"}
        query = (
            frame.writeStream.format("faulty")
            .options(**connection, **how, checkpointLocation=str(self._checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(PATIENCE_S)

    def _forget(self) -> bool:
        """As if Spark had died behind the sink's commit and before its own."""
        commits = list((self._checkpoint / "commits").glob("[0-9]*"))
        if not commits:
            return False
        last = max(commits, key=lambda path: int(path.name))
        last.unlink()
        last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
        struck["forget"] += 1
        return True


def is_due(faults: Path, kind: str) -> bool:
    """Does a fault still wait? Then it waits no longer."""
    waits = (faults / kind).exists()
    (faults / kind).unlink(missing_ok=True)
    return waits


def test_faults_of_every_kind_struck() -> None:
    if sum(struck.values()) < RUNS // 2:
        pytest.skip("the runs were not all made here")
    assert set(struck) == set(KINDS)


@pytest.mark.parametrize("seed", range(DRIVER_RUNS))
def test_every_message_is_copied_once_though_the_driver_is_killed(
    own: BrokerProcess, tmp_path: Path, seed: int
) -> None:
    if java_version() < JAVA_VERSION_MIN:
        pytest.skip("Spark needs Java 17 or newer")
    random = Random(1000 + seed)
    source, target = (f"persistent://public/default/{name}-driver-{seed}" for name in "ab")
    expected = published(own.url, source, random)
    checkpoint = tmp_path / "checkpoint"
    by_key = seed % 2 == 0
    job = {
        "job": "copy",
        "read": {
            "serviceUrl": own.url,
            "topic": source,
            "maxMessagesPerTrigger": len(expected) // 5 + 1,
        },
        "write": {
            "serviceUrl": own.url,
            "topic": target,
            "delivery": "exactlyOnce",
            "checkpointLocation": str(checkpoint),
        },
        "unique_key": "index" if by_key else None,
    }
    for attempt in range(random.randint(1, 3) if IS_LONG else 1):
        # A batch has been begun, or has been done: both are moments to die at.
        log = checkpoint / random.choice(("offsets", "commits"))
        wanted = random.randint(1, 2) + attempt

        def is_there(log: Path = log, wanted: int = wanted) -> bool:
            return len(list(log.glob("[0-9]*"))) >= wanted or not driver.is_running

        with Driver(tmp_path, master="local[2,3]", jobs=[job]) as driver:
            assert driver.result() == {"ready": True}
            wait_until(is_there, f"{wanted} of {log}")
            threading.Event().wait(random.uniform(0, 0.5))
            driver.kill()
    with Driver(tmp_path, master="local[2,3]", jobs=[job]) as driver:
        assert driver.result() == {"ready": True}
        assert "error" not in driver.result()
    found = values_of(own.url, target)
    assert not anomalies_of(expected, {target: found}, in_order=not by_key)
