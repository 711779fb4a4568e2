"""CursorTwin: the dumb twin of `Cursor`, a dict from index to state.

Slow and obviously right: every verb is a loop over single indexes that says what the verb means. The
property tests drive both with the same commands and compare all they can see. Results are plain
numbers, sets and dicts; errors are not modelled.

    >>> twin = CursorTwin(0, 4); sorted(twin.deliver(0, 2, holder=7)), twin.ack([(0, 3)])
    ([0, 1], (3, 0, {7: 2}))
    >>> twin.state
    {0: 'acked', 1: 'acked', 2: 'acked', 3: 'ready'}
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable

Range = tuple[int, int]


def _each(ranges: Iterable[Range]) -> list[int]:
    """The single indexes of some ranges, each once."""
    return sorted({index for first, end in ranges for index in range(first, end)})


class CursorTwin:
    """A cursor that thinks in single indexes."""

    def __init__(self, first: int, end: int) -> None:
        self.epoch = 0
        # Every retained index and "ready", "delayed", "inflight" or "acked".
        self.state: dict[int, str] = dict.fromkeys(range(first, end), "ready")
        self.first = first
        self.end = end
        # Who has it, for inflight ones.
        self.holder: dict[int, int] = {}
        # Ready ones that dispatch does not meet.
        self.aside: set[int] = set()
        # Ready ones that wait for others.
        self.withheld: set[int] = set()
        # When it is due, for delayed ones.
        self.due_ms: dict[int, int] = {}
        # How often it was released with counting.
        self.redeliveries: Counter[int] = Counter()
        # Was with a consumer in this epoch, and came back.
        self.returned: set[int] = set()
        # Was delivered or acked before the last seek, and not delivered since.
        self.stale: set[int] = set()

    # ── verbs ─────────────────────────────────────────────────────────────────────────────────

    def extend(self, end: int) -> None:
        for index in range(self.end, end):
            self.state[index] = "ready"
        self.end = max(end, self.end)

    def deliver(self, first: int, end: int, holder: int) -> set[int]:
        delivered = self.next_ones() & set(range(first, end))
        for index in delivered:
            self.state[index] = "inflight"
            self.holder[index] = holder
            self.returned.discard(index)
            self.stale.discard(index)
        return delivered

    def withdraw(self, indexes: Iterable[int]) -> None:
        """Stale indexes whose delivery never left."""
        for index in indexes:
            self.state[index] = "ready"
            del self.holder[index]
            self.stale.add(index)

    def was_delivered(self, indexes: Iterable[int]) -> None:
        """What a journaled delivery says after a crash: it was with a consumer, and came back."""
        for index in indexes:
            self.stale.discard(index)
            if self.state[index] == "ready":
                self.returned.add(index)

    def ack(self, ranges: Iterable[Range]) -> tuple[int, int, dict[int, int]]:
        """How many were acked, how many ignored, and holder → how many it lost."""
        named = _each(ranges)
        ignored = [index for index in named if index in self.stale]
        count, taken = self.settle(index for index in named if index not in self.stale)
        return count, len(ignored), taken

    def ack_up_to(self, end: int) -> tuple[int, int, dict[int, int]]:
        if end - 1 in self.stale:
            return 0, len([index for index in self.stale if index < end]), {}
        count, taken = self.settle(range(self.first, end))
        return count, 0, taken

    def settle(self, indexes: Iterable[int]) -> tuple[int, dict[int, int]]:
        """Make indexes acked, stale or not."""
        count = 0
        taken: Counter[int] = Counter()
        for index in indexes:
            if self.state.get(index, "acked") == "acked":
                continue
            count += 1
            if self.state[index] == "inflight":
                taken[self.holder[index]] += 1
            self.state[index] = "acked"
            self._forget(index)
        return count, dict(taken)

    def release(self, ranges: Iterable[Range], holder: int | None, count: bool) -> dict[int, int]:
        taken: Counter[int] = Counter()
        for index in _each(ranges):
            if index in self.holder and holder in (None, self.holder[index]):
                taken[self.holder.pop(index)] += 1
                self.state[index] = "ready"
                self.returned.add(index)
                self.redeliveries[index] += count
        return dict(taken)

    def release_holder(self, holder: int, count: bool) -> dict[int, int]:
        return self.release([(self.first, self.end)], holder, count)

    def delay(self, first: int, end: int, due_ms: int) -> int:
        delayed = sorted(self.next_ones() & set(range(first, end)))
        for index in delayed:
            self.state[index] = "delayed"
            self.due_ms[index] = due_ms
        return len(delayed)

    def due(self, now_ms: int) -> int:
        due = [index for index, due_ms in self.due_ms.items() if due_ms <= now_ms]
        for index in due:
            self.state[index] = "ready"
            del self.due_ms[index]
        return len(due)

    def set_aside(self, first: int, end: int) -> int:
        aside = self.next_ones() & set(range(first, end))
        self.aside |= aside
        return len(aside)

    def call_back(self, first: int, end: int) -> int:
        called = self.aside & set(range(first, end))
        self.aside -= called
        return len(called)

    def withhold(self, first: int, end: int) -> int:
        withheld = self.next_ones() & set(range(first, end))
        self.withheld |= withheld
        return len(withheld)

    def admit(self, first: int, end: int) -> int:
        admitted = self.withheld & set(range(first, end))
        self.withheld -= admitted
        return len(admitted)

    def seek(self, index: int) -> None:
        seen = {
            seen
            for seen, state in self.state.items()
            if state in ("inflight", "acked") or seen in self.returned or seen in self.stale
        }
        self.begin_epoch(index, {stale for stale in seen if stale >= index})

    def begin_epoch(self, index: int, stale: set[int]) -> None:
        """What a seek does, once it is known what is stale."""
        self.epoch += 1
        for each in self.state:
            self.state[each] = "acked" if each < index else "ready"
            self._forget(each)
        self.stale = set(stale)

    def trim(self, index: int) -> tuple[int, dict[int, int]]:
        count, taken = self.settle(range(self.first, index))
        for trimmed in range(self.first, index):
            del self.state[trimmed]
        self.first = max(index, self.first)
        return count, taken

    def reopened(self) -> CursorTwin:
        """What a snapshot taken now would bring back."""
        other = copy.deepcopy(self)
        other.release([(self.first, self.end)], None, count=False)
        for index in list(other.due_ms):
            other.state[index] = "ready"
            del other.due_ms[index]
        other.aside.clear()
        other.withheld.clear()
        return other

    def _forget(self, index: int) -> None:
        self.holder.pop(index, None)
        self.due_ms.pop(index, None)
        self.aside.discard(index)
        self.withheld.discard(index)
        self.redeliveries.pop(index, None)
        self.returned.discard(index)
        self.stale.discard(index)

    # ── views ─────────────────────────────────────────────────────────────────────────────────

    def indexes(self, *states: str) -> set[int]:
        """The indexes in any of these states."""
        return {index for index, state in self.state.items() if state in states}

    def next_ones(self) -> set[int]:
        """What dispatch may meet: ready, and neither set aside nor withheld."""
        return self.indexes("ready") - self.aside - self.withheld

    def backlog(self) -> set[int]:
        return self.indexes("ready", "delayed", "inflight")

    @property
    def mark_delete_index(self) -> int:
        return min(self.backlog(), default=self.end) - 1

    def ack_holes(self) -> list[Range]:
        """All maximal ranges of unfinished indexes that have an acked one right behind them."""
        holes = []
        first = None
        for index in range(self.first, self.end):
            if self.state[index] == "acked":
                if first is not None:
                    holes.append((first, index))
                first = None
            elif first is None:
                first = index
        return holes
