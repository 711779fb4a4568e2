"""The start of the command line, in CPU time above Python's own: what makes it pleasant to script.

CPU time and not the clock, because a busy machine stretches the clock; the least of several runs,
because it stretches CPU time too, a little. The marks are those of a quiet machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.conftest import ENVIRONMENT, Serving

HELP_MS_MAX = 120
CALL_MS_MAX = 250
RUNS = 5

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


def least(*args: str) -> float:
    return min(cpu_ms(*args) for _ in range(RUNS))


@pytest.fixture(scope="module")
def bare_ms() -> float:
    return least("-c", "pass")


@pytest.mark.parametrize("words", [["--help"], ["topics", "--help"], ["version"]])
def test_help_costs_little_more_than_python(words: list[str], bare_ms: float) -> None:
    took = least("-c", ENTRY, *words) - bare_ms
    assert took <= HELP_MS_MAX, f"{took:.0f} ms of CPU above bare Python's {bare_ms:.0f}"


def test_a_simple_call(data: Path, bare_ms: float) -> None:
    broker = Serving(data)
    try:
        words = ["--admin-url", broker.ready["http_url"], "brokers", "healthcheck"]
        took = least("-c", ENTRY, *words) - bare_ms
    finally:
        broker.stop()
    assert took <= CALL_MS_MAX, f"{took:.0f} ms of CPU above bare Python's {bare_ms:.0f}"
