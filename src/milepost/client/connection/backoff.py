"""How long to wait before the next attempt to connect.

Doubles from a tenth of a second to a minute, less a random tenth, so that clients that lost one broker
do not come back in step. Pure: the random numbers come from the caller.

    >>> backoff = Backoff(Random(1))
    >>> [round(backoff.next_s(), 2) for _ in range(3)]
    [0.1, 0.18, 0.37]
"""

from __future__ import annotations

from random import Random
from typing import Final

FIRST_S: Final = 0.1
MAX_S: Final = 60.0


class Backoff:
    __slots__ = ("_first_s", "_max_s", "_next_s", "_random")

    def __init__(self, random: Random, *, first_s: float = FIRST_S, max_s: float = MAX_S) -> None:
        assert 0 < first_s <= max_s
        self._random = random
        self._first_s = first_s
        self._max_s = max_s
        # Invariant: first_s ≤ next_s ≤ max_s.
        self._next_s = first_s

    def next_s(self) -> float:
        """Seconds to wait now; the next call waits twice as long."""
        wait_s = self._next_s
        self._next_s = min(wait_s * 2, self._max_s)
        return wait_s * (1 - self._random.random() / 10)

    def reset(self) -> None:
        """It worked: begin anew the next time."""
        self._next_s = self._first_s
