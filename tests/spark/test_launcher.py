"""Queries of a registered source start with the installed PySpark, everything else as Spark starts it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from pyspark.sql import SparkSession

from milepost.spark.launcher import installed_pyspark, launcher


def test_the_archives_are_left_out_and_nothing_else() -> None:
    path = "/a b/x:/s/python/lib/pyspark.zip:/s/python/lib/py4j-0.10.9.9-src.zip:/c/pyspark"
    program = "import os, sys; print(os.environ['PYTHONPATH'], *sys.argv[1:])"
    done = subprocess.run(
        [launcher(sys.executable), "-c", program, "o n"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "/a b/x:/c/pyspark o n\n"


def test_only_what_is_registered_is_started_so(spark: SparkSession) -> None:
    before = spark.sparkContext.pythonExec
    with installed_pyspark(spark):
        assert spark.sparkContext.pythonExec == launcher(before)
    assert spark.sparkContext.pythonExec == before


def test_a_stream_is_planned_with_compiled_modules(
    spark: SparkSession, publisher: Any, streaming: Any, tmp_path: Any
) -> None:
    """Its process imports PySpark from a directory: that is what takes a third of the time."""
    publisher.singles(3)
    query = (
        streaming().load().writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path))
        .start()
    )  # fmt: skip
    try:
        query.processAllAvailable()
        found = [
            one
            for one in os.listdir("/proc")
            if one.isdecimal() and b"python_streaming_source_runner" in _read(one, "cmdline")
        ]
        assert found
        assert not any(b"pyspark.zip" in _read(one, "environ") for one in found)
    finally:
        query.stop()


def _read(pid: str, name: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:  # ended in the meantime
        return b""
