"""What a plain step raises when it needs bytes that are on disk only.

It only says what is missing; `paging.py` brings it and takes the step again. So steps that decide need to
know neither threads nor files.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from milepost.storage.ledgers.paging import Disk

T = TypeVar("T")


class NotInMemory(Exception):
    """A step needs something that is on disk only, and has changed nothing."""

    def __init__(self, *brings: Callable[[Disk], Awaitable[object]]) -> None:
        super().__init__("not in memory")
        self.brings = brings
        """Each brings a part of it; when all are done the step will find it."""

    def forgetful(self) -> NotInMemory:
        """The same without the frames of the step. Who keeps many would keep those alive with them."""
        self.__traceback__ = None
        return self

    @classmethod
    def all_of(cls, missing: Iterable[NotInMemory]) -> NotInMemory:
        """What several steps need; what two of them need is brought once."""
        return cls(*dict.fromkeys(bring for one in missing for bring in one.brings))


def taken_together(steps: Iterable[Callable[[], T]]) -> list[T]:
    """What several steps answer; if some of them lack something, all that they lack is raised at once."""
    answers: list[T] = []
    missing: list[NotInMemory] = []
    for step in steps:
        try:
            answers.append(step())
        except NotInMemory as one:
            missing.append(one)
    if missing:
        raise NotInMemory.all_of(missing)
    return answers
