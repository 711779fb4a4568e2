"""How many connections there may be, in all and from one address.

    reason = limits.enter("10.0.0.7")     # None: it is counted, and `leave` is to follow
    limits.leave("10.0.0.7")

Whatever the settings say, connections leave the storage the descriptors that it needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from milepost.broker.settings.settings import Settings
from milepost.storage.descriptors import RESERVED, limit


class ConnectionLimits:
    def __init__(self, settings: Callable[[], Settings], descriptors: int | None = None) -> None:
        """`settings` gives those that hold now; `descriptors`: how many the process may have."""
        self._settings = settings
        self.room = max((limit() if descriptors is None else descriptors) - RESERVED, 1)
        """Connections for which there are descriptors."""
        self.hosts: Counter[str] = Counter()
        """How many each address has."""
        self.count = 0

    def enter(self, host: str) -> str | None:
        """Count one more connection; or, if it is one too many, why."""
        settings = self._settings()
        if self.count >= self.room:
            return "descriptors"
        if settings.max_connections and self.count >= settings.max_connections:
            return "max_connections"
        per_ip = settings.max_connections_per_ip
        if per_ip and self.hosts[host] >= per_ip:
            return "max_connections_per_ip"
        self.count += 1
        self.hosts[host] += 1
        return None

    def set_aside(self) -> ConnectionLimits:
        """Limits for clients of another kind, which are counted apart. The settings hold for them by
        themselves; of the room they get as much as `max_connections` says now, and at most half."""
        most = self._settings().max_connections or self.room
        there = max(min(self.room // 2, most), 1)
        self.room = max(self.room - there, 1)
        return ConnectionLimits(self._settings, RESERVED + there)

    def leave(self, host: str) -> None:
        """A connection that was counted is gone."""
        self.count -= 1
        self.hosts[host] -= 1
        if not self.hosts[host]:
            del self.hosts[host]
