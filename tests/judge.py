"""Runs pytest, and judges alone what failed beside other work.

The tests start brokers, clients and Spark, kill them and wait for real clocks, two
at a time on whatever machine there is. A machine that stops for seconds fails a test that is right. So
what failed is run again by itself, three times: one more failure and the whole has failed. What holds
is named at the end, as a test to be mended. More than three failures are no accident and fail at once.

    python tests/judge.py -n 2 tests/compat

A run of several stages ends with their sum, as each adds to a file what it looked at twice:

    python tests/judge.py --forget
    python tests/judge.py --tell
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

ROUNDS = 3
ACCIDENTS_MAX = 3
SECOND_LOOKS = Path(".second_looks")


class Failures:
    """A pytest plugin that remembers what failed, in order."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.failed and report.nodeid not in self.names:
            self.names.append(report.nodeid)


def verdict(code: int, failed: Sequence[str], alone: Callable[[Sequence[str]], int]) -> int:
    """The exit code of the whole: that of the first run, unless what failed there holds alone."""
    if code != pytest.ExitCode.TESTS_FAILED or not 0 < len(failed) <= ACCIDENTS_MAX:
        return code
    for _ in range(ROUNDS):
        again = alone(failed)
        if again:
            return again
    return 0


def run_alone(names: Sequence[str]) -> int:
    print(f"\nalone: {' '.join(names)}", flush=True)
    return subprocess.run([sys.executable, "-m", "pytest", "-q", *names], check=False).returncode


def tell() -> str:
    """How many second looks there were since they were forgotten, and at what."""
    names = Counter(SECOND_LOOKS.read_text("utf-8").splitlines() if SECOND_LOOKS.exists() else [])
    lines = [f"Second looks: {names.total()}{', to be mended:' if names else ''}"]
    return "\n".join([*lines, *(f"  {count} × {name}" for name, count in names.most_common())])


def main(arguments: Sequence[str]) -> int:
    if arguments == ["--forget"]:
        SECOND_LOOKS.unlink(missing_ok=True)
        return 0
    if arguments == ["--tell"]:
        print(tell())
        return 0
    failures = Failures()
    code = pytest.main(list(arguments), plugins=[failures])
    judged = verdict(int(code), failures.names, run_alone)
    if code and not judged:
        print(f"\nFailed beside other work, held {ROUNDS} times alone; to be mended:")
        with SECOND_LOOKS.open("a", encoding="utf-8") as looks:
            for name in failures.names:
                print(f"  {name}")
                looks.write(f"{name}\n")
    return judged


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
