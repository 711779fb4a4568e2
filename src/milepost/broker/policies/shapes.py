"""The JSON types of policies, and their checks.

A shape reads a value that came from outside and gives it back whole: every field there, every number
within its range. What is of another type, or contradicts itself, is an `InvalidPolicy`; a number out of its
range is a `PolicyOutOfRange`, as upstream tells them apart.

    >>> Whole(0, 10).read(7, "maxProducers")
    7
    >>> Whole(0, 10).read(-1, "maxProducers")
    Traceback (most recent call last):
    ...
    milepost.errors.PolicyOutOfRange: maxProducers = -1: expected a whole number from 0 to 10
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from milepost.errors import InvalidPolicy, PolicyOutOfRange

Json = Any
"""A JSON value that a shape has read."""

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
_DIGITS = re.compile(r"-?[0-9]{1,19}", re.ASCII)


class Shape(Protocol):
    @property
    def allowed(self) -> str:
        """What is accepted: completes "expected …"."""
        ...

    @property
    def example(self) -> Json: ...

    def read(self, value: object, name: str) -> Json: ...


@dataclass(frozen=True, slots=True)
class Whole:
    low: int
    high: int
    example: int = 10

    @property
    def allowed(self) -> str:
        return f"a whole number from {self.low} to {self.high}"

    def read(self, value: object, name: str) -> int:
        if isinstance(value, str) and _DIGITS.fullmatch(value):
            value = int(value)  # upstream takes numbers in quotes, and scripts for it send them
        if type(value) is not int:
            raise InvalidPolicy(f"{name}: expected {self.allowed}")
        if not self.low <= value <= self.high:
            raise PolicyOutOfRange(f"{name} = {_short(value)}: expected {self.allowed}")
        return value


@dataclass(frozen=True, slots=True)
class Real:
    low: float
    high: float
    example: float = 1.0

    @property
    def allowed(self) -> str:
        return f"a number from {self.low:g} to {self.high:g}"

    def read(self, value: object, name: str) -> float:
        if type(value) not in (int, float):
            raise InvalidPolicy(f"{name}: expected {self.allowed}")
        assert isinstance(value, int | float)
        if not self.low <= value <= self.high:  # never true of NaN
            raise PolicyOutOfRange(f"{name} = {_short(value)}: expected {self.allowed}")
        return float(value)


@dataclass(frozen=True, slots=True)
class Switch:
    example: bool = True

    @property
    def allowed(self) -> str:
        return "true or false"

    def read(self, value: object, name: str) -> bool:
        if not isinstance(value, bool):
            raise InvalidPolicy(f"{name}: expected {self.allowed}")
        return value


@dataclass(frozen=True, slots=True)
class Choice:
    names: tuple[str, ...]
    may_be_empty: bool = False
    """Is an empty text the first of them?"""

    @property
    def allowed(self) -> str:
        return f"one of {', '.join(self.names)}"

    @property
    def example(self) -> str:
        return self.names[0]

    def read(self, value: object, name: str) -> str:
        if self.may_be_empty and value == "":
            return self.names[0]
        if not isinstance(value, str) or value not in self.names:
            raise InvalidPolicy(f"{name}: expected {self.allowed}")
        return value


@dataclass(frozen=True, slots=True)
class Several:
    """A list of names, each at most once, in any order."""

    names: tuple[str, ...]

    @property
    def allowed(self) -> str:
        return f"a list of {', '.join(self.names)}"

    @property
    def example(self) -> list[str]:
        return list(self.names[:2])

    def read(self, value: object, name: str) -> list[str]:
        if not isinstance(value, list) or any(one not in self.names for one in value):
            raise InvalidPolicy(f"{name}: expected {self.allowed}")
        return [one for one in self.names if one in value]


@dataclass(frozen=True, slots=True)
class Text:
    """A line of text."""

    example: str = "a"
    length_max: int = 256

    @property
    def allowed(self) -> str:
        return f"a text of at most {self.length_max} characters"

    def read(self, value: object, name: str) -> str:
        if not isinstance(value, str) or len(value) > self.length_max or not value.isprintable():
            raise InvalidPolicy(f"{name}: expected {self.allowed}")
        return value


@dataclass(frozen=True, slots=True)
class Names:
    """A list of names that are chosen elsewhere, each at most once; kept in order."""

    count_max: int = 100
    one: Text = field(default_factory=Text)

    @property
    def allowed(self) -> str:
        return f"a list of at most {self.count_max} names"

    @property
    def example(self) -> list[str]:
        return [self.one.example]

    def read(self, value: object, name: str) -> list[str]:
        if not isinstance(value, list) or len(value) > self.count_max:
            raise InvalidPolicy(f"{name}: expected {self.allowed}")
        return sorted({self.one.read(one, name) for one in value})


@dataclass(frozen=True, slots=True)
class Record:
    """An object. Fields that are missing have their defaults, unknown fields are dropped."""

    fields: Mapping[str, tuple[Shape, Json]]
    """Name → shape and default."""

    check: Callable[[dict[str, Json]], str | None] = field(default=lambda value: None)
    """What is wrong with fields that are right one by one."""

    @property
    def allowed(self) -> str:
        parts = (f"{name} ({shape.allowed})" for name, (shape, _) in self.fields.items())
        return f"an object of {', '.join(parts)}"

    @property
    def example(self) -> dict[str, Json]:
        return {name: shape.example for name, (shape, _) in self.fields.items()}

    def read(self, value: object, name: str) -> dict[str, Json]:
        if not isinstance(value, dict) or not value.keys() & self.fields.keys():
            # Upstream takes an object without a known field for one of defaults: a typing mistake
            # would switch the policy off.
            raise InvalidPolicy(f"{name}: expected {self.allowed}")
        read = {
            key: default if value.get(key) is None else shape.read(value[key], f"{name}.{key}")
            for key, (shape, default) in self.fields.items()
        }
        fault = self.check(read)
        if fault is not None:
            raise InvalidPolicy(f"{name}: {fault}")
        return read


def _short(value: float) -> str:
    """A number for a message; a client may send one of a million digits."""
    return str(value) if abs(value) <= LONG_MAX else "a number past 64 bits"
