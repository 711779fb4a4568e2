"""Lays out tables: as wide as they like where there is room, and as narrow as a terminal where there is not.

A table that is too wide loses what matters least. Columns that are all zero go first, then texts are cut in
their middle, then columns go by their rank. What still does not fit is turned: one field a line.

    fitted = fit([Column("group", cut_to=8), Column("holes", rank=2, hides_zeros=True)], rows, 80)
    lines(fitted, terminal)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from milepost.cli.terminal import PLAIN, Terminal

GAP = 2
# Cells that say nothing.
ZEROS = {"", "0", "0.0", "0s", "0 B"}

# Which style a cell has, by its column's name and its text.
Style = Callable[[str, str], str]


class Column(NamedTuple):
    name: str
    # Columns of a lower rank go first; those of rank 0 stay.
    rank: int = 0
    # Texts may be cut to so many characters; 0 means not at all.
    cut_to: int = 0
    # It goes where every cell is zero or empty.
    hides_zeros: bool = False


class Fitted(NamedTuple):
    """What of a table is shown, and how wide each column is. `is_turned`: nothing of it fits as a table."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    widths: tuple[int, ...]
    is_turned: bool = False

    @property
    def width(self) -> int:
        return sum(self.widths) + GAP * (len(self.widths) - 1)


def fit(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int | None) -> Fitted:
    """Leave out columns, and say how wide the others may be. Without a width everything is shown."""
    if width is None:
        return _measured(columns, rows)
    places = [
        place
        for place, column in enumerate(columns)
        if not (column.hides_zeros and rows and all(row[place] in ZEROS for row in rows))
    ]
    while True:
        table = _measured(
            [columns[place] for place in places], [[row[place] for place in places] for row in rows]
        )
        least = sum(map(_least, table.columns, table.widths)) + GAP * (len(places) - 1)
        if least <= width:
            return _narrowed(table, width)
        going = [place for place in places if columns[place].rank]
        if not going:
            return table._replace(is_turned=bool(rows))
        # The rightmost of those that matter least.
        places.remove(min(going, key=lambda place: (columns[place].rank, -place)))


def _measured(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> Fitted:
    widths = [
        max([text_width(column.name), *(text_width(row[place]) for row in rows)])
        for place, column in enumerate(columns)
    ]
    return Fitted(tuple(columns), tuple(map(tuple, rows)), tuple(widths))


def _least(column: Column, width: int) -> int:
    return min(width, max(column.cut_to, len(column.name))) if column.cut_to else width


def _narrowed(table: Fitted, width: int) -> Fitted:
    """Take what is too much from the widest texts, one character after the other."""
    widths = list(table.widths)
    least = [_least(column, size) for column, size in zip(table.columns, widths, strict=True)]
    for _ in range(table.width - width):
        place = max(range(len(widths)), key=lambda place: widths[place] - least[place])
        widths[place] -= 1
    return table._replace(widths=tuple(widths))


def lines(table: Fitted, place: Terminal = PLAIN, style: Style | None = None) -> Iterator[str]:
    """The head, then a line for each row, or several lines where the table is turned."""
    style = style or (lambda column, cell: "")
    if table.is_turned:
        yield from _turned(table, place, style)
        return
    is_number = [
        _is_numeric(row[at] for row in table.rows) if table.rows else False
        for at in range(len(table.columns))
    ]
    # Without rows the head stands alone, and its last word needs no blanks behind it.
    head = [column.name.upper() for column in table.columns]
    yield _joined(head, table, is_number, place, lambda column, cell: "head")
    for row in table.rows:
        yield _joined(row, table, is_number, place, style)


def _joined(
    row: Sequence[str], table: Fitted, is_number: Sequence[bool], place: Terminal, style: Style
) -> str:
    cells = []
    for column, cell, width, right in zip(table.columns, row, table.widths, is_number, strict=True):
        text = cut(cell, width, place.ellipsis)
        blanks = " " * (width - text_width(text))
        # The colour is on the text: blanks stay blank, and may be left out at the end.
        shown = place.paint(text, style(column.name, cell)) if text else ""
        cells.append(blanks + shown if right else shown + blanks)
    return (" " * GAP).join(cells).rstrip()


def _turned(table: Fitted, place: Terminal, style: Style) -> Iterator[str]:
    label = max(len(column.name) for column in table.columns)
    for number, row in enumerate(table.rows):
        if number:
            yield ""
        for column, cell in zip(table.columns, row, strict=True):
            shown = place.paint(cell, style(column.name, cell)) if cell else ""
            yield f"{column.name.ljust(label)}  {shown}".rstrip()


def cut(text: str, width: int, ellipsis: str = "…") -> str:
    """A text that is too long by its beginning and its end: names often differ in their last letters.

    >>> cut("persistent-orders-7", 10), cut("orders", 10)
    ('persis…s-7', 'orders')
    """
    if text_width(text) <= width:
        return text
    room = max(width - len(ellipsis), 0)
    behind = room * 2 // 5
    front, back = room - behind, text[len(text) - behind :] if behind else ""
    shown = f"{text[:front]}{ellipsis}{back}"
    while text_width(shown) > width and front:  # wide characters take two places
        front -= 1
        shown = f"{text[:front]}{ellipsis}{back}"
    return shown


def text_width(text: str) -> int:
    """How many places a text takes on a terminal."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # has the table of wide characters; most texts need none

    return cell_len(text)


def _is_numeric(cells: Iterable[str]) -> bool:
    return all(cell.lstrip("-").replace(".", "", 1).isdecimal() or not cell for cell in cells)
