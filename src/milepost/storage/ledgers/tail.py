"""The tail cache: the newest entries in memory, for consumers near the end.

What no checkpoint has stored yet is always in memory and not counted here. When a checkpoint has
stored a ledger's blocks, they stay until the cache needs the room; the oldest go first.
"""

from __future__ import annotations

from collections import Counter, deque

from milepost.storage.ledgers.ledger import Ledger

TAIL_SIZE_DEFAULT = 64 * 1024 * 1024


class TailCache:
    def __init__(self, size_bytes_max: int = TAIL_SIZE_DEFAULT) -> None:
        self.size_bytes_max = size_bytes_max
        self.size_bytes = 0
        # One item a block, in the order in which they were stored. Invariant: the blocks of one
        # ledger appear in their own order, so dropping the oldest is dropping the ledger's first.
        self._order: deque[tuple[Ledger, int]] = deque()

    def keep(self, ledger: Ledger, sizes: list[int]) -> None:
        """These blocks of the ledger are stored now; make room if they are too many."""
        for size in sizes:
            self._order.append((ledger, size))
            self.size_bytes += size
        # Counted first: dropping them one by one would move all that stay, again and again.
        dropped: Counter[Ledger] = Counter()
        while self.size_bytes > self.size_bytes_max:
            oldest, size = self._order.popleft()
            dropped[oldest] += 1
            self.size_bytes -= size
        for oldest, count in dropped.items():
            oldest.drop_blocks(count)
