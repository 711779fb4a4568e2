"""Histories of what Spark wrote, for the one checker: rows are messages of one writer, read without Spark."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from milepost.testing.checker import Anomaly, EventHistory, judge_events


def anomalies_of(
    expected: Iterable[bytes],
    found: Mapping[str, Iterable[bytes]],
    *,
    in_order: bool,
    is_done: bool = True,
) -> list[Anomaly]:
    """Every message was to be written to each of the topics, in one transaction if there are several: at any
    moment it is in all of them or in none. `is_done`: all of them were written."""
    history = EventHistory()
    history.note("start")
    for value in expected:
        name = _name_of(value)
        fields = {"message": name, "by": "spark"}
        if not in_order:
            fields["lane"] = name
        if len(found) > 1:
            fields["txn"] = name
        for topic in found:
            asked = history.invoke("publish", topic=topic, **fields)
            history.ok(asked) if is_done or "txn" in fields else history.unknown(asked)
        if "txn" in fields:
            asked = history.invoke("commit", txn=name)
            history.ok(asked) if is_done else history.unknown(asked)
    for topic, values in found.items():
        history.note("scan", topic=topic)
        for value in values:
            history.note("stored", topic=topic, message=_name_of(value), id=None)
        history.note("scanned", topic=topic)
    return judge_events(history.events).anomalies


def _name_of(value: bytes) -> str:
    return f"{value[:40].decode()} {hashlib.sha256(value).hexdigest()[:16]}"
