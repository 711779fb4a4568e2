"""Makes the page of the report: the verdict first, then charts, strips over time and tables.

The page is one file that loads nothing. Its charts are drawn by a script of our own that is in it (page.js),
from the numbers that are in it, too; where scripts are off the pictures of matplotlib stand in their place.
Every text from a broker is escaped, and the page's own policy allows no other script.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any, Final

from milepost.positions.severity import is_trouble, severity
from milepost.spark.pipelines.progress import GROUP, Rows, Tables
from milepost.spark.pipelines.report.pictures import label

STRIPS_MAX: Final = 12
TROUBLED_MAX: Final = 8

_POINT: Final = (
    "at_ms", "backlog", "behind_ms", "inflight_ms", "first", "mark_delete", "end",
    "strip_inflight", "strip_ready", "strip_delayed",
)  # fmt: skip
_CHARTS: Final = (
    ("backlog", "Backlog, in messages", "backlog.png"),
    ("behind_ms", "Lag time: age of the first message not acked", "behind.png"),
    ("inflight_ms", "Inflight age: oldest message with a consumer, at least", "inflight.png"),
)
_MEANINGS: Final = {
    "NO_CONSUMER": "no consumer is connected",
    "STARVED": "consumers are connected and ask for nothing",
    "STALLED": "consumers hold messages and acked none in the last minute",
    "BLOCKED_BY_HOLE": "a message that is not acked holds the position back",
    "DAMAGED": "the topic takes no messages",
}


def page(tables: Tables, pictures: dict[str, bytes]) -> str:
    style, script = (_own(name) for name in ("page.css", "page.js"))
    numbers = json.dumps(_numbers(tables)).replace("<", "\\u003c")
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{allowed}'"
    body = [
        _verdict(tables),
        *_charts(tables, pictures),
        *_strips(tables),
        *_tables(tables, pictures),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>Progress</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        f'<meta name="viewport" content="width=device-width"><style>{style}</style></head>\n<body><main>'
        + "\n".join(body)
        + f'\n</main><script type="application/json" id="data">{numbers}</script>'
        + f"<script>{script}</script></body></html>\n"
    )


def _own(name: str) -> str:
    return files("milepost.spark.pipelines.report").joinpath(name).read_text("utf-8")


# -- what the script draws ---------------------------------------------------------------------------


def _numbers(tables: Tables) -> dict[str, Any]:
    """The lines of all groups, in the order of the table."""
    points: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in tables.timeline:
        points.setdefault(_key(row), []).append({name: row[name] for name in _POINT})
    return {
        "first_ms": tables.first_ms,
        "last_ms": tables.last_ms,
        "groups": [
            {"label": label(row), "points": points.get(_key(row), [])} for row in tables.groups
        ],
    }


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in GROUP)


# -- the first screen --------------------------------------------------------------------------------


def _verdict(tables: Tables) -> str:
    """Whether all is well; if not, which groups are in trouble and what holds them."""
    troubled = sorted(
        (row for row in tables.groups if is_trouble(row["verdict"])),
        key=lambda row: -severity(row["verdict"]),
    )
    count = len(tables.groups)
    groups = "1 group" if count == 1 else f"{count:,} groups"
    if not count:
        head, kind = "No groups were seen", "good"
    elif troubled:
        head, kind = f"{len(troubled):,} of {groups} in trouble at the end", "bad"
    else:
        head, kind = ("The one group is well" if count == 1 else f"All {groups} are well"), "good"
    lines = [_trouble(row, tables.holes) for row in troubled[:TROUBLED_MAX]]
    if len(troubled) > TROUBLED_MAX:
        lines.append(f"<li>{len(troubled) - TROUBLED_MAX:,} more, in the table below</li>")
    seconds = (tables.last_ms - tables.first_ms) / 1000
    apart_ms = seconds * 1000 / max(tables.samples - 1, 1)
    note = (
        f"{moment(tables.first_ms)} to {moment(tables.last_ms)}: {tables.samples:,} samples, "
        f"{in_words(round(apart_ms))} apart on average. Ages and latencies are known to the distance of two "
        "samples."
    )
    return (
        f'<section class="verdict {kind}"><h1>{head}</h1>'
        + (f"<ul>{''.join(lines)}</ul>" if lines else "")
        + f"<p class=note>{html.escape(note)}</p></section>"
    )


def _trouble(row: dict[str, Any], holes: Rows) -> str:
    verdict = str(row["verdict"])
    meaning = _MEANINGS.get(verdict)
    told = [f"<b>{html.escape(verdict)}</b>{f' ({meaning})' if meaning else ''}"]
    told.append(
        f"{row['backlog_last']:,} messages behind, the first of them for {in_words(row['behind_last_ms'])}"
    )
    open_ = [one for one in holes if one["is_open"] and _key(one) == _key(row)]
    if open_:
        oldest = max(open_, key=lambda one: one["age_ms"])
        who = f"held by {oldest['holder']}" if oldest["holder"] else "held by no consumer"
        told.append(
            html.escape(f"index {oldest['index']:,} {who}, {in_words(oldest['age_ms'])} old")
        )
    return f"<li>{html.escape(label(row))}: {'; '.join(told)}</li>"


# -- charts and strips -------------------------------------------------------------------------------


def _charts(tables: Tables, pictures: dict[str, bytes]) -> list[str]:
    found = [
        "<h2>Over time</h2><p class=note>Zoom by wheel or + and −, move by dragging or arrow keys, a double "
        "click or Home shows everything again; all charts move together. Names stand beside their lines, "
        "the highest first.</p>"
    ]
    for column, title, picture in _CHARTS:
        found.append(
            f'<h3>{title}</h3><div class=chart data-column="{column}" data-title="{title}"></div>'
            + _without_script(title, pictures[picture])
        )
    return found if tables.groups else ["<h2>Over time</h2><p>None.</p>"]


def _without_script(title: str, picture: bytes) -> str:
    inlined = base64.b64encode(picture).decode()
    return f'<noscript><img alt="{title}" src="data:image/png;base64,{inlined}"></noscript>'


def _strips(tables: Tables) -> list[str]:
    """What every group had acked, inflight, ready and delayed of what was retained, over time."""
    key = "".join(
        f'<span><i style="background: var(--{one})"></i>{one}</span>'
        for one in ("acked", "inflight", "ready", "delayed")
    )
    found = [
        "<h2>Positions over time</h2><p class=note>The strip of each group, from the first message that "
        "is retained to the end, as it was at each sample: how many messages were in which state.</p>"
        f'<p class="key">{key}</p>'
    ]
    for number, row in enumerate(tables.groups[:STRIPS_MAX]):
        found.append(
            f'<h3>{html.escape(label(row))}</h3><div class=chart data-group="{number}"></div>'
        )
    if len(tables.groups) > STRIPS_MAX:
        found.append(f"<p class=note>The worst {STRIPS_MAX} of {len(tables.groups):,} groups.</p>")
    return found if tables.groups else []


# -- tables ------------------------------------------------------------------------------------------

_TITLES: Final = (
    (
        "groups",
        "Groups",
        "Worst lag time first. Counts are of all partitions, ages of the worst one.",
        "",
    ),
    (
        "latency",
        "Ack latency",
        "From publishing until acked, by nearest rank over the acks that were seen; untimed: messages "
        "that were there before the recording.",
        "latency.png",
    ),
    (
        "holes",
        "Held messages",
        "Every message that was seen to hold a position back: it was not acked though later ones were. Those "
        "that are still open come first.",
        "holes.png",
    ),
    ("resets", "Resets", "Who moved a subscription, as the broker remembers it.", ""),
)


def _tables(tables: Tables, pictures: dict[str, bytes]) -> list[str]:
    found = []
    for name, title, note, picture in _TITLES:
        rows: Rows = getattr(tables, name)
        if name == "holes":
            rows = sorted(rows, key=lambda row: (not row["is_open"], -row["age_ms"]))
        found.append(f"<h2>{title}</h2><p class=note>{html.escape(note)}</p>")
        if picture and rows:
            found.append(_without_script(title, pictures[picture]))
        found.append(_table(title, rows))
    return found


def _table(title: str, rows: Rows) -> str:
    if not rows:
        return "<p>None.</p>"
    names = list(rows[0])
    numeric = {name for name in names if isinstance(rows[0][name], int | float)}
    head = "".join(
        f'<th scope="col"{_class(name, None, numeric)}>{html.escape(_title(name))}</th>'
        for name in names
    )
    lines = [
        "<tr>"
        + "".join(
            f"<td{_class(name, row[name], numeric)}>{html.escape(_cell(name, row[name]))}</td>"
            for name in names
        )
        + "</tr>"
        for row in rows
    ]
    return (
        f'<div class=wide tabindex="0" role="region" aria-label="{title}"><table><tr>{head}</tr>\n'
        + "\n".join(lines)
        + "</table></div>"
    )


def _class(name: str, value: Any, numeric: set[str]) -> str:
    if name == "verdict" and value is not None and is_trouble(str(value)):
        return " class=bad"
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
        return moment(value)
    if name.endswith("_ms"):
        return in_words(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def moment(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def in_words(milliseconds: float) -> str:
    """A duration in the two units that matter.

    >>> [in_words(ms) for ms in (0, 12, 1500, 42_000, 200_000, 7_500_000, 200_000_000)]
    ['0 ms', '12 ms', '1.5 s', '42 s', '3 min 20 s', '2 h 5 min', '2 days 7 h']
    """
    if milliseconds < 1000:
        return f"{round(milliseconds)} ms"
    if milliseconds < 10_000:
        return f"{milliseconds / 1000:.1f} s"
    seconds = int(milliseconds / 1000)
    units = (("day", 86_400), ("h", 3600), ("min", 60), ("s", 1))
    parts: list[str] = []
    for unit, size in units:
        count, seconds = divmod(seconds, size)
        if count or parts:
            name = f"{unit}s" if unit == "day" and count != 1 else unit
            parts.append(f"{count} {name}" if count else "")
    return " ".join(one for one in parts[:2] if one)
