"""Chooses the active consumer of a Failover subscription.

A pure function of who is there: no election, no memory, so every broker and every restart chooses the
same. Only consumers of the highest priority (the lowest number) are eligible, in order of their names.

- A partition takes the one at its number, modulo their count: partitions spread evenly.
- A topic without partitions takes the one whose point follows the hash of the topic's name on a ring
  with 100 points a consumer: topics spread evenly, and one consumer more or less moves few of them.

Ring and order are upstream's, number by number: both choose alike.

    >>> from types import SimpleNamespace as Consumer
    >>> consumers = [Consumer(name=name, priority=at) for name, at in (("b", 0), ("a", 0), ("spare", 1))]
    >>> [choose_active(consumers, partition).name for partition in range(4)]
    ['a', 'b', 'a', 'b']
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Protocol, TypeVar

from milepost.wire.murmur import murmur3_32

POINTS_PER_CONSUMER: Final = 100

# Names whose points are kept: computing them takes a fraction of a millisecond each.
_NAMES_CACHED_MAX: Final = 1024


class Eligible(Protocol):
    """What is asked of a consumer."""

    @property
    def name(self) -> str: ...

    @property
    def priority(self) -> int:
        """Lower numbers go first."""
        ...


C = TypeVar("C", bound=Eligible)


def choose_active(consumers: Sequence[C], partition: int, topic: str = "") -> C | None:
    """The active one; None if there are no consumers. `partition` is -1 for a topic without partitions,
    whose full name then decides. Consumers of one name are told apart by their order in `consumers`."""
    if not consumers:
        return None
    priority = min(consumer.priority for consumer in consumers)
    eligible = sorted(
        (consumer for consumer in consumers if consumer.priority == priority),
        key=lambda consumer: _java_order(consumer.name),
    )
    if len(eligible) == 1:
        return eligible[0]
    if partition >= 0:
        return eligible[partition % len(eligible)]
    return _on_ring(eligible, _hash(topic))


def _on_ring(eligible: Sequence[C], hashed: int) -> C:
    """Whose is the first point at or behind `hashed`, or else the first of all."""
    best: C | None = None
    best_distance = (True, 0)
    for consumer in eligible:
        points = _points(consumer.name)
        at = bisect_left(points, hashed)
        wraps = at == len(points)
        distance = (wraps, points[0 if wraps else at])
        # If two consumers have the same point, the later one gets it.
        if best is None or distance <= best_distance:
            best, best_distance = consumer, distance
    assert best is not None
    return best


@lru_cache(_NAMES_CACHED_MAX)
def _points(name: str) -> tuple[int, ...]:
    return tuple(sorted(_hash(f"{name}{number}") for number in range(POINTS_PER_CONSUMER)))


def _hash(text: str) -> int:
    return murmur3_32(text.encode()) & 0x7FFF_FFFF


def _java_order(name: str) -> bytes:
    """Upstream compares names by UTF-16 units."""
    return name.encode("utf-16-be")
