"""Records positions as Parquet files, from `GET /milepost/v1/progress`.

The broker keeps the present, the pace of the last minute and the last hundred resets of each subscription;
what was before must have been recorded (decision 10). A line of a sample is one subscription on one
partition at one moment. Files are given their name when they are whole, so that a recording that was killed
loses its last few seconds and nothing else.

    history/
      samples/….parquet       a line for each subscription and moment
      resets/….parquet        who moved which subscription, as the broker remembers it

    with Admin("http://localhost:8080") as admin:
        record(lambda: admin.get_progress(), Path("history"), for_s=60, every_s=1)
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from milepost.clock import Clock, SystemClock
from milepost.errors import NotFound

Line = Mapping[str, Any]

SAMPLES: Final = pa.schema(
    [
        ("at_ms", pa.int64()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("subscription", pa.string()),
        ("member", pa.string()),
        ("first", pa.int64()),
        ("end", pa.int64()),
        ("mark_delete_index", pa.int64()),
        ("ready", pa.int64()),
        ("inflight", pa.int64()),
        ("delayed", pa.int64()),
        ("acked", pa.int64()),
        ("backlog", pa.int64()),
        ("holes", pa.int64()),
        ("behind_ms", pa.int64()),
        ("epoch", pa.int64()),
        ("messages_out", pa.int64()),
        ("messages_acked", pa.int64()),
        ("verdict", pa.string()),
        ("consumers", pa.int32()),
        # Of the oldest hole, if there is one.
        ("hole_index", pa.int64()),
        ("hole_age_ms", pa.int64()),
        ("hole_holder", pa.string()),
        ("hole_deliveries", pa.int64()),
    ]
)
RESETS: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("subscription", pa.string()),
        ("at_ms", pa.int64()),
        ("by", pa.string()),
        ("asked", pa.string()),
        ("was", pa.int64()),
        ("to", pa.int64()),
        ("epoch", pa.int64()),
        ("redelivered", pa.int64()),
        ("skipped", pa.int64()),
    ]
)

# A file is written after so many lines, or so many seconds: what a kill may lose.
FLUSH_LINES: Final = 50_000
FLUSH_S: Final = 10.0


class Recorded(NamedTuple):
    samples: int
    lines: int
    subscriptions: int
    resets: int


def record(
    ask: Callable[[], Sequence[Line]],
    directory: Path,
    *,
    for_s: float,
    every_s: float = 1.0,
    resets_of: Callable[[str, str], Sequence[Line]] | None = None,
    until: threading.Event | None = None,
    on_sample: Callable[[float, float], None] | None = None,
    clock: Clock | None = None,
) -> Recorded:
    """Ask for the progress every so often, for so long or until the event is set, and write it down.

    `resets_of` is asked once, at the end, for every subscription that was ever moved; `on_sample` hears
    of seconds passed and to pass.
    """
    clock, stop = clock or SystemClock(), until or threading.Event()
    # A wall clock may be set while we look; moments of one recording must not change their order.
    began_ms, began = clock.wall_ms(), clock.monotonic()
    waiting: list[dict[str, Any]] = []
    flushed = samples = lines = 0
    moved: set[tuple[str, str]] = set()
    seen: set[tuple[str, str, str]] = set()
    while True:
        answer = ask()
        passed = clock.monotonic() - began
        for line in answer:
            row = row_of(line, began_ms + round(passed * 1000))
            seen.add((row["topic"], row["subscription"], row["member"]))
            if row["epoch"]:
                moved.add((row["topic"], row["subscription"]))
            waiting.append(row)
            lines += 1
        samples += 1
        if on_sample is not None:
            on_sample(min(passed, for_s), for_s)
        is_over = passed >= for_s or stop.is_set()
        if is_over or len(waiting) >= FLUSH_LINES or passed >= flushed + FLUSH_S:
            write(directory / "samples", SAMPLES, waiting)
            waiting, flushed = [], int(passed)
        if is_over:
            break
        # Counted from the beginning, so that answers that take their time do not add up.
        pause = (int(passed / every_s) + 1) * every_s - (clock.monotonic() - began)
        stop.wait(max(min(pause, for_s - passed), 0.0))
    resets = [
        {"topic": topic, "subscription": name, **one}
        for topic, name in sorted(moved if resets_of is not None else ())
        for one in (resets_of(topic, name) if resets_of is not None else ())
    ]
    write(directory / "resets", RESETS, resets)
    return Recorded(samples, lines, len(seen), len(resets))


def row_of(line: Line, at_ms: int) -> dict[str, Any]:
    """A line of the broker's as a row."""
    hole = line.get("hole") or {}
    row = {name: line.get(name) for name in SAMPLES.names}
    row.update(
        at_ms=at_ms,
        consumers=len(line["consumers"]),
        hole_index=hole.get("index"),
        hole_age_ms=hole.get("age_ms"),
        hole_holder=hole.get("holder"),
        hole_deliveries=hole.get("delivery_count"),
    )
    return row


def write(folder: Path, schema: pa.Schema, rows: Iterable[Line]) -> None:
    """Rows into a file of its own, which has its name when it is whole."""
    found = [{name: row.get(name) for name in schema.names} for row in rows]
    if not found:
        return
    folder.mkdir(parents=True, exist_ok=True)
    name = uuid.uuid4().hex
    # Spark does not read names that begin so.
    staged = folder / f".{name}"
    pq.write_table(pa.Table.from_pylist(found, schema), staged, compression="zstd")
    os.rename(staged, folder / f"{name}.parquet")


def files(directory: Path, kind: str) -> list[str]:
    """The files of a history; `NotFound` if there is no sample."""
    found = sorted(str(path.absolute()) for path in (directory / kind).glob("*.parquet"))
    if not found and kind == "samples":
        raise NotFound(f"{directory} has no samples: record some first")
    return found
