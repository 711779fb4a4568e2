"""What `milepost migrate` prints on terminals and into a pipe: golden files, for two real brokers.

`MILEPOST_GOLDEN=new` writes them anew; look at the difference before it is committed.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import sys
import termios
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from unit.cli.conftest import _read_all

from e2e.test_migrate import NAMESPACE, Pair, make_namespace, publish
from milepost import testing
from milepost.admin import Admin
from milepost.cli.main import run
from milepost.positions.ids import EARLIEST
from milepost.testing.broker import BrokerForTest

GOLDEN = Path(__file__).parent / "golden"
IS_NEW = os.environ.get("MILEPOST_GOLDEN") == "new"
ORDERS = f"persistent://{NAMESPACE}/orders"
LONG = f"persistent://{NAMESPACE}/a-topic-with-a-name-that-is-longer-than-most-of-the-others"
# As long as what it stands for: tables keep their widths.
CHECKSUM = "<-- checksum -->"
KINDS = {
    "40": (40, {}),
    "80": (80, {}),
    "200": (200, {}),
    "no_color": (80, {"NO_COLOR": "1"}),
    "dumb": (80, {"TERM": "dumb"}),
    "piped": (0, {}),
}


@pytest.fixture(scope="module")
def source() -> Iterator[BrokerForTest]:
    with testing.broker(http=True) as source:
        with Admin(source.http_url) as admin:
            make_namespace(admin)
            admin.create_partitioned_topic(LONG, 2)
            publish(source, ORDERS, 12)
            publish(source, f"{LONG}-partition-1", 3)
            admin.create_subscription(ORDERS, "billing", EARLIEST)
            admin.skip_messages(ORDERS, "billing", 5)
            admin.set_policy(NAMESPACE, "messageTTL", 3600)
        yield source


@pytest.fixture
def pair(source: BrokerForTest) -> Iterator[Pair]:
    """Each test has a new target."""
    with testing.broker(http=True) as target:
        yield Pair(source, target)


class Shown:
    """A command line on a terminal of so many columns, or into a pipe for 0 columns."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, width: int, environ: dict[str, str], *words: str) -> str:
        with self._monkeypatch.context() as patch:
            patch.delenv("COLUMNS", raising=False)
            patch.delenv("NO_COLOR", raising=False)
            for name, value in ({"TERM": "xterm"} | environ).items():
                patch.setenv(name, value)
            if not width:
                code, shown = run(list(words)), self._capsys.readouterr()
                return f"{shown.err}{shown.out}exit {int(code)}\n"
            reader, terminal = pty.openpty()
            fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
            out = bytearray()
            reading = threading.Thread(target=_read_all, args=(reader, out))
            reading.start()
            with open(terminal, "w", encoding="utf-8") as stdout:
                patch.setattr(sys, "stdout", stdout)
                code = run(list(words))
            reading.join()
            os.close(reader)
        told = self._capsys.readouterr().err
        return f"{told}{out.decode().replace(chr(13) + chr(10), chr(10))}exit {int(code)}\n"


@pytest.mark.parametrize("kind", KINDS)
def test_migrate_prints(
    pair: Pair, kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    width, environ = KINDS[kind]
    shown, text = Shown(monkeypatch, capsys), ""
    for words in (("--dry-run",), (), (), ("-n", "shop/none")):
        scope = words if "-n" in words else ("-n", NAMESPACE, *words)
        found = shown(width, environ, "migrate", *pair.addresses, *scope)
        text += f"$ milepost migrate old new {' '.join(scope)}\n{found}\n"
    text = re.sub(r"\b(?=[0-9a-f]*[0-9])[0-9a-f]{16}\b", CHECKSUM, text).replace("\x1b", "\\e")
    for side, name in zip(pair.addresses, ("http://old:8080", "http://new:8080"), strict=True):
        text = text.replace(side, name)
    file = GOLDEN / f"migrate_{kind}.txt"
    if IS_NEW:
        file.write_text(text, "utf-8")
    assert text == file.read_text("utf-8")
    if environ.get("NO_COLOR") or kind in ("piped", "dumb"):
        assert "\\e" not in text
