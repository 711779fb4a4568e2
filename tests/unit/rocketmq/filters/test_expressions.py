"""Filters as clients give them."""

from __future__ import annotations

import pytest

from milepost.rocketmq import rocketmq_pb2 as pb
from milepost.rocketmq.codes import Code, Refused
from milepost.rocketmq.filters.expressions import wanted_by


def fits(text: str, tag: str | None, kind: pb.FilterType = pb.TAG) -> bool:
    wanted = wanted_by(pb.FilterExpression(type=kind, expression=text))
    return wanted.wants({} if tag is None else {"TAGS": tag})


@pytest.mark.parametrize("text", ["", "*", " * ", "a || *"])
def test_everything_fits(text: str) -> None:
    assert fits(text, "a")
    assert fits(text, None)


@pytest.mark.parametrize("text", ["a||b", "a || b", " b  ||a "])
def test_one_of_several(text: str) -> None:
    assert [fits(text, tag) for tag in ("a", "b", "c", "A", "", None)] == [
        True,
        True,
        False,
        False,
        False,
        False,
    ]


@pytest.mark.parametrize("text", ["a|b", "a || ", "|| a", "|", "a |||b", "x" * 5000])
def test_what_names_no_tag_is_refused(text: str) -> None:
    with pytest.raises(Refused) as caught:
        fits(text, "a")
    assert caught.value.code is Code.ILLEGAL_FILTER_EXPRESSION


def test_sql_fits_where_it_is_true_and_not_where_it_is_unknown() -> None:
    assert [fits("TAGS <> 'a'", tag, pb.SQL) for tag in ("a", "b", None)] == [False, True, False]
    assert [fits("TAGS", tag, pb.SQL) for tag in ("true", "false", "x", None)] == [
        True,
        False,
        False,
        False,
    ]


def test_sql_that_does_not_parse_is_refused_with_the_place() -> None:
    with pytest.raises(Refused) as caught:
        fits("a = ", "a", pb.SQL)
    assert caught.value.code is Code.ILLEGAL_FILTER_EXPRESSION
    assert "expected a value or a name at character 4" in str(caught.value)


def test_other_languages_are_refused() -> None:
    with pytest.raises(Refused) as caught:
        fits("a = 1", "a", 7)  # type: ignore[arg-type]
    assert caught.value.code is Code.ILLEGAL_FILTER_EXPRESSION
