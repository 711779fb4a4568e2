"""A stream to two topics in transactions, whose driver and workers are killed at random moments.

Each run starts Spark in a process of its own and kills it, with its JVM or one of its Python workers, once or
several times, then lets it run to its end from the checkpoint. While it is down both topics must agree: a
batch is in both or in none. In the end every message is in both, once. `make campaign` makes twenty runs.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from compat.broker_process import BrokerProcess

from spark.cluster import Driver, children, command, wait_until
from spark.conftest import JAVA_VERSION_MIN, MESSAGE_SIZE_MAX, java_version, values_of
from spark.judged import anomalies_of
from spark.test_campaign import DRIVER_RUNS, IS_LONG, published

RUNS = DRIVER_RUNS
# Of the two topics.
PARTITIONS = (1, 2)

struck: Counter[str] = Counter()


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    if java_version() < JAVA_VERSION_MIN:
        pytest.skip("Spark needs Java 17 or newer")
    with BrokerProcess(
        tmp_path_factory.mktemp("own"), max_message_size=MESSAGE_SIZE_MAX
    ) as process:
        yield process


def workers(driver: Driver) -> list[int]:
    """The Python processes that run tasks."""
    found, parents = [], {driver.pid}
    while parents:
        below = children(parents)
        found += [pid for pid in below if "pyspark.daemon" in command(pid)]
        parents = set(below)
    return found


@pytest.mark.parametrize("seed", range(RUNS))
def test_both_topics_hold_each_batch_once_or_not_at_all(
    own: BrokerProcess, tmp_path: Path, seed: int
) -> None:
    random = Random(seed)
    source, *topics = (f"persistent://public/default/{name}-{seed}" for name in ("from", "a", "b"))
    expected = published(own.url, source, random)
    for topic, partitions in zip(topics, PARTITIONS, strict=True):
        own.create_partitioned_topic(topic, partitions)
    checkpoint = tmp_path / "checkpoint"
    job = {
        "job": "split",
        "read": {
            "serviceUrl": own.url,
            "topic": source,
            "maxMessagesPerTrigger": len(expected) // 6 + 1,
        },
        "write": {
            "serviceUrl": own.url,
            "transactional": "true",
            "checkpointLocation": str(checkpoint),
        },
        "topics": topics,
    }

    def is_begun(log: str, count: int) -> bool:
        return len(list((checkpoint / log).glob("[0-9]*"))) >= count or not driver.is_running

    for attempt in range(random.randint(1, 2) if IS_LONG else 1):
        with Driver(tmp_path, master="local[2,3]", jobs=[job]) as driver:
            assert driver.result() == {"ready": True}
            # A batch has been begun, or has been done: both are moments to die at.
            log, count = random.choice(("offsets", "commits")), random.randint(1, 2) + attempt
            wait_until(lambda: is_begun(log, count), f"{count} of {log}")  # noqa: B023
            threading.Event().wait(random.uniform(0, 1.0))
            if random.random() < 0.3:
                for pid in workers(driver)[-1:]:
                    os.kill(pid, signal.SIGKILL)
                    struck["worker"] += 1
                threading.Event().wait(random.uniform(0, 0.5))
            if driver.is_running:
                struck["driver"] += 1
            driver.kill()
        rows = both(own.url, topics)
        assert not anomalies_of(expected, rows, in_order=False, is_done=False)
    with Driver(tmp_path, master="local[2,3]", jobs=[job]) as driver:
        assert driver.result() == {"ready": True}
        assert "error" not in driver.result()
    assert not anomalies_of(expected, both(own.url, topics), in_order=False)


def test_drivers_were_killed() -> None:
    if not struck:
        pytest.skip("the runs were not made here")
    assert struck["driver"] >= RUNS // 2


def both(url: str, topics: list[str]) -> dict[str, list[bytes]]:
    """What both topics hold at one moment: a worker that outlives its driver may still commit a batch."""
    while True:
        one, other = (held(url, *pair) for pair in zip(topics, PARTITIONS, strict=True))
        if held(url, topics[0], PARTITIONS[0]) == one:
            return dict(zip(topics, (one, other), strict=True))


def held(url: str, topic: str, partitions: int) -> list[bytes]:
    names = [f"{topic}-partition-{number}" for number in range(partitions)]
    return [value for name in names for value in values_of(url, name)]
