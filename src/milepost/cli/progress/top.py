"""`milepost top`: the broker's numbers and the groups in trouble, live in the terminal.

    milepost top
    milepost top -n public/default --every 5

Ends by q or Ctrl-C. A poll that fails is told in the head; the numbers below it are the last ones. Where the
output is not a terminal it prints one frame and ends.
"""

from __future__ import annotations

import os
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from milepost.cli.connection.connection import connection
from milepost.cli.connection.remote import RemoteCommand
from milepost.cli.figures import age, short_topic, size
from milepost.cli.output import chosen, show_object, table_cell
from milepost.cli.progress.progress import style, verdict_style
from milepost.cli.quantities import Number
from milepost.cli.tables import Column, fit, lines
from milepost.cli.terminal import Terminal, terminal

if TYPE_CHECKING:
    from milepost.admin import Admin

Json = dict[str, Any]

ROWS_MAX = 200
HEIGHT_DEFAULT = 24
# Keys are looked for so often while nothing else is to be done.
KEY_WAIT_S = 0.1

COLUMNS = (
    Column("group", cut_to=6),
    Column("topic", cut_to=6),
    Column("part", rank=6, hides_zeros=True),
    Column("clients", rank=3),
    Column("backlog"),
    Column("ready", rank=4, hides_zeros=True),
    Column("inflight", rank=6, hides_zeros=True),
    Column("delayed", rank=2, hides_zeros=True),
    Column("holes", rank=2, hides_zeros=True),
    Column("in/s", rank=5, hides_zeros=True),
    Column("acked/s", rank=5, hides_zeros=True),
    Column("lag", rank=7, hides_zeros=True),
    Column("verdict"),
    Column("reason", rank=1, cut_to=20),
)


@click.command(cls=RemoteCommand, help="The broker's numbers and the groups in trouble, live.")
@click.option("-n", "--namespace", metavar="TENANT/NAME", help="Of one namespace only.")
@click.option("--every", type=Number(min=0.1), default=2.0, metavar="SECONDS", help="[2]")
@click.option("--once", is_flag=True, help="Print one frame and end.")
def top(namespace: str | None, every: float, once: bool) -> None:
    with connection().admin() as admin:
        found = admin.get_overview(namespace=namespace, limit=ROWS_MAX)
        if chosen() in ("json", "csv"):
            show_object(found)
        elif once or not terminal().has_screen:
            place = terminal()
            for line in frame(found, place, None, ""):
                click.echo(line)
        else:
            _live(admin, found, namespace, every)


def _live(admin: Admin, found: Json, namespace: str | None, pause_s: float) -> None:
    """Draw a frame again and again, until q or Ctrl-C. A window may change its size meanwhile."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from milepost.admin import AdminError

    failed_at, refusal = 0.0, ""
    with (
        _keys() as next_key,
        Live(console=Console(file=sys.stdout), screen=True, auto_refresh=False) as live,
    ):
        while True:
            told = ""
            if refusal:
                told = f"{refusal}; no answer for {age(int((time.monotonic() - failed_at) * 1000))}"
            drawn = "\n".join(frame(found, terminal(), _height(), told))
            live.update(Text.from_ansi(drawn, no_wrap=True), refresh=True)
            until = time.monotonic() + pause_s
            while (left := until - time.monotonic()) > 0:
                if next_key(min(left, KEY_WAIT_S)) in ("q", "Q"):
                    return
            try:
                found, refusal = admin.get_overview(namespace=namespace, limit=ROWS_MAX), ""
            except AdminError as error:
                failed_at = failed_at if refusal else time.monotonic()
                refusal = error.reason


@contextmanager
def _keys() -> Iterator[Any]:
    """A function that waits so many seconds for a key; empty if none was pressed. The terminal gives keys at
    once meanwhile, and is as it was afterwards."""
    if not sys.stdin.isatty():

        def wait(seconds: float) -> str:
            time.sleep(seconds)
            return ""

        yield wait
        return
    import select
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)

    def next_key(seconds: float) -> str:
        ready, _, _ = select.select([descriptor], [], [], seconds)
        return os.read(descriptor, 1).decode("latin-1") if ready else ""

    try:
        tty.setcbreak(descriptor, termios.TCSANOW)
        yield next_key
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _height() -> int:
    try:
        return os.get_terminal_size(sys.stdout.fileno()).lines or HEIGHT_DEFAULT
    except OSError:
        return HEIGHT_DEFAULT


def frame(found: Json, place: Terminal, height: int | None, told: str) -> list[str]:
    """What is seen at one moment, in so many lines: numbers, verdicts, then groups, trouble first."""
    shown = [line for text in _head(found) for line in _wrapped(text, place)]
    if told:
        shown += [place.paint(line, "trouble") for line in _wrapped(table_cell(told), place)]
    # A narrow terminal wraps them: they have colours, and are few.
    verdicts = [
        place.paint(f"{count} {verdict}", verdict_style(verdict))
        for verdict, count in found["verdicts"].items()
    ]
    shown.append("groups  " + ("  ".join(verdicts) if verdicts else "none"))
    shown.append("")
    table = fit(COLUMNS, [_row(line) for line in found["lines"]], place.width)
    shown += lines(table, place, style)
    if height is None or len(shown) <= height:
        return shown
    left = len(shown) - height + 1
    return [*shown[: height - 1], place.paint(f"{left} more lines; q ends", "faint")]


def _wrapped(text: str, place: Terminal) -> list[str]:
    return textwrap.wrap(text, place.width) if place.width else [text]


def _head(found: Json) -> Iterator[str]:
    rates, disk = found["rates"], found["disk"]
    yield (
        f"Milepost {found['version']}  {found['topics']} topics  {found['subscriptions']} groups  "
        f"{found['producers']} producers  {found['consumers']} consumers  "
        f"{found['connections']} connections"
    )
    free = f", {size(disk['free_bytes'])} of {size(disk['size_bytes'])} free" if disk else ""
    yield (
        f"in {rates['messages_in']:.1f}/s {size(rates['bytes_in'])}/s  "
        f"out {rates['messages_out']:.1f}/s {size(rates['bytes_out'])}/s  "
        f"backlog {found['backlog']}  stored {size(found['stored_bytes'])}{free}"
    )


def _row(line: Json) -> tuple[str, ...]:
    part = line["partition"]
    name = line["subscription"] + (f" {line['member']}" if line["member"] else "")
    return (
        table_cell(name),
        short_topic(line["topic"].removesuffix(f"-partition-{part}")),
        str(part) if part >= 0 else "",
        str(line["consumers"]),
        str(line["backlog"]),
        str(line["ready"]),
        str(line["inflight"]),
        str(line["delayed"]),
        str(line["holes"]),
        f"{line['rate_in']:.1f}",
        f"{line['rate_acked']:.1f}",
        age(line["behind_ms"]),
        line["verdict"],
        table_cell(line["reason"]),
    )
