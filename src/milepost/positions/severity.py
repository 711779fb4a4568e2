"""The verdicts on progress, in order of trouble.

The broker judges each partition; REST, the command line and the report of recorded positions add partitions
up, and use `worst` for it: a group is as well as its worst partition.

    >>> worst(["CAUGHT_UP", "NO_CONSUMER", "CONSUMING"])
    'NO_CONSUMER'
    >>> severity("CAUGHT_UP"), is_trouble("NO_CONSUMER"), is_trouble("SLOW")
    (0, True, False)
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final


class Verdict(StrEnum):
    CAUGHT_UP = "CAUGHT_UP"
    CONSUMING = "CONSUMING"
    SLOW = "SLOW"
    RESET_PENDING = "RESET_PENDING"
    NO_CONSUMER = "NO_CONSUMER"
    STARVED = "STARVED"
    STALLED = "STALLED"
    BLOCKED_BY_HOLE = "BLOCKED_BY_HOLE"
    DAMAGED = "DAMAGED"

    @property
    def severity(self) -> int:
        """0 is well; the more the worse."""
        return severity(self)

    @property
    def is_trouble(self) -> bool:
        """Does it need an operator?"""
        return is_trouble(self)


_SEVERITIES: Final = {verdict.value: number for number, verdict in enumerate(Verdict)}


def severity(verdict: str) -> int:
    """How bad it is. One that is not known here, a newer broker's, is worse than all: better looked at."""
    return _SEVERITIES.get(verdict, len(_SEVERITIES))


def is_trouble(verdict: str) -> bool:
    return severity(verdict) >= _SEVERITIES["NO_CONSUMER"]


def worst(verdicts: Iterable[str]) -> str:
    """The one that counts for all of them; there is at least one."""
    return max(map(str, verdicts), key=severity)
