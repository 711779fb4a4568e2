"""A command line whose broker is played: what it asks, and what it prints."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import sys
import termios
import threading
from pathlib import Path
from typing import Any

import pytest
from unit.admin.conftest import Played

from milepost.admin.calls import Calls
from milepost.admin.face import SyncFace
from milepost.cli.main import run
from milepost.client.connection.endpoint import Endpoint


class Face(Calls, SyncFace):
    """Answers for itself which broker it is, so that tests name only the calls that they are about."""

    plays_milepost = True

    def is_milepost(self) -> bool:  # type: ignore[override]
        return self.plays_milepost


class PulsarFace(Face):
    plays_milepost = False


class Line:
    """One command line at a time: `code`, `out`, `err`, and the requests it made."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.transport = Played()
        self.is_pulsar = False
        self.code = 0
        self.out = ""
        self.err = ""

    def __call__(self, *args: str, answers: tuple[Any, ...] = ()) -> str:
        """Run it; returns what it printed."""
        self.transport = Played(*answers)
        self.code = run(list(args))
        self.out, self.err = self._capsys.readouterr()
        return self.out

    @property
    def asked(self) -> list[str]:
        return [f"{one.method} {one.target}" for one in self.transport.asked]

    @property
    def body(self) -> Any:
        """Of the last request."""
        return json.loads(self.transport.asked[-1].body or b"null")


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No context and no variable of whoever runs the tests."""
    for name in list(os.environ):
        if name.startswith(("MILEPOST_", "PULSAR_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("MILEPOST_CONTEXTS", str(tmp_path / "contexts.json"))
    return tmp_path


@pytest.fixture
def line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Line:
    made = Line(capsys)

    def face(self: Endpoint) -> Face:
        return (PulsarFace if made.is_pulsar else Face)(made.transport)

    monkeypatch.setattr(Endpoint, "admin", face)
    return made


class Screen:
    """A terminal of so many columns: what a command line prints there, escapes and all."""

    def __init__(self, line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
        self._line = line
        self._monkeypatch = monkeypatch

    def __call__(
        self,
        width: int,
        *args: str,
        answers: tuple[Any, ...] = (),
        **environ: str,
    ) -> str:
        reader, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
        shown = bytearray()
        reading = threading.Thread(target=_read_all, args=(reader, shown))
        reading.start()
        with self._monkeypatch.context() as patch:
            patch.delenv("COLUMNS", raising=False)
            patch.delenv("NO_COLOR", raising=False)
            for name, value in ({"TERM": "xterm"} | environ).items():
                patch.setenv(name, value)
            with open(terminal, "w", encoding="utf-8") as out:
                patch.setattr(sys, "stdout", out)
                self._line(*args, answers=answers)
        reading.join()
        os.close(reader)
        return shown.decode().replace("\r\n", "\n")


def _read_all(descriptor: int, into: bytearray) -> None:
    while True:
        try:
            data = os.read(descriptor, 65536)
        except OSError:  # the other side is closed
            return
        if not data:
            return
        into += data


@pytest.fixture
def screen(line: Line, monkeypatch: pytest.MonkeyPatch) -> Screen:
    return Screen(line, monkeypatch)
