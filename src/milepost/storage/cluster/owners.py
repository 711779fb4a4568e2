"""Who serves which shard, as the agent of a broker tells the broker's other processes: in a local file.

It is a hint. A process that is asked for a topic of a shard that it does not have refuses, and the client
looks the topic up again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from milepost.storage.cluster.notice import Notice, Seat

FILE: Final = "owners.json"


class Served(NamedTuple):
    broker: str
    seat: Seat
    listeners: str = ""
    """The setting `advertised_listeners` of the broker."""


def served(notices: Iterable[Notice]) -> dict[int, Served]:
    """Who serves each shard: of several that say so, the one with the latest claim."""
    found: dict[int, Served] = {}
    for notice in notices:
        for shard, seat in notice.shards.items():
            if seat is not None and (shard not in found or found[shard].seat.epoch < seat.epoch):
                found[shard] = Served(notice.broker, seat, notice.listeners)
    return found


def write(data: Path, notices: Iterable[Notice]) -> None:
    """Replace the file of a data directory. Readers see the one before or this one."""
    text = json.dumps([one.encode().decode() for one in notices])
    beside = data / f"{FILE}.new"
    beside.write_text(text, "utf-8")
    beside.rename(data / FILE)


class OwnersFile:
    """The file as its readers see it; read again when it was replaced."""

    def __init__(self, data: Path) -> None:
        self._file = data / FILE
        self._seen: tuple[int, int] | None = None
        self._notices: list[Notice] = []
        self._served: dict[int, Served] = {}

    @property
    def notices(self) -> list[Notice]:
        """The brokers that are there, this one included."""
        self._look()
        return self._notices

    @property
    def served(self) -> dict[int, Served]:
        self._look()
        return self._served

    def _look(self) -> None:
        try:
            found = self._file.stat()
        except FileNotFoundError:  # the agent has not looked yet
            return
        seen = found.st_ino, found.st_mtime_ns
        if seen == self._seen:
            return
        decoded = (Notice.decode(one.encode()) for one in json.loads(self._file.read_text("utf-8")))
        self._notices = [one for one in decoded if one is not None]
        self._served, self._seen = served(self._notices), seen
