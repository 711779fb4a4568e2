"""A standalone Master with two Workers: source, sink and pipeline on executors that only have the wheel,
while the driver and an executor are killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from spark.cluster import Cluster, Driver, bare_python, installed, wait_until, wheel
from spark.conftest import JAVA_VERSION_MIN, java_version, values_of
from spark.test_campaign import IS_LONG


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if java_version() < JAVA_VERSION_MIN:
        pytest.skip("Spark needs Java 17 or newer")
    with Cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bare_python(tmp_path_factory.mktemp("python"))


def committed(checkpoint: Path) -> int:
    """Batches that a query has done."""
    return len(list((checkpoint / "commits").glob("[0-9]*")))


def test_executors_without_the_module_say_which_and_take_the_wheel(
    cluster: Cluster,
    archive: Path,
    python: Path,
    publisher: Any,
    broker: Any,
    topic: str,
    tmp_path: Path,
) -> None:
    """The wheel is given to them as docs/spark.md says."""
    publisher.batches(10, of=10)
    count = {"job": "count", "serviceUrl": broker.url, "topic": topic}
    jobs = [count, {**count, "ship": str(archive)}]
    with Driver(tmp_path, modules=archive, master=cluster.url, python=python, jobs=jobs) as driver:
        assert driver.result() == {"ready": True}
        assert "No module named 'milepost'" in driver.result()["error"]
        assert driver.result() == {"count": 10, "package": f"{archive}/milepost/__init__.py"}


def test_a_copy_is_whole_though_driver_and_executor_are_killed(
    cluster: Cluster,
    archive: Path,
    python: Path,
    publisher: Any,
    broker: Any,
    topic: str,
    tmp_path: Path,
) -> None:
    random = Random(8)
    for _ in range(5):
        publisher.batches(30, of=7)
        publisher.chunked(150_000)
        publisher.singles(2)
    target, checkpoint = f"{topic}-copy", tmp_path / "checkpoint"
    count = {"job": "count", "serviceUrl": broker.url, "topic": topic, "minPartitions": 3}
    copy = {
        "job": "copy",
        "read": {"serviceUrl": broker.url, "topic": topic, "maxMessagesPerTrigger": 25},
        "write": {
            "serviceUrl": broker.url,
            "topic": target,
            "delivery": "exactlyOnce",
            "checkpointLocation": str(checkpoint),
        },
    }
    lakes = [
        {
            "job": "lake",
            "serviceUrl": broker.url,
            "topic": topic,
            "kind": kind,
            "directory": str(tmp_path / kind),
            "maxMessagesPerTrigger": "90",
        }
        for kind in (("parquet", "delta") if IS_LONG else ("delta",))
    ]
    modules = installed(archive, tmp_path / "installed")
    settings = {"master": cluster.url, "python": python, "executor_path": str(modules)}
    first, second = random.randint(1, 2), random.randint(3, 5)
    with Driver(tmp_path / "1", modules=modules, jobs=[count, copy], **settings) as driver:
        assert driver.result() == {"ready": True}
        said = driver.result()
        assert said["count"] == len(publisher.values)
        assert said["package"].startswith(str(modules))
        wait_until(lambda: committed(checkpoint) >= first or not driver.is_running, "a few batches")
        driver.kill()
    with Driver(tmp_path / "2", modules=modules, jobs=[copy, *lakes], **settings) as driver:
        assert driver.result() == {"ready": True}
        wait_until(lambda: committed(checkpoint) >= second or not driver.is_running, "more of them")
        os.kill(random.choice(cluster.executors()), signal.SIGKILL)
        assert "error" not in driver.result()
        for _ in lakes:
            assert driver.result() == {
                "archived": len(publisher.values),
                "merged": True,
                "verified": len(publisher.values),
                "problems": [],
            }
    assert committed(checkpoint) > second
    assert values_of(broker.url, target) == publisher.values
