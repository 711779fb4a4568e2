"""Series of transactions: work in numbered steps, each of which is committed once.

A step may be done by several transactions, of several clients, that end together. A worker that died is
followed by a new *run* of the series, which tries the step again: its first transaction ends what earlier
runs have open, and an earlier run that is still about is refused. Which run commits a step first decides; the
step is refused to all others from then on. A run that was given up, or has committed work without a number,
is over: a worker of it that comes late is refused. A series belongs to the role that opened its transactions.

    >>> table = SeriesTable()
    >>> table.opened("", Series("q", "run 1", 7), 1); table.opened("", Series("q", "run 2", 7), 2)
    >>> table.of_earlier_runs("", Series("q", "run 2", 7))
    [1]
    >>> table.ended("", Series("q", "run 2", 7), 2, committed_ms=1000)
    >>> table.check("", Series("q", "run 3", 7), now_ms=2000)
    Traceback (most recent call last):
    milepost.errors.TransactionConflict: step 7 of series q was committed before
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from milepost.errors import (
    InvalidInput,
    NotAllowed,
    ProducerFenced,
    TooManyRequests,
    TransactionConflict,
)

# Series of one role whose last step is remembered. One that did nothing for so long may be forgotten for a
# new one.
SERIES_MAX: Final = 10_000
KEPT_MS: Final = 30 * 24 * 3600 * 1000
# Runs of one role that are known to be over. A worker that comes late is late by seconds.
RUNS_OVER_MAX: Final = 1000
# The same of one series, by the runs that followed.
RUNS_BEFORE_MAX: Final = 100
# Bytes of a name.
NAME_SIZE_MAX: Final = 512

Key = tuple[str, str]
"""Role, name."""


class Series(NamedTuple):
    """What a transaction is part of."""

    name: str
    run: str
    """Names one try of the work."""
    step: int | None
    """None: nothing is remembered when it is committed."""


class Step(NamedTuple):
    """The last that was committed."""

    number: int
    when_ms: int


@dataclass(slots=True)
class Run:
    """What one run of a series has open."""

    open: dict[int, None] = field(default_factory=dict)
    """The second halves of the ids."""
    parts: int = 0
    """Topics and subscriptions of them all."""


class SeriesTable:
    def __init__(self) -> None:
        self.last: dict[Key, Step] = {}
        """The last step of each series, the one first that was not heard of for longest."""
        # The names of each role's series in `last`, in the same order.
        self._names: dict[str, dict[str, None]] = {}
        # The open transactions of each run, the newest run last; no series without any. A run that has none
        # any more stays until its series has none, or many runs have followed, so that it is refused; a
        # restart forgets it, and then the step alone decides.
        self._runs: dict[Key, dict[str, Run]] = {}
        # By role: names and runs, oldest first. A restart forgets them; then time-outs end what late workers
        # open.
        self._over: dict[str, dict[tuple[str, str], None]] = {}

    def check(self, owner: str, series: Series, now_ms: int) -> None:
        """May a transaction of it be opened?"""
        check_names(series)
        self.check_step(owner, series)
        if (series.name, series.run) in self._over.get(owner, ()):
            raise ProducerFenced(f"run {series.run} of series {series.name} is over: it has ended")
        runs = self._runs.get((owner, series.name), {})
        if series.run in runs and series.run != next(reversed(runs)):
            raise ProducerFenced(
                f"run {series.run} of series {series.name} is over: another has begun"
            )
        if series.step is not None and (owner, series.name) not in self.last:
            self._check_room(owner, now_ms)

    def check_step(self, owner: str, series: Series) -> None:
        """May this step be committed?"""
        last = self.last.get((owner, series.name))
        if last is None or series.step is None or series.step > last.number:
            return
        if series.step == last.number:
            raise TransactionConflict(
                f"step {series.step} of series {series.name} was committed before"
            )
        raise NotAllowed(
            f"series {series.name} has committed step {last.number}, and is at step {series.step} again"
        )

    def _check_room(self, owner: str, now_ms: int) -> None:
        """Raise if the role has too many series. Those of other roles take no room of its own."""
        names = self._names.get(owner, {})
        if len(names) >= SERIES_MAX:
            oldest = self.last[owner, next(iter(names))]
            if now_ms - oldest.when_ms < KEPT_MS:
                raise TooManyRequests(
                    f"the steps of {SERIES_MAX} series of this role are remembered, all of them of the "
                    f"last {KEPT_MS // 86_400_000} days"
                )

    def of_run(self, owner: str, series: Series) -> list[int]:
        """The open transactions of the run, by the second half of their ids."""
        run = self._runs.get((owner, series.name), {}).get(series.run)
        return [] if run is None else list(run.open)

    def parts_of_run(self, owner: str, series: Series) -> int:
        """How many topics and subscriptions they have. To count them for each that is added would take a
        millisecond where there are thousands."""
        return self._runs[owner, series.name][series.run].parts

    def of_earlier_runs(self, owner: str, series: Series) -> list[int]:
        runs = self._runs.get((owner, series.name), {})
        return [least for name, run in runs.items() if name != series.run for least in run.open]

    def opened(self, owner: str, series: Series, least: int, parts: int = 0) -> None:
        runs = self._runs.setdefault((owner, series.name), {})
        run = runs.get(series.run)
        if run is None:
            run = runs[series.run] = Run()
        run.open[least] = None
        run.parts += parts
        if len(runs) > RUNS_BEFORE_MAX:  # while one follows the other, the series always has one
            settled = next((name for name, run in runs.items() if not run.open), None)
            if settled is not None:
                del runs[settled]

    def changed(self, owner: str, series: Series, by: int) -> None:
        """An open transaction of it has so many topics and subscriptions more, or fewer."""
        self._runs[owner, series.name][series.run].parts += by

    def ended(
        self,
        owner: str,
        series: Series,
        least: int,
        committed_ms: int | None = None,
        parts: int = 0,
    ) -> None:
        """A transaction of it has ended, with so many topics and subscriptions. `committed_ms`: it was
        committed, and opened then."""
        key = owner, series.name
        runs = self._runs.get(key, {})
        run = runs.get(series.run)
        if run is not None:
            run.open.pop(least, None)
            run.parts -= parts
        if not any(run.open for run in runs.values()):
            self._runs.pop(key, None)
        if committed_ms is not None and series.step is not None:
            self.remember(key, Step(series.step, committed_ms))

    def end_run(self, owner: str, series: Series) -> None:
        """Let the run open no more transactions."""
        over = self._over.setdefault(owner, {})
        over[series.name, series.run] = None
        if len(over) > RUNS_OVER_MAX:
            del over[next(iter(over))]

    def remember(self, key: Key, step: Step) -> None:
        """Remember the last step of a series, and forget the role's oldest series if there are too many
        and it did nothing for long. A young one stays: forgotten, its step could be committed again."""
        owner, name = key
        names = self._names.setdefault(owner, {})
        self.last.pop(key, None)
        names.pop(name, None)
        self.last[key] = step
        names[name] = None
        if len(names) > SERIES_MAX:
            oldest = next(iter(names))
            if step.when_ms - self.last[owner, oldest].when_ms >= KEPT_MS:
                del self.last[owner, oldest], names[oldest]

    def __iter__(self) -> Iterator[tuple[Key, Step]]:
        return iter(self.last.items())


def check_names(series: Series) -> None:
    """Raise if a name is empty or too long."""
    for what, text in (("name", series.name), ("run", series.run)):
        if not text or len(text.encode()) > NAME_SIZE_MAX:
            raise InvalidInput(
                f"the {what} of a series has {len(text.encode())} bytes; allowed are 1 to "
                f"{NAME_SIZE_MAX}"
            )
