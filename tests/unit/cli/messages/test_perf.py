"""What a measurement says."""

from __future__ import annotations

import pytest
from unit.cli.conftest import Line

from milepost.cli.messages.perf import COLUMNS, Meter, _measure


def test_a_row_has_rates_and_latencies() -> None:
    meter = Meter()
    for _ in range(100):
        meter.add(1000, 0.002)
    meter.ended = meter.began + 2
    row = dict(zip(COLUMNS, meter.row(), strict=True))
    assert (row["messages"], row["seconds"], row["msg/s"], row["MB/s"]) == (100, 2, 50, 0.05)
    assert abs(row["p50 ms"] - 2) < 0.02
    assert row["max ms"] == 2.0


def test_a_line_is_about_what_came_since_the_last() -> None:
    meter = Meter()
    meter.add(1, 0.001)
    assert meter.line().startswith("1 messages, ")
    assert " 0 msg/s, " in meter.line()


def test_both_commands_are_there(line: Line) -> None:
    assert "produce" in line("perf", "--help")
    assert "consume" in line.out
    line("perf", "produce", "x", "-n", "0")
    assert line.code == 2


def test_ctrl_c_shows_what_was_measured_until_then(capsys: pytest.CaptureFixture[str]) -> None:
    meter = Meter()

    async def interrupted() -> None:
        meter.add(10, 0.001)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _measure(interrupted(), meter, COLUMNS)
    title, row = capsys.readouterr().out.splitlines()
    assert title.split()[0] == "MESSAGES"
    assert row.split()[0] == "1"
