"""The filters that Spark offers: a narrower range, and a mask.

Taken are comparisons of `index`, `partition` and `publish_time` with a literal. An index narrows what is
fetched; a partition leaves others out; a publish time only drops rows before they are handed to Spark,
since it is the producer's clock and says nothing exact of where a message lies.

    >>> taken = Predicates([Predicate("index", ">=", 10), Predicate("index", "<", 20)])
    >>> taken.narrow(0, 100)
    (10, 20)
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Final, NamedTuple

import pyarrow as pa

PUSHED: Final = ("index", "partition", "publish_time")

_COMPARE: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "=": operator.eq,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
# Arrow's names for them.
_MASKS: Final = {
    "=": "equal",
    ">": "greater",
    ">=": "greater_equal",
    "<": "less",
    "<=": "less_equal",
}


class Predicate(NamedTuple):
    column: str
    operation: str
    """One of = > >= < <= in."""
    value: Any
    """A tuple for `in`."""


class Predicates(NamedTuple):
    """All of them must hold."""

    taken: tuple[Predicate, ...] = ()

    def narrow(self, first_index: int, end_index: int) -> tuple[int, int]:
        """The part of a range in which messages can lie; empty ranges as `(first, first)`."""
        first, end = first_index, end_index
        for column, operation, value in self.taken:
            if column != "index":
                continue
            match operation:
                case ">":
                    first = max(first, value + 1)
                case ">=":
                    first = max(first, value)
                case "<":
                    end = min(end, value)
                case "<=":
                    end = min(end, value + 1)
                case "=":
                    first, end = max(first, value), min(end, value + 1)
                case "in":
                    first = max(first, min(value, default=end))
                    end = min(end, max(value, default=first - 1) + 1)
        return first, max(first, end)

    def admits(self, partition: int) -> bool:
        """Can a partition have any of the messages?"""
        return all(
            partition in value if operation == "in" else _COMPARE[operation](partition, value)
            for column, operation, value in self.taken
            if column == "partition"
        )

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that hold."""
        if not self.taken:
            return batch
        import pyarrow.compute as pc  # slow to import, and most queries push nothing

        for column, operation, value in self.taken:
            if column == "partition":
                continue  # all of a slice or none of it
            array = batch[column]
            if operation == "in":
                mask = pc.is_in(array, pa.array(list(value), array.type))
            else:
                mask = pc.call_function(_MASKS[operation], [array, pa.scalar(value, array.type)])
            batch = batch.filter(mask)
        return batch


def taken(filters: Iterable[Any]) -> tuple[Predicates, list[Any]]:
    """What of Spark's filters is taken, and those that Spark must apply itself."""
    found, left = [], []
    for one in filters:
        predicate = _predicate(one)
        if predicate is None:
            left.append(one)
        else:
            found.append(predicate)
    return Predicates(tuple(found)), left


_NAMES: Final = {
    "EqualTo": "=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "In": "in",
}


def _predicate(one: Any) -> Predicate | None:
    operation = _NAMES.get(type(one).__name__)
    attribute: tuple[str, ...] = getattr(one, "attribute", ())
    if operation is None or len(attribute) != 1 or attribute[0] not in PUSHED:
        return None
    column = attribute[0]
    value = one.value
    values = value if operation == "in" else (value,)
    kind = datetime if column == "publish_time" else int
    if not all(type(each) is kind for each in values):
        return None  # a null, or a type that Spark would have to convert
    return Predicate(column, operation, tuple(value) if operation == "in" else value)
