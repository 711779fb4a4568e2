"""The progress bar on a terminal.

with bar("archiving") as show:
    show(3, 10)                 # done, of how many
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Show = Callable[[float, float], None]


@contextmanager
def bar(what: str) -> Iterator[Show]:
    if not sys.stderr.isatty():
        yield _nothing
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(what, total=None)

        def show(done: float, total: float) -> None:
            progress.update(task, completed=int(done), total=int(total))

        yield show


def _nothing(done: float, total: float) -> None:
    pass
