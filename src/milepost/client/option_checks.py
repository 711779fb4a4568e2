"""Checks what users give as options: numbers, schemas and credentials."""

from __future__ import annotations

from typing import Any

from milepost.client.connection.auth import Authentication
from milepost.errors import InvalidInput


def check(what: str, value: Any, minimum: int, maximum: int = 2**31 - 1) -> None:
    """`InvalidInput` unless `value` is a whole number within both bounds."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput(f"{what} is {value!r}, not a whole number")
    if not minimum <= value <= maximum:
        raise InvalidInput(f"{what} {value}; allowed are {minimum} to {maximum}")


def check_authentication(authentication: Any) -> None:
    """`InvalidInput` unless it is None or one of Milepost's own: a text, or one of the official package's,
    would be noticed at the first connection only."""
    if authentication is None or isinstance(authentication, Authentication):
        return
    kind = type(authentication)
    raise InvalidInput(
        f"authentication is a {kind.__module__}.{kind.__qualname__}; give one of Milepost's, as "
        "milepost.AuthenticationToken(token)"
    )


def check_schema(schema: Any) -> None:
    """`InvalidInput` unless it is None or one of `milepost.schemas`. The official client's have the same
    names and methods, but answer with objects that only its own library reads."""
    if schema is None:
        return
    # A program without schemas never loads their libraries.
    from milepost.schemas import Schema

    if not isinstance(schema, Schema):
        kind = type(schema)
        raise InvalidInput(
            f"schema is a {kind.__module__}.{kind.__qualname__}; give one of milepost.schemas"
        )
