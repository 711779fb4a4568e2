"""Horizontal bars on a logarithmic scale, as a small SVG: pure, the same bytes for the same figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from bench.goals.figures import Run
from bench.goals.judgement import Row, Verdict, compared_rows, rows

GOOD, BAD, SECOND, HOLLOW = "#2e7d52", "#c0392b", "#8a6d3b", "#666666"
LABEL_WIDTH, PLOT_WIDTH, MARGIN = 430, 420, 16
BAR_HEIGHT, GAP, HEAD_HEIGHT, FOOT_HEIGHT = 12, 6, 44, 26
# Wider than this a ratio says nothing more.
LEAST, MOST = 1 / 64, 64.0


class Bar(NamedTuple):
    label: str
    value: float
    colour: str
    mark: float | None = None
    """Another value on the same line."""


def goals_plot(run: Run) -> str:
    """How much of its bound each goal uses."""
    bars = [_goal_bar(row, row.strain) for row in rows(run) if row.strain is not None]
    title = "How much of its bound each goal uses: left of 1 it is met"
    return bars_svg(title, bars, "circles: the commit before" if run.before else "")


def peers_plot(run: Run) -> str:
    """How many times better than each peer; empty if there was none."""
    bars = []
    for row in compared_rows(run):
        for peer, colour in zip(row.ratios, (GOOD, SECOND), strict=True):
            value = row.ratios[peer]
            if value:
                better = value if row.comparison.more_is_better else 1 / value
                bars.append(Bar(f"{row.comparison.text} ({run.servers[peer]})", better, colour))
    title = "How many times better than a peer: right of 1 Milepost is ahead"
    return bars_svg(title, bars) if bars else ""


def _goal_bar(row: Row, strain: float) -> Bar:
    colour = GOOD if row.verdict == Verdict.MET else BAD
    return Bar(row.goal.text, strain, colour, row.strain_before)


def bars_svg(title: str, bars: Sequence[Bar], note: str = "") -> str:
    """Bars begin at 1 and go to the left or to the right."""
    values = [bar.value for bar in bars] + [bar.mark for bar in bars if bar.mark is not None]
    reach = _reach([min(max(value, LEAST), MOST) for value in values])
    height = HEAD_HEIGHT + len(bars) * (BAR_HEIGHT + GAP) + FOOT_HEIGHT
    bottom = height - FOOT_HEIGHT
    width = LABEL_WIDTH + PLOT_WIDTH + 2 * MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="{MARGIN}" y="20" font-size="13">{escape(title)}</text>',
    ]
    for power in range(-reach, reach + 1):
        x = _place(2.0**power, reach)
        colour = "#222222" if power == 0 else "#dddddd"
        parts.append(f'<path d="M{x} {HEAD_HEIGHT - 8}V{bottom}" stroke="{colour}"/>')
        told = f"{2**power}" if power >= 0 else f"1/{2**-power}"
        parts.append(f'<text x="{x}" y="{bottom + 14}" text-anchor="middle">{told}</text>')
    for number, bar in enumerate(bars):
        parts += _bar(bar, HEAD_HEIGHT + number * (BAR_HEIGHT + GAP), reach)
    if note:
        parts.append(f'<text x="{MARGIN}" y="{bottom + 14}" fill="{HOLLOW}">{escape(note)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _bar(bar: Bar, y: int, reach: int) -> list[str]:
    one, end = _place(1.0, reach), _place(bar.value, reach)
    left, width = min(one, end), max(abs(end - one), 1)
    middle = y + BAR_HEIGHT - 2
    parts = [
        f'<text x="{LABEL_WIDTH}" y="{middle}" text-anchor="end">{escape(bar.label)}</text>',
        f'<rect x="{left}" y="{y}" width="{width}" height="{BAR_HEIGHT}" fill="{bar.colour}"/>',
    ]
    if bar.mark is not None:
        x = _place(bar.mark, reach)
        parts.append(
            f'<circle cx="{x}" cy="{y + BAR_HEIGHT // 2}" r="4" fill="none" stroke="{HOLLOW}"/>'
        )
    return parts


def _reach(values: Sequence[float]) -> int:
    """How many powers of two to either side of 1 hold all values."""
    return max([1, *(math.ceil(abs(math.log2(value))) for value in values)])


def _place(value: float, reach: int) -> int:
    """Where a value lies between the left and the right end."""
    part = math.log2(min(max(value, LEAST), MOST)) / reach
    return LABEL_WIDTH + MARGIN + round((part + 1) / 2 * PLOT_WIDTH)
