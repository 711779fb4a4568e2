"""Which file-system calls fail, and how.

Owns the plan of failures and the count of calls. Never touches a file: `MemoryFiles` asks before
every call, and obeys.

Failing the Nth call for N = 1, 2, 3, … until a run passes untouched visits every error path once:

    for nth in itertools.count(1):
        files = MemoryFiles()
        files.faults.fail("sync", nth, error=errno.EIO)
        run_workload(files)
        if not files.faults.fired:
            break
"""

from __future__ import annotations

import errno
import os
import random
from collections import Counter
from dataclasses import dataclass
from typing import Literal

Call = Literal[
    "create",
    "open",  # open_append
    "append",
    "lay",
    "sync",
    "read",  # read, size and names
    "delete",
    "rename",
    "make_folder",
    "sync_dir",
]


@dataclass(slots=True)
class Fault:
    """One planned failure."""

    call: Call | Literal["any"]
    # Matching calls still to pass before it fires; fires when this falls to 0.
    left: int
    error: int
    forever: bool
    under: str
    # Bytes of a failing append that are written all the same: a short write, then the error.
    keep: int

    def matches(self, call: Call, path: str) -> bool:
        return self.call in (call, "any") and path.startswith(self.under)

    def os_error(self, path: str) -> OSError:
        return OSError(self.error, os.strerror(self.error), path)


class Faults:
    """The plan, and what came of it."""

    def __init__(self) -> None:
        # How often each call was made, failed or not.
        self.calls: Counter[Call] = Counter()
        # Failures that happened, as "call path: errno name", in order.
        self.fired: list[str] = []
        self._planned: list[Fault] = []
        self._random: random.Random | None = None
        self._share = 0.0
        self._random_errors: tuple[int, ...] = ()

    def fail(
        self,
        call: Call | Literal["any"],
        nth: int = 1,
        *,
        error: int = errno.EIO,
        forever: bool = False,
        under: str = "",
        keep: int = 0,
    ) -> None:
        """Fail the nth such call from now, counting only paths that begin with `under`.

        `forever` fails all after it too. `keep` lets that many bytes of an append through first.
        """
        if nth < 1:
            raise ValueError(f"calls are counted from 1, got {nth}")
        self._planned.append(Fault(call, nth, error, forever, under, keep))

    def fail_randomly(
        self, share: float, seed: int, errors: tuple[int, ...] = (errno.EIO, errno.ENOSPC)
    ) -> None:
        """Fail this share of all calls, each with one of the errors; 0 stops it."""
        if not 0 <= share <= 1:
            raise ValueError(f"a share is between 0 and 1, got {share}")
        self._random = random.Random(seed)  # noqa: S311 (reproducible, not secret)
        self._share = share
        self._random_errors = errors

    def heal(self) -> None:
        """Forget every planned failure; counts stay."""
        self._planned.clear()
        self._random = None

    def due(self, call: Call, path: str) -> Fault | None:
        """Count the call; the fault it must suffer, if any. For `MemoryFiles`."""
        self.calls[call] += 1
        due: Fault | None = None
        for fault in list(self._planned):
            if not fault.matches(call, path):
                continue
            fault.left -= 1
            if fault.left > 0:
                continue
            due = due or fault
            if not fault.forever:
                self._planned.remove(fault)
        if due is None and self._random is not None and self._random.random() < self._share:
            due = Fault(call, 0, self._random.choice(self._random_errors), False, "", 0)
        if due is not None:
            self.fired.append(f"{call} {path}: {errno.errorcode.get(due.error, due.error)}")
        return due
