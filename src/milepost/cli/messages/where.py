"""Conditions on messages: `--where` of `milepost consume` and `peek`.

    key=guest-7              property.region!=eu         $.order.total>=100
    key~guest                property.region             $.items[0].name=tea

`=` and `!=` compare, `<` `<=` `>` `>=` order numbers (or text), `~` looks for a part of a text; alone, a name
asks whether it is there. A condition on something that is not there does not hold, but for `!=`. A path leads
into the value by the topic's schema, or into the payload if that is JSON.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from milepost.errors import InvalidInput

_CONDITION = re.compile(
    r"(?P<subject>key|property\.[^=!<>~]+|\$[^=!<>~]*?)\s*"
    r"(?:(?P<op>==|=|!=|<=|>=|<|>|~)\s*(?P<text>.*))?",
    re.DOTALL,
)
_STEP = re.compile(r"\.(?P<name>[^.\[\]']+)|\[(?P<index>[0-9]{1,9})\]|\['(?P<quoted>[^']*)'\]")

_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}

# What a path or a name leads to where there is nothing.
ABSENT: Any = object()


class Subject(NamedTuple):
    """What conditions are asked of."""

    key: str | None
    properties: Mapping[str, str]
    # The value as JSON, made when a path asks for it; ABSENT if it has none.
    value: Callable[[], Any]


class Condition(NamedTuple):
    find: Callable[[Subject], Any]
    # Empty: is it there?
    op: str
    text: str
    # The text read as JSON, for values of paths; the text itself if it is none.
    literal: Any

    def holds(self, subject: Subject) -> bool:
        found = self.find(subject)
        if not self.op:
            return found is not ABSENT
        if self.op == "!=":
            return found is ABSENT or not self._is_equal(found)
        if found is ABSENT:
            return False
        if self.op == "=":
            return self._is_equal(found)
        if self.op == "~":
            return self.text in (found if isinstance(found, str) else _shown(found))
        return self._is_ordered(found)

    def _is_equal(self, found: Any) -> bool:
        if isinstance(found, str):
            return found == self.text or found == self.literal
        # JSON's true is no number here, as it is in Python.
        return found == self.literal and isinstance(found, bool) == isinstance(self.literal, bool)

    def _is_ordered(self, found: Any) -> bool:
        compare = _ORDERS[self.op]
        if (number := _number(found)) is not None and (limit := _number(self.literal)) is not None:
            return compare(number, limit)
        return isinstance(found, str) and compare(found, self.text)


def parse_where(text: str) -> Condition:
    """Read a condition; `InvalidInput` says what was expected."""
    match = _CONDITION.fullmatch(text.strip())
    if match is None:
        raise _wrong(text)
    op, written = match["op"] or "", match["text"] or ""
    return Condition(
        _finder(text, match["subject"]), op.replace("==", "="), written, _read(written)
    )


def _finder(text: str, subject: str) -> Callable[[Subject], Any]:
    if subject == "key":
        return lambda one: ABSENT if one.key is None else one.key
    if subject.startswith("property."):
        name = subject.removeprefix("property.").strip()
        return lambda one: one.properties.get(name, ABSENT)
    steps = _steps(text, subject[1:])
    return lambda one: _followed(one.value(), steps)


def _steps(text: str, path: str) -> list[str | int]:
    steps: list[str | int] = []
    at = 0
    while at < len(path):
        match = _STEP.match(path, at)
        if match is None:
            raise _wrong(text)
        at = match.end()
        name = match["name"] if match["name"] is not None else match["quoted"]
        steps.append(int(match["index"]) if name is None else name)
    return steps


def _followed(value: Any, steps: list[str | int]) -> Any:
    for step in steps:
        names = isinstance(step, str) and isinstance(value, dict) and step in value
        counts = isinstance(step, int) and isinstance(value, list) and step < len(value)
        if not names and not counts:
            return ABSENT
        value = value[step]
    return value


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return value
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return None
    return None


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _wrong(text: str) -> InvalidInput:
    return InvalidInput(
        f"where {text!a:.80}: expected key, property.NAME or $.PATH, then = != < <= > >= or ~ and a value"
    )
