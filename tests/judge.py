"""Runs pytest, and judges alone what failed beside other work.

The tests behind `make check` start brokers, clients and Spark, kill them and wait for real clocks, two
at a time on whatever machine there is. A machine that stops for seconds fails a test that is right. So
what failed is run again by itself, three times: one more failure and the whole has failed. What holds
is named at the end, as a test to be mended. More than three failures are no accident and fail at once.

    python tests/judge.py -n 2 tests/compat
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence

import pytest

ROUNDS = 3
ACCIDENTS_MAX = 3


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


def main(arguments: Sequence[str]) -> int:
    failures = Failures()
    code = pytest.main(list(arguments), plugins=[failures])
    judged = verdict(int(code), failures.names, run_alone)
    if code and not judged:
        print(f"\nFailed beside other work, held {ROUNDS} times alone; to be mended:")
        for name in failures.names:
            print(f"  {name}")
    return judged


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
