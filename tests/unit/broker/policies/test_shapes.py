"""What the JSON of a policy may be."""

from __future__ import annotations

from typing import Any

import pytest

from milepost.broker.policies.shapes import Choice, Real, Record, Several, Shape, Switch, Whole
from milepost.errors import InvalidPolicy, PolicyOutOfRange

RECORD = Record(
    {"a": (Whole(0, 9), 0), "b": (Switch(), True)},
    lambda value: "odd" if value["a"] % 2 else None,
)


@pytest.mark.parametrize(
    ("shape", "value", "read"),
    [
        (Whole(-1, 9), -1, -1),
        (Whole(-1, 9), 9, 9),
        (Whole(-1, 9), "-1", -1),
        (Real(0, 1), 1, 1.0),
        (Switch(), False, False),
        (Choice(("x", "y")), "y", "y"),
        (Choice(("x", "y"), may_be_empty=True), "", "x"),
        (Several(("x", "y", "z")), ["z", "x", "z"], ["x", "z"]),
        (Several(("x",)), [], []),
        (RECORD, {"a": 2}, {"a": 2, "b": True}),
        (RECORD, {"a": "2"}, {"a": 2, "b": True}),
        (RECORD, {"a": None, "b": False, "unknown": 1}, {"a": 0, "b": False}),
    ],
)
def test_a_value_is_given_back_whole(shape: Shape, value: Any, read: Any) -> None:
    assert shape.read(value, "p") == read
    assert shape.read(read, "p") == read


@pytest.mark.parametrize(
    ("shape", "value"),
    [
        (Whole(-1, 9), -2),
        (Whole(-1, 9), 10),
        (Whole(-1, 9), 10**4000),
        (Whole(-1, 9), "10"),
        (Real(0, 1), 1.5),
        (Real(0, 1), float("nan")),
        (RECORD, {"a": 10}),
    ],
)
def test_a_number_out_of_its_range_is_named(shape: Shape, value: Any) -> None:
    with pytest.raises(PolicyOutOfRange, match=r"^p(\.a)? = .{1,30}: expected a") as refused:
        shape.read(value, "p")
    assert refused.value.http_status == 412


@pytest.mark.parametrize(
    ("shape", "value"),
    [
        (Whole(-1, 9), True),
        (Whole(-1, 9), 1.0),
        (Whole(-1, 9), "one"),
        (Whole(-1, 9), " 1"),
        (Whole(-1, 9), "1.0"),
        (Whole(-1, 9), "\u0661"),
        (Whole(-1, 9), None),
        (Real(0, 1), "x"),
        (Switch(), 1),
        (Switch(), "true"),
        (Choice(("x",)), "z"),
        (Choice(("x",)), ""),
        (Choice(("x",)), ["x"]),
        (Several(("x",)), "x"),
        (Several(("x",)), ["z"]),
        (Several(("x",)), [["x"]]),
        (RECORD, []),
        (RECORD, {}),
        (RECORD, {"unknown": 1}),
        (RECORD, {"a": "two"}),
        (RECORD, {"a": 3}),
    ],
)
def test_what_is_no_such_value_is_refused(shape: Shape, value: Any) -> None:
    with pytest.raises(InvalidPolicy, match=r"^p") as refused:
        shape.read(value, "p")
    assert refused.value.http_status == 400
