"""Seeks that are not durable yet, and who waits for them.

No consumer hears of the new position before it is certain that it holds. One that the seek closed subscribes
again at once: its SUBSCRIBE is answered behind the seek. One that stays gets its messages behind the seek: a
crash that forgets a seek forward would let the messages that it skipped come behind later ones of their key.

    >>> seeks = PendingSeeks(); heard = []
    >>> durable = seeks.begin(lambda error: heard.append("sought"))
    >>> seeks.after(lambda: heard.append("resumed")); durable(None); heard
    ['sought', 'resumed']
    >>> bool(seeks)
    False
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

    def __bool__(self) -> bool:
        return self._count > 0

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
