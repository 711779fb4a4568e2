"""The history of resets: who moved the cursor, from where to where, and who has obeyed.

A record names the consumers that were connected. Each is *waiting* until it has obeyed: one that was
closed by coming back and asking for messages, one that follows in place by saying so. A consumer that
comes later starts at the new position anyway, and is not listed. The history is kept beside the cursor in
the catalog, so it goes with its subscription and with its topic; the newest records are kept.

    >>> history = ResetHistory()
    >>> history.add(ResetRecord(at_ms=5, by="ann", asked="index 0", was=7, to=0, epoch=1,
    ...                         redelivered=7, skipped=0, waiting=["c-1"]))
    >>> history.obeyed("c-1"), history.obeyed("c-1"), history.last.obeyed
    (True, False, ['c-1'])
    >>> ResetHistory.from_doc(history.to_doc()).last == history.last
    True
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

RECORDS_MAX = 100


@dataclass(slots=True)
class ResetRecord:
    at_ms: int
    by: str
    """Who asked for it: a role, or an address."""
    asked: str
    """The target in the operator's words."""
    was: int
    """The first index that was not acked then."""
    to: int
    epoch: int
    """The cursor's epoch since then."""
    redelivered: int
    """Messages that had been acked and were ready again."""
    skipped: int
    """Messages that had not been acked and were from then on."""
    waiting: list[str] = field(default_factory=list)
    """Consumers that were connected and have not obeyed yet."""
    obeyed: list[str] = field(default_factory=list)


class ResetHistory:
    def __init__(self, records: Sequence[ResetRecord] = ()) -> None:
        self.records = list(records[-RECORDS_MAX:])
        """Oldest first."""

    @property
    def last(self) -> ResetRecord | None:
        return self.records[-1] if self.records else None

    @property
    def waiting(self) -> Sequence[str]:
        """Consumers that have not obeyed the last reset."""
        return self.records[-1].waiting if self.records else ()

    def add(self, record: ResetRecord) -> None:
        """One more; who waited for the one before waits for this one."""
        if self.records:
            before = self.records[-1].waiting
            record.waiting += [name for name in before if name not in record.waiting]
        self.records = [*self.records[-(RECORDS_MAX - 1) :], record]

    def obeyed(self, name: str) -> bool:
        """A consumer is at the new position; whether that is news."""
        last = self.last
        if last is None or name not in last.waiting:
            return False
        last.waiting.remove(name)
        last.obeyed.append(name)
        return True

    def to_doc(self) -> list[dict[str, Any]]:
        return [asdict(record) for record in self.records]

    @classmethod
    def from_doc(cls, doc: Sequence[dict[str, Any]]) -> ResetHistory:
        """As it was before a restart. A consumer that was connected then is not any more, and comes back at
        the new position: none is waited for."""
        history = cls([ResetRecord(**record) for record in doc])
        for name in list(history.waiting):
            history.obeyed(name)
        return history
