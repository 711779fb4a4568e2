"""The history of a load on one topic whose broker is killed, in words of that load.

Threads write it while they run; `milepost.testing.checker` judges it when everything is over. A *generation*
is one life of the broker process; a kill ends it. A message is known by its key, (producer, sequence); a
place is (ledger, entry, batch index), the last being -1 outside batches. A chunked message has the place and
the index of its last chunk, as on the wire.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from milepost.testing.checker import History

Key = tuple[int, int]
Place = tuple[int, int, int]


def name_of(key: Key) -> str:
    return f"{key[0]}:{key[1]}"


class LoadHistory(History):
    def __init__(self, path: Path, topic: str, *, deduplicated: bool) -> None:
        super().__init__(path, buffered=True)
        self.topic = topic
        self.generation = 0
        self.generations: dict[Key, int] = {}
        """The life of the broker in which each message was handed to the client library."""
        self.hurry = threading.Event()
        """Set while the broker is about to be killed: producers send as fast as they can."""
        self.changed = threading.Condition()
        """Told of progress, for threads that wait for it."""
        self._sent: dict[Key, int] = {}
        self._reached: dict[str, set[Place]] = {}
        self._heard_at = 0.0
        """When the last receipt came: the broker had a processor then, and so had its clients."""
        self.declare(topic, deduplicated=deduplicated)
        self.note("start")

    def declare(self, topic: str, *, deduplicated: bool) -> None:
        self.note("topic", topic=topic, deduplicated=deduplicated)

    def progress(self) -> None:
        with self.changed:
            self.changed.notify_all()

    @property
    def waiting(self) -> int:
        """Roughly, messages that the slowest subscription has yet to see."""
        slowest = min(map(len, tuple(self._reached.values())), default=0)
        return self.counts["publish ok"] - slowest

    def killed(self, at: float) -> None:
        """The broker is dead, and the next one is about to be started.

        Acks without an answer are as old as they were when it was heard last: what it had no processor
        for, while the machine did something else, it could not write.
        """
        self.note("kill", t=min(at, self._heard_at))
        self.generation += 1
        self.note("start")

    # -- producers ---------------------------------------------------------------------------------

    def sent(self, key: Key, lane: int) -> None:
        """Only messages of one lane keep their order."""
        self.generations[key] = self.generation
        self._sent[key] = self.invoke(
            "publish", topic=self.topic, message=name_of(key), by=str(key[0]), lane=str(lane)
        )

    def receipt(self, key: Key, place: Place | None) -> None:
        """`place` None: the broker knew the message already."""
        self.ok(self._sent.pop(key), id=place)
        self._heard_at = time.monotonic()
        self.progress()

    def gave_up(self, key: Key) -> None:
        self.unknown(self._sent.pop(key))

    # -- consumers ---------------------------------------------------------------------------------

    def joined(self, subscription: str, consumer: str, mode: str, **more: bool) -> None:
        """The consumer is about to subscribe: nothing that it gets was sent before."""
        self.note("join", **self.group(subscription), by=consumer, mode=mode, **more)

    def delivered(
        self, subscription: str, consumer: str, key: Key | None, place: Place, **more: int
    ) -> None:
        """`key` None: bytes of no producer."""
        name = None if key is None else name_of(key)
        self.note(
            "receive", **self.group(subscription), by=consumer, message=name, id=place, **more
        )
        self._reached.setdefault(subscription, set()).add(place)

    def ack_of(
        self, subscription: str, consumer: str, places: Sequence[Place], *, is_cumulative: bool
    ) -> dict[str, Any]:
        """The fields of an ack; of a cumulative one the last place is enough."""
        fields = {**self.group(subscription), "by": consumer}
        return {**fields, "ids": list(places), "cumulative": is_cumulative}

    def group(self, subscription: str) -> dict[str, Any]:
        return {"topic": self.topic, "sub": subscription}

    def scanned(self, topic: str, messages: Iterable[tuple[Place, str | None]]) -> None:
        """Everything that a reader of a topic sees."""
        self.note("scan", topic=topic)
        for place, name in messages:
            self.note("stored", topic=topic, message=name, id=place)
        self.note("scanned", topic=topic)
