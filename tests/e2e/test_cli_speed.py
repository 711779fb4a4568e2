"""The start of the command line, against what Python and click alone cost: pleasant to script.

CPU time and not the clock, because a busy machine stretches the clock. A busy machine stretches CPU
time too, so the measure is taken in turns with the command, and the least of several turns counts.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.conftest import ENVIRONMENT, Serving

HELP_RATIO_MAX = 3.0
CALL_RATIO_MAX = 6.0
RUNS = 7

MEASURE = "import click, json, urllib.parse"
ENTRY = "from milepost.cli.main import main; main()"


def cpu_ms(*args: str) -> float:
    """CPU time of a child, user and system."""
    process = subprocess.Popen(
        [sys.executable, *args],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=ENVIRONMENT,
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return (usage.ru_utime + usage.ru_stime) * 1000


def check(words: list[str], ratio_max: float) -> None:
    turns = [(cpu_ms("-c", MEASURE), cpu_ms("-c", ENTRY, *words)) for _ in range(RUNS)]
    measure, took = (min(column) for column in zip(*turns, strict=True))
    assert took <= ratio_max * measure, (
        f"{took:.0f} ms of CPU; Python with click alone: {measure:.0f}"
    )


@pytest.mark.parametrize("words", [["--help"], ["topics", "--help"], ["version"]])
def test_help_costs_little_more_than_python_with_click(words: list[str]) -> None:
    check(words, HELP_RATIO_MAX)


def test_a_simple_call(data: Path) -> None:
    broker = Serving(data)
    try:
        check(["--admin-url", broker.ready["http_url"], "brokers", "healthcheck"], CALL_RATIO_MAX)
    finally:
        broker.stop()
