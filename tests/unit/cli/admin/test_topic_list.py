"""`milepost topics list`: names for programs, a table for people."""

from __future__ import annotations

import json

from unit.cli.conftest import Line, Screen
from unit.cli.test_terminal import LISTED, TOPIC

NAMES = [f"{TOPIC}-partition-0", f"{TOPIC}-partition-1"]
LIST = ("topics", "list", "public/default")


def page(*names: str, after: str | None = None) -> dict[str, object]:
    return {"found": 3, "after": after, "topics": [{**LISTED, "name": name} for name in names]}


def test_a_program_gets_names(line: Line) -> None:
    assert line(*LIST, answers=(NAMES, [])) == "".join(f"{name}\n" for name in NAMES)
    assert json.loads(line(*LIST, "-o", "json", answers=(NAMES, []))) == NAMES
    assert line(*LIST, "-o", "csv", answers=(NAMES, [])).splitlines() == ["topic", *NAMES]


def test_pages_are_put_together(line: Line) -> None:
    first = page("persistent://public/default/a", "persistent://public/default/b", after="b")
    shown = line(*LIST, "-o", "table", answers=(first, page("persistent://public/default/c"), []))
    assert [row.split()[0] for row in shown.splitlines()] == ["TOPIC", "a", "b", "c"]
    assert line.asked[:2] == [
        "GET /milepost/v1/namespaces/public/default/topics?limit=200",
        "GET /milepost/v1/namespaces/public/default/topics?after=b&limit=200",
    ]


def test_apache_pulsar_lists_names_with_partitions_folded(line: Line, screen: Screen) -> None:
    line.is_pulsar = True
    shown = screen(80, *LIST, answers=([*NAMES, f"{TOPIC}-s"], []), NO_COLOR="1")
    assert shown.splitlines() == ["TOPIC     PARTS", "orders        2", "orders-s"]
    assert line(*LIST, answers=(NAMES, [])).splitlines() == NAMES


def test_one_domain_is_names_with_partitions_folded(screen: Screen) -> None:
    names = ["non-persistent://a/b/c"]
    shown = screen(80, *LIST, "-td", "non_persistent", answers=(names,), NO_COLOR="1")
    assert shown.splitlines() == ["TOPIC", *names]
