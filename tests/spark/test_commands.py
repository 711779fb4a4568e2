"""`milepost pipeline`, as a person runs it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from milepost.spark.pipelines.lake import Lake

PATIENCE_S = 150


def milepost(*args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "milepost.cli.main", *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_archive_until_told_to_stop_and_verify(
    spark: SparkSession, broker: Any, publisher: Any, topic: str, tmp_path: Path
) -> None:
    # The session is there for its check of Java only: the command has one of its own.
    publisher.batches(12, of=5)
    lake = tmp_path / "lake"
    common = ["--url", broker.url, "--master", "local[1]", "-o", "json"]
    with milepost("pipeline", "archive", topic, str(lake), "--follow", *common) as running:
        try:
            deadline = time.monotonic() + PATIENCE_S
            while Lake.load(lake).end.get(topic) != 12 and running.poll() is None:
                assert time.monotonic() < deadline
                time.sleep(0.1)  # sleep: between two looks at another process's files
            running.send_signal(signal.SIGTERM)
            said, complaint = running.communicate(timeout=PATIENCE_S)
        finally:
            running.kill()
    assert running.returncode == 0, complaint
    (summary,) = json.loads(said)
    assert (summary["messages"], summary["end"]) == (12, 12)
    damaged = lake / Lake.load(lake).files[0].path
    damaged.write_bytes(b"no parquet")
    with milepost("pipeline", "verify", str(lake), *common) as running:
        _, complaint = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 7
    assert f"{damaged.name} cannot be read" in complaint
