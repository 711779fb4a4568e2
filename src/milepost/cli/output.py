"""Prints results as text, table, JSON or CSV.

`-o` chooses; without it a list is a name a line and an object is indented JSON, as scripts written
for `pulsar-admin` expect, and Milepost's own reports are tables. A table that is wider than the
terminal is turned: one field a line. What is not printed on a terminal is never cut nor coloured.

    show_rows(("name", "backlog"), [("orders", 12)])
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import click

from milepost.cli.tables import Column, fit, lines
from milepost.cli.terminal import terminal

FORMATS = ("table", "json", "csv")

_KEPT = "milepost.output"


def _keep(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.find_root().meta[_KEPT] = value


def output_option(*, hidden: bool = False) -> click.Option:
    return click.Option(
        ["-o", "--output"],
        type=click.Choice(FORMATS),
        expose_value=False,
        callback=_keep,
        hidden=hidden,
        help="How to print the result.",
    )


def chosen() -> str | None:
    ctx = click.get_current_context(silent=True)
    return ctx.find_root().meta.get(_KEPT) if ctx else None


def show_names(names: Iterable[str], column: str) -> None:
    """A name a line."""
    if chosen() is None:
        for name in names:
            click.echo(name)
    elif chosen() == "json":
        _echo_json(list(names))
    else:
        show_rows((column,), [(name,) for name in names])


def show_object(value: Any) -> None:
    """One value: text as it stands, anything else as JSON with Jackson's spaces."""
    if chosen() == "csv" and isinstance(value, Mapping):
        show_rows(("field", "value"), list(value.items()))
    elif chosen() == "table" and (isinstance(value, Mapping) or _holds_others(value)):
        _echo_fields(list(outline(value)))
    elif isinstance(value, str) and chosen() != "json":
        click.echo(value)
    elif chosen() is None:
        click.echo(json.dumps(value, indent=2, separators=(",", " : "), ensure_ascii=False))
    else:
        _echo_json(value)


def show_pairs(pairs: Mapping[str, object]) -> None:
    """A map as pulsar-admin prints it: four blanks between key and value."""
    if chosen() is None:
        for key, value in pairs.items():
            click.echo(f"{key}    {_cell(value)}")
    else:
        show_object(dict(pairs))


def show_rows(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A report: a table unless something else was chosen."""
    form = chosen()
    if form == "json":
        _echo_json([dict(zip(columns, row, strict=True)) for row in rows])
    elif form == "csv":
        _echo_csv(columns, rows)
    else:
        place = terminal()
        cells = [[table_cell(value) for value in row] for row in rows]
        for line in lines(fit([Column(name) for name in columns], cells, place.width), place):
            click.echo(line)


def _echo_fields(fields: Sequence[tuple[str, object]]) -> None:
    """A field a line. A long value is wrapped by the terminal, and not cut."""
    cells = [(name, table_cell(value)) for name, value in fields]
    for line in lines(fit([Column("field"), Column("value")], cells, None), terminal()):
        click.echo(line)


def _cell(value: object) -> str:
    """One line of printable text, whatever the value is."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.1f}"
    text = value if isinstance(value, str) else None
    if text is None:
        text = json.dumps(value, default=str) if isinstance(value, dict | list) else str(value)
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def table_cell(value: object) -> str:
    """The same for people: a list as its values behind one another."""
    if isinstance(value, list) and not _holds_others(value):
        return ", ".join(map(_cell, value))
    return _cell(value)


def outline(value: Any, depth: int = 0) -> Iterator[tuple[str, object]]:
    """The fields of a value, those of a value in it indented below its name.

    >>> list(outline({"a": 1, "b": {"c": [True, None]}, "d": [{"e": "x"}]}))
    [('a', 1), ('b', ''), ('  c', [True, None]), ('d', ''), ('  0', ''), ('    e', 'x')]
    """
    inner: Iterable[tuple[Any, Any]]
    inner = value.items() if isinstance(value, Mapping) else enumerate(value)
    for name, one in inner:
        label = f"{'  ' * depth}{name}"
        if isinstance(one, Mapping) or _holds_others(one):
            yield label, ""
            yield from outline(one, depth + 1)
        else:
            yield label, one


def _holds_others(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(one, list | Mapping) for one in value)


def for_a_person() -> bool:
    """Is the result printed on a terminal, in no form that was asked for, and not as pulsar-admin's?"""
    ctx = click.get_current_context()
    if chosen() is not None:
        return chosen() == "table"
    return terminal().width is not None and not ctx.command_path.startswith("milepost admin ")


def _echo_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def _echo_csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    import csv
    import io

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_cell(value) for value in row] for row in rows)
    click.echo(text.getvalue(), nl=False)


def note(text: str) -> None:
    """For the person, not for the pipe."""
    click.echo(text, err=True)
