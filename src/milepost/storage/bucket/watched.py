"""A bucket that is watched: how long requests take, which fail, and when a write last succeeded.

The time of the last write decides whether a broker may serve: others may take the bucket over from one that
could not write for some seconds, and it must have stopped by then. A write counts from the moment its
request began, by a clock that goes on while the machine is suspended.
"""

from __future__ import annotations

import logging
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from milepost.clock import since_boot
from milepost.storage.bucket.chain import SEAL
from milepost.storage.bucket.objects import (
    Create,
    Done,
    Failed,
    Objects,
    Put,
    Replace,
    Reply,
    Request,
)
from milepost.storage.files import Buffer

logger = logging.getLogger(__name__)

# Upper ends of the classes of the histogram, in seconds.
CLASSES: Final = (0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
# After so long without a write the broker stops serving.
RIGHT_S: Final = 4.0


class Latency:
    """The durations of one kind of request."""

    def __init__(self) -> None:
        self.counts = [0] * (len(CLASSES) + 1)
        self.sum_s = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(CLASSES, seconds)] += 1
        self.sum_s += seconds

    def cumulative(self) -> list[tuple[str, int]]:
        """How many took at most so long, by the upper end of each class."""
        bounds = (*map(str, CLASSES), "+Inf")
        return list(zip(bounds, accumulate(self.counts), strict=True))


@dataclass
class Upkeep:
    """How tidy a bucket or a shard is."""

    packs: int = 0
    """Packs that the image names."""
    pack_bytes: int = 0
    """Bytes of ledgers in them, without those that are dead."""
    merged_bytes: int = 0
    """Bytes written again since the start, because their packs were merged."""
    collected: int = 0
    """Objects deleted since the start, because no image names them any more."""
    waiting: int = 0
    """Objects that are to be deleted, and whose grace is not over."""


@dataclass
class CacheUse:
    """How the local copies of ledgers do."""

    size: int = 0
    """Bytes of ledgers that are here and could be brought again."""
    fetched_bytes: int = 0
    """Bytes brought from the bucket since the start."""
    dropped_bytes: int = 0
    """Bytes dropped since the start, because the cache was full."""


class WatchedObjects:
    """`Objects`, and what is known of how they do."""

    def __init__(self, objects: Objects, now: Callable[[], float] = since_boot) -> None:
        self._objects = objects
        self._now = now
        self.latencies: dict[str, Latency] = {}
        """By the name of the request, of those that were answered."""
        self.errors: Counter[str] = Counter()
        """By the name of the request."""
        # Names of requests of which the last one failed, and whether they have been denied since: that does
        # not mend itself. A bucket that can be read and not written has one failure, not one with each write
        # and an end of it with each read.
        self._failing: dict[str, bool] = {}
        self._reads = threading.Lock()
        self.read_failure: str | None = None
        """Why the last read of a part of an object failed; None if it did not."""
        self.seals = 0
        """Seals created since the start: each ends the journal of a former owner."""
        self.upkeep = Upkeep()
        self.cache = CacheUse()
        self.last_write = now()
        """When the last write that succeeded was begun."""
        self.lapses = 0
        """How often the right to serve was lost, and came back with a write: another broker may have come
        between, and a write without a condition does not tell."""

    def idle_s(self) -> float:
        """How long ago the last write that succeeded was begun."""
        return self._now() - self.last_write

    def has_right(self) -> bool:
        """May the broker serve? Another one may not have taken over yet."""
        return self.idle_s() < RIGHT_S

    async def answer(self, request: Request) -> Reply:
        began = self._now()
        reply = await self._objects.answer(request)
        name = type(request).__name__.lower()
        if isinstance(reply, Failed):
            self.errors[name] += 1
            was_denied = self._failing.get(name)
            if was_denied is None or (reply.is_denied and not was_denied):
                self._failing[name] = reply.is_denied
                logger.error("the bucket does not answer (%s): %s", name, reply.reason)
            return reply
        if name in self._failing:
            del self._failing[name]
            logger.warning("the bucket answers again (%s)", name)
        self.latencies.setdefault(name, Latency()).add(self._now() - began)
        if isinstance(reply, Done) and isinstance(request, Create | Replace | Put):
            self._written(began)
            self.seals += isinstance(request, Create) and request.data[4:8] == SEAL
        return reply

    def _written(self, began: float) -> None:
        if began > self.last_write:
            self.lapses += not self.has_right()
            self.last_write = began

    def read(self, key: str, start: int, size: int) -> Buffer:
        """On any thread."""
        began = self._now()
        try:
            data = self._objects.read(key, start, size)
        except OSError as error:
            reason = error.strerror or str(error)
            with self._reads:
                self.errors["read"] += 1
                if self.read_failure is None:
                    logger.error("old messages cannot be read from the bucket: %s", reason)
                self.read_failure = reason
            raise
        with self._reads:
            if self.read_failure is not None:
                logger.warning("old messages can be read from the bucket again")
                self.read_failure = None
            self.latencies.setdefault("read", Latency()).add(self._now() - began)
        return data

    async def close(self) -> None:
        await self._objects.close()
