"""The strip in characters shows, of each column, the state that is furthest from acked."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from milepost.cli.progress.strip import STATES, legend, room_for_strip, strip_lines, strip_text
from milepost.cli.terminal import PLAIN, Terminal

DUMB = Terminal(80, False, False)


def strip(*columns: dict[str, int], first: int = 0, end: int | None = None) -> dict[str, Any]:
    made: dict[str, Any] = {
        state.name: [column.get(state.name, 0) for column in columns] for state in STATES
    }
    end = first + len(columns) if end is None else end
    return {**made, "first": first, "end": end, "columns": len(columns)}


def test_one_message_that_is_held_is_seen_among_a_million() -> None:
    found = strip({"acked": 999_999, "inflight": 1}, {"acked": 10**6}, end=2 * 10**6)
    assert strip_text(found, PLAIN) == "●━"
    assert "up to 1000000 indexes" in legend([found], PLAIN)


def test_every_state_has_a_sign_of_its_own() -> None:
    found = strip(*({state.name: 1} for state in STATES), {})
    assert strip_text(found, PLAIN) == "●◌○━· "
    assert strip_text(found, DUMB) == "*~o=. "
    assert legend([found], DUMB) == ". trimmed  = acked  o ready  ~ delayed  * inflight"


@given(st.lists(st.dictionaries(st.sampled_from([s.name for s in STATES]), st.integers(0, 3))))
def test_a_sign_for_each_column(columns: list[dict[str, int]]) -> None:
    shown = strip_text(strip(*columns), PLAIN)
    assert len(shown) == len(columns)
    for sign, column in zip(shown, columns, strict=True):
        there = [state.sign for state in STATES if column.get(state.name)]
        assert sign == (there[0] if there else " ")


def test_partitions_stand_below_one_another() -> None:
    strips = [
        ("part 0", strip({"acked": 1}, {"ready": 1}, first=98)),
        ("part 10", strip({"acked": 1})),
        ("part 11", strip(end=0)),
    ]
    assert list(strip_lines(strips, PLAIN, "  ")) == [
        "  part 0   98 ━○ 100",
        "  part 10   0 ━ 1",
        "  part 11  no messages",
    ]


def test_a_strip_fits_its_line() -> None:
    room = room_for_strip(80, len("part 0"), 123456, "  ")
    line = f"  part 0  123456 {'━' * room} 123456"
    assert len(line) == 80
