"""The audit log: one line for each change by an operator, with before and after.

The logger is called `milepost.audit`, so that it can be kept apart. A line has names and numbers, never
what a message says.
"""

from __future__ import annotations

import logging

from fastapi import Request

from milepost.rest.resources.reset import who

logger = logging.getLogger("milepost.audit")


def note(request: Request, action: str, what: object, **values: object) -> None:
    """Log that a caller did something to an object; `values` say where it stood and stands."""
    told = "".join(f" {name}={_shown(value)}" for name, value in values.items())
    logger.info("%s %s by %s%s", action, what, who(request), told)


def _shown(value: object) -> str:
    """A list as its words: `produce,consume`."""
    if isinstance(value, list | tuple | set | frozenset) and not hasattr(value, "_fields"):
        return ",".join(map(str, value))
    return str(value)
