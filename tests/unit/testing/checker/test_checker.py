"""The judge is judged: no clean history has an anomaly, and each planted one is found by its name."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
from stage.counts import examples
from stage.histories import World
from stage.planted import PLANTS, Plant

from milepost.testing.checker import History, Verdict, events, judge
from milepost.testing.checker.__main__ import main
from milepost.testing.checker.verdict import ANOMALIES

CLEAN = examples(400)
# A third of it by itself, and three times as many in `make campaign`.
PLANTED = examples(24)


@cache
def clean(seed: int) -> list[str]:
    return [json.dumps(event) + "\n" for event in World(seed).run()]


def events_of(seed: int) -> list[dict[str, Any]]:
    """A copy of its own, to be changed."""
    return [json.loads(line) for line in clean(seed)]


def verdict_on(events: list[dict[str, Any]]) -> Verdict:
    return judge([json.dumps(event) + "\n" for event in events])


@pytest.mark.parametrize("block", range(4))
def test_a_clean_history_has_no_anomaly(block: int) -> None:
    for seed in range(block, CLEAN, 4):
        verdict = judge(clean(seed))
        assert not verdict.anomalies, f"seed {seed}: {verdict.anomalies[:3]}"


def test_every_anomaly_has_a_plant() -> None:
    assert PLANTS.keys() == ANOMALIES.keys()


@pytest.mark.parametrize(
    ("name", "plant"),
    [(name, plant) for name, of in PLANTS.items() for plant in of],
    ids=lambda one: one if isinstance(one, str) else one.__name__,
)
def test_each_anomaly_is_found_by_its_name(name: str, plant: Plant) -> None:
    planted = 0
    for seed in range(50 * PLANTED):
        events = events_of(seed)
        if not plant(events, Random(seed)):
            continue
        planted += 1
        verdict = verdict_on(events)
        assert verdict.found[name], f"seed {seed}: found only {verdict.found}"
        for anomaly in verdict.anomalies:
            assert anomaly.lines, anomaly
            assert anomaly.lines[-1] <= len(events), anomaly
        if planted == PLANTED:
            return
    raise AssertionError(f"only {planted} of {50 * PLANTED} histories have a place for it")


# -- examples, line by line --------------------------------------------------------------------------


def small(*events: dict[str, Any]) -> list[dict[str, Any]]:
    """A history of one message that was published, received and acked, and then these events."""
    group = {"topic": "t", "sub": "s"}
    return [
        {"history": 1},
        {"op": "start"},
        {"is": "invoke", "op": "publish", "n": 1, "topic": "t", "message": "a", "by": "p"},
        {"is": "ok", "n": 1, "id": [1, 0, -1], "index": 0},
        {"op": "receive", **group, "by": "c", "message": "a", "id": [1, 0, -1], "index": 0},
        {"is": "invoke", "op": "ack", "n": 2, **group, "by": "c", "messages": ["a"]},
        {"is": "ok", "n": 2},
        *events,
    ]


AGAIN = {"op": "receive", "topic": "t", "sub": "s", "by": "c", "message": "a"}


def test_the_evidence_is_the_fewest_lines_that_show_it() -> None:
    (anomaly,) = verdict_on(small({"op": "kill"}, AGAIN)).anomalies
    assert anomaly.name == "redelivered-after-durable-ack"
    assert anomaly.lines == (6, 7, 9)


@pytest.mark.parametrize("outcome", ["ok", "unknown"])
def test_behind_a_seek_it_may_come_again(outcome: str) -> None:
    seek = {"op": "seek", "n": 3, "topic": "t", "sub": "s", "by": "c", "index": 0}
    events = small({"is": "invoke", **seek}, {"is": outcome, "n": 3}, AGAIN)
    assert not verdict_on(events).anomalies
    seek["index"] = 1
    events = small({"is": "invoke", **seek}, {"is": outcome, "n": 3}, AGAIN)
    assert verdict_on(events).anomalies


def test_an_ack_of_a_delivery_from_before_a_reset_moves_nothing() -> None:
    ack = {"op": "ack", "n": 4, "topic": "t", "sub": "s", "by": "c", "messages": ["a"]}
    reset = {"op": "reset", "n": 3, "topic": "t", "sub": "s", "by": "operator", "index": 0}
    late = small(
        {"is": "invoke", **reset},
        {"is": "ok", "n": 3},
        {"is": "invoke", **ack},
        {"is": "ok", "n": 4},
    )
    drained = {"op": "drained", "topic": "t", "sub": "s"}
    assert not verdict_on([*late, AGAIN, drained]).anomalies
    (anomaly,) = verdict_on([*late, drained]).anomalies
    assert anomaly.name == "reset-undone"
    assert anomaly.lines == (8, 10, 12)


def test_a_late_cumulative_ack_moves_nothing() -> None:
    """Unless the broker had delivered its message anew by then, which is heard of later."""
    group = {"topic": "t", "sub": "s"}
    got = [
        {**AGAIN, "message": name, "id": [1, at, -1], "index": at} for at, name in enumerate("ab")
    ]
    told = [
        *small()[:4],
        {"is": "invoke", "op": "publish", "n": 2, "topic": "t", "message": "b", "by": "p"},
        {"is": "ok", "n": 2, "id": [1, 1, -1], "index": 1},
        *got,
        {"is": "invoke", "op": "reset", "n": 3, **group, "by": "operator", "index": 0},
        {"is": "ok", "n": 3},
        {"is": "invoke", "op": "ack", "n": 4, **group, "by": "c", "ids": [[1, 1, -1]], "cumulative": True},
        {"is": "ok", "n": 4},
    ]  # fmt: skip
    drained = {"op": "drained", **group}
    assert not verdict_on([*told, *got, drained]).anomalies
    assert not verdict_on([*told, got[1], drained]).anomalies
    assert [one.name for one in verdict_on([*told, drained]).anomalies] == ["reset-undone"] * 2


def in_group(*events: int | str) -> list[str]:
    """The anomalies behind the first messages of members a and b: a has acked two of three and b one. A
    whole number is received by a new member c; `gone` says that b is forgotten before it."""
    told: list[dict[str, Any]] = [{"history": 1}, {"op": "start"}]
    for at in range(3):
        publish = {"op": "publish", "n": at, "topic": "t", "message": f"m{at}", "by": "p"}
        told += [{"is": "invoke", **publish}, {"is": "ok", "n": at, "id": [1, at, -1]}]

    def received(by: str, at: int) -> dict[str, Any]:
        group = {"topic": "t", "sub": by, "by": by}
        return {"op": "receive", **group, "message": f"m{at}", "id": [1, at, -1], "index": at}

    told += [{"op": "subscribe", "topic": "t", "sub": by, "group": "g"} for by in "ab"]
    for by, count in (("a", 2), ("b", 1)):
        group = {"topic": "t", "sub": by}
        for at in range(3):
            told.append(received(by, at))
            if at < count:
                ack = {"op": "ack", "n": 9, **group, "by": by, "messages": [f"m{at}"]}
                told += [{"is": "invoke", **ack}, {"is": "ok", "n": 9}]
    if "gone" in events:
        told.append({"op": "unsubscribe", "topic": "t", "sub": "b"})
    told.append({"op": "subscribe", "topic": "t", "sub": "c", "group": "g"})
    told += [received("c", event) for event in events if isinstance(event, int)]
    told.append({"op": "drained", "topic": "t", "sub": "c"})
    return [anomaly.name for anomaly in verdict_on(told).anomalies]


def test_a_new_member_begins_where_the_slowest_of_its_group_is() -> None:
    assert not in_group(1, 2)
    assert in_group(2) == ["stuck"]
    assert in_group(0, 1, 2) == ["redelivered-after-durable-ack"]
    assert not in_group("gone", 2)
    assert in_group("gone", 1, 2) == ["redelivered-after-durable-ack"]


def test_a_new_member_begins_behind_a_chunked_message_that_the_slowest_has_acked() -> None:
    """Of its first chunk's index no line tells."""
    group = {"topic": "t", "sub": "a"}
    published = {"op": "publish", "n": 1, "topic": "t", "message": "m", "by": "p"}
    ack = {"op": "ack", "n": 2, **group, "by": "a", "messages": ["m"]}
    told: list[dict[str, Any]] = [
        {"history": 1},
        {"op": "start"},
        {"is": "invoke", **published},
        {"is": "ok", "n": 1, "id": [1, 1, -1], "first": [1, 0, -1]},
        {"op": "subscribe", **group, "group": "g"},
        {"op": "receive", **group, "by": "a", "message": "m", "id": [1, 1, -1], "index": 1},
    ]
    acked = [{"is": "invoke", **ack}, {"is": "ok", "n": 2}]
    came = [
        {"op": "subscribe", "topic": "t", "sub": "b", "group": "g"},
        {"op": "drained", "topic": "t", "sub": "b"},
    ]
    assert not verdict_on([*told, *acked, *came]).anomalies
    assert verdict_on([*told, *came]).found == {"stuck": 1}


