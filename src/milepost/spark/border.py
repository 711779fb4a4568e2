"""Turns our errors into one sentence for Spark's users.

Spark shows a user whatever Python's traceback says, before it says what is wrong. An error of ours names
the value that failed and needs no more: it is raised anew where Spark called. Other errors are bugs, and keep
their traceback.

    @plainly
    def schema(self) -> str: ...

A query that has enough rows (`show`, `limit`) hangs up on the workers that read more, and PySpark prints a
traceback of each such worker. Nothing is wrong then: `quiet_hang_ups` leaves those out, and no others.
"""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar, cast

from milepost.errors import MilepostError

P = ParamSpec("P")
R = TypeVar("R")


def plainly(method: Callable[P, R]) -> Callable[P, R]:
    """A method that Spark calls; it may be a generator."""
    if inspect.isgeneratorfunction(method):

        @wraps(method)
        def iterate(*args: P.args, **kwargs: P.kwargs) -> Iterator[Any]:
            try:
                yield from method(*args, **kwargs)
            except MilepostError as error:
                raise error.with_traceback(None) from None

        return cast("Callable[P, R]", iterate)

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except MilepostError as error:
            raise error.with_traceback(None) from None

    return call


def quiet_hang_ups(process: Any = None) -> None:
    """Have the worker process that this runs in print nothing when Spark hangs up on it."""
    daemon: Any = process or sys.modules["__main__"]
    if getattr(getattr(daemon, "__spec__", None), "name", None) == _DAEMON:
        daemon.traceback = _Tracebacks()


# The module that Spark runs its Python workers by.
_DAEMON: Final = "pyspark.daemon"


class _Tracebacks:
    """The module `traceback` for PySpark's daemon, but for what a connection that was closed raises."""

    def __getattr__(self, name: str) -> Any:
        return getattr(traceback, name)

    def print_exc(self) -> None:
        if not isinstance(sys.exc_info()[1], BrokenPipeError | ConnectionResetError):
            traceback.print_exc()
