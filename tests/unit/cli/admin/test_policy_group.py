"""Groups with policies: help shows each once, and a wrong name is answered with a near one."""

from __future__ import annotations

from unit.cli.conftest import Line


def test_help_shows_a_policy_once(line: Line) -> None:
    shown = line("namespaces", "--help")
    assert shown.count(" retention ") == 1
    assert "set-retention" not in shown
    assert "Policies (get-…, set-…, remove-…)" in shown


def test_a_wrong_name_is_answered_with_a_near_one(line: Line) -> None:
    line("topics", "set-retentoin", "orders")
    assert (line.code, line.asked) == (2, [])
    assert "did you mean set-retention?" in line.err