def test_a_key_was_anothers_before_a_reset_that_a_consumer_heard_of_late() -> None:
    events = [one for one in small() if one.get("n") != 2]
    events[-1] |= {"key": "k"}
    joins = {"op": "join", "topic": "t", "sub": "s", "by": "d", "mode": "connection"}
    reset = {"op": "reset", "n": 3, "topic": "t", "sub": "s", "by": "operator", "index": 0}
    late = AGAIN | {"by": "d", "key": "k"}
    moved = [{"is": "invoke", **reset}, {"is": "ok", "n": 3}, events[-1]]
    assert not verdict_on([*events[:2], joins, *events[2:], *moved, late]).anomalies
    (anomaly,) = verdict_on([*events, *moved, joins, late]).anomalies
    assert anomaly.name == "key-reorder"


def test_a_reset_without_an_answer_is_over_behind_a_kill_and_another_one() -> None:
    group = {"topic": "t", "sub": "s", "index": 0}
    unknown = {"op": "reset", "n": 3, **group, "by": "one"}
    later = {"op": "reset", "n": 4, **group, "by": "two", "index": 1}
    events = small({"is": "invoke", **unknown}, {"is": "unknown", "n": 3})
    between = [{"op": "kill"}, {"op": "start"}]
    after = [{"is": "invoke", **later}, {"is": "ok", "n": 4}, AGAIN]
    assert not verdict_on([*events, *after]).anomalies
    assert verdict_on([*events, *between, *after]).found["reset-undone"] == 1


