"""The lock of a data directory, which is made if need be: one process at a time."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from milepost.errors import DataDirectoryLocked, PersistenceError, WrongDataDirectory

FILE = "lock"


def make_directory(root: Path) -> None:
    """Make a data directory, which no other user may read, unless it is there."""
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise WrongDataDirectory(
            f"data directory {root}: it, or a part of its path, is a file; choose another --data"
        ) from None
    except OSError as error:
        raise PersistenceError(
            f"data directory {root} cannot be made: {error.strerror}; choose another --data"
        ) from None


class DirectoryLock:
    """Held from construction until `release`. The file tells a person who holds it."""

    def __init__(self, root: Path) -> None:
        self._fd = os.open(root / FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._fd)
            raise DataDirectoryLocked(
                f"data directory {root} is in use by process {_written(root) or 'unknown'}"
            ) from None
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)  # closing gives the lock back
            self._fd = -1


def is_owner_gone(root: Path) -> bool:
    """Has the process ended that took the lock? Those that it has forked hold it as long as they live."""
    try:
        os.kill(int(_written(root)), 0)
    except ProcessLookupError:
        return True
    except (ValueError, OverflowError, PermissionError):
        return False  # it has not told yet, or it is another user's
    return False


def _written(root: Path) -> str:
    """What the file says: the process that took the lock."""
    with (root / FILE).open("rb") as file:
        return file.read(64).decode(errors="replace").strip()
