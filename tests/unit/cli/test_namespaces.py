"""`milepost namespaces` as `pulsar-admin namespaces`."""

from __future__ import annotations

from typing import Any

import pytest
from unit.cli.conftest import Line

N = "/admin/v2/namespaces/acme/shop"

ROWS: list[tuple[str, str, Any]] = [
    ("create acme/shop -c a,b -b 4", f"PUT {N}",
     {"replication_clusters": ["a", "b"], "bundles": {"numBundles": 4}}),
    ("delete acme/shop -f", f"DELETE {N}?force=true", None),
    ("policies acme/shop", f"GET {N}", None),
    ("unload acme/shop", f"PUT {N}/unload", None),
    ("clear-backlog acme/shop -force", f"POST {N}/clearBacklog", None),
    ("clear-backlog acme/shop --force -s x", f"POST {N}/clearBacklog/x", None),
    ("unsubscribe acme/shop -s x", f"POST {N}/unsubscribe/x", None),
    ("permissions acme/shop", f"GET {N}/permissions", None),
    ("grant-permission acme/shop --role r --actions produce", f"POST {N}/permissions/r", ["produce"]),
    ("revoke-permission acme/shop --role r", f"DELETE {N}/permissions/r", None),
    (
        "set-retention acme/shop -t 3h -s 1G",
        f"POST {N}/retention",
        {"retentionTimeInMinutes": 180, "retentionSizeInMB": 1024},
    ),
    (
        "set-retention acme/shop --time -1 --size -1",
        f"POST {N}/retention",
        {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1},
    ),
    ("set-message-ttl acme/shop -ttl 2m", f"POST {N}/messageTTL", 120),
    ("set-deduplication acme/shop --enable", f"POST {N}/deduplication", True),
    ("get-retention acme/shop", f"GET {N}/retention", None),
    ("remove-retention acme/shop", f"DELETE {N}/retention", None),
]  # fmt: skip


@pytest.mark.parametrize(("words", "request_line", "body"), ROWS, ids=[row[0][:50] for row in ROWS])
def test_a_line_asks_this(line: Line, words: str, request_line: str, body: Any) -> None:
    line("namespaces", *words.split(), answers=({},))
    assert (line.code, line.err) == (0, "")
    assert line.asked == [request_line]
    assert line.body == body


def test_names(line: Line) -> None:
    assert line("namespaces", "list", "acme", answers=(["acme/shop"],)) == "acme/shop\n"
    assert line("namespaces", "topics", "acme/shop", "-m", "all", answers=(["t"],)) == "t\n"
    assert line.asked == [f"GET {N}/topics?mode=ALL"]


def test_a_policy_that_is_not_set(line: Line) -> None:
    assert line("namespaces", "get-retention", "acme/shop", answers=(b"",)) == "null\n"


def test_without_a_terminal_nobody_is_asked(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False)
    line("namespaces", "clear-backlog", "acme/shop")
    assert (line.code, line.asked) == (2, [])
    assert "nobody to ask; say --force" in line.err