def test_what_was_received_before_a_kill_and_not_acked_comes_again() -> None:
    events = [one for one in small() if one.get("n") != 2]
    drained = {"op": "drained", "topic": "t", "sub": "s", "again": True}
    events += [{"op": "kill"}, {"op": "start"}]
    assert not verdict_on([*events, AGAIN, drained]).anomalies
    assert not verdict_on([*events, drained | {"again": False}]).anomalies
    (anomaly,) = verdict_on([*events, drained]).anomalies
    assert anomaly.name == "stuck"


@pytest.mark.parametrize("cumulative", [False, True])
def test_an_ack_behind_the_request_to_seek_may_count(cumulative: bool) -> None:
    """The broker may have delivered the message anew before it read the ack, or not."""
    seek = {"op": "seek", "n": 3, "topic": "t", "sub": "s", "by": "c", "index": 0}
    ack = {"op": "ack", "t": 1.0, "topic": "t", "sub": "s", "by": "c", "messages": ["a"]}
    moved = {"is": "invoke", **seek}, ack | {"cumulative": cumulative}, {"is": "ok", "n": 3}
    events = [one for one in small(*moved) if one.get("n") != 2]
    drained = {"op": "drained", "topic": "t", "sub": "s", "again": True}
    killed = [{"op": "kill"}, {"op": "start"}]
    assert not verdict_on([*events, AGAIN, *killed, drained]).anomalies
    assert not verdict_on([*events, AGAIN, *killed, AGAIN, drained]).anomalies
    assert verdict_on([*events, *killed, drained]).anomalies  # it never came behind the seek


