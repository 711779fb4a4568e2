"""Conditions of `--where`: on keys, properties and JSON paths."""

from __future__ import annotations

from typing import Any

import pytest

from milepost.cli.messages.where import ABSENT, Subject, parse_where
from milepost.errors import InvalidInput

VALUE = {
    "order": {"total": 99.5, "id": "7", "paid": True, "note": None},
    "items": [{"name": "tea"}],
    "odd.name": 1,
}


def holds(text: str, value: Any = VALUE) -> bool:
    subject = Subject("guest-7", {"region": "eu", "age": "30", "a-b": "x=y"}, lambda: value)
    return parse_where(text).holds(subject)


@pytest.mark.parametrize(
    "text",
    [
        "key=guest-7", "key == guest-7", "key~guest", "key", "key!=other", "key>guest-6",
        "property.region=eu", "property.region != us", "property.region~e", "property.age>=30",
        "property.age<100", "property.a-b=x=y", "property.missing!=x",
        "$.order.total=99.5", "$.order.total<100", "$.order.total >= 99.5", "$.order.id=7", '$.order.id="7"',
        "$.order.paid=true", "$.order.note=null", "$.order.note", "$.items[0].name=tea", "$['odd.name']=1",
        "$.items~tea", "$.order.total!=1", "$.missing!=1", "$",
    ],
)  # fmt: skip
def test_what_holds(text: str) -> None:
    assert holds(text)


@pytest.mark.parametrize(
    "text",
    [
        "key=guest", "key!=guest-7", "property.region=EU", "property.missing", "property.missing=",
        "property.missing~x", "$.order.total>100", "$.order.paid=1", "$.order.paid>0", "$.missing",
        "$.missing=null", "$.items[1]", "$.items.name", "$.order[0]", "$.order.note<1", "$.order.id=8",
    ],
)  # fmt: skip
def test_what_does_not(text: str) -> None:
    assert not holds(text)


def test_a_payload_that_is_no_json_has_no_paths() -> None:
    assert not holds("$.a", ABSENT)
    assert not holds("$=1", ABSENT)


@pytest.mark.parametrize(
    "text", ["", "x", "keys=1", "property.=1", "$x=1", "$.a[=1", "$.=1", "=1", "$[x]=1"]
)
def test_what_is_no_condition(text: str) -> None:
    with pytest.raises(InvalidInput, match="expected key, property"):
        parse_where(text)
