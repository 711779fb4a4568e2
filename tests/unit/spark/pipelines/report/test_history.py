"""A recording asks as often as it was told, writes whole files, and loses no line."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from milepost.errors import NotFound
from milepost.spark.pipelines.report.history import files, record


def line(**more: Any) -> dict[str, Any]:
    return {
        "topic": "persistent://public/default/t", "partition": -1, "subscription": "s", "member": "",
        "first": 0, "end": 9, "mark_delete_index": 3, "ready": 2, "inflight": 3, "delayed": 0,
        "acked": 4, "backlog": 5, "holes": 0, "hole": None, "behind_ms": 70, "epoch": 0,
        "messages_out": 7, "messages_acked": 4, "verdict": "CONSUMING", "consumers": [{}, {}],
        **more,
    }  # fmt: skip


class Clock:
    """Goes on by so much whenever it is looked at."""

    def __init__(self, step_s: float) -> None:
        self._now = 0.0
        self._step_s = step_s

    def wall_ms(self) -> int:
        return 1_000_000

    def monotonic(self) -> float:
        self._now += self._step_s
        return self._now


def rows(directory: Path, kind: str = "samples") -> list[dict[str, Any]]:
    found = [row for path in files(directory, kind) for row in pq.read_table(path).to_pylist()]
    return sorted(found, key=lambda row: row["at_ms"])


def test_what_was_seen_is_written(tmp_path: Path) -> None:
    hole = {"index": 4, "age_ms": 9, "holder": "c", "delivery_count": 2, "end": 5, "id": ""}
    answers = iter([[line()], [line(epoch=1, hole=hole, holes=1)], []])
    asked: list[tuple[str, str]] = []

    def resets_of(topic: str, name: str) -> list[dict[str, Any]]:
        asked.append((topic, name))
        return [{"at_ms": 5, "by": "ann", "asked": "index 0", "was": 4, "to": 0, "epoch": 1}]

    shown: list[tuple[float, float]] = []
    done = record(
        lambda: next(answers),
        tmp_path,
        for_s=1,
        every_s=0.001,
        resets_of=resets_of,
        on_sample=lambda *one: shown.append(one),
        clock=Clock(0.25),
    )
    assert done == (3, 2, 1, 1)
    first, second = rows(tmp_path)
    assert (first["at_ms"], first["consumers"], first["hole_index"]) == (1_000_250, 2, None)
    assert second["at_ms"] > first["at_ms"]
    assert (second["hole_index"], second["hole_age_ms"]) == (4, 9)
    assert (second["hole_holder"], second["hole_deliveries"]) == ("c", 2)
    assert asked == [("persistent://public/default/t", "s")]
    (reset,) = rows(tmp_path, "resets")
    assert (reset["by"], reset["subscription"], reset["skipped"]) == ("ann", "s", None)
    assert shown[-1] == (1, 1)
    assert not list(tmp_path.rglob(".*"))


def test_a_recording_ends_when_it_is_told_to(tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()
    done = record(lambda: [line()], tmp_path, for_s=3600, every_s=1, until=stop)
    assert (done.samples, len(rows(tmp_path))) == (1, 1)


def test_a_history_without_samples_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="has no samples"):
        files(tmp_path, "samples")
    assert files(tmp_path, "resets") == []
