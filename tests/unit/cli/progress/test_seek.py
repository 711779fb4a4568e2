"""`milepost seek`: what it asks, what it says, and Apache Pulsar."""

from __future__ import annotations

from typing import Any

import pytest
from unit.cli.admin.test_topic_subscriptions import RESET, TOPIC, S, outcome
from unit.cli.conftest import Line

SEEK = ("seek", TOPIC, "billing")


@pytest.mark.parametrize(
    ("words", "body"),
    [
        (("--to", "idx:40"), {"index": 40}),
        (("--to", "earliest"), {"position": "earliest"}),
        (("--to", "3:7:-1:2", "--after"), {"id": "3:7:-1:2", "after": True}),
        (("--to", "@5"), {"time": 5}),
        (("--by", "-10"), {"by": -10}),
        (("--to", "-10"), {"last": 10}),
        (("--to", "index:-10"), {"last": 10}),
        (("--to", "id:14:30"), {"id": "14:30:-1"}),
        (("--to", "time:@5"), {"time": 5}),
        (("--to", "0", "--expected", "100"), {"index": 0, "expected": 100}),
        (("--to", "0", "--dry-run"), {"index": 0, "dry_run": True}),
        (("--to", "latest", "--create"), {"position": "latest", "create": True}),
    ],
)
def test_it_asks_for_this(line: Line, words: tuple[str, ...], body: dict[str, Any]) -> None:
    line(*SEEK, *words, answers=(outcome(),))
    assert (line.code, line.err) == (0, "")
    assert line.asked == [f"POST {RESET}"]
    assert line.body == {"after": False, "dry_run": False, "exact": True, **body}


def test_it_says_what_it_did(line: Line) -> None:
    done = {**outcome(note="index 40 is part of a chunked message"), "dry_run": False}
    assert line(*SEEK, "--to", "42", answers=(done,)) == (
        f"{TOPIC} billing: from index 100 to 40 of [0, 200): 60 indexes delivered again, 0 skipped "
        "(index 40 is part of a chunked message)\n"
    )
    shown = line(*SEEK, "--to", "42", "-o", "csv", answers=(done,))
    assert shown.splitlines() == [
        "topic,subscription,from,to,first,end,redelivered,skipped,note",
        f"{TOPIC},billing,100,40,0,200,60,0,index 40 is part of a chunked message",
    ]


@pytest.mark.parametrize("text", ["14:30", "9:05:30", "1700000000000"])
def test_what_has_two_readings_is_refused_with_the_ways_to_say_it(line: Line, text: str) -> None:
    line(*SEEK, "--to", text)
    assert (line.code, line.asked) == (2, [])
    assert f"say id:LEDGER:ENTRY, index:NUMBER or time:{text}" in line.err


def test_a_refusal_moves_nothing(line: Line) -> None:
    """A 404 means that something is missing, and not that the broker is another one."""
    line(*SEEK, "--to", "99:7", answers=(404, ["billing"], {}))
    assert (line.code, line.asked) == (5, [f"POST {RESET}"])
    line(*SEEK, "--to", "99", "--dry-run", answers=(404, ["billing"], {}))
    assert (line.code, line.asked) == (5, [f"POST {RESET}"])
    assert "--dry-run" not in line.err


def test_apache_pulsar_knows_entries(line: Line) -> None:
    line.is_pulsar = True
    answers = ({"ledgerId": 3, "entryId": 7}, {})
    assert line(*SEEK, "--to", "idx:5", answers=answers) == (
        f"{TOPIC} billing: moved to index 5, of which this broker knows the entry, 3:7:-1\n"
    )


def test_apache_pulsar_moves_to_what_is_there_and_does_not_count(line: Line) -> None:
    line.is_pulsar = True
    there = ({"x-pulsar-message-id": "3:7"}, b"a")
    moved = line(*SEEK, "--to", "3:7", answers=(there, {}))
    assert moved == f"{TOPIC} billing: moved to id 3:7:-1\n"
    assert line.asked[-1] == f"POST {S}/resetcursor"
    line(*SEEK, "--to", "@5", answers=({},))
    assert line.asked == [f"POST {S}/resetcursor/5"]
    line(*SEEK, "--to", "99:7", answers=(404,))
    assert line.code == 5
    assert not any(one.startswith("POST") for one in line.asked)
    for words in (("--to", "3:7", "--dry-run"), ("--to", "3:7", "--expected", "3"), ("--by", "3")):
        line(*SEEK, *words)
        assert (line.code, line.asked) == (2, [])
        assert "nothing was changed" in line.err


@pytest.mark.parametrize(
    "words", [(), ("--to", "0", "--by", "1"), ("--to", "soon"), ("--expected", "-1")]
)
def test_lines_that_make_no_sense(line: Line, words: tuple[str, ...]) -> None:
    line(*SEEK, *words)
    assert (line.code, line.asked) == (2, [])


def test_a_check_that_fails_is_a_conflict(line: Line) -> None:
    line(*SEEK, "--to", "0", "--expected", "1", answers=(412,))
    assert line.code == 6
