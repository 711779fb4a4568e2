"""A bar for a terminal, nothing for a pipe."""

from __future__ import annotations

import os
import pty
import sys

import pytest

from milepost.cli.bars import bar


def test_nothing_for_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    with bar("archiving") as show:
        show(1, 2)
    assert capsys.readouterr() == ("", "")


def test_a_bar_for_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with bar("archiving") as show:
            show(3, 10)
            show(10, 10)
        terminal.flush()
        said = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert "archiving" in said
    assert "10/10" in said
