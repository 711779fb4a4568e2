"""Checks the numbers that users give as options."""

from __future__ import annotations

from typing import Any

from milepost.errors import InvalidInput


def check(what: str, value: Any, minimum: int, maximum: int = 2**31 - 1) -> None:
    """`InvalidInput` unless `value` is a whole number within both bounds."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(f"{what} is {value!r}, not a whole number")
    if not minimum <= value <= maximum:
        raise InvalidInput(f"{what} {value}; allowed are {minimum} to {maximum}")
