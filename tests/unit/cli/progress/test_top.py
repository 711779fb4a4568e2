"""`milepost top`: one frame, and frames until q, Ctrl-C or nothing more to say."""

from __future__ import annotations

import json
import os
import pty
import sys
from typing import Any

import pytest
from unit.cli.conftest import Line, Screen
from unit.cli.progress.test_progress import away

from milepost.cli.progress.top import COLUMNS, frame
from milepost.cli.terminal import PLAIN, Terminal


def one(name: str, verdict: str = "CAUGHT_UP", **fields: Any) -> dict[str, Any]:
    return {
        "topic": "persistent://public/default/orders", "partition": -1, "subscription": name, "member": "",
        "type": "Shared", "verdict": verdict, "reason": "why", "first": 0, "end": 10, "ready": 3,
        "inflight": 2, "delayed": 0, "acked": 5, "backlog": 5, "holes": 0, "behind_ms": 2500, "rate_in": 1.0,
        "rate_out": 1.0, "rate_acked": 1.5, "drained_in_s": None, "consumers": 1, **fields,
    }  # fmt: skip


def overview(*lines: dict[str, Any]) -> dict[str, Any]:
    return {
        "version": "0.1.0", "at_ms": 1, "is_complete": True, "topics": 3, "topics_seen": 3,
        "subscriptions": 2, "producers": 1, "consumers": 2, "connections": 4, "backlog": 10,
        "stored_bytes": 2048, "in_trouble": 1, "verdicts": {"STALLED": 1, "CAUGHT_UP": 1},
        "rates": {"messages_in": 1.0, "bytes_in": 10.0, "messages_out": 2.0, "bytes_out": 20.0},
        "disk": {"size_bytes": 2**40, "free_bytes": 2**39}, "lines": list(lines),
    }  # fmt: skip


FOUND = overview(
    one("billing", "STALLED"),
    one("audit", partition=2, topic="persistent://acme/shop/carts-partition-2"),
)


def test_a_pipe_gets_one_frame(line: Line) -> None:
    shown = line("top", "-n", "public/default", answers=(FOUND,))
    assert line.asked == ["GET /milepost/v1/namespaces/public/default/overview?limit=200"]
    *head, blank, names, first, second = shown.splitlines()
    assert head == [
        "Milepost 0.1.0  3 topics  2 groups  1 producers  2 consumers  4 connections",
        "in 1.0/s 10 B/s  out 2.0/s 20 B/s  backlog 10  stored 2.0 KiB, 512 GiB of 1.0 TiB free",
        "groups  1 STALLED  1 CAUGHT_UP",
    ]
    assert blank == ""
    assert " ".join(names.split()).lower() == " ".join(column.name for column in COLUMNS)
    assert first.split() == [
        "billing",
        "orders",
        "1",
        "5",
        "3",
        "2",
        "0",
        "0",
        "1.0",
        "1.5",
        "2.5s",
        "STALLED",
        "why",
    ]
    assert second.split() == [
        "audit",
        "acme/shop/carts",
        "2",
        "1",
        "5",
        "3",
        "2",
        "0",
        "0",
        "1.0",
        "1.5",
        "2.5s",
        "CAUGHT_UP",
        "why",
    ]


def test_json_is_what_the_broker_said(line: Line) -> None:
    assert json.loads(line("top", "-o", "json", answers=(FOUND,))) == FOUND


@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_frame_fits_the_screen(width: int) -> None:
    many = overview(*(one(f"a-group-with-a-long-name-{n}", "STALLED") for n in range(50)))
    place = Terminal(width, False, True)
    shown = frame(many, place, 24, "connection refused; no answer for 12s")
    assert len(shown) == 24
    assert max(map(len, shown)) <= width
    assert shown[-1] == f"{len(frame(many, place, None, '')) + 1 - 23} more lines; q ends"
    assert any("no answer for 12s" in text for text in shown)


def test_without_groups() -> None:
    assert "groups  none" in frame(overview() | {"verdicts": {}}, PLAIN, None, "")


class Keys:
    """Keys that a person has pressed, on a terminal of their own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, pressed: bytes) -> None:
        self._person, terminal = pty.openpty()
        self._terminal = open(terminal)  # noqa: SIM115  # closed below
        os.write(self._person, pressed)
        monkeypatch.setattr(sys, "stdin", self._terminal)

    def close(self) -> None:
        self._terminal.close()
        os.close(self._person)


def test_q_ends_it(screen: Screen, line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = Keys(monkeypatch, b"xq\n")
    try:
        shown = screen(100, "top", "--every", "30", answers=(FOUND,))
    finally:
        keys.close()
    assert line.code == 0
    assert "billing" in shown
    # The screen is another one meanwhile, and the first one afterwards.
    assert shown.index("\x1b[?1049h") < shown.index("billing") < shown.index("\x1b[?1049l")


def test_it_survives_polls_that_fail_and_ends_by_ctrl_c(
    screen: Screen, line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = 0

    def wait(seconds: float) -> None:
        nonlocal waits
        waits += 1
        if waits == 8:
            raise KeyboardInterrupt

    now = iter(range(1000))
    monkeypatch.setattr("milepost.cli.progress.top.time.sleep", wait)
    monkeypatch.setattr("milepost.cli.progress.top.time.monotonic", lambda: next(now) * 0.5)
    monkeypatch.setattr(sys, "stdin", open(os.devnull))  # noqa: SIM115
    shown = screen(100, "top", "--every", "1", answers=(FOUND, away(), FOUND, away(), FOUND))
    sys.stdin.close()
    assert line.code == 130
    assert "connection refused; no answer for" in shown
    assert shown.count("billing") >= 3
