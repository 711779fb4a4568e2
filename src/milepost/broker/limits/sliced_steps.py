"""Takes very many small steps in slices, without a task: for what the broker's tick does.

Ten thousand topics take the tick a tenth of a second. In one go every client would wait for it, each second.
So the tick works for half a millisecond and rests for a whole one; `time_slices.py` says why.

    steps = SlicedSteps(broker.clock, broker.unexpected)
    if not steps.is_under_way:
        steps.begin(("rates", partial(sample, topic)) for topic in topics)

A step that breaks down is counted, and the others are taken all the same. Each step is made when its turn
comes, so that connections and topics that are gone by then are left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from milepost.broker.limits.time_slices import REST_S, WORK_S
from milepost.clock import Clock

Step = tuple[str, Callable[[], object]]
"""The place under which an error of the step is counted, and the work."""


class SlicedSteps:
    def __init__(self, clock: Clock, on_error: Callable[[str, Exception], None]) -> None:
        self._clock = clock
        self._on_error = on_error
        self._loop = asyncio.get_running_loop()
        # None: none are under way.
        self._steps: Iterator[Step] | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_under_way(self) -> bool:
        return self._steps is not None

    def begin(self, steps: Iterator[Step]) -> None:
        """Take them, the first ones now."""
        assert self._steps is None, "one series at a time"
        self._steps = steps
        self._go_on()

    def stop(self) -> None:
        """Leave the rest."""
        self._steps = None
        if self._timer is not None:
            self._timer.cancel()

    def _go_on(self) -> None:
        now_s = self._clock.monotonic
        until = now_s() + WORK_S
        steps = self._steps
        if steps is None:
            return
        try:
            for place, work in steps:
                try:
                    work()
                except Exception as error:
                    self._on_error(place, error)
                if self._steps is None:  # stopped meanwhile
                    return
                if now_s() >= until:
                    self._timer = self._loop.call_later(REST_S, self._go_on)
                    return
        except (
            Exception
        ) as error:  # of what makes the steps: this series is over, the next one is not
            self._on_error("tick", error)
        self._steps = None