@pytest.mark.parametrize("cumulative", [False, True])
def test_an_ack_outside_outlives_the_abort_of_a_transaction(cumulative: bool) -> None:
    """Of a message that an open transaction has acked too."""
    events = small()
    events[5] |= {"txn": "x"}
    outside = {"op": "ack", "n": 3, "topic": "t", "sub": "s", "by": "c", "cumulative": cumulative}
    end = [
        {"is": "invoke", "op": "abort", "n": 4, "txn": "x"},
        {"is": "ok", "n": 4},
        {"op": "drained", "topic": "t", "sub": "s"},
    ]
    acked = [{"is": "invoke", **outside, "ids": [[1, 0, -1]]}, {"is": "ok", "n": 3}]
    assert not verdict_on([*events, *acked, *end]).anomalies
    (anomaly,) = verdict_on([*events, *end]).anomalies
    assert anomaly.name == "aborted-ack"


def test_a_cumulative_ack_may_leave_what_its_sender_was_not_shown() -> None:
    """The one before gave the message to a transaction, which is aborted behind the ack."""
    other = {"op": "publish", "n": 5, "topic": "t", "message": "b", "by": "p"}
    events = small({"is": "invoke", **other}, {"is": "ok", "n": 5, "id": [1, 1, -1], "index": 1})
    events[5] |= {"txn": "x"}
    up_to = {"op": "ack", "n": 3, "topic": "t", "sub": "s", "by": "d", "cumulative": True}
    acked = [{"is": "invoke", **up_to, "ids": [[1, 1, -1]]}, {"is": "ok", "n": 3}]
    aborted = [{"is": "invoke", "op": "abort", "n": 4, "txn": "x"}, {"is": "ok", "n": 4}]
    again = AGAIN | {"by": "d"}
    assert not verdict_on([*events, *acked, *aborted, again, again]).anomalies
    assert not verdict_on([*events, *aborted, *acked, again, again]).anomalies
    found = verdict_on([*events, *aborted, again, *acked, again])
    assert found.found["redelivered-after-durable-ack"] == 1


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("again", [False, True])
def test_a_transaction_that_may_be_committed_counts_in_all_or_nothing(
    there: bool, again: bool
) -> None:
    """Its message shows whether it was, and its ack must agree."""
    events = small()
    events[5] |= {"txn": "x"}
    publish = {"op": "publish", "n": 3, "topic": "u", "message": "b", "by": "p", "txn": "x"}
    events += [
        {"is": "invoke", **publish},
        {"is": "ok", "n": 3, "id": [2, 0, -1]},
        {"is": "invoke", "op": "commit", "n": 4, "txn": "x"},
        {"is": "unknown", "n": 4},
        {"op": "kill"},
        {"op": "start"},
        {"op": "scan", "topic": "u"},
        *[{"op": "stored", "topic": "u", "message": "b", "id": [2, 0, -1]}] * there,
        {"op": "scanned", "topic": "u"},
        *[AGAIN] * again,
        {"op": "drained", "topic": "t", "sub": "s"},
    ]
    names = [anomaly.name for anomaly in verdict_on(events).anomalies]
    wrong = "redelivered-after-durable-ack" if there else "aborted-ack"
    assert names == [wrong] * (there is again)


def test_behind_a_seek_no_consumer_holds_a_key() -> None:
    events = [one for one in small() if one.get("n") != 2]
    events[-1] |= {"key": "k"}
    other = AGAIN | {"by": "d", "key": "k"}
    seek = {"op": "seek", "n": 3, "topic": "t", "sub": "s", "by": "d", "index": 0}
    moved = [{"is": "invoke", **seek}, {"is": "ok", "n": 3}]
    assert not verdict_on([*events, *moved, other]).anomalies
    (anomaly,) = verdict_on([*events, other]).anomalies
    assert anomaly.name == "key-reorder"


def test_a_client_with_a_queue_may_show_what_was_sent_before_the_ack() -> None:
    join = {"op": "join", "topic": "t", "sub": "s", "by": "d", "mode": "queue"}
    events = small(AGAIN | {"by": "d"})
    events.insert(2, join)
    assert not verdict_on(events).anomalies
    events = small(join, AGAIN | {"by": "d"})
    assert verdict_on(events).found["redelivered-after-durable-ack"] == 1


