"""Decides which ledgers retention lets go. A decision, no effect.

A ledger goes when everyone who has a durable position has acked all of it, and when it is older than the time
limit, or as much as the size limit would be left without it. The oldest go first, whole ledgers only, and
never the one that is still written to. What a subscription has not acked stays, whatever the limits say.

    >>> ledgers = [Kept(10, 100, 1000), Kept(20, 100, 2000), Kept(30, 100, 3000)]
    >>> trim_index(ledgers, acked_index=30, retention=Retention(0, 0), now_ms=5000)
    20
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from milepost.broker.policies.effective import Retention
from milepost.storage.ledgers.ledger import Ledger


class Kept(NamedTuple):
    """A ledger as retention sees it."""

    end_index: int
    size_bytes: int
    last_time_ms: int
    """When its last entry came."""


def kept(ledgers: Iterable[Ledger]) -> list[Kept]:
    return [Kept(one.end_index, one.size_bytes, one.last_time_ms) for one in ledgers]


def trim_index(ledgers: Sequence[Kept], acked_index: int, retention: Retention, now_ms: int) -> int:
    """Ledgers that end at or before this index may go; `ledgers` are all, the oldest first.

    `acked_index` is where the slowest durable position begins. Upstream measures the size limit
    against all that the topic holds, acked or not.
    """
    left = sum(ledger.size_bytes for ledger in ledgers)
    index = 0
    for ledger in ledgers[:-1]:
        left -= ledger.size_bytes
        if ledger.end_index > acked_index or not _is_over(ledger, left, retention, now_ms):
            break
        index = ledger.end_index
    return index


def _is_over(ledger: Kept, left: int, retention: Retention, now_ms: int) -> bool:
    time_ms, size = retention
    is_old = time_ms is not None and ledger.last_time_ms + time_ms <= now_ms
    return is_old or (size is not None and left >= size)
