"""`milepost progress`: what is added up, how it is sorted, and the exit code."""

from __future__ import annotations

import json
from typing import Any

import pytest
from unit.cli.conftest import Line, Screen

from milepost.admin.errors import Unreachable


def client(name: str, inflight: int = 0) -> dict[str, Any]:
    return {"name": name, "address": "10.0.0.1:5", "inflight": inflight}


def one(
    name: str, *, partition: int = -1, verdict: str = "CAUGHT_UP", **fields: Any
) -> dict[str, Any]:
    topic = "persistent://public/default/orders"
    line: dict[str, Any] = {
        "topic": topic if partition < 0 else f"{topic}-partition-{partition}",
        "partition": partition, "subscription": name, "member": "", "type": "Shared", "end": 10,
        "mark_delete_index": 4, "backlog": 5, "ready": 3, "inflight": 2, "delayed": 0, "holes": 0,
        "behind_ms": 2500, "rate_acked": 1.5, "verdict": verdict, "reason": "why", "consumers": [],
    }  # fmt: skip
    return {**line, **fields}


def answer(*lines: dict[str, Any]) -> dict[str, Any]:
    return {"at_ms": 1, "subscriptions": list(lines)}


def test_groups_trouble_first_and_partitions_added_up(line: Line) -> None:
    shown = line(
        "progress", "-o", "csv",
        answers=(
            answer(
                one("calm"),
                one("busy", partition=0, verdict="STALLED", consumers=[client("c")]),
                one("busy", partition=1, backlog=50),
            ),
        ),
    )  # fmt: skip
    head, *rows = shown.splitlines()
    assert head.startswith("group,topic,parts,clients,backlog")
    assert rows == [
        "busy,persistent://public/default/orders,2,1,55,6,4,0,0,3.0,2.5s,STALLED,why",
        "calm,persistent://public/default/orders,1,0,5,3,2,0,0,1.5,2.5s,CAUGHT_UP,why",
    ]
    assert line.asked == ["GET /milepost/v1/progress"]


def test_one_group_with_its_clients(line: Line) -> None:
    shown = line(
        "progress", "-g", "busy", "-o", "csv",
        answers=(answer(one("busy", partition=0, consumers=[client("a", 1), client("b", 1)])),),
    )  # fmt: skip
    assert shown.splitlines()[1:] == [
        "persistent://public/default/orders-partition-0,0,10,4,5,3,2,0,0,a@10.0.0.1:5,1.5,2.5s,CAUGHT_UP",
        ",,,,,,1,,,b@10.0.0.1:5,,,",
    ]
    assert line.asked == ["GET /milepost/v1/progress?subscription=busy"]


def test_members_of_a_broadcast_group(line: Line) -> None:
    lines = [
        one("g", type="Broadcast", consumers=[client("x")]),
        one("g", type="Broadcast", member="cache-7", consumers=[client("x", 2)]),
    ]
    shown = line("progress", "-g", "g", "-o", "csv", answers=(answer(*lines),))
    assert [row.split(",")[9] for row in shown.splitlines()[1:]] == ["", "cache-7"]
    shown = line("progress", "-o", "csv", answers=(answer(*lines),))
    assert len(shown.splitlines()) == 2


@pytest.mark.parametrize(
    ("verdict", "arguments", "code"),
    [
        ("STALLED", ("--check",), 9),
        ("STALLED", (), 0),
        ("SLOW", ("--check",), 0),
        ("NO_CONSUMER", ("--check", "-g", "g"), 9),
    ],
)
def test_the_exit_code(line: Line, verdict: str, arguments: tuple[str, ...], code: int) -> None:
    line("progress", *arguments, answers=(answer(one("g", verdict=verdict)),))
    assert line.code == code


def test_watching_shows_it_again_and_again(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("milepost.cli.progress.progress.time.sleep", pause)
    shown = line("progress", "--watch", "2", answers=3 * (answer(one("billing")),))
    assert pauses == [2, 2, 2]
    assert shown.count("billing") == 3
    assert line.code == 130


def test_nobody_of_that_name(line: Line) -> None:
    shown = line("progress", "-g", "none", answers=(answer(),))
    assert (line.code, shown) == (5, "")
    assert line.err == (
        "milepost: there is no group none; `milepost progress` shows those that there are\n"
    )


def test_what_is_well_needs_no_words(line: Line) -> None:
    parts = [one("g", partition=number) for number in range(4)]
    line("progress", "-g", "g", answers=(answer(*parts),))
    assert line.err.splitlines()[1:] == ["CAUGHT_UP: why"]
    parts[2]["verdict"] = "STALLED"
    line("progress", "-g", "g", answers=(answer(*parts),))
    assert line.err.splitlines()[1:] == ["partition 2: STALLED: why"]


def test_json_is_what_the_broker_said(line: Line) -> None:
    shown = line("progress", "-o", "json", answers=(answer(one("g")),))
    assert json.loads(shown) == [one("g")]


def test_of_a_topic_or_a_namespace(line: Line) -> None:
    line("progress", "-t", "persistent://a/b/c", answers=(answer(),))
    assert line.asked == ["GET /milepost/v1/topics/a/b/c/progress"]
    line("progress", "-n", "a/b", answers=(answer(),))
    assert line.asked == ["GET /milepost/v1/namespaces/a/b/progress"]
    line("progress", "-n", "a/b", "-t", "x")
    assert line.code == 2


def watched(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """Ctrl-C after so many pauses."""
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == times:
            raise KeyboardInterrupt

    monkeypatch.setattr("milepost.cli.progress.progress.time.sleep", pause)


def away() -> Unreachable:
    return Unreachable("GET /", "http://played:8080", None, "connection refused")


def test_a_watch_survives_polls_that_fail(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    watched(monkeypatch, 4)
    good = answer(one("billing"))
    shown = line("progress", "--watch", "2", answers=(good, away(), 503, good))
    assert line.code == 130
    # A pipe gets each table once; a poll that failed is told beside it.
    assert shown.count("billing") == 2
    told = [text for text in line.err.splitlines() if "no answer" in text]
    assert told[0].startswith("connection refused; no answer for ")
    assert told[0].endswith(", asking again every 2 s")
    assert told[1].startswith("played; no answer for ")
    assert len(told) == 2


def test_a_screen_keeps_the_last_table(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    watched(monkeypatch, 3)
    shown = screen(80, "progress", "--watch", "2", answers=(answer(one("billing")), away(), away()))
    *_, last = shown.split("\x1b[2J")
    assert "billing" in last
    assert shown.count("billing") == 3


def test_a_first_poll_that_fails_ends_it(line: Line) -> None:
    """There is nothing to keep; the address may be a wrong one."""
    line("progress", "--watch", "2", answers=(away(),))
    assert line.code == 3
