"""Prints results as text, table, JSON or CSV.

`-o` chooses; without it a list is a name a line and an object is indented JSON, as scripts written
for `pulsar-admin` expect, and Milepost's own reports are tables. A table that is wider than the
terminal is turned: one field a line. What is not printed on a terminal is never cut nor coloured.

    show_rows(("name", "backlog"), [("orders", 12)])
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

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
    if chosen() in ("table", "csv") and isinstance(value, Mapping):
        show_rows(("field", "value"), list(value.items()))
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
        cells = [[_cell(value) for value in row] for row in rows]
        for line in table_lines(columns, cells, _width()):
            click.echo(line)


def table_lines(
    columns: Sequence[str], rows: Sequence[Sequence[str]], width: int | None
) -> Iterable[str]:
    """A table with a head; if it does not fit, every row as lines of field and value."""
    widths = [
        max(len(column), *(len(row[place]) for row in rows)) if rows else len(column)
        for place, column in enumerate(columns)
    ]
    if width is None or sum(widths) + 2 * (len(widths) - 1) <= width or not rows:
        align = [_is_numeric(row[place] for row in rows) for place in range(len(columns))]
        for row in ([column.upper() for column in columns], *rows):
            cells = (
                cell.rjust(size) if is_number else cell.ljust(size)
                for cell, size, is_number in zip(row, widths, align, strict=True)
            )
            yield "  ".join(cells).rstrip()
        return
    label = max(len(column) for column in columns)
    for number, row in enumerate(rows):
        if number:
            yield ""
        for column, cell in zip(columns, row, strict=True):
            yield f"{column.ljust(label)}  {cell}".rstrip()


def _is_numeric(cells: Iterable[str]) -> bool:
    return all(cell.lstrip("-").replace(".", "", 1).isdecimal() or not cell for cell in cells)


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


def _width() -> int | None:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


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
