"""One subscription over time: ages of messages, latencies of acks.

A sample has counts, not messages; what can be said of times follows from counts that only grow:

- **Ack latency.** The k-th ack and the k-th arrival are paired. The mean of that is the true mean in whatever
  order messages were acked; each single one is true where they were acked in order. A message that was there
  before the first sample has no known arrival and is not timed, unless a reset began there.
- **Inflight age.** Of the n messages inflight the oldest was delivered before the last n deliveries, at the
  latest with the first of them: so old it is at least. A hole that the same consumer keeps is as old, at
  least, as it has been seen with it.

Counts begin anew where a reset begins an epoch, and where the broker or the topic began anew: an *era*. Both
ages are known to the distance of two samples. Pure arithmetic on arrays; no Spark, no file.

    >>> import numpy as np
    >>> at, end, backlog = np.array([0, 10, 20]), np.array([0, 4, 4]), np.array([0, 4, 1])
    >>> latencies(at, end, backlog, is_fresh=False)      # three of four acked, 10 ms after they came
    [Latency(latency_ms=10, messages=3, is_timed=True)]
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, np.dtype[np.int64]]


class Latency(NamedTuple):
    latency_ms: int
    messages: int
    is_timed: bool
    """Whether it is known when they came."""


def eras(epoch: Array, end: Array, out: Array) -> Iterator[tuple[slice, bool]]:
    """Stretches in which counts only grow, and whether each began with a reset."""
    if not len(epoch):
        return
    moved = np.diff(epoch) != 0
    cut = moved | (np.diff(end) < 0) | (np.diff(out) < 0)
    starts = [0, *(np.flatnonzero(cut) + 1).tolist(), len(epoch)]
    for first, last in pairwise(starts):
        yield slice(first, last), bool(first and moved[first - 1])


def latencies(at: Array, end: Array, backlog: Array, *, is_fresh: bool) -> list[Latency]:
    """How long messages of an era took until they were acked, equal ones together. `is_fresh`: what was
    there at the first sample came with it."""
    came = np.maximum.accumulate(end - end[0] + backlog[0])
    done = np.maximum.accumulate((end - backlog) - (end[0] - backlog[0]))
    total = int(done[-1])
    bounds = np.unique(np.concatenate([came, done]))
    bounds = bounds[(bounds > 0) & (bounds <= total)]
    counts = np.diff(bounds, prepend=0)
    arrived = np.searchsorted(came, bounds, side="left")
    acked = np.searchsorted(done, bounds, side="left")
    found: dict[tuple[int, bool], int] = {}
    for count, first, last in zip(counts.tolist(), arrived.tolist(), acked.tolist(), strict=True):
        key = (int(at[last] - at[first]), bool(first or is_fresh))
        found[key] = found.get(key, 0) + count
    return [Latency(ms, count, timed) for (ms, timed), count in sorted(found.items())]


def inflight_ages(at: Array, out: Array, inflight: Array) -> Array:
    """How old the oldest message inflight is, at least, at each sample of an era."""
    behind = np.searchsorted(out, out - inflight, side="right")
    # Delivered before the era began: as old as the era, at least.
    ages = at - at[np.minimum(behind, np.arange(len(at)))]
    found: Array = np.where(inflight > 0, ages, 0)
    return found


def held_ages(
    at: Array, hole: list[int | None], holder: list[str | None], deliveries: list[int | None]
) -> Array:
    """How long the same consumer has had the oldest hole, at least, at each sample; 0 if none has it."""
    ages = np.zeros(len(at), np.int64)
    since, before = 0, None
    for n, key in enumerate(zip(hole, holder, deliveries, strict=True)):
        if key != before:
            since, before = n, key
        if key[0] is not None and key[1]:
            ages[n] = at[n] - at[since]
    return ages
