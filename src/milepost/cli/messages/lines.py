"""The messages that `milepost produce` sends: arguments, files, standard input.

    orders,k1:one coffee                 with --key-separator :
    {"key": "k1", "data": "one coffee"}  with --json
    {"key": "k1", "value": {"drink": 1}} with --json --schema

Owns the cutting of bytes into messages; it knows no client.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from milepost.cli.messages.values import NO_VALUE
from milepost.errors import InvalidInput

_PAYLOADS = {"data", "data_base64", "value"}


class Line(NamedTuple):
    """One message that is to be published."""

    # None is a null value, which is not the empty one.
    data: bytes | None
    # Bytes are a binary key, which travels as such.
    key: str | bytes | None = None
    properties: dict[str, str] | None = None
    event_time: int | None = None
    ordering_key: bytes | None = None
    # A value in JSON that the topic's schema makes bytes of; NO_VALUE if `data` has the payload.
    value: Any = NO_VALUE


class Cutter:
    """Cuts a stream of bytes at a delimiter, however the bytes arrive."""

    def __init__(self, delimiter: bytes) -> None:
        assert delimiter
        self._delimiter = delimiter
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """The pieces that are whole now."""
        *whole, self._rest = (self._rest + data).split(self._delimiter)
        return whole

    def end(self) -> list[bytes]:
        """What was left behind the last delimiter, if anything."""
        rest, self._rest = self._rest, b""
        return [rest] if rest else []


def read_line(data: bytes, *, key_separator: str | None = None, is_json: bool = False) -> Line:
    """A piece as a message; `InvalidInput` names what is wrong with it."""
    if is_json:
        return _from_json(data)
    if key_separator:
        key, found, rest = data.partition(key_separator.encode())
        if found:
            return Line(rest, _decoded(key))
    return Line(data)


def _from_json(data: bytes) -> Line:
    shown = ascii(data[:60].decode("utf-8", "replace"))
    try:
        document: Any = json.loads(data)
        if not isinstance(document, dict) or not _PAYLOADS & document.keys():
            raise ValueError
        ordering_key = _value(document, "ordering_key")
        event_time = document.get("event_time")
        return Line(
            _value(document, "data"),
            _key(document),
            {str(k): _text(v) for k, v in (document.get("properties") or {}).items()},
            _time(event_time) if event_time else None,
            ordering_key,
            document.get("value", NO_VALUE),
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        raise InvalidInput(
            f'line {shown}: expected a JSON object with "data", "data_base64" or "value"'
        ) from None


def _value(document: dict[str, Any], name: str) -> bytes | None:
    """A field that may be text, null, base64 of bytes, or JSON that stands for its own text."""
    if f"{name}_base64" in document:
        return base64.b64decode(document[f"{name}_base64"], validate=True)
    value = document.get(name)
    return None if value is None else _text(value).encode()


def _key(document: dict[str, Any]) -> str | bytes | None:
    if "key_base64" in document:
        return base64.b64decode(document["key_base64"], validate=True)
    key = document.get("key")
    return None if key is None else _text(key)


def _time(value: Any) -> int:
    """A time as it travels, without a sign; lines show one behind the middle of its range as negative."""
    time_ms = int(value)
    if not -(2**63) <= time_ms < 2**64:
        raise ValueError("out of range")
    return time_ms % 2**64


def _text(value: Any) -> str:
    """Text as it is, other JSON as it is written; no property can be null."""
    if value is None:
        raise ValueError("null")
    return value if isinstance(value, str) else json.dumps(value)


def repeated(lines: Iterable[Line], times: int) -> Iterator[Line]:
    """All of them in order, so many times."""
    kept = list(lines)
    for _ in range(times):
        yield from kept


def _decoded(key: bytes) -> str:
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise InvalidInput(f"key {key[:60]!r}: not UTF-8") from None
