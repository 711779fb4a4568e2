"""Turns our errors into one sentence for Spark's users.

Spark shows a user whatever Python's traceback says, before it says what is wrong. An error of ours names
the value that failed and needs no more: it is raised anew where Spark called. Other errors are bugs, and keep
their traceback.

    @plainly
    def schema(self) -> str: ...
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

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
