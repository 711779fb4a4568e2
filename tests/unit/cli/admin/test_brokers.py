"""`milepost brokers` as `pulsar-admin brokers`."""

from __future__ import annotations

import pytest
from unit.cli.conftest import Line

B = "/admin/v2/brokers"


def test_what_is_printed(line: Line) -> None:
    assert line("brokers", "list", "standalone", answers=(["h:1"],)) == "h:1\n"
    assert line("brokers", "healthcheck", answers=(b"ok",)) == "ok\n"
    assert line("brokers", "version", answers=(b"4.2.4",)) == "4.2.4\n"
    assert line("brokers", "list-dynamic-config", answers=(["a", "b"],)) == "a\nb\n"
    assert line("brokers", "get-all-dynamic-config", answers=({"a": "1"},)) == "a    1\n"
    assert line("brokers", "get-runtime-config", answers=({"a": "1"},)) == "a    1\n"


@pytest.mark.parametrize(
    ("words", "request_line"),
    [
        ("leader-broker", f"GET {B}/leaderBroker"),
        ("namespaces standalone -u h:1", f"GET {B}/standalone/h%3A1/ownedNamespaces"),
        ("get-internal-config", f"GET {B}/internal-configuration"),
        ("update-dynamic-config -c a -v 5", f"POST {B}/configuration/a/5"),
        ("delete-dynamic-config --config a", f"DELETE {B}/configuration/a"),
        ("backlog-quota-check", f"GET {B}/backlog-quota-check"),
    ],
)
def test_a_line_asks_this(line: Line, words: str, request_line: str) -> None:
    line("brokers", *words.split(), answers=({},))
    assert (line.code, line.err) == (0, "")
    assert line.asked == [request_line]
