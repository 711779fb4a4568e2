"""Errors of ours lose their way at the border; others keep it."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator

import pytest

from milepost.errors import InvalidOption
from milepost.spark.border import plainly


def deep(error: Exception) -> None:
    raise error


@plainly
def called(error: Exception | None) -> int:
    if error is not None:
        try:
            raise KeyError("behind it")
        except KeyError:
            deep(error)
    return 1


@plainly
def iterated(error: Exception | None) -> Iterator[int]:
    yield from (1, 2)
    if error is not None:
        deep(error)


def test_results_pass() -> None:
    assert called(None) == 1
    assert list(iterated(None)) == [1, 2]
    assert called.__name__ == "called"


@pytest.mark.parametrize("run", [called, lambda error: list(iterated(error))])
def test_an_error_of_ours_is_a_sentence(run: Callable[[Exception], object]) -> None:
    with pytest.raises(InvalidOption, match="no such thing") as raised:
        run(InvalidOption("no such thing"))
    said = "".join(traceback.format_exception(raised.value))
    assert "in deep" not in said
    assert "behind it" not in said


@pytest.mark.parametrize("run", [called, lambda error: list(iterated(error))])
def test_a_bug_keeps_its_way(run: Callable[[Exception], object]) -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        run(ZeroDivisionError())
    assert "in deep" in "".join(traceback.format_exception(raised.value))
