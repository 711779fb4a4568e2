"""The start of the command line: CPU time of a child above bare Python's.

    python -m bench cli

CPU time, because the clock measures the other programs too; the least of several runs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench import Result, at_most

RUNS = 10
HELP_MS_MAX = 120
CALL_MS_MAX = 250
START_S_MAX = 20
ENTRY = ("-c", "from milepost.cli.main import main; main()")


def cpu_ms(*args: str) -> float:
    """User and system time of a child that must succeed."""
    process = subprocess.Popen([sys.executable, *args], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, f"{args} exited with {process.returncode}"
    return (usage.ru_utime + usage.ru_stime) * 1000


def least(*args: str) -> float:
    return min(cpu_ms(*args) for _ in range(RUNS))


def run() -> list[Result]:
    bare = least("-c", "pass")
    results = [
        Result("bare Python", bare, "ms"),
        at_most(
            "milepost --help, above bare Python", least(*ENTRY, "--help") - bare, "ms", HELP_MS_MAX
        ),
        at_most(
            "milepost topics --help, above bare Python",
            least(*ENTRY, "topics", "--help") - bare,
            "ms",
            HELP_MS_MAX,
        ),
    ]
    with tempfile.TemporaryDirectory(prefix="milepost-bench-") as folder:
        ready = Path(folder) / "ready.json"
        serve = ["serve", "--port", "0", "--http-port", "0", "--data", f"{folder}/data"]
        broker = subprocess.Popen(
            [sys.executable, *ENTRY, *serve, "--ready-file", str(ready)], stdout=subprocess.DEVNULL
        )
        try:
            began = time.perf_counter()
            while not ready.exists():
                assert time.perf_counter() - began < START_S_MAX, "the broker did not start"
                time.sleep(0.01)
            url = json.loads(ready.read_text("utf-8"))["http_url"]
            call = ("--admin-url", url, "topics", "list", "public/default")
            results.append(
                at_most(
                    "milepost topics list, above bare Python",
                    least(*ENTRY, *call) - bare,
                    "ms",
                    CALL_MS_MAX,
                )
            )
        finally:
            broker.terminate()
            broker.wait()
    return results
