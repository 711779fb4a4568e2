"""Checks the fields of documents that were read from a bucket: another program may have written them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_NAMES: dict[type, str] = {str: "text", int: "a whole number", dict: "an object", list: "a list"}


def check_fields(doc: Mapping[str, Any], kinds: Mapping[str, type]) -> None:
    """Raise a `TypeError` that names the first field of another type, with its value.

    >>> check_fields({"shards": "x"}, {"shards": int})
    Traceback (most recent call last):
    TypeError: 'shards' is 'x', not a whole number
    """
    for name, kind in kinds.items():
        if type(doc[name]) is not kind:
            raise TypeError(f"{name!r} is {doc[name]!r}, not {_NAMES[kind]}")
