"""The right to serve, which all processes of one broker share.

The agent renews it with each notice that the bucket took. Other brokers take this one for dead when its
notice has not changed for five seconds, so its processes stop serving after four without. A right that lapsed
and came back is another one: a shard may have been claimed meanwhile, so its process looks at the manifest
before it serves again. Times are of a clock that goes on while the machine is suspended, and that all
processes of a machine share.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from typing import Final

from milepost.clock import since_boot
from milepost.storage.bucket.watched import RIGHT_S

_NS: Final = 1_000_000_000
_RENEWED, _LAPSES = 0, 1


class SharedRight:
    """Made before the first process is forked. One process renews, all may ask."""

    def __init__(self, now: Callable[[], float] = since_boot) -> None:
        self._now = now
        # Whole words: each is written and read in one piece.
        self._words = memoryview(mmap.mmap(-1, 16)).cast("Q")

    def renewed(self, began: float) -> None:
        """A notice is in the bucket; `began`: when it was sent."""
        began_ns, before = round(began * _NS), self._words[_RENEWED]
        if began_ns <= before:
            return
        if before and self._now() - before / _NS >= RIGHT_S:
            self._words[_LAPSES] += 1
        self._words[_RENEWED] = began_ns

    def idle_s(self) -> float:
        """How long ago the last notice that the bucket took was sent."""
        return self._now() - self._words[_RENEWED] / _NS

    def has_right(self) -> bool:
        return self.idle_s() < RIGHT_S

    @property
    def lapses(self) -> int:
        """How often the right was lost. A right is the same as before if this is."""
        return int(self._words[_LAPSES])
