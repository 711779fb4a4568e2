"""Tables: what is aligned, what is left out, what is cut, and when a table is turned."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from milepost.cli.tables import Column, cut, fit, lines, text_width

ROWS = [["orders", "12"], ["a\\x1b", "7"]]
PLAIN = [Column("name"), Column("backlog")]


def test_a_table_is_aligned() -> None:
    assert list(lines(fit(PLAIN, ROWS, None))) == [
        "NAME    BACKLOG",
        "orders       12",
        "a\\x1b         7",
    ]


def test_a_table_that_does_not_fit_is_turned() -> None:
    assert list(lines(fit(PLAIN, ROWS, 10))) == [
        "name     orders",
        "backlog  12",
        "",
        "name     a\\x1b",
        "backlog  7",
    ]


def test_an_empty_table_has_its_head() -> None:
    assert list(lines(fit(PLAIN, [], 5))) == ["NAME  BACKLOG"]


def test_columns_of_zeros_are_left_out_on_a_terminal_only() -> None:
    columns = [Column("name"), Column("holes", hides_zeros=True), Column("rate", hides_zeros=True)]
    rows = [["a", "0", "0.0"], ["b", "0", "1.5"]]
    assert next(iter(lines(fit(columns, rows, 80)))) == "NAME  RATE"
    assert next(iter(lines(fit(columns, rows, None)))) == "NAME  HOLES  RATE"


def test_texts_are_cut_before_columns_go_and_columns_go_by_rank() -> None:
    columns = [Column("name", cut_to=6), Column("less", rank=1), Column("more", rank=2)]
    rows = [["a-long-name-indeed", "1111", "2222"]]
    shown = {width: list(lines(fit(columns, rows, width))) for width in (30, 20, 18, 12, 10)}
    assert shown[30][1] == "a-long-name-indeed  1111  2222"
    assert shown[20][1] == "a-lon…ed  1111  2222"
    assert shown[18][1] == "a-l…ed  1111  2222"
    assert shown[12] == ["NAME    MORE", "a-l…ed  2222"]
    assert shown[10] == ["NAME", "a-long…eed"]


def test_wide_characters_take_two_places() -> None:
    assert text_width("注文") == 4
    assert list(lines(fit(PLAIN, [["注文", "1"]], 80))) == ["NAME  BACKLOG", "注文        1"]
    assert text_width(cut("注文注文注文", 7)) <= 7


@given(
    st.lists(
        st.tuples(st.text("ab-注", max_size=30), st.integers(0, 10**9), st.integers(0, 3)),
        min_size=1,
        max_size=5,
    ),
    st.integers(20, 120),
)
def test_no_line_is_wider_than_the_terminal(rows: list[tuple[str, int, int]], width: int) -> None:
    columns = [
        Column("name", cut_to=6),
        Column("count"),
        Column("x", rank=1, hides_zeros=True),
    ]
    table = fit(columns, [[name, str(count), str(x)] for name, count, x in rows], width)
    assert not table.is_turned
    assert all(text_width(line) <= width for line in lines(table))
