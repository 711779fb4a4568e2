"""Compares two runs of messages by index.

Both sides are cut to the same length and compared as Arrow compares, column by column; only where that says
no are rows looked at one by one. No more than a batch of each side is in memory.

    >>> from milepost.spark.values.columns import to_batch
    >>> list(differences(iter(()), iter(())))
    []
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any, Final

import pyarrow as pa

from milepost.spark.values.columns import COLUMNS

PROBLEMS_MAX: Final = 20


class _Run:
    """Batches, taken from by any number of rows."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._batch: pa.RecordBatch | None = None

    def peek(self) -> pa.RecordBatch | None:
        """What is left of the batch in hand, or the next one; None at the end."""
        while self._batch is None or not self._batch.num_rows:
            self._batch = next(self._batches, None)
            if self._batch is None:
                return None
        return self._batch

    def skip(self, rows: int) -> None:
        assert self._batch is not None
        self._batch = self._batch.slice(rows)


def differences(
    archived: Iterator[pa.RecordBatch], live: Iterator[pa.RecordBatch]
) -> Iterator[str]:
    """What differs between a lake and a topic, both with all columns, each ascending by index."""
    left, right = _Run(archived), _Run(live)
    last = -1
    while True:
        stored, present = left.peek(), right.peek()
        if stored is None or present is None:
            break
        rows = min(stored.num_rows, present.num_rows)
        ours, theirs = stored.slice(0, rows), present.slice(0, rows)
        # What is left of a topic lies behind everything that was taken: equal rows ascend.
        if _equal(ours, theirs):
            left.skip(rows)
            right.skip(rows)
            last = ours["index"][rows - 1].as_py()
            continue
        taken = yield from _walk(ours.to_pylist(), theirs.to_pylist(), last)
        left.skip(taken[0])
        right.skip(taken[1])
        last = max(last, taken[2])
    while (stored := left.peek()) is not None:
        for index in stored["index"].to_pylist():
            yield _surplus(index, last)
            last = max(last, index)
        left.skip(stored.num_rows)
    while (present := right.peek()) is not None:
        for index in present["index"].to_pylist():
            yield f"message {index} is missing"
        right.skip(present.num_rows)


def _equal(ours: pa.RecordBatch, theirs: pa.RecordBatch) -> bool:
    return bool(ours.schema.names == theirs.schema.names and ours.equals(theirs))


def _walk(
    ours: list[dict[str, Any]], theirs: list[dict[str, Any]], last: int
) -> Generator[str, None, tuple[int, int, int]]:
    """Row by row, until one side is used up: how many of each were, and the last index of ours."""
    at = to = 0
    while at < len(ours) and to < len(theirs):
        index, wanted = ours[at]["index"], theirs[to]["index"]
        if last < index and index > wanted:
            yield f"message {wanted} is missing"
            to += 1
            continue
        if index <= last or index < wanted:
            yield _surplus(index, last)
        else:
            names = [name for name in COLUMNS if ours[at].get(name) != theirs[to].get(name)]
            if names:
                yield f"message {index} differs in {', '.join(names)}"
            to += 1
        at += 1
        last = max(last, index)
    return at, to, last


def _surplus(index: int, last: int) -> str:
    if index <= last:
        return f"message {index} is there twice, or out of order"
    return f"message {index} is not in the topic"
