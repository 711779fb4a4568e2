"""The load of shards: how much processor time their processes take, as the agent of their broker reads it.

A process of a shard does nothing but serve it, so its time is what publishing, dispatch, connections and
upkeep of that shard cost together. It is measured once a second and smoothed; a shard that has just come is
of unknown load, and counts with what its former broker said of it.
"""

from __future__ import annotations

import math
import mmap
from typing import Final

# Between two measurements.
LOOK_S: Final = 1.0
# An older measurement counts half after so long.
HALF_LIFE_S: Final = 10.0
# A process that is younger says nothing: opening a shard is work that serving it is not.
SETTLED_S: Final = 30.0


class LoadMeter:
    """Smoothes the processor time of one process. Times are given."""

    def __init__(self, now: float, cpu_s: float) -> None:
        self._began = self._looked = now
        self._cpu_s = cpu_s
        self._load: float | None = None

    def look(self, now: float, cpu_s: float) -> float | None:
        """The load in cores; None while too little is known."""
        passed = now - self._looked
        if passed > 0:
            used = min(max((cpu_s - self._cpu_s) / passed, 0.0), 64.0)
            kept = 0.5 ** (passed / HALF_LIFE_S)
            self._load = used if self._load is None else self._load * kept + used * (1 - kept)
            self._looked, self._cpu_s = now, cpu_s
        return self._load if now - self._began >= SETTLED_S else None


class SharedLoads:
    """A number for each shard, in memory that all processes of a broker share. Made before the first is
    forked; the process of a shard writes, the agent reads."""

    def __init__(self, shards: int) -> None:
        self._loads = memoryview(mmap.mmap(-1, 8 * shards)).cast("d")
        for shard in range(shards):
            self.forget(shard)

    def tell(self, shard: int, load: float) -> None:
        self._loads[shard] = load

    def forget(self, shard: int) -> None:
        """It is served here no more, or not yet."""
        self._loads[shard] = math.nan

    def known(self) -> dict[int, float]:
        return {
            shard: round(load, 3) for shard, load in enumerate(self._loads) if not math.isnan(load)
        }
