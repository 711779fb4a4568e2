"""Tag expressions."""

from __future__ import annotations

import pytest

from milepost.rocketmq import rocketmq_pb2 as pb
from milepost.rocketmq.codes import Code, Refused
from milepost.rocketmq.filters import TagFilter


def parse(text: str, kind: pb.FilterType = pb.TAG) -> TagFilter:
    return TagFilter.parse(pb.FilterExpression(type=kind, expression=text))


@pytest.mark.parametrize("text", ["", "*", " * ", "a || *"])
def test_everything_fits(text: str) -> None:
    assert parse(text).fits("a")
    assert parse(text).fits("")


@pytest.mark.parametrize("text", ["a||b", "a || b", " b  ||a "])
def test_one_of_several(text: str) -> None:
    wanted = parse(text)
    assert (wanted.fits("a"), wanted.fits("b"), wanted.fits("c"), wanted.fits("")) == (
        True,
        True,
        False,
        False,
    )
    assert not wanted.fits("A")


@pytest.mark.parametrize("text", ["a|b", "a || ", "|| a", "|", "a |||b", "x" * 5000])
def test_what_names_no_tag_is_refused(text: str) -> None:
    with pytest.raises(Refused) as caught:
        parse(text)
    assert caught.value.code is Code.ILLEGAL_FILTER_EXPRESSION


def test_other_languages_are_refused() -> None:
    for kind in (pb.SQL, 7):
        with pytest.raises(Refused) as caught:
            parse("a = 1", kind)  # type: ignore[arg-type]
        assert caught.value.code is Code.ILLEGAL_FILTER_EXPRESSION
