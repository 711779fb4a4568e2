"""Tries again while a broker is away, for a limited time.

patiently(30.0, lambda: survey_once())
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from milepost.clock import Clock, SystemClock
from milepost.errors import ConnectError, ServiceNotReady

T = TypeVar("T")

# The broker is not there, or not yet.
AWAY: Final = (ConnectError, ServiceNotReady)

RETRY_FIRST_S: Final = 0.05
RETRY_MAX_S: Final = 2.0


class Patience:
    """How long one thing has been waited for: attempts that took their time count as pauses do."""

    def __init__(self, limit_s: float, clock: Clock | None = None) -> None:
        self._limit_s = limit_s
        self._clock = clock or SystemClock()
        self.restart()

    def restart(self) -> None:
        """It went on: the next wait is a new one."""
        self._since = self._clock.monotonic()
        self._pause_s = RETRY_FIRST_S

    def wait(self) -> bool:
        """Pause before another attempt; False if there is to be none."""
        if self._clock.monotonic() - self._since >= self._limit_s:
            return False
        time.sleep(self._pause_s)
        self._pause_s = min(self._pause_s * 2, RETRY_MAX_S)
        return True


def patiently(
    limit_s: float,
    attempt: Callable[[], T],
    awaited: tuple[type[Exception], ...] = AWAY,
    clock: Clock | None = None,
) -> T:
    """The attempt's result; its last error when patience is over, and at once one that is not awaited."""
    patience = Patience(limit_s, clock)
    while True:
        try:
            return attempt()
        except awaited:
            if not patience.wait():
                raise
