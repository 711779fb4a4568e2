"""The strip of a subscription in characters: which indexes are acked, inflight, ready, delayed or trimmed.

Each character stands for as many indexes as it must, and shows the state among them that is furthest from
acked: one message that is held among a million acked ones is seen.

    strip_text(admin.get_strip(topic, "billing", columns=60), terminal())     # ····━━━━●━━●━○○○○
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from milepost.cli.terminal import Terminal

Strip = dict[str, Any]


class State(NamedTuple):
    name: str
    sign: str
    ascii_sign: str
    style: str


# The first of these that a character has an index of is what it shows.
STATES = (
    State("inflight", "●", "*", "held"),
    State("delayed", "◌", "~", "later"),
    State("ready", "○", "o", "waiting"),
    State("acked", "━", "=", "well"),
    State("trimmed", "·", ".", "faint"),
)


def strip_text(strip: Strip, place: Terminal) -> str:
    """One character for each column of a strip."""
    runs: list[tuple[State | None, int]] = []
    for column in range(strip["columns"]):
        state = next((state for state in STATES if strip[state.name][column]), None)
        if runs and runs[-1][0] is state:
            runs[-1] = (state, runs[-1][1] + 1)
        else:
            runs.append((state, 1))
    return "".join(_run(state, count, place) for state, count in runs)


def _run(state: State | None, count: int, place: Terminal) -> str:
    if state is None:  # nothing is there yet
        return " " * count
    return place.paint(_sign(state, place) * count, state.style)


def _sign(state: State, place: Terminal) -> str:
    return state.sign if place.is_unicode else state.ascii_sign


def strip_lines(
    strips: Sequence[tuple[str, Strip]], place: Terminal, indent: str = ""
) -> Iterator[str]:
    """Each strip with its label, between its first index and its end."""
    labels = max((len(label) for label, _ in strips), default=0)
    firsts = max((len(str(one["first"])) for _, one in strips), default=0)
    ends = max((len(str(one["end"])) for _, one in strips), default=0)
    for label, one in strips:
        head = f"{label.ljust(labels)}  " if labels else ""
        if one["end"] == one["first"]:
            yield f"{indent}{head}no messages"
            continue
        first, end = str(one["first"]).rjust(firsts), str(one["end"]).ljust(ends)
        yield f"{indent}{head}{first} {strip_text(one, place)} {end}".rstrip()


def room_for_strip(width: int, labels: int, end: int, indent: str = "") -> int:
    """How many characters a strip may have in a line of this width, with its label and its numbers."""
    taken = len(indent) + (labels + 2 if labels else 0) + 2 * (len(str(end)) + 1)
    return max(width - taken, 10)


def legend(strips: Sequence[Strip], place: Terminal) -> str:
    """What the characters mean, of those that are there, and for how many indexes one of them stands."""
    there = [state for state in STATES if any(any(one[state.name]) for one in strips)]
    words = "  ".join(
        f"{place.paint(_sign(state, place), state.style)} {state.name}" for state in reversed(there)
    )
    most = max(
        (-(-(one["end"] - one["first"]) // max(one["columns"], 1)) for one in strips), default=1
    )
    if most > 1:
        words += f"; a sign stands for up to {most} indexes, and shows the one furthest from acked"
    return words
