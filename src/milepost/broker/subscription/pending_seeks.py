"""Seeks that are not durable yet, and the callers that wait for them.

A consumer that a seek closed subscribes again at once. Its SUBSCRIBE must not be answered before the seek is,
or it would hear of the new position before it is certain that it holds.

    >>> seeks = PendingSeeks(); heard = []
    >>> durable = seeks.begin(lambda error: heard.append("sought"))
    >>> seeks.after(lambda: heard.append("resumed")); durable(None); heard
    ['sought', 'resumed']
"""

from __future__ import annotations

from collections.abc import Callable

from milepost.broker.subscription.ack_journal import Done
from milepost.errors import PersistenceError


class PendingSeeks:
    __slots__ = ("_count", "_resumes")

    def __init__(self) -> None:
        self._count = 0
        self._resumes: list[Callable[[], None]] = []

    def begin(self, done: Done) -> Done:
        """One more; what to call when it is durable, which calls `done`."""
        self._count += 1

        def durable(error: PersistenceError | None) -> None:
            self._count -= 1
            done(error)
            if not self._count:
                waiting, self._resumes = self._resumes, []
                for resume in waiting:
                    resume()

        return durable

    def after(self, resume: Callable[[], None]) -> None:
        """Call `resume` when none is on its way to the disk; at once if none is."""
        if self._count:
            self._resumes.append(resume)
        else:
            resume()
