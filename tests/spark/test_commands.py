"""`milepost pipeline`, as a person runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

# A fetch that gets nothing now and then makes these wait for minutes. Until that is found they have a target
# of their own: `make pipelines`.
pytestmark = pytest.mark.skipif(
    os.environ.get("MILEPOST_PIPELINES") != "1", reason="run by `make pipelines`"
)


def milepost(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "milepost.cli.main", *args],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_archive_and_verify(
    spark: SparkSession, broker: Any, publisher: Any, topic: str, tmp_path: Path
) -> None:
    # The session is there for its check of Java only: the command has one of its own.
    publisher.batches(12, of=5)
    lake = str(tmp_path / "lake")
    common = ["--url", broker.url, "--master", "local[1]", "-o", "json"]
    done = milepost("pipeline", "archive", topic, lake, *common)
    assert done.returncode == 0, done.stderr
    (said,) = json.loads(done.stdout)
    assert (said["messages"], said["end"]) == (12, 12)
    damaged = next(Path(lake, "data").iterdir())
    damaged.write_bytes(b"no parquet")
    done = milepost("pipeline", "verify", lake, *common)
    assert done.returncode == 7
    assert f"{damaged.name} cannot be read" in done.stderr
