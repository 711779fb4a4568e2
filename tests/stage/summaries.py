"""Summary lines: what each campaign did, at the end of the run, also when workers ran it.

def test_something(summary: Callable[[str], None]) -> None:
    summary("5,200 crash images: 0 anomalies")
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

KEY = "campaign summary"


@pytest.fixture
def summary(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    return lambda line: record_property(KEY, line)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    lines = [
        (report.nodeid, value)
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "call"
        for name, value in report.user_properties
        if name == KEY
    ]
    if lines:
        terminalreporter.section("campaigns")
    for nodeid, line in sorted(lines):
        terminalreporter.line(f"{nodeid.partition('::')[2]}: {line}")
