"""Keeps zeros ahead of the end of the journal, so that a sync is cheap.

A sync of an append has to store the file's new size and blocks too, which on most file systems is a
transaction of theirs, and it waits for whatever else is in it. A record that is written over zeros which
are on disk already needs its own bytes stored and nothing else. So a thread lays some zeros ahead, in
small pieces; recovery takes them for what they are, the end (docs/format.md, torn tail).

One runway belongs to one file. It costs a second write of what is journalled at a moderate rate, and
next to nothing above that: a writer that is faster than it is laid runs past its end, appends as usual, and
is given the next one later each time.

Two threads meet here, the one that lays and the one that commits. Below `end` they have nothing to do with
each other. Beyond it, while something is being laid, they take turns: `turn` is the lock.

    >>> runway = Runway(ahead=1 << 20)
    >>> runway.wants_more(size=64, now=0.0), runway.is_clear(300)
    (True, True)
    >>> runway.begin(size=64, now=0.0)                      # from now on, beyond `end`: in turns
    >>> runway.end, runway.is_clear(300), runway.is_clear(100_000)
    (69632, True, False)
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable

# How much is laid ahead, unless a setting says otherwise.
AHEAD_DEFAULT = 1024 * 1024
# Laid and synced in one go: so much, a commit may have to wait for.
PIECE_SIZE = 64 * 1024
# Pieces begin where blocks do.
BLOCK_SIZE = 4096
# No more often than this. A load that uses up a whole runway in less does not wait for single syncs: each
# time it does, the interval doubles.
INTERVAL_S = 1.0
INTERVAL_MAX_S = 8.0

# There is no room for it, which is no reason to distrust what is there.
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class Runway:
    def __init__(self, ahead: int = AHEAD_DEFAULT, piece: int = PIECE_SIZE) -> None:
        """Keep `ahead` bytes of zeros, laid in pieces; 0: nothing is ever laid."""
        self._ahead = ahead
        self._piece = piece
        self.end = 0
        """Below this nothing is laid any more. Only grows."""
        self.turn = threading.Lock()
        """Held while a piece is laid, and by who writes a record that reaches beyond `end` meanwhile."""
        self.is_suspect = False
        """A piece could not be synced: the file is not to be trusted with another record."""
        self.is_laying = False
        """Whether a thread lays, or is about to."""
        self._is_over = ahead <= 0
        self._began: float | None = None
        self._interval_s = INTERVAL_S

    def wants_more(self, size: int, now: float) -> bool:
        """Should more be laid, the file's end being at `size`?"""
        return (
            self.end - size < self._ahead // 2
            and not self.is_laying
            and not self._is_over
            and (self._began is None or now - self._began >= self._interval_s)
        )

    def begin(self, size: int, now: float) -> None:
        """Announce a call of `lay`. Only while no other thread can be writing to the file."""
        assert not self.is_laying, "a runway is laid by one at a time"
        if self._began is not None:
            is_overrun = size > self.end
            self._interval_s = (
                min(2 * self._interval_s, INTERVAL_MAX_S) if is_overrun else INTERVAL_S
            )
        self._began = now
        if self.end < size + self._piece:
            # Records that come while the first piece is on its way need room before it.
            block = min(BLOCK_SIZE, self._piece)
            self.end = -(-(size + self._piece) // block) * block
        self.is_laying = True

    def lay(self, put: Callable[[int, int], None], size: Callable[[], int]) -> None:
        """Lay zeros until it is enough. `put(first, end)` writes and syncs some, `size` is where the
        file's records end. In a thread that may block; a disk that has no room for it is no error."""
        try:
            while self._lay_piece(put, size):
                pass
        except OSError as failure:
            self._is_over = True
            self.is_suspect = failure.errno not in _NO_ROOM
        finally:
            self.is_laying = False

    def _lay_piece(self, put: Callable[[int, int], None], size: Callable[[], int]) -> bool:
        with self.turn:
            first, used = self.end, size()
            # Overrun: what is beyond `end` now are records.
            if self._is_over or used > first or first - used >= self._ahead:
                return False
            put(first, first + self._piece)
            self.end = first + self._piece
            return True

    def is_clear(self, end: int) -> bool:
        """May a record that ends here be written without `turn`?"""
        return not self.is_laying or end <= self.end

    def close(self) -> None:
        """The file is finished: lay no more."""
        self._is_over = True
