"""Which machine, which commit and which day the figures are of. Names of hosts and folders are left out."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from pathlib import Path

from bench.load.target import measure_sync

ROOT = Path(__file__).resolve().parents[2]


def describe() -> dict[str, str]:
    """What → how much, in the order in which it is shown."""
    sync = measure_sync()
    busy = os.getloadavg()[0]
    return {
        "processor": f"{os.cpu_count()} cores, {_line('/proc/cpuinfo', 'model name') or 'unknown'}",
        "memory": _memory(),
        "kernel": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        "sync of a small append": f"p50 {sync.p50_ms:.2f} ms, p99 {sync.p99_ms:.2f} ms",
        "other work when it began": f"{busy:.1f} processes that wanted a core, over a minute",
    }


def commit(name: str = "HEAD") -> str:
    """The short name of a commit, and whether what is measured, or measures, differs from it."""
    found = _git("rev-parse", "--short=10", name)
    if name == "HEAD" and found and _git("status", "--porcelain", "--", "src", "bench"):
        return f"{found} with changes"
    return found or "unknown"


def today() -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())


def _memory() -> str:
    found = _line("/proc/meminfo", "MemTotal").split()
    return f"{int(found[0]) / 1024 / 1024:.0f} GiB" if found else "unknown"


def _line(path: str, name: str) -> str:
    """The value of the first line `name: value`."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")


def _git(*arguments: str) -> str:
    try:
        found = subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return found.stdout.strip() if found.returncode == 0 else ""
