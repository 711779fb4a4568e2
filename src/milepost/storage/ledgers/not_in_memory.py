"""What a plain step raises when it needs bytes that are on disk only.

It only says what is missing; `paging.py` brings it and takes the step again. So steps that decide need to
know neither threads nor files.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from milepost.storage.ledgers.paging import Disk


class NotInMemory(Exception):
    """A step needs something that is on disk only, and has changed nothing."""

    def __init__(self, *brings: Callable[[Disk], Awaitable[object]]) -> None:
        super().__init__("not in memory")
        self.brings = brings
        """Each brings a part of it; when all are done the step will find it."""

    @classmethod
    def all_of(cls, missing: Iterable[NotInMemory]) -> NotInMemory:
        """What several steps need."""
        return cls(*(bring for one in missing for bring in one.brings))
