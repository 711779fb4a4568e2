"""Patience: trying again while a broker is away, and no longer than an answer may take.

patiently(30.0, lambda: survey_once())
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from milepost.errors import ConnectError, ServiceNotReady

T = TypeVar("T")

# The broker is not there, or not yet.
AWAY: Final = (ConnectError, ServiceNotReady)

RETRY_FIRST_S: Final = 0.05
RETRY_MAX_S: Final = 2.0


class Patience:
    """How long one thing has been waited for."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self.restart()

    def restart(self) -> None:
        """It went on: the next wait is a new one."""
        self._waited_s = 0.0
        self._pause_s = RETRY_FIRST_S

    def wait(self) -> bool:
        """Pause before another attempt; False if there is to be none."""
        if self._waited_s >= self._limit_s:
            return False
        time.sleep(self._pause_s)
        self._waited_s += self._pause_s
        self._pause_s = min(self._pause_s * 2, RETRY_MAX_S)
        return True


def patiently(
    limit_s: float, attempt: Callable[[], T], awaited: tuple[type[Exception], ...] = AWAY
) -> T:
    """The attempt's result; its last error when patience is over, and at once one that is not awaited."""
    patience = Patience(limit_s)
    while True:
        try:
            return attempt()
        except awaited:
            if not patience.wait():
                raise
