"""What the output goes to: how wide it is, and whether it takes colours and signs beyond ASCII.

Colours need a terminal that is not `TERM=dumb`, and a person who has not set `NO_COLOR`. What is not printed
on a terminal has no width: it is neither cut nor coloured.

    place = terminal()
    place.width, place.has_colour
"""

from __future__ import annotations

import os
import sys
from typing import NamedTuple

import click

WIDTH_DEFAULT = 80

# How much attention a text asks for, and the colour that says so.
STYLES: dict[str, dict[str, object]] = {
    "head": {"bold": True},
    "well": {"fg": "green"},
    "watch": {"fg": "yellow"},
    "trouble": {"fg": "red", "bold": True},
    "held": {"fg": "yellow"},
    "waiting": {"fg": "cyan"},
    "later": {"fg": "magenta"},
    "faint": {"dim": True},
}


class Terminal(NamedTuple):
    """`width` is None where the output is not a terminal."""

    width: int | None
    has_colour: bool
    is_unicode: bool

    def paint(self, text: str, style: str) -> str:
        """The text in the colour of a style; as it is where there are no colours, or no style."""
        if not self.has_colour or not style:
            return text
        return click.style(text, **STYLES[style])  # type: ignore[arg-type]

    @property
    def has_screen(self) -> bool:
        """Can it be cleared and written again? `TERM=dumb` cannot, and has no signs beyond ASCII either."""
        return self.width is not None and os.environ.get("TERM") != "dumb"

    @property
    def ellipsis(self) -> str:
        return "…" if self.is_unicode else ".."


PLAIN = Terminal(None, False, True)


def terminal() -> Terminal:
    """Of the standard output, at this moment: a window may change its width."""
    out = sys.stdout
    encoding = (getattr(out, "encoding", None) or "utf-8").lower()
    is_utf8 = encoding.replace("-", "") == "utf8"
    if not out.isatty():
        return PLAIN._replace(is_unicode=is_utf8)
    is_dumb = os.environ.get("TERM") == "dumb"
    return Terminal(
        _width(out.fileno()),
        not is_dumb and not os.environ.get("NO_COLOR"),
        is_utf8 and not is_dumb,
    )


def _width(descriptor: int) -> int:
    asked = os.environ.get("COLUMNS", "")
    if asked.isdecimal() and int(asked):
        return int(asked)
    try:
        return os.get_terminal_size(descriptor).columns or WIDTH_DEFAULT
    except OSError:
        return WIDTH_DEFAULT
