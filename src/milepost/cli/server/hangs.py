"""Notices that a process hangs: its loop stands still, and nothing else would end it.

Each process beats, twice a second and from its loop, in memory that it shares with the process that started
it. That one looks as often. A process that has not beaten for too long is asked for the stacks of its threads
(SIGQUIT), which the log then has, and killed a moment later; what follows is what follows any death.

Only looks that come in time count. Late ones mean that the machine was paused, or the process that looks: the
others had no time either, and nothing is known of them.

    >>> watch = HangWatch(limit_s=2)
    >>> [watch.look(at / 2, beat=7).name for at in range(1, 7)]
    ['WELL', 'WELL', 'WELL', 'WELL', 'ASK', 'WAIT']
    >>> watch.look(3.5, beat=8).name
    'WELL'
"""

from __future__ import annotations

import asyncio
import logging
import mmap
import os
import signal
import time
from enum import Enum, auto
from pathlib import Path
from typing import Final

logger = logging.getLogger(__name__)

# Between two beats, and between two looks.
BEAT_S: Final = 0.5
# A look that comes so long after the one before it counts for nothing.
LATE_S: Final = 2.0
# A process that was asked for its stacks has so long to tell them.
TELL_S: Final = 1.0

# The letters of /proc/<pid>/stat.
_STATES: Final = {
    "R": "busy",
    "S": "waiting for something",
    "D": "waiting for the disk",
    "T": "stopped by a signal",
    "t": "stopped by a debugger",
}


class SharedBeats:
    """A counter for each process, in memory that all of them share. Made before the first is forked."""

    def __init__(self, count: int) -> None:
        # Whole words: each is written and read in one piece.
        self._words = memoryview(mmap.mmap(-1, 8 * count)).cast("Q")

    def forget(self, number: int) -> None:
        """A process is about to start, and is not judged before its first beat."""
        self._words[number] = 0

    def beat(self, number: int) -> None:
        self._words[number] += 1

    def seen(self, number: int) -> int:
        """How often the process has beaten."""
        return self._words[number]


class Pulse:
    """The beats of one process, on its side."""

    def __init__(self, beats: SharedBeats, number: int) -> None:
        self._beats = beats
        self._number = number

    def beat(self) -> None:
        self._beats.beat(self._number)

    async def run(self) -> None:
        """Beat, for ever."""
        while True:
            self.beat()
            await asyncio.sleep(BEAT_S)


class Verdict(Enum):
    WELL = auto()
    """As far as is known."""
    ASK = auto()
    """It hangs; said once."""
    WAIT = auto()
    """It hangs: it was asked for its stacks a moment ago, or is killed already."""
    KILL = auto()
    """It had time to tell them; said once, for the system may take long to end it."""


class HangWatch:
    """Judges one process by its beats. Times are given."""

    def __init__(self, limit_s: float) -> None:
        """`limit_s`: how long it may stand still; 0: for ever."""
        self._limit_s = limit_s
        self._beat = 0
        self._looked = 0.0
        self.silent_s = 0.0
        """How long it has stood still, as far as is known."""

    def look(self, now: float, beat: int) -> Verdict:
        passed, self._looked = now - self._looked, now
        was_silent_s = self.silent_s
        if beat != self._beat or beat == 0 or passed > LATE_S:
            self._beat, self.silent_s = beat, 0.0
        else:
            self.silent_s += passed
        if not self._limit_s or self.silent_s < self._limit_s:
            return Verdict.WELL
        if was_silent_s < self._limit_s:
            return Verdict.ASK
        told_s = self._limit_s + TELL_S
        return Verdict.KILL if was_silent_s < told_s <= self.silent_s else Verdict.WAIT


def end_if_it_hangs(watch: HangWatch, beat: int, name: str, pid: int) -> bool:
    """Look at a process of ours that has not ended, and kill it if it hangs. True if it was killed."""
    verdict = watch.look(time.monotonic(), beat)
    if verdict is Verdict.ASK:
        logger.warning(
            "%s (process %d) has stood still for %.0f s (%s): what its threads do follows, if it can tell",
            name,
            pid,
            watch.silent_s,
            state_of(pid),
        )
        os.kill(pid, signal.SIGQUIT)
    elif verdict is Verdict.KILL:
        logger.warning("%s (process %d) is killed: it hangs", name, pid)
        os.kill(pid, signal.SIGKILL)
    return verdict is Verdict.KILL


def state_of(pid: int) -> str:
    """What a process does, in words for the log; as far as the system tells.

    >>> state_of(0)
    'the system does not say why'
    """
    try:
        letter = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        letter = ""
    return _STATES.get(letter, "the system does not say why")
