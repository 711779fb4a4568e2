"""The half messages that are open: when a producer is asked about each, and when it is given up.

A half message waits for its end. When none comes, a producer of its topic is asked: first after its own time
or that of the topic, then again and again, at most `QUESTIONS_MAX` times; then it is rolled back. A question
that no producer was there to hear does not count. Knows no clock but the time that it is given.

    >>> halves = Halves()
    >>> halves.add(Half(7, "orders", birth=1, role="", due=6.0, every_s=30.0, over=259_200.0))
    >>> halves.next_due, halves.take_due(5.9), [half.index for half in halves.take_due(6.0)]
    (6.0, [], [7])
    >>> halves.asked(halves.find(7), now=6.0); halves.next_due
    36.0
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

QUESTIONS_MAX = 15
# Those whose time has come that are taken in one go, so that others have their turns.
STEP = 64


@dataclass(slots=True, eq=False)
class Half:
    index: int
    topic: str
    """Where it goes if it is committed."""
    birth: int
    """Which topic of that name: one that was deleted and made again is another."""
    role: str
    """The producer's; only producers of the same role are asked."""
    due: float
    """When a producer is asked next, by the monotonic clock."""
    every_s: float
    """How long an answer is waited for."""
    over: float
    """When it is given up, asked about or not."""
    questions: int = 0

    def is_given_up(self, now: float) -> bool:
        """Has it had all its questions, and time for the last answer; or is it too old?"""
        return self.questions >= QUESTIONS_MAX or now >= self.over


class Halves:
    def __init__(self) -> None:
        self._by_index: dict[int, Half] = {}
        # (due, index): entries of those that have ended or wait for another time stay until they come up.
        self._due: list[tuple[float, int]] = []

    def __len__(self) -> int:
        return len(self._by_index)

    def add(self, half: Half) -> None:
        if half.index not in self._by_index:
            self._by_index[half.index] = half
            heapq.heappush(self._due, (half.due, half.index))

    def find(self, index: int) -> Half | None:
        return self._by_index.get(index)

    def ended(self, index: int) -> None:
        self._by_index.pop(index, None)

    def asked(self, half: Half | None, now: float) -> None:
        """A producer was asked; its answer is waited for."""
        if half is not None:
            half.questions += 1
            self.put_off(half, now)

    def put_off(self, half: Half, now: float) -> None:
        """No producer could be asked, or the end has failed: later."""
        half.due = now + half.every_s
        heapq.heappush(self._due, (half.due, half.index))

    @property
    def next_due(self) -> float | None:
        """When there is something to do; None while there is not."""
        while self._due and not self._is_current(*self._due[0]):
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    def take_due(self, now: float) -> list[Half]:
        """Those whose time has come, at most `STEP`. Each is put off, asked about or ended by the caller."""
        taken: list[Half] = []
        while len(taken) < STEP and (due := self.next_due) is not None and due <= now:
            taken.append(self._by_index[heapq.heappop(self._due)[1]])
        return taken

    def _is_current(self, due: float, index: int) -> bool:
        half = self._by_index.get(index)
        return half is not None and half.due == due
