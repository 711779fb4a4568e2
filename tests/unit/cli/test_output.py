"""Tables, JSON, CSV, and what pulsar-admin prints."""

from __future__ import annotations

import json

import pytest
from unit.cli.conftest import Line

from milepost.cli.output import outline

TENANTS = ["acme", 'we"ird']


@pytest.mark.parametrize(
    ("args", "shown"),
    [
        ((), 'acme\nwe"ird\n'),
        (("-o", "json"), json.dumps(TENANTS, indent=2) + "\n"),
        (("-o", "csv"), 'tenant\nacme\n"we""ird"\n'),
        (("-o", "table"), 'TENANT\nacme\nwe"ird\n'),
    ],
)
def test_names(line: Line, args: tuple[str, ...], shown: str) -> None:
    assert line("tenants", "list", *args, answers=(TENANTS,)) == shown
    assert line(*args, "tenants", "list", answers=(TENANTS,)) == shown


@pytest.mark.parametrize(
    ("form", "shown"),
    [
        (None, '{\n  "a" : 1,\n  "b" : {\n    "c" : true\n  }\n}\n'),
        ("json", '{\n  "a": 1,\n  "b": {\n    "c": true\n  }\n}\n'),
        ("csv", 'field,value\na,1\nb,"{""c"": true}"\n'),
        ("table", "FIELD  VALUE\na      1\nb\n  c    true\n"),
    ],
)
def test_an_object(line: Line, form: str | None, shown: str) -> None:
    chosen = ("-o", form) if form else ()
    assert line("tenants", "get", "acme", *chosen, answers=({"a": 1, "b": {"c": True}},)) == shown


def test_what_a_broker_says_cannot_paint_the_terminal(line: Line) -> None:
    shown = line("tenants", "get", "x", "-o", "table", answers=({"a": "\x1b[31m\n"},))
    assert "\x1b" not in shown
    assert "\\x1b[31m\\x0a" in shown


def test_an_unknown_format_is_refused(line: Line) -> None:
    assert line("tenants", "list", "-o", "yaml") == ""
    assert line.code == 2
    assert line.err.count("\n") == 1


def test_no_cell_of_a_table_holds_json(line: Line) -> None:
    deep = {"list": [1, "two", None], "inner": {"of": [{"x": {"y": []}}, 7]}, "none": {}}
    shown = line("tenants", "get", "x", "-o", "table", answers=(deep,))
    assert shown.splitlines() == [
        "FIELD      VALUE",
        "list       1, two,",
        "inner",
        "  of",
        "    0",
        "      x",
        "        y",
        "    1      7",
        "none",
    ]
    assert dict(outline({"a": {"b": 1}})) == {"a": "", "  b": 1}
