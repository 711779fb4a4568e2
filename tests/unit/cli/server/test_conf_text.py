"""Configuration texts: every key with its line, and a named line when it is no such text."""

from __future__ import annotations

import pytest

from milepost.cli.server.conf_text import conf_lines, toml_lines
from milepost.errors import InvalidSetting


def test_conf_lines() -> None:
    text = "# ports\n\n  brokerServicePort = 6650 \r\nadvertisedAddress=\n! note\nurl=a=b\n"
    assert list(conf_lines(text, "broker.conf")) == [
        (3, "brokerServicePort", "6650"),
        (4, "advertisedAddress", ""),
        (6, "url", "a=b"),
    ]


@pytest.mark.parametrize("line", ["brokerServicePort", "=6650", "  = x"])
def test_a_conf_line_without_a_key_is_named(line: str) -> None:
    with pytest.raises(InvalidSetting, match=r"^broker\.conf:2: .*: expected key=value$"):
        list(conf_lines(f"a=1\n{line}\n", "broker.conf"))


def test_what_a_bad_line_says_cannot_break_the_message() -> None:
    with pytest.raises(InvalidSetting) as caught:
        list(conf_lines("\x1b[31mred\x00" + "x" * 500, "broker.conf"))
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 200


def test_toml_lines() -> None:
    text = '# a file\nport = 6650\n\n"host" = "::"\nsizes = [\n  1,\n]\n[listen]\nport = 1\n'
    assert list(toml_lines(text, "milepost.toml")) == [
        (2, "port", 6650),
        (4, "host", "::"),
        (5, "sizes", [1]),
        (8, "listen", {"port": 1}),
    ]


def test_a_key_is_not_found_inside_another() -> None:
    assert list(toml_lines("http_port = 1\nport = 2\n", "x.toml")) == [
        (1, "http_port", 1),
        (2, "port", 2),
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [("port = 1\nport = 2\n", 2), ("a = 1\nb = \n", 2), ("a = [1,\n", 1), ('x = "\x00"', 1)],
)
def test_what_is_not_toml_is_named_by_line(text: str, line: int) -> None:
    with pytest.raises(InvalidSetting, match=rf"^x\.toml:{line}: not TOML: [^(]+$"):
        list(toml_lines(text, "x.toml"))


@pytest.mark.parametrize("part", ["[", "{x="])
def test_toml_that_is_nested_too_deeply(part: str) -> None:
    with pytest.raises(InvalidSetting, match=r"^x\.toml: not TOML: nested too deeply$"):
        list(toml_lines("a = " + part * 10_000, "x.toml"))
