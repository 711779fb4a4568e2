"""An archive that is killed with everything it started, at random moments, and started again: equal.

`make campaign` makes ten times as many runs. The seed of a run is in its name.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession
from stage.counts import campaign_count

from milepost.client.connection.endpoint import Endpoint
from milepost.spark.options import ReadOptions
from milepost.spark.pipelines.archive import archive
from milepost.spark.pipelines.lake.lakes import open_lake
from milepost.spark.pipelines.lake.parts import read_part
from milepost.spark.pipelines.verify import verify
from spark.judged import anomalies_of

RUNS = (campaign_count("MILEPOST_SPARK_RUNS", 1, 20) + 1) // 2
KILLS = 3


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["parquet", "delta"])
@pytest.mark.parametrize("seed", range(RUNS))
def test_every_message_is_archived_once(
    spark: SparkSession,
    broker: Any,
    publisher: Any,
    topic: str,
    tmp_path: Path,
    kind: str,
    seed: int,
) -> None:
    random = Random(seed)
    command = [
        sys.executable,
        "-m",
        "milepost.cli.main",
        "pipeline",
        "archive",
        topic,
        str(tmp_path),
    ]
    command += ["--follow", "--every", "0", "--merge", "3", "--step", "40", "--format", kind]
    command += ["--url", broker.url, "--master", "local[2]"]
    publisher.batches(60, of=9)
    reached = 0
    for _ in range(KILLS):
        # A session of its own: Spark's JVM and workers are killed with it, as by a power cut.
        with subprocess.Popen(command, start_new_session=True) as running:
            stop = threading.Event()
            for _ in range(600):
                now = sum(open_lake(tmp_path).end.values())
                if now > reached:
                    break
                assert running.poll() is None
                stop.wait(0.1)
            # It has begun to publish steps: somewhere in the next ones it dies.
            publisher.batches(random.randint(1, 60), of=random.randint(1, 20))
            publisher.chunked(random.randint(70_000, 200_000))
            stop.wait(random.uniform(0.0, 1.5))
            os.killpg(running.pid, signal.SIGKILL)
        reached = sum(open_lake(tmp_path).end.values())
    options = ReadOptions(Endpoint(url=broker.url), topics=(topic,))
    archive(spark, options, tmp_path)
    lake = open_lake(tmp_path)
    archived = [
        bytes(value)
        for part in sorted(lake.parts, key=lambda part: part.first_index)
        for batch in read_part(str(tmp_path), part, ("value",))
        for value in batch.column("value").to_pylist()
    ]
    assert anomalies_of(publisher.values, {topic: archived}, in_order=True) == []
    # It compares indexes, keys, properties and times with the topic's own, too.
    found = verify(spark, Endpoint(url=broker.url), tmp_path)
    assert (found.messages, found.problems) == (len(publisher.values), [])
