"""The history of a store that has no clients: what was published into logs, answered, trimmed and found.

    told = StoredHistory()
    log.append([NewEntry(b"a")], now_ms, told.publish("orders", b"a"))
    ...                                          # the process ends, and another one opens what is there
    told.killed()
    told.found("orders", first_index=0, payloads=[b"a"])
    assert told.anomalies() == []

Payloads are unique in a topic. What has no answer when the process ends may be there or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from milepost.testing.checker import Anomaly, EventHistory, judge_events


class StoredHistory:
    def __init__(self) -> None:
        self._history = EventHistory(clock=lambda: 0.0)
        self._history.note("start")
        self._open: set[int] = set()

    def publish(self, topic: str, payload: bytes) -> Callable[[Exception | None], None]:
        """To be called with the answer."""
        asked = self._history.invoke("publish", topic=topic, message=payload.decode(), by=topic)
        self._open.add(asked)

        def answered(error: Exception | None) -> None:
            if asked in self._open:
                self._open.remove(asked)
                self._history.ok(asked) if error is None else self._history.unknown(asked)

        return answered

    def trim(self, topic: str, before_index: int) -> Callable[[int], None]:
        """To be called with the first index that is left."""
        asked = self._history.invoke("trim", topic=topic, index=before_index, policy="the test's")
        return lambda first_index: self._history.ok(asked, first=first_index)

    def killed(self) -> None:
        """The process has ended, or another one has taken over from it."""
        for asked in sorted(self._open):
            self._history.unknown(asked)
        self._open.clear()
        self._history.note("kill")
        self._history.note("start")

    def found(self, topic: str, first_index: int, payloads: Iterable[bytes]) -> None:
        """Everything that a log holds."""
        self._history.note("scan", topic=topic, first=first_index)
        index = first_index
        for index, payload in enumerate(payloads, first_index + 1):
            message = payload.decode()
            self._history.note("stored", topic=topic, message=message, id=None, index=index - 1)
        self._history.note("scanned", topic=topic, end=index)

    def anomalies(self) -> list[Anomaly]:
        return judge_events(self._history.events).anomalies
