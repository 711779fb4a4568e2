"""The package: what it shows, and that importing it needs no Spark."""

from __future__ import annotations

import subprocess
import sys

import milepost.spark


def test_the_public_names() -> None:
    assert milepost.spark.__all__ == ["register", "arrange", "follow", "table"]


def test_importing_it_imports_neither_spark_nor_arrow() -> None:
    code = (
        "import sys, milepost, milepost.spark\n"
        "print([name for name in ('pyspark', 'pyarrow', 'numba') if name in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


def test_planning_a_stream_imports_nothing_that_only_tasks_need() -> None:
    """Every streaming query starts a process to be planned in, and waits for it."""
    code = (
        "import sys, milepost.spark.source\n"
        "slow = ('numba', 'pyarrow.compute', 'fastavro', 'milepost.admin', 'milepost.spark.writing.sink')\n"
        "print([name for name in slow if name in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"
