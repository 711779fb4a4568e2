"""Negative acks with their delays, and ack timeouts. Pure.

    later = Redeliveries()
    later.add(entry.position, due_s=now + 60, extra=entry.chunks)
    later.next_due_s                            # when to look again
    later.take_due(now)                         # positions for REDELIVER_UNACKNOWLEDGED_MESSAGES

An entry is held once: a second negative ack before the first is due changes nothing, and an ack takes it
out. All chunks of a message go together (trap 10: the last alone would be nothing).
"""

from __future__ import annotations

import heapq

from milepost.positions import Position


class Redeliveries:
    __slots__ = ("_heap", "_held")

    def __init__(self) -> None:
        # Invariant: every held position has an entry in the heap with its own due time; others in
        # the heap are stale and skipped.
        self._heap: list[tuple[float, Position]] = []
        self._held: dict[Position, tuple[float, tuple[Position, ...]]] = {}

    def __len__(self) -> int:
        return len(self._held)

    def add(self, position: Position, due_s: float, chunks: tuple[Position, ...] = ()) -> None:
        if position not in self._held:
            self._held[position] = (due_s, chunks or (position,))
            heapq.heappush(self._heap, (due_s, position))

    def discard(self, position: Position) -> None:
        """It was acked after all."""
        self._held.pop(position, None)
        if not self._held:
            self._heap.clear()

    def clear(self) -> None:
        self._held.clear()
        self._heap.clear()

    @property
    def next_due_s(self) -> float | None:
        """When the next one is due; None if nothing waits."""
        while self._heap:
            due_s, position = self._heap[0]
            held = self._held.get(position)
            if held is not None and held[0] == due_s:
                return due_s
            heapq.heappop(self._heap)
        return None

    def take_due(self, now_s: float) -> list[Position]:
        """Positions whose time has come, chunks and all, in the order of the log."""
        due: list[Position] = []
        while (next_due_s := self.next_due_s) is not None and next_due_s <= now_s:
            _, position = heapq.heappop(self._heap)
            due += self._held.pop(position)[1]
        return sorted(due)