def test_an_ack_without_an_answer_may_be_lost_within_the_window_or_a_stall() -> None:
    def verdict(age_s: float, stall_s: float = 0.0) -> Verdict:
        given = {
            "op": "ack",
            "topic": "t",
            "sub": "new",
            "by": "c",
            "messages": ["a"],
            "t": 9 - age_s,
        }
        other = {"topic": "t", "sub": "s", "by": "c", "messages": ["a"]}
        return verdict_on(
            small(
                given,
                {"is": "invoke", "op": "ack", "n": 3, **other, "t": 5},
                {"is": "ok", "n": 3, "t": 5 + stall_s},
                {"op": "kill", "t": 9},
                {"op": "start"},
                AGAIN | {"sub": "new"},
            )
        )

    assert verdict(0.09).found == {}
    assert verdict(0.09).acks_undone == 1
    assert verdict(0.09).undone_age_s == pytest.approx(0.09)
    assert verdict(0.2).found == {"ack-window-exceeded": 1}
    assert verdict(0.2, stall_s=0.15).found == {}


def test_without_deduplication_each_kill_may_store_a_message_once_more() -> None:
    def events(*, deduplicated: bool, copies: int) -> list[dict[str, Any]]:
        stored = [
            {"op": "stored", "topic": "t", "message": "b", "id": [1, one, -1], "index": one}
            for one in range(copies)
        ]
        return [
            {"history": 1},
            {"op": "topic", "topic": "t", "deduplicated": deduplicated},
            {"op": "start"},
            {"is": "invoke", "op": "publish", "n": 1, "topic": "t", "message": "b", "by": "p"},
            {"op": "kill"},
            {"op": "start"},
            {"is": "ok", "n": 1, "id": [1, copies - 1, -1]},
            {"op": "scan", "topic": "t", "first": 0},
            *stored,
            {"op": "scanned", "topic": "t", "end": copies},
        ]

    assert not verdict_on(events(deduplicated=False, copies=2)).anomalies
    assert verdict_on(events(deduplicated=False, copies=3)).found == {"duplicate": 1}
    assert not verdict_on(events(deduplicated=True, copies=1)).anomalies
    assert verdict_on(events(deduplicated=True, copies=2)).anomalies


def test_what_was_gone_behind_a_kill_does_not_come_back() -> None:
    lost = [
        {"is": "invoke", "op": "publish", "n": 3, "topic": "t", "message": "b", "by": "p"},
        {"is": "unknown", "n": 3},
        {"op": "kill"},
        {"op": "start"},
        {"op": "scan", "topic": "t"},
        {"op": "stored", "topic": "t", "message": "a", "id": [1, 0, -1]},
        {"op": "scanned", "topic": "t"},
    ]
    seen = {"op": "receive", "topic": "t", "message": "b"}
    assert not verdict_on(small(*lost)).anomalies
    assert verdict_on(small(*lost, seen)).found == {"aborted-read": 1}
    assert not verdict_on(small(*lost[:4], seen)).anomalies


def test_what_a_scan_has_found_stays_though_its_producer_was_not_answered() -> None:
    lost = [
        {"is": "invoke", "op": "publish", "n": 3, "topic": "t", "message": "b", "by": "p"},
        {"is": "unknown", "n": 3},
    ]
    scan = [
        {"op": "scan", "topic": "t"},
        {"op": "stored", "topic": "t", "message": "a", "id": [1, 0, -1]},
        {"op": "stored", "topic": "t", "message": "b", "id": [1, 1, -1]},
        {"op": "scanned", "topic": "t"},
    ]
    killed = [{"op": "kill"}, {"op": "start"}]
    assert not verdict_on(small(*lost, *scan, *killed, *scan)).anomalies
    (anomaly,) = verdict_on(small(*lost, *scan, *killed, *scan[:2], scan[3])).anomalies
    assert anomaly.name == "lost"
    assert anomaly.lines == (12, 18)


