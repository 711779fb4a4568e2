"""The memory limit of the broker: pauses connections when it is reached.

What comes in faster than checkpoints store it waits in the senders' sockets: they are not read. What goes
out slower than it is dispatched is bounded a connection, and in all: when all of it is too much, those
that have stalled the longest lose their connection. What they held is ready again; they lose nothing else.
"""

from __future__ import annotations

from collections.abc import Collection

from milepost.broker.connection.session import Session
from milepost.broker.metrics.counters import Counters
from milepost.broker.settings.settings import Settings
from milepost.storage.store import Store


class Pressure:
    def __init__(
        self, settings: Settings, store: Store, sessions: Collection[Session], counters: Counters
    ) -> None:
        # Half of the memory is for what goes out, a quarter for what comes in.
        self._unsent_size_max = settings.memory_limit // 2
        self._unstored_size_max = max(settings.memory_limit // 4, 2 * settings.journal_size_max)
        self._store = store
        self._sessions = sessions
        self._counters = counters

    @property
    def is_high(self) -> bool:
        """Does more wait in memory to be stored than may?"""
        return self._store.unstored_size >= self._unstored_size_max

    def resume_reading(self) -> None:
        """Read those again who had to wait, if they need not any more."""
        if not self.is_high:
            for session in self._sessions:
                session.resume()

    def end_stalled(self) -> None:
        """Make room when too much waits for clients that do not read."""
        stalled = [session for session in self._sessions if not session.is_writable]
        sizes = {session: session.unsent_size() for session in stalled}
        total = sum(sizes.values())
        for session in sorted(stalled, key=lambda session: session.unwritable_since):
            if total <= self._unsent_size_max:
                return
            total -= sizes[session]
            self._counters.connections_closed["stalled"] += 1
            session.abort("it reads too slowly, and memory is short")
