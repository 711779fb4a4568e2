"""The memory limit of the broker: pauses senders, and closes stalled consumers.

What comes in faster than checkpoints store it waits in the senders' sockets: they are not read. What goes
out slower than it is dispatched is bounded a connection, and in all: when all of it is too much, those
that have stalled the longest lose their connection. What they held is ready again; they lose nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from milepost.broker.metrics.counters import Counters
    from milepost.broker.peer import Peer
    from milepost.broker.settings.settings import Settings
    from milepost.storage.interface import Store


class MemoryLimit:
    def __init__(
        self, settings: Settings, store: Store, peers: Collection[Peer], counters: Counters
    ) -> None:
        # Half of the memory is for what goes out, a quarter for what comes in.
        limit = memory_limit(settings)
        self._unsent_size_max = limit // 2
        self._unstored_size_max = max(limit // 4, 2 * settings.journal_size_max)
        # So many publishes may be under way, whichever connections they came from.
        self._pending_free = settings.bucket_pending_publishes if settings.bucket else 0
        self.pending_publishes = 0
        """Publishes of all connections that have no receipt yet."""
        self._store = store
        self._peers = peers
        self._counters = counters

    @property
    def is_short(self) -> bool:
        """Does more wait in memory to be stored than may?"""
        return self._store.unstored_size >= self._unstored_size_max

    def has_too_many(self, pending: int, pending_max: int) -> bool:
        """Must a connection with so many publishes under way not be read, which may have `pending_max`?"""
        return pending >= pending_max and self.pending_publishes >= self._pending_free

    def has_few(self, pending: int, pending_max: int) -> bool:
        """May it be read again? Half of a limit must be free for that."""
        return pending <= pending_max // 2 or self.pending_publishes < self._pending_free // 2

    def resume_reading(self) -> None:
        """Read those again who had to wait, if they need not any more."""
        if not self.is_short:
            for peer in self._peers:
                peer.resume()

    def end_stalled(self) -> None:
        """Make room when too much waits for clients that do not read."""
        stalled = [peer for peer in self._peers if not peer.is_writable]
        sizes = {peer: peer.unsent_size() for peer in stalled}
        total = sum(sizes.values())
        for peer in sorted(stalled, key=lambda peer: peer.unwritable_since):
            if total <= self._unsent_size_max:
                return
            total -= sizes[peer]
            self._counters.connections_closed["stalled"] += 1
            peer.abort("it reads too slowly, and memory is short")


def memory_limit(settings: Settings) -> int:
    """`max_memory`; if that is 0, a quarter of this machine's."""
    return settings.max_memory or _memory_of_the_machine() // 4


@cache
def _memory_of_the_machine() -> int:
    """What is there, or what the container may use of it (cgroup v2)."""
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text("ascii").strip()
    except OSError:
        return physical
    return min(physical, int(limit)) if limit.isdecimal() else physical
