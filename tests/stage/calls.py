"""How many calls of functions something takes: what it costs, the same on every machine."""

from __future__ import annotations

import sys
from collections.abc import Callable


def counted(work: Callable[[], object]) -> int:
    """Calls of functions that something takes, those of the interpreter's own too."""
    count = 0

    def count_one(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(count_one)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count
