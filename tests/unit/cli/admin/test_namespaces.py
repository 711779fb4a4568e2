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
    ("unload acme/shop -b 0x0_0xf", f"PUT {N}/0x0_0xf/unload", None),
    ("clear-backlog acme/shop -force -b 0x0_0xf", f"POST {N}/0x0_0xf/clearBacklog", None),
    ("bundles acme/shop", f"GET {N}/bundles", None),
    ("get-properties acme/shop", f"GET {N}/properties", None),
    ("set-properties acme/shop -p a=b,c=d", f"PUT {N}/properties", {"a": "b", "c": "d"}),
    ("set-property acme/shop -k a -v b=c", f"PUT {N}/properties", {"a": "b=c"}),
    ("get-property acme/shop -k a", f"GET {N}/property/a", None),
    ("remove-property acme/shop -k a", f"DELETE {N}/property/a", None),
    ("clear-properties acme/shop", f"DELETE {N}/properties", None),
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


def test_the_clusters_of_a_namespace(line: Line) -> None:
    assert line("namespaces", "get-clusters", "acme/shop", answers=(["here"],)) == "here\n"
    assert line.asked == [f"GET {N}/replication"]


def test_without_a_terminal_nobody_is_asked(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False)
    line("namespaces", "clear-backlog", "acme/shop")
    assert (line.code, line.asked) == (2, [])
    assert "there is no terminal to ask at; say --force" in line.err


@pytest.mark.parametrize("of", ["topics unload orders", "namespaces unload acme/shop"])
@pytest.mark.parametrize("destination", ["", " "])
def test_a_move_to_an_empty_destination_is_no_unload(line: Line, of: str, destination: str) -> None:
    line(*of.split(), "--destination", destination)
    assert (line.code, line.asked) == (2, [])
    assert "it is empty: name a broker as `brokers list` shows it" in line.err
