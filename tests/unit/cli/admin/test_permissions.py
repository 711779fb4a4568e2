"""Permissions of namespaces, topics and subscriptions, as `pulsar-admin` has them."""

from __future__ import annotations

from typing import Any

import pytest
from unit.cli.conftest import Line

TOPIC = "persistent://acme/shop/orders"
T = "/admin/v2/persistent/acme/shop/orders/permissions"
N = "/admin/v2/namespaces/acme/shop/permissions"

ROWS: list[tuple[str, str, Any]] = [
    ("namespaces permissions acme/shop", f"GET {N}", None),
    ("namespaces grant-permission acme/shop --role r --actions produce", f"POST {N}/r", ["produce"]),
    ("namespaces revoke-permission acme/shop --role r", f"DELETE {N}/r", None),
    ("namespaces subscription-permission acme/shop", f"GET {N}/subscription", None),
    ("namespaces grant-subscription-permission acme/shop -s x -rs a,b",
     f"POST {N}/subscription/x", ["a", "b"]),
    ("namespaces revoke-subscription-permission acme/shop -s x -r a", f"DELETE {N}/x/a", None),
    (f"topics permissions {TOPIC}", f"GET {T}", None),
    (f"topics grant-permission {TOPIC} -r r -a produce,consume",
     f"POST {T}/r", ["produce", "consume"]),
    (f"topics revoke-permission {TOPIC} --role r", f"DELETE {T}/r", None),
]  # fmt: skip


@pytest.mark.parametrize(("words", "request_line", "body"), ROWS, ids=[row[0][:50] for row in ROWS])
def test_a_line_asks_this(line: Line, words: str, request_line: str, body: Any) -> None:
    line(*words.split(), answers=({},))
    assert (line.code, line.err) == (0, "")
    assert line.asked == [request_line]
    assert line.body == body


def test_what_is_printed(line: Line) -> None:
    shown = line("topics", "permissions", TOPIC, answers=({"r": ["produce", "consume"]},))
    assert shown == "r    [produce, consume]\n"


def test_an_action_that_is_not_one_is_named(line: Line) -> None:
    line("topics", "grant-permission", TOPIC, "-r", "r", "-a", "produce,consme")
    assert (line.code, line.asked) == (2, [])
    assert "'consme': expected produce, consume, functions, " in line.err