def test_what_a_scan_has_found_trimmed_does_not_come_back() -> None:
    trim = {"is": "invoke", "op": "trim", "n": 3, "topic": "t", "index": 1, "policy": "age"}
    gone = [{"op": "scan", "topic": "t", "first": 1}, {"op": "scanned", "topic": "t", "end": 1}]
    there = [
        {"op": "scan", "topic": "t", "first": 0},
        {"op": "stored", "topic": "t", "message": "a", "id": [1, 0, -1], "index": 0},
        {"op": "scanned", "topic": "t", "end": 1},
    ]
    assert not verdict_on(small(trim, *there, *gone)).anomalies
    assert verdict_on(small(trim, *gone, *there)).found == {"regressed": 1}


# -- the command -------------------------------------------------------------------------------------


COMMAND = (sys.executable, "-m", "milepost.testing.checker")


def run_command(path: Path, encoding: str = "utf-8") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    return subprocess.run(
        [*COMMAND, str(path)],
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=60,
        env=environment,
    )


def test_the_command_says_what_it_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in small()))
    assert main([str(path)]) == 0
    assert "no anomaly" in capsys.readouterr().out
    path.write_text("".join(json.dumps(event) + "\n" for event in small(AGAIN)))
    found = run_command(path)
    assert found.returncode == 1
    assert "1 anomalies: 1 redelivered-after-durable-ack" in found.stdout
    assert 'line 8: {"op": "receive"' in found.stdout
    path.write_text(path.read_text()[:-5])
    assert main([str(path)]) == 2
    cut = capsys.readouterr().err
    assert "line 8: no JSON" in cut
    assert "the line is cut" in cut
    assert "Traceback" not in cut
    assert main([str(tmp_path / "none")]) == 2


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_the_command_shows_names_that_the_terminal_cannot(tmp_path: Path, encoding: str) -> None:
    """Half a pair of surrogates is no character, but JSON has words for it; more than twenty end in …"""
    path = tmp_path / "history.jsonl"
    phantoms = [{**AGAIN, "topic": "\ud800é"}] * 30
    path.write_text("".join(json.dumps(event) + "\n" for event in small(*phantoms)))
    told = run_command(path, encoding)
    assert told.returncode == 1
    assert not told.stderr
    assert "30 anomalies: 30 phantom" in told.stdout
    assert "10 more" in told.stdout


def test_the_command_says_how_it_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    for asked in ("--help", "-h"):
        assert main([asked]) == 0
        assert "Exit status 0: no anomaly" in capsys.readouterr().out
    for wrong in ([], ["--nothing"], ["one", "two"]):
        assert main(wrong) == 2
        assert capsys.readouterr().err == "usage: python -m milepost.testing.checker FILE\n"


def test_a_reader_that_has_seen_enough_does_not_change_the_verdict(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in small(AGAIN)))
    reads, writes = os.pipe()
    os.close(reads)
    told = subprocess.run(
        [*COMMAND, str(path)], stdout=writes, stderr=subprocess.PIPE, check=False, timeout=60
    )
    os.close(writes)
    assert told.stderr == b""
    assert told.returncode == 1


# -- the page ----------------------------------------------------------------------------------------

PAGE = (Path(__file__).parents[4] / "docs" / "reliability.md").read_text()


def test_the_example_of_the_page_is_judged_as_the_page_says() -> None:
    lines = PAGE.partition("```json\n")[2].partition("```")[0].splitlines(keepends=True)
    (anomaly,) = judge(lines).anomalies
    assert anomaly.name in PAGE
    assert anomaly.lines == (6, 7, 10)


def test_the_page_has_the_promise_that_each_anomaly_breaks() -> None:
    promises = re.findall(r"^\| (I\d+) .* \| ([^|]*) \|$", PAGE, re.MULTILINE)
    assert [name for name, _ in promises] == [f"I{n}" for n in range(1, len(promises) + 1)]
    named = [name for _, names in promises for name in re.findall(r"`([\w-]+)`", names)]
    assert sorted(named) == sorted(ANOMALIES)


