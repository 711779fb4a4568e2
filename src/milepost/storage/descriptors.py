"""Keeps file descriptors free for the storage, however many connections there are.

A journal file that cannot be begun refuses everybody's publishes. So a few descriptors are held open for
nothing; when the system has no more, one of them is given up for the file. They are taken back as soon as
there are descriptors again.
"""

from __future__ import annotations

import errno
import os
import threading

# Files that the journal, ledgers, catalog and checkpoints may open at once, and more.
SPARE_COUNT = 32
# Descriptors that connections must leave: the spare ones, files, listening sockets, the loop's own, logs.
RESERVED = 2 * SPARE_COUNT
# Where the system knows no limit, or none that it would tell.
NO_LIMIT = 1 << 20


def raise_limit() -> int:
    """Let this process have as many descriptors as it may; how many that is."""
    try:
        import resource
    except ImportError:  # not a Unix
        return NO_LIMIT
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):  # a system may say "no limit" and mean another number
            hard = soft
    return NO_LIMIT if hard == resource.RLIM_INFINITY else hard


def limit() -> int:
    """How many descriptors this process may have now."""
    try:
        import resource
    except ImportError:
        return NO_LIMIT
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return NO_LIMIT if soft == resource.RLIM_INFINITY else soft


class SpareDescriptors:
    """Descriptors held for nothing, so that a file can be opened when there are no others."""

    def __init__(self) -> None:
        self._wanted = 0
        self._held: list[int] = []
        self._lock = threading.Lock()

    def hold(self, count: int) -> None:
        """Keep so many ready from now on."""
        with self._lock:
            self._wanted = count
            while len(self._held) > count:
                os.close(self._held.pop())
            self._refill()

    @property
    def count(self) -> int:
        return len(self._held)

    def open(self, path: str, flags: int, mode: int = 0o777) -> int:
        """As `os.open`; without a free descriptor, by way of a spare one."""
        if len(self._held) == self._wanted:
            try:
                return os.open(path, flags, mode)
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._held:
                    raise
        with self._lock:
            self._refill()
            while True:
                try:
                    return os.open(path, flags, mode)
                except OSError as error:
                    if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._held:
                        raise
                os.close(self._held.pop())

    def _refill(self) -> None:
        while len(self._held) < self._wanted:
            try:
                self._held.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
            except OSError:
                return


SPARE = SpareDescriptors()
"""Those of this process."""
