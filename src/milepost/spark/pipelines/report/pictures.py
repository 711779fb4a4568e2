"""Draws pictures of progress (matplotlib). By matplotlib, without a display.

A picture shows the worst few and says how many it leaves out; what is drawn are the numbers of
`progress.Tables`, nothing is computed here but units.

    png = lines("Backlog", "messages", tables.timeline, "backlog")
    png[:4]                                  # b'\\x89PNG'
"""

from __future__ import annotations

import io
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Final

from matplotlib.dates import ConciseDateFormatter
from matplotlib.figure import Figure

from milepost.spark.pipelines.progress import GROUP, Rows, Tables

LINES_MAX: Final = 8
BARS_MAX: Final = 12
# One bar alone should not fill the picture.
BARS_ROOM: Final = 3.4
LABEL_MAX: Final = 48
SIZE_INCHES: Final = (9.0, 3.6)
DPI: Final = 110


def draw(tables: Tables) -> dict[str, bytes]:
    """Every picture, by the name of its file."""
    return {
        "backlog.png": lines("Backlog", "messages", tables.timeline, "backlog"),
        "behind.png": lines(
            "Lag time: age of the first message not acked", "seconds", tables.timeline, "behind_ms"
        ),
        "inflight.png": lines(
            "Inflight age: oldest message with a consumer, at least",
            "seconds",
            tables.timeline,
            "inflight_ms",
        ),
        "latency.png": latency_bars(tables.latency),
        "holes.png": hole_bars(tables.holes),
    }


def label(row: dict[str, Any]) -> str:
    """A group in few letters: `billing on orders`."""
    topic = str(row["topic"]).removeprefix("persistent://").removeprefix("public/default/")
    who = f"{row['subscription']}/{row['member']}" if row["member"] else row["subscription"]
    text = f"{who} on {topic}"
    return text if len(text) <= LABEL_MAX else f"{text[: LABEL_MAX - 1]}…"


def lines(title: str, unit: str, timeline: Rows, column: str) -> bytes:
    """One line a group over time; the highest first, the rest counted."""
    scale = 1000 if column.endswith("_ms") else 1
    series = [
        (key, list(rows))
        for key, rows in groupby(timeline, key=lambda row: tuple(row[name] for name in GROUP))
    ]
    series.sort(key=lambda one: max(row[column] for row in one[1]), reverse=True)
    figure, axes = _figure(title, len(series), LINES_MAX)
    for _, rows in series[:LINES_MAX]:
        moments = [datetime.fromtimestamp(row["at_ms"] / 1000, UTC) for row in rows]
        values = [row[column] / scale for row in rows]
        mark = "." if len(rows) < 60 else ""
        axes.plot(moments, values, label=_text(label(rows[0])), linewidth=1.4, marker=mark)
    axes.set_ylabel(unit)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("UTC")
    if series:
        axes.legend(fontsize=7, loc="upper left")
        dates: Any = ConciseDateFormatter  # matplotlib types it not
        axes.xaxis.set_major_formatter(dates(axes.xaxis.get_major_locator(), tz=UTC))
    return _png(figure)


def latency_bars(latency: Rows) -> bytes:
    """Percentiles side by side, a group a row."""
    figure, axes = _figure("Ack latency", len(latency), BARS_MAX)
    shown = latency[:BARS_MAX][::-1]
    names = ("p50_ms", "p95_ms", "p99_ms")
    for n, name in enumerate(names):
        places = [at + (len(names) - 1 - n) * 0.26 - 0.26 for at in range(len(shown))]
        axes.barh(places, [row[name] / 1000 for row in shown], 0.24, label=name.removesuffix("_ms"))
    axes.set_yticks(range(len(shown)), [_text(label(row)) for row in shown], fontsize=7)
    axes.set_xlabel("seconds")
    axes.set_ylim(-0.6, max(len(shown) - 0.4, BARS_ROOM))
    if shown:
        axes.legend(fontsize=7, loc="upper right")
    return _png(figure)


def hole_bars(holes: Rows) -> bytes:
    """The slowest holes by age."""
    figure, axes = _figure("Slowest holes", len(holes), BARS_MAX)
    shown = holes[:BARS_MAX][::-1]
    colours = ["#c44e52" if row["is_open"] else "#8c8c8c" for row in shown]
    axes.barh(range(len(shown)), [row["age_ms"] / 1000 for row in shown], color=colours)
    texts = [_text(f"{row['index']} of {label(row)}") for row in shown]
    axes.set_yticks(range(len(shown)), texts, fontsize=7)
    axes.set_ylim(-0.6, max(len(shown) - 0.4, BARS_ROOM))
    axes.set_xlabel("seconds; red: still open at the end")
    return _png(figure)


def _figure(title: str, count: int, most: int) -> tuple[Figure, Any]:
    figure = Figure(figsize=SIZE_INCHES, dpi=DPI, layout="constrained")
    axes = figure.subplots()
    more = f" (the highest {most} of {count})" if count > most else ""
    axes.set_title(title + more if count else f"{title}: none", fontsize=10)
    axes.grid(alpha=0.3)
    return figure, axes


def _text(text: str) -> str:
    """Names are not formulas, and a name that begins with _ would be left out of a legend."""
    escaped = text.replace("$", r"\$")
    return f" {escaped}" if escaped.startswith("_") else escaped


def _png(figure: Figure) -> bytes:
    out = io.BytesIO()
    # Without the date and version that matplotlib adds: the same numbers are the same file.
    figure.savefig(out, format="png", metadata={"Software": None})
    return out.getvalue()
