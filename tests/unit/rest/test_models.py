"""Models made of named tuples."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from pydantic import ValidationError

from milepost.rest.models import model_of


class Inner(NamedTuple):
    end: int


class Outer(NamedTuple):
    """What it is."""

    name: str
    inner: Inner | None


def test_a_model_has_the_fields_types_and_words_of_its_value() -> None:
    inner = model_of(Inner)
    outer = model_of(Outer, inner=inner | None)
    assert (outer.__name__, outer.__doc__) == ("OuterModel", "What it is.")
    assert tuple(outer.model_fields) == Outer._fields
    made = outer.model_validate({"name": "a", "inner": {"end": 3}})
    assert made.model_dump() == {"name": "a", "inner": {"end": 3}}
    with pytest.raises(ValidationError):
        outer.model_validate({"name": "a"})
