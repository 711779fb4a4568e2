"""The harness: runs a target on mutants for a while, and says what went wrong with which bytes.

A target is a function of bytes. It may return, or raise one of the errors it declares; anything else is a
failure, and so is an input that takes too long or too much memory. What a target returns, or the text of
its error without the numbers in it, tells inputs apart: one that does something new becomes a seed.

    report = fuzz(target, seconds=5, seed=1)
    assert report.failure is None, report.failure.text
"""

from __future__ import annotations

import gc
import random
import re
import time
import tracemalloc
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from fuzz.mutations import mutate

INPUT_S_MAX = 0.1

# Memory that an input may need besides what is in proportion to it.
PEAK_MAX = 8 * 1024 * 1024
PEAK_PER_BYTE_MAX = 256

SEEDS_MAX = 3000

# What differs from one error to the next of the same kind: numbers, and what is quoted.
_VARIABLE = re.compile(r"0x[0-9a-f]+|-?\d+|['\"].*['\"]|[^ -~]+", re.DOTALL)

# Counting memory is slow: it is done for what is new, and for one input in so many.
MEASURED_EVERY = 100


@dataclass(frozen=True)
class Target:
    name: str
    run: Callable[[bytes], Hashable]
    """Its result says what kind of thing the input was; few kinds, not one for each input."""
    seeds: Callable[[], Sequence[bytes]]
    errors: tuple[type[Exception], ...] = ()
    """What it may raise: the typed errors of its module."""
    repair: Callable[[bytes], bytes] | None = None
    """Makes an input right again as far as its checksums go, so that what is behind them is tried."""


class Failure(NamedTuple):
    data: bytes
    text: str


@dataclass
class Report:
    inputs: int = 0
    kinds: dict[Hashable, int] = field(default_factory=dict)
    slowest_s: float = 0.0
    largest_peak: int = 0
    failure: Failure | None = None

    def __str__(self) -> str:
        return (
            f"{self.inputs} inputs of {len(self.kinds)} kinds, the slowest "
            f"{self.slowest_s * 1000:.1f} ms, the largest {self.largest_peak / 1024:.0f} KiB"
        )


def fuzz(target: Target, *, seconds: float, seed: int, inputs_max: int | None = None) -> Report:
    dice = random.Random(f"{seed} {target.name}")
    report = Report()
    seeds = list(target.seeds())
    assert seeds, f"{target.name} has no seeds"
    for data in seeds:
        if not try_input(target, data, report, measured=True):
            return report
    until = time.thread_time() + seconds  # of the processor: other work takes no inputs away
    while time.thread_time() < until and (inputs_max is None or report.inputs < inputs_max):
        data = mutate(dice.choice(seeds), seeds, dice)
        if target.repair is not None and dice.random() < 0.7:
            data = target.repair(data)
        kinds = len(report.kinds)
        if not try_input(target, data, report, measured=report.inputs % MEASURED_EVERY == 0):
            return report
        if len(report.kinds) > kinds and len(seeds) < SEEDS_MAX:
            seeds.append(data)
            if not try_input(target, data, report, measured=True):
                return report
    return report


def try_input(target: Target, data: bytes, report: Report, *, measured: bool) -> bool:
    """Run one input; False if that went wrong."""
    report.inputs += 1
    try:
        seconds, peak, kind = _run(target, data, measured=measured)
        if seconds > INPUT_S_MAX:
            # Once may be the machine's doing. Three times is the input's.
            seconds = min(seconds, *(_run(target, data, measured=False)[0] for _ in range(2)))
    except Exception as error:
        report.failure = Failure(data, f"{type(error).__name__}: {error}\n{data.hex()}")
        return False
    report.slowest_s = max(report.slowest_s, seconds)
    report.largest_peak = max(report.largest_peak, peak)
    report.kinds[kind] = report.kinds.get(kind, 0) + 1
    if seconds > INPUT_S_MAX:
        report.failure = Failure(data, f"took {seconds * 1000:.0f} ms\n{data.hex()}")
    elif peak > PEAK_MAX + PEAK_PER_BYTE_MAX * len(data):
        report.failure = Failure(data, f"took {peak} bytes for {len(data)}\n{data.hex()}")
    return report.failure is None


def _run(target: Target, data: bytes, *, measured: bool) -> tuple[float, int, Hashable]:
    """CPU seconds, bytes at the peak (if measured), and what came of it."""
    if measured:
        gc.collect(0)
        tracemalloc.start()
    began = time.thread_time()
    try:
        kind: Hashable = ("value", target.run(data))
    except target.errors as error:
        kind = (type(error).__name__, _VARIABLE.sub("#", str(error))[:80])
    finally:
        seconds = 0.0 if measured else time.thread_time() - began
        peak = 0
        if measured:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
    return seconds, peak, kind
