"""Checks the fields of documents that were read from a bucket: another program may have written them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_NAMES: dict[type, str] = {
    str: "text",
    int: "a whole number",
    bool: "true or false",
    dict: "an object",
    list: "a list",
}


def read_document(data: bytes) -> dict[str, Any]:
    """The JSON object that some bytes are; `ValueError` or `TypeError` for any others.

    >>> read_document(b"[]")
    Traceback (most recent call last):
    TypeError: it is no JSON object
    """
    try:
        doc = json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    if not isinstance(doc, dict):
        raise TypeError("it is no JSON object")
    return doc


def check_fields(doc: Mapping[str, Any], kinds: Mapping[str, type]) -> None:
    """Raise a `TypeError` that names the first field of another type, with its value.

    >>> check_fields({"shards": "x"}, {"shards": int})
    Traceback (most recent call last):
    TypeError: 'shards' is 'x', not a whole number
    """
    for name, kind in kinds.items():
        if type(doc[name]) is not kind:
            raise TypeError(f"{name!r} is {doc[name]!r}, not {_NAMES[kind]}")
