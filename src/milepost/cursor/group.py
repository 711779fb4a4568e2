"""The cursor of a broadcast group: the slowest member decides.

The group's position is the minimum over its members, connected or not, as long as they are remembered. It
does not rise because a member went silent: only when that member is forgotten, a given time after it left,
and then no other member misses anything, since each member has a cursor of its own. When all are forgotten
the position stays where it was. A member that is known resumes where it was; a stranger starts by the group's
rule, at the minimum unless the group says otherwise, and never silently at the end.

    >>> members = [Member("a", 7, is_connected=True), Member("b", 3, left_ms=1000)]
    >>> minimum(members, before=2), minimum([], before=2)
    (3, 2)
    >>> start_of(Start.MINIMUM, at=3, first=0, end=9), start_of(Start.LATEST, at=3, first=0, end=9)
    (3, 9)
    >>> expired(members, now_ms=61_000, after_ms=60_000)
    ['b']

Pure: positions and times are given, nothing is kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple


class Start(StrEnum):
    """Where a member starts that the group does not know."""

    MINIMUM = "minimum"
    LATEST = "latest"
    EARLIEST = "earliest"


class Member(NamedTuple):
    name: str
    position: int
    """The first index that it has not acked."""
    is_connected: bool = False
    left_ms: int = 0
    """When it was last connected, if it is not now."""


def minimum(members: Iterable[Member], before: int) -> int:
    """The group's position; `before` is what it was when there was a member last."""
    return min((member.position for member in members), default=before)


def start_of(rule: Start, *, at: int, first: int, end: int) -> int:
    """Where a stranger starts in a group that is `at` an index of `[first, end)`."""
    if rule is Start.LATEST:
        return end
    return first if rule is Start.EARLIEST else min(max(at, first), end)


def expired(members: Iterable[Member], now_ms: int, after_ms: int) -> list[str]:
    """Whom to forget: those that left that long ago. A member that is connected stays, however idle."""
    return [
        member.name
        for member in members
        if not member.is_connected and now_ms - member.left_ms >= after_ms
    ]
