"""Writes the report: one HTML page, pictures, CSV tables.

    paths = write_report(tables, Path("report"))
    paths[0]                                 # report/progress.html

The page has no script and loads nothing: the pictures are in it. Every text from a broker is escaped.
"""

from __future__ import annotations

import base64
import csv
import html
import io
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from milepost.spark.pipelines.progress import Rows, Tables
from milepost.spark.pipelines.report.pictures import draw

PAGE: Final = "progress.html"

_STYLE: Final = """
body { font: 15px/1.45 system-ui, sans-serif; color: #222 }
body { max-width: 68rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2.2rem }
img { max-width: 100%; height: auto }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-size: 13px }
th, td { padding: .25rem .6rem; border-bottom: 1px solid #ddd; text-align: left; white-space: nowrap }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
p.note { color: #666 }
"""

_TITLES: Final = (
    (
        "groups",
        "Groups",
        "Worst lag time first. Counts are of all partitions, ages of the worst one.",
    ),
    (
        "latency",
        "Ack latency",
        "From publishing until acked, by nearest rank over the acks that were seen; untimed: messages "
        "that were there before the recording.",
    ),
    ("holes", "Slowest holes", "Messages that were not acked though later ones were."),
    ("resets", "Resets", "Who moved a subscription, as the broker remembers it."),
)
_PICTURES: Final = {
    "groups": ("backlog.png", "behind.png", "inflight.png"),
    "latency": ("latency.png",),
    "holes": ("holes.png",),
}


def write_report(tables: Tables, folder: Path) -> list[Path]:
    """The page, then the pictures, then the tables; what was there under these names is replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    pictures = draw(tables)
    written = {PAGE: page(tables, pictures).encode()}
    written |= pictures
    for name in ("groups", "timeline", "latency", "holes", "resets"):
        written[f"{name}.csv"] = _csv(getattr(tables, name)).encode()
    for name, data in written.items():
        staged = folder / f".{name}"
        staged.write_bytes(data)
        os.replace(staged, folder / name)
    return [folder / name for name in written]


def page(tables: Tables, pictures: dict[str, bytes]) -> str:
    seconds = (tables.last_ms - tables.first_ms) / 1000
    apart = seconds / max(tables.samples - 1, 1)
    head = (
        f"{_moment(tables.first_ms)} to {_moment(tables.last_ms)}: {tables.samples:,} samples of "
        f"{len(tables.groups):,} groups, {apart:.2g} s apart on average. Ages and latencies are known to "
        "the distance of two samples."
    )
    body = [f"<h1>Progress</h1><p>{html.escape(head)}</p>"]
    for name, title, note in _TITLES:
        rows: Rows = getattr(tables, name)
        body.append(f"<h2>{title}</h2><p class=note>{html.escape(note)}</p>")
        for picture in _PICTURES.get(name, ()):
            inlined = base64.b64encode(pictures[picture]).decode()
            what = picture.removesuffix(".png")
            body.append(f'<p><img alt="{what}" src="data:image/png;base64,{inlined}"></p>')
        body.append(_table(rows))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>Progress</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>\n<body>'
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def _table(rows: Rows) -> str:
    if not rows:
        return "<p>None.</p>"
    names = list(rows[0])
    numeric = {name for name in names if isinstance(rows[0][name], int | float)}
    head = "".join(f"<th{_class(name, numeric)}>{html.escape(_title(name))}</th>" for name in names)
    lines = [
        "<tr>"
        + "".join(
            f"<td{_class(name, numeric)}>{html.escape(_cell(name, row[name]))}</td>"
            for name in names
        )
        + "</tr>"
        for row in rows
    ]
    return f"<div class=wide><table><tr>{head}</tr>\n" + "\n".join(lines) + "</table></div>"


def _class(name: str, numeric: set[str]) -> str:
    return " class=n" if name in numeric else ""


def _title(name: str) -> str:
    return name.removesuffix("_ms").removeprefix("is_").replace("_", " ")


_MOMENTS: Final = ("at_ms", "first_seen_ms", "last_seen_ms")


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name in _MOMENTS:
        return _moment(value)
    if name.endswith("_ms"):
        return f"{value / 1000:.3f} s"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _moment(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _csv(rows: Rows) -> str:
    out = io.StringIO()
    if rows:
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return out.getvalue()
