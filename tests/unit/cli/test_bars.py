"""A bar for a terminal, nothing for a pipe."""

from __future__ import annotations

import os
import pty
import sys
from contextlib import suppress

import pytest

from milepost.cli.bars import bar


def test_nothing_for_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    with bar("archiving") as show:
        show(1, 2)
    assert capsys.readouterr() == ("", "")


def everything(terminal: int) -> str:
    """What was written to a terminal that is closed: it comes in pieces, and ends with an error."""
    said = b""
    with os.fdopen(terminal, "rb", buffering=0) as pieces, suppress(OSError):
        while piece := pieces.read(1 << 16):
            said += piece
    return said.decode()


def test_a_bar_for_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with bar("archiving") as show:
            show(3, 10)
            show(10, 10)
    said = everything(ours)
    assert "archiving" in said
    assert "10/10" in said
