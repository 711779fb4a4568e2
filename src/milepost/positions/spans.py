"""`Span`: the indexes of one entry.

An entry is one message, one chunk or one batch; its messages have consecutive indexes. A span says
which, and does the arithmetic between an index and a place in the batch, so that no caller repeats it
with an off-by-one. It knows no entry, no position and no state of a message.

    >>> span = Span(first_index=10, count=5)
    >>> span.first_index, span.end_index, span.index_of(2), 15 in span
    (10, 15, 12, False)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from milepost.errors import InvalidRange

# Indexes travel as signed 64-bit numbers; the end of a span must be one too.
INDEX_MAX = 2**63 - 1


class _Fields(NamedTuple):
    first_index: int
    count: int  # type: ignore[assignment]  # in place of tuple.count, which has no use here


class Span(_Fields):
    """The half-open range `[first_index, end_index)` of one entry.

    Invariant: `0 <= first_index < end_index <= INDEX_MAX`.
    """

    __slots__ = ()

    def __new__(cls, first_index: int, count: int) -> Span:
        # Below the limit by a positive count: one chain for all four bounds.
        if not 0 <= first_index <= INDEX_MAX - count < INDEX_MAX:
            raise InvalidRange(f"no entry holds {count} messages from index {first_index}")
        return tuple.__new__(cls, (first_index, count))

    @property
    def end_index(self) -> int:
        """The first index behind the entry."""
        return self[0] + self[1]

    @property
    def last_index(self) -> int:
        """The index of the entry's last message."""
        return self[0] + self[1] - 1

    def index_of(self, batch_index: int) -> int:
        """The index of the message at a place in the batch."""
        if not 0 <= batch_index < self[1]:
            raise InvalidRange(f"batch index {batch_index} in a batch of {self[1]}")
        return self[0] + batch_index

    def __contains__(self, index: object) -> bool:
        return isinstance(index, int) and 0 <= index - self[0] < self[1]

    def __str__(self) -> str:
        return f"[{self[0]}, {self.end_index})"

    @classmethod
    def _make(cls, iterable: Iterable[int]) -> Span:  # type: ignore[override]
        # A named tuple's own way round the constructor (`_replace` takes it) would skip the check.
        return cls(*iterable)