def test_the_page_has_every_anomaly_operation_and_field() -> None:
    for name, meaning in ANOMALIES.items():
        assert f"| `{name}` | {meaning} |" in PAGE
    for kinds in (events.INVOCATIONS, events.OBSERVATIONS):
        for op, (wanted, also) in kinds.items():
            for word in (op, *wanted, *also):
                assert f"`{word}`" in PAGE, (op, word)


def test_an_ack_from_before_a_reset_is_late_however_late_its_answer_is_heard() -> None:
    """A consumer that reads slowly hears of the reset, gets the message again, and then the answer."""
    group = {"topic": "t", "sub": "s", "by": "c"}
    got = {**group, "message": "m", "id": [1, 0, -1], "index": 0}
    history = History()
    history.note("start")
    history.ok(history.invoke("publish", topic="t", message="m", by="p"), id=[1, 0, -1], index=0)
    history.note("join", **group, mode="connection")
    history.note("receive", **got)
    history.ok(history.invoke("reset", topic="t", sub="s", by="operator", index=0))
    late = history.invoke("ack", **group, messages=["m"])
    history.note("leave", **group)
    history.note("join", **group, mode="connection")
    history.note("receive", **got)
    history.ok(late)
    history.note("kill")
    history.note("start")
    history.note("join", **{**group, "by": "d"}, mode="connection")
    history.note("receive", **{**got, "by": "d"})
    assert judge(history.lines()).anomalies == []


def of_one_key(*events: Any) -> list[str]:
    """The anomalies of a history of one key: whole numbers are received, others happen, each by its name."""
    told: list[dict[str, Any]] = [{"history": 1}, {"op": "start"}]
    for at in range(5):
        publish = {"op": "publish", "n": at, "topic": "t", "message": f"m{at}", "by": "p"}
        told += [
            {"is": "invoke", **publish},
            {"is": "ok", "n": at, "id": [1, at, -1], "index": at},
        ]
    group = {"topic": "t", "sub": "s", "by": "c"}
    joins = {"op": "join", **group, "mode": "connection"}
    told.append(joins)
    for n, event in enumerate(events, 10):
        if isinstance(event, int):
            message = {"message": f"m{event}", "id": [1, event, -1], "index": event}
            told.append({"op": "receive", **group, **message, "key": "k"})
        elif event == "broker ends":
            told += [{"op": "kill"}, {"op": "leave", **group}, {"op": "start"}, joins]
        elif event == "comes again":
            told += [{"op": "leave", **group}, joins]
        else:
            outcome, index = event
            reset = {"op": "reset", "n": n, "topic": "t", "sub": "s", "by": "o", "index": index}
            told += [{"is": "invoke", **reset}, {"is": outcome, "n": n}]
    return [anomaly.name for anomaly in verdict_on(told).anomalies]


@pytest.mark.parametrize("outcome", ["ok", "unknown"])
def test_a_reset_back_lets_messages_of_a_key_come_behind_later_ones(outcome: str) -> None:
    assert of_one_key(4, 2) == ["key-reorder"]
    assert not of_one_key((outcome, 4), "comes again", 4, (outcome, 1), "comes again", 1, 2)
    ends = "broker ends"
    assert not of_one_key((outcome, 4), ends, 4, (outcome, 1), ends, 1, 2)


@pytest.mark.parametrize("outcome", ["ok", "unknown"])
def test_behind_a_reset_the_order_of_a_key_is_judged_anew(outcome: str) -> None:
    assert of_one_key(4, (outcome, 1), "broker ends", 1, 3, 2) == ["key-reorder"]
    assert of_one_key((outcome, 1), "broker ends", 4, 2) == ["key-reorder"]


def test_a_message_that_a_reset_skipped_does_not_come_behind_its_successors() -> None:
    """The broker had sent them before its reset was on disk."""
    assert of_one_key(0, ("unknown", 3), "comes again", 3, "broker ends", 1) == ["key-reorder"]
    assert not of_one_key(0, ("unknown", 3), "broker ends", 1)


def test_a_message_that_was_on_its_way_may_come_behind_a_reset() -> None:
    assert not of_one_key(0, ("ok", 3), 3, 1)
