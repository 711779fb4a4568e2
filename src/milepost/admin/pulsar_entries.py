"""Numbers the entries of a topic of Apache Pulsar, and says which of them are acked.

Its REST tells ledgers with the number of their entries, and for each subscription a mark-delete position with
the entries behind it that are acked. So an entry has a number here: 0 is the first that is kept. Numbers
change when the oldest ledger is deleted. Single messages of a batch, and which consumer holds what, it tells
nowhere.

    >>> places = Places.of({"ledgers": [{"ledgerId": 3, "entries": 5}, {"ledgerId": 7, "entries": 0}],
    ...                     "currentLedgerEntries": 2})
    >>> places.end, places.number_of(Position(7, 1)), places.position_of(4), places.number_of(Position(1, 9))
    (7, 6, Position(ledger_id=3, entry_id=4), -1)
    >>> cursor = {"markDeletePosition": "3:0", "individuallyDeletedMessages": "[(3:2..7:0]]"}
    >>> acked = acked_entries(places, cursor)
    >>> list(acked)
    [(0, 1), (3, 6)]
    >>> columns(acked, 0, 8, 4, places.end)["ready"]
    [1, 1, 0, 1]
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Any, Final, NamedTuple

from milepost.positions import Position
from milepost.positions.ranges import IndexRanges

_RANGE: Final = re.compile(r"[(\[](-?\d+):(-?\d+)(?:\.\.|‥)(-?\d+):(-?\d+)[])]")


class Places(NamedTuple):
    ledgers: list[int]
    starts: list[int]
    """The number of the first entry of each."""
    end: int

    @classmethod
    def of(cls, internal: dict[str, Any]) -> Places:
        """From the internal statistics of a topic."""
        ledgers: list[int] = []
        starts: list[int] = []
        end = 0
        found = internal.get("ledgers") or []
        for number, one in enumerate(found):
            entries = max(int(one.get("entries") or 0), 0)
            if number == len(found) - 1 and not entries:
                # The one that is written to is not counted among its entries yet.
                entries = max(int(internal.get("currentLedgerEntries") or 0), 0)
            ledgers.append(int(one["ledgerId"]))
            starts.append(end)
            end += entries
        return cls(ledgers, starts, end)

    def number_of(self, position: Position) -> int:
        """That of the entry, or of the last one before it; -1 if none is."""
        at = bisect_right(self.ledgers, position.ledger_id) - 1
        if at < 0:
            return -1
        behind = self.starts[at + 1] if at + 1 < len(self.starts) else self.end
        if self.ledgers[at] != position.ledger_id:
            return behind - 1
        return min(self.starts[at] + position.entry_id, behind - 1)

    def position_of(self, number: int) -> Position:
        """Where entry `number` lies; it is one of those that are there."""
        at = bisect_right(self.starts, number) - 1
        # Ledgers without entries begin where the next one does.
        return Position(self.ledgers[at], number - self.starts[at])


def pulsar_ranges(text: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """What Apache Pulsar tells of acked entries: each range begins behind its first position.

    >>> pulsar_ranges("[(3:2..3:4],(5:-1..5:0]]")
    [((3, 2), (3, 4)), ((5, -1), (5, 0))]
    """
    found = [tuple(map(int, one)) for one in _RANGE.findall(text)]
    return [((a, b), (c, d)) for a, b, c, d in found]


def acked_entries(places: Places, cursor: dict[str, Any]) -> IndexRanges:
    """What a subscription has acked, by its internal statistics."""
    acked = IndexRanges()
    mark = places.number_of(Position.parse(str(cursor["markDeletePosition"])))
    if mark >= 0:
        acked.add(0, mark + 1)
    for after, last in pulsar_ranges(str(cursor.get("individuallyDeletedMessages") or "")):
        first, end = (places.number_of(Position(*one)) + 1 for one in (after, last))
        if first < end:
            acked.add(first, end)
    return acked


def columns(acked: IndexRanges, first: int, end: int, count: int, all_end: int) -> dict[str, Any]:
    """The columns of a strip, as Milepost has them; what is not acked is ready."""
    count = min(count, end - first)
    found: dict[str, list[int]] = {"acked": [], "ready": []}
    for column in range(count):
        left, right = (first + (end - first) * at // count for at in (column, column + 1))
        done = acked.count_within(left, right)
        found["acked"].append(done)
        found["ready"].append(max(min(right, all_end) - left, 0) - done)
    empty = [0] * count
    return {**found, "inflight": empty, "delayed": empty, "trimmed": empty, "columns": count}
