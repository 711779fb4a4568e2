"""SQL92 over properties: three values, texts that are read as numbers, and texts that mean nothing."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.rocketmq.filters import sql
from milepost.rocketmq.filters.sql import DEPTH_MAX, LENGTH_MAX, SqlError, parse

HAS = {
    "n": "5",
    "f": " 2.5 ",
    "s": "it's",
    "t": "TRUE",
    "empty": "",
    "TAGS": "paid",
    "big": "9" * 100,
    "neg": "-7",
    "AND_x": "word",
    "a$_1": "odd",
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        # numbers, and texts that are read as numbers
        ("n = 5", True),
        ("n = 5.0", True),
        ("5 < n", False),
        ("n >= 5 AND n <= 5", True),
        ("n <> 6", True),
        ("f > 2 and f < 3", True),
        ("neg = -7", True),
        ("neg < +1", True),
        ("n = .5e1", True),
        ("n = 5L", True),
        ("s > 1", None),
        ("empty = 0", None),
        ("big > 1", None),  # no number that a consumer would have meant
        # texts
        ("s = 'it''s'", True),
        ("s <> 'its'", True),
        ("n = '5'", True),
        ("n = '5.0'", False),  # text with text
        ("empty = ''", True),
        ("TAGS = 'paid'", True),
        ("tags = 'paid'", None),  # names have their case, keywords have none
        ("TAGS between 'a' and 'z'", True),
        ("n < TAGS", True),
        ("s CONTAINS 't'", True),
        ("s contains 'x'", False),
        ("s NOT CONTAINS 'x'", True),
        ("s STARTSWITH 'it'", True),
        ("s ENDSWITH '''s'", True),
        ("missing STARTSWITH 'a'", None),
        ("missing NOT STARTSWITH 'a'", None),
        ("TAGS IN ('sent', 'paid')", True),
        ("TAGS NOT IN ('sent')", True),
        ("missing IN ('a')", None),
        ("missing NOT IN ('a')", None),
        # truth values
        ("t = TRUE", True),
        ("t", True),
        ("NOT t", False),
        ("t = FALSE", False),
        ("s = TRUE", None),
        ("t > FALSE", None),
        ("TRUE", True),
        ("NULL", None),
        # NULL and three values
        ("missing = 1", None),
        ("missing = NULL", None),
        ("NOT missing = 1", None),
        ("missing IS NULL", True),
        ("missing IS NOT NULL", False),
        ("n IS NOT NULL", True),
        ("empty IS NULL", False),
        ("missing = 1 OR n = 5", True),
        ("missing = 1 OR n = 6", None),
        ("missing = 1 AND n = 6", False),
        ("missing = 1 AND n = 5", None),
        ("NOT (missing = 1 AND n = 6)", True),
        ("n BETWEEN 1 AND 9", True),
        ("n NOT BETWEEN 1 AND 9", False),
        ("n BETWEEN 1 AND missing", None),
        ("n BETWEEN 9 AND missing", False),
        # order
        ("n = 6 AND n = 5 OR n = 5", True),
        ("n = 5 OR n = 5 AND n = 6", True),
        ("(n = 5 OR n = 5) AND n = 6", False),
        ("NOT n = 6", True),
        ("NOT NOT n = 5 AND NOT missing IS NOT NULL", True),
        ("n BETWEEN 1 AND 9 AND TAGS = 'paid'", True),
        ("AND_x = 'word'", True),
        ("a$_1 = 'odd'", True),
    ],
)
def test_an_expression(text: str, value: bool | None) -> None:
    found = parse(text)(HAS)
    assert (found if isinstance(found, bool | None) else sql.as_truth(found)) is value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected a value or a name at character 1"),
        ("  ", "expected a value or a name at character 1"),
        ("n =", "expected a value or a name at character 4"),
        ("n = 5 5", "expected end at character 7, found 5"),
        ("= 5", "expected a value or a name at character 1, found ="),
        ("n > AND", "at character 5, found AND"),
        ("(n = 5", "expected ) at character 7"),
        ("n = 5)", "expected end at character 6, found )"),
        ("n = 'five", "a text without its end at character 5"),
        ("n ; 5", "';' at character 3 is not understood"),
        ("n == 5", "expected a value or a name at character 4"),
        ("n IN ()", "expected text at character 7"),
        ("n IN (5)", "expected text at character 7"),
        ("n IN ('a',)", "expected text at character 11"),
        ("n CONTAINS 5", "expected text at character 12"),
        ("n NOT 5", "expected BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH at character 7"),
        ("n IS 5", "expected NULL at character 6"),
        ("n BETWEEN 1 OR 2", "expected AND at character 13"),
        ("n = NOT n", "expected a value or a name at character 5"),
        ("- n", "expected number at character 3"),
        ("n = " + "9" * 100, "the number at character 5 is too long"),
        ("ä = 1", "at character 1 is not understood"),
        ("a.b = 1", "'.' at character 2 is not understood"),
        ("n = 1 -- gone", "expected end at character 7"),
    ],
)
def test_a_text_that_is_none_is_refused_with_the_place(text: str, said: str) -> None:
    with pytest.raises(SqlError, match=re.escape(said)):
        parse(text)


def test_length_and_depth_are_bounded() -> None:
    assert parse("(" * DEPTH_MAX + "n = 5" + ")" * DEPTH_MAX)(HAS) is True
    for text in (
        "(" * (DEPTH_MAX + 1) + "n = 5" + ")" * (DEPTH_MAX + 1),
        "NOT " * (DEPTH_MAX + 1) + "n",
        "n" + " = n" * (DEPTH_MAX + 1),
        "n" + " IS NULL" * (DEPTH_MAX + 1),
        "n = 5 " + " " * LENGTH_MAX,
    ):
        with pytest.raises(SqlError):
            parse(text)
    long = " OR ".join(["n=6"] * 500)
    assert parse(long)(HAS) is False
    assert parse(long + " OR n=5")(HAS) is True


def test_brackets_within_brackets_are_evaluated_once_each() -> None:
    """Twice each time would be 2 to the power of the brackets: the broker would never come back."""
    text = "(" * DEPTH_MAX + "missing" + " BETWEEN 0 AND 1)" * DEPTH_MAX
    assert parse(text)(HAS) is None


def test_no_expression_is_too_deep_to_be_evaluated() -> None:
    deepest = "n"
    for _ in range(DEPTH_MAX):
        deepest = f"(m OR k AND 1={deepest} NOT BETWEEN 1 AND 2)"
    assert parse(deepest)(HAS) is None
    with pytest.raises(SqlError, match="in a row"):
        parse("(" * DEPTH_MAX + "n" + ("=n" * 20 + ")") * DEPTH_MAX)


# A condition of two others, and a model that a reader can check: None is neither true nor false.
VALUES = st.sampled_from([("n = 5", True), ("n = 6", False), ("missing = 1", None)])


def model_not(value: bool | None) -> bool | None:
    return None if value is None else not value


def model_and(one: bool | None, other: bool | None) -> bool | None:
    if one is False or other is False:
        return False
    return None if one is None or other is None else True


@st.composite
def conditions(draw: st.DrawFn, depth: int = 4) -> tuple[str, bool | None]:
    if depth == 0 or draw(st.booleans()):
        return draw(VALUES)
    one, value = draw(conditions(depth - 1))
    if draw(st.booleans()):
        return f"NOT ({one})", model_not(value)
    other, second = draw(conditions(depth - 1))
    if draw(st.booleans()):
        return f"({one}) AND ({other})", model_and(value, second)
    return f"({one}) OR ({other})", model_not(model_and(model_not(value), model_not(second)))


@given(conditions())
def test_three_values_are_combined_as_the_model_says(made: tuple[str, bool | None]) -> None:
    text, value = made
    assert parse(text)(HAS) is value


SIGNS = ["n", "missing", "'s'", "5", "-1", "1.5e3", "(", ")", "=", "<>", "<", ">=", ",", "'", "ä"]
WORDS = st.sampled_from([*SIGNS, *sorted(sql._KEYWORDS)])


@given(st.lists(WORDS | st.text(max_size=3), max_size=30).map(" ".join), st.text(max_size=20))
def test_any_text_parses_or_is_refused_and_never_fails_later(text: str, value: str) -> None:
    try:
        expression = parse(text)
    except SqlError:
        return
    for properties in ({}, {"n": value}, {"n": value, "missing": "true"}):
        assert expression(properties) is None or isinstance(
            expression(properties), str | int | float
        )
