"""How fast a cursor is, and what a pathological one costs.

    python -m bench cursor

Acks are single indexes through `Cursor.ack`, as one message acked by one command; the cursor under
"every second of 10 M" has had every second message acked, the worst that individual acks can do.
"""

from __future__ import annotations

import gc
import random
import time
import tracemalloc
from collections.abc import Callable, Iterable
from typing import NamedTuple

from milepost.cursor import facts, snapshot
from milepost.cursor.cursor import Cursor

MIB = 1024 * 1024

# Messages of the plain runs, and of the pathological one.
COUNT = 200_000
COUNT_LARGE = 10_000_000

# A consumer with a full queue is given about as many at once.
DELIVERY_COUNT = 1_000


class Figure(NamedTuple):
    """One line of the report."""

    name: str
    value: float
    unit: str
    target: str
    ok: bool


def per_second(step: Callable[[int], object], indexes: Iterable[int], count: int) -> float:
    """How often a step runs in a second."""
    gc.collect()
    began = time.perf_counter()
    for index in indexes:
        step(index)
    return count / (time.perf_counter() - began)


def delivered(count: int, holders: int = 1) -> Cursor:
    """A cursor with everything inflight."""
    cursor = Cursor(0, count)
    for turn, first in enumerate(range(0, count, DELIVERY_COUNT)):
        cursor.deliver(first, first + DELIVERY_COUNT, turn % holders)
    return cursor


def at_least(name: str, value: float, unit: str, target: float) -> Figure:
    return Figure(name, value, unit, f"≥ {target:,g}", value >= target)


def at_most(name: str, value: float, unit: str, target: float) -> Figure:
    return Figure(name, value, unit, f"≤ {target:,g}", value <= target)


def rates() -> list[Figure]:
    """Single steps on an ordinary cursor."""
    in_order = range(COUNT)
    shuffled = list(in_order)
    random.Random(1).shuffle(shuffled)
    figures = []

    cursor = delivered(COUNT)
    rate = per_second(lambda index: cursor.ack(((index, index + 1),), 0), in_order, COUNT)
    figures.append(at_least("acks in order", rate, "/s", 500_000))
    assert cursor.backlog == 0

    cursor = delivered(COUNT)
    rate = per_second(lambda index: cursor.ack(((index, index + 1),), 0), shuffled, COUNT)
    figures.append(at_least("acks in random order", rate, "/s", 100_000))
    assert cursor.backlog == 0

    cursor = delivered(COUNT, holders=100)
    rate = per_second(lambda index: cursor.ack(((index, index + 1),)), in_order, COUNT)
    figures.append(at_least("acks, 100 holders, not known whose", rate, "/s", 30_000))
    assert cursor.backlog == 0

    cursor = delivered(COUNT)
    rate = per_second(lambda index: cursor.ack_up_to(index + 1, 0), in_order, COUNT)
    figures.append(at_least("cumulative acks", rate, "/s", 200_000))
    assert cursor.backlog == 0

    cursor = Cursor()
    rate = per_second(lambda index: cursor.extend(index + 1), in_order, COUNT)
    figures.append(at_least("extends by one", rate, "/s", 500_000))
    rate = per_second(lambda index: cursor.deliver(index, index + 1, index & 3), in_order, COUNT)
    figures.append(at_least("deliveries of one, four holders", rate, "/s", 200_000))

    rate = per_second(lambda index: facts.encode_ack_range(3, index, index + 1), in_order, COUNT)
    figures.append(at_least("facts of one ack", rate, "/s", 1_000_000))
    return figures


def every_second() -> list[Figure]:
    """Ten million messages, every second one acked."""
    cursor = Cursor(0, COUNT_LARGE)
    for first in range(0, COUNT_LARGE, 2 * DELIVERY_COUNT):
        cursor.ack([(index, index + 1) for index in range(first, first + 2 * DELIVERY_COUNT, 2)])
    figures = []

    began = time.perf_counter()
    written = snapshot.encode(cursor)
    taken = time.perf_counter() - began
    figures.append(at_most("snapshot", len(written) / MIB, "MiB", 4))
    figures.append(at_most("snapshot, to write", taken * 1000, "ms", 100))
    began = time.perf_counter()
    reopened = snapshot.decode(written)
    figures.append(at_most("snapshot, to reopen", (time.perf_counter() - began) * 1000, "ms", 1000))
    assert reopened.counts() == cursor.counts()

    # Every allocation is traced, so it is too slow for the acks; the reopened cursor has the same
    # sets. What is ready is then given to a consumer, and the new sets are counted too.
    del reopened
    gc.collect()
    tracemalloc.start()
    traced = snapshot.decode(written)
    size_bytes, _ = tracemalloc.get_traced_memory()
    figures.append(at_most("memory", size_bytes / MIB, "MiB", 32))
    for first in range(0, COUNT_LARGE // 50, DELIVERY_COUNT):
        traced.deliver(first, first + DELIVERY_COUNT, 0)
    traced.release_holder(0, count=True)
    size_bytes, _ = tracemalloc.get_traced_memory()
    figures.append(at_most("memory, 100,000 redelivered", size_bytes / MIB, "MiB", 32))
    tracemalloc.stop()
    del traced

    count = 100_000
    left = random.Random(1).sample(range(1, COUNT_LARGE, 2), count)
    rate = per_second(lambda index: cursor.ack(((index, index + 1),)), left, count)
    figures.append(at_least("acks in random order", rate, "/s", 50_000))
    rate = per_second(lambda index: cursor.deliver(index, index + 1, 0), left, count)
    figures.append(at_least("deliveries in random order", rate, "/s", 50_000))
    began = time.perf_counter()
    cursor.seek(0)
    figures.append(at_most("a seek", (time.perf_counter() - began) * 1000, "ms", 100))
    return [
        figure._replace(name=f"every second of {COUNT_LARGE // 10**6} M: {figure.name}")
        for figure in figures
    ]


def run() -> list[Figure]:
    """Measure everything; about ten seconds."""
    return rates() + every_second()


def main() -> list[Figure]:
    """Measure and print."""
    figures = run()
    for name, value, unit, target, ok in figures:
        print(
            f"{name:<50}{value:>14,.{0 if value >= 100 else 2}f} {unit:<4}"
            f" target {target:<12}{'ok' if ok else 'MISSED'}"
        )
    return figures


if __name__ == "__main__":
    main()
