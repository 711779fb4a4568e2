"""The board as one broker sees it: which of the others are there. Pure; times are given.

A broker is there while its notice changes. It is taken for dead when its notice has not changed for `DEAD_S`
while this broker kept looking, or when connections to it are refused. One that goes on changing its notice
although it refuses connections is there, at an address where this broker does not reach it: from then on only
its notice counts. Else its shards would be claimed again with each refusal, for ever.

A notice that this release cannot read is of a broker of a newer one. It is there while its bytes change, and
nothing else is known of it: it is not hailed, and shards are neither asked of it nor given to it.

To be wrong costs a reconnection of clients and never data. Of the time between two looks only `LOOK_S`
counts: a broker that slept itself has not seen the others for long, which says nothing about them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from milepost.storage.cluster.notice import Notice

# A broker is taken for dead when its notice has not changed for so long.
DEAD_S: Final = 5.0
# Between two looks no more time counts than this.
LOOK_S: Final = 2.0
# The notice of a dead broker is deleted after so long.
FORGET_S: Final = 60.0
# A notice that changed so often after refused connections is of a broker that lives: the last one of a broker
# that died may arrive behind the refusal, a second one cannot.
SURVIVED: Final = 2


class Board:
    def __init__(self) -> None:
        self._notices: dict[str, Notice] = {}
        # By broker: when its notice was first seen as it is now, in watched time.
        self._changed: dict[str, float] = {}
        # Brokers that refused a connection, with the beat that they had then.
        self._refused: dict[str, int] = {}
        # How often the notice of a broker has changed after a refusal.
        self._survived: Counter[str] = Counter()
        # Notices that cannot be read, by broker.
        self._unread: dict[str, bytes] = {}
        self._looked: float | None = None
        self._watched_s = 0.0

    def saw(
        self, notices: Mapping[str, Notice], now: float, unread: Mapping[str, bytes] | None = None
    ) -> None:
        """These are the notices of all other brokers, read just now, and the bytes of those that this release
        cannot read."""
        unread = unread or {}
        if self._looked is not None:
            self._watched_s += min(now - self._looked, LOOK_S)
        self._looked = now
        for broker, notice in notices.items():
            before = self._notices.get(broker)
            if broker not in self._changed or before is None or before.beat != notice.beat:
                self._changed[broker] = self._watched_s
            if self._refused.get(broker, notice.beat) != notice.beat:
                del self._refused[broker]
                self._survived[broker] += 1
        for broker, data in unread.items():
            if self._unread.get(broker) != data:
                self._changed[broker] = self._watched_s
        self._notices, self._unread = dict(notices), dict(unread)
        by_broker: list[dict[str, Any]] = [self._changed, self._refused, self._survived]
        for known in by_broker:
            for broker in known.keys() - notices.keys() - unread.keys():
                del known[broker]

    def refused(self, broker: str) -> bool:
        """Connections to a broker are refused: its process is gone, until its notice changes. False if it has
        survived that before: it is not taken for dead."""
        if broker in self._notices and self._survived[broker] < SURVIVED:
            self._refused[broker] = self._notices[broker].beat
            return True
        return False

    def reached(self, broker: str) -> None:
        """A broker takes connections: a refusal means its end again."""
        self._survived.pop(broker, None)

    def living(self) -> dict[str, Notice]:
        """The notices of brokers that are there, as of the last look."""
        return {
            broker: notice
            for broker, notice in self._notices.items()
            if broker not in self._refused and self._age(broker) < DEAD_S
        }

    def unread(self) -> list[str]:
        """The brokers that are there with a notice that this release cannot read, as of the last look."""
        return [broker for broker in self._unread if self._age(broker) < DEAD_S]

    def forgotten(self) -> list[str]:
        """The keys of notices whose brokers are long gone."""
        return [
            notice.key for broker, notice in self._notices.items() if self._age(broker) >= FORGET_S
        ]

    def _age(self, broker: str) -> float:
        return self._watched_s - self._changed[broker]
