"""How `milepost consume` prints a message: a format string or JSON.

    %i index   %I id     %k key     %v payload  %s its size in bytes  %h properties as JSON
    %t time    %e event  %T topic   %p partition  %n producer  %r redeliveries  %% a percent sign

`\\n`, `\\t`, `\\0` and `\\\\` are what they are in C. Times are milliseconds since 1970. The result is
bytes: a payload is printed as it came.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from milepost.cli.messages.values import NO_VALUE
from milepost.cli.output import note
from milepost.errors import InvalidInput, SchemaMismatch

if TYPE_CHECKING:
    from milepost.cli.messages.values import TopicSchemas
    from milepost.client.messages.message import Message

Piece = Callable[["Message"], bytes]

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}
_TOKEN = re.compile(r"%(.?)|\\(.?)", re.DOTALL)


def _text(read: Callable[[Message], object]) -> Piece:
    def piece(message: Message) -> bytes:
        value = read(message)
        return b"" if value is None else str(value).encode()

    return piece


_PIECES: dict[str, Piece] = {
    "i": _text(lambda message: message.index()),
    "I": _text(lambda message: message.message_id()),
    "k": _text(lambda message: message.partition_key()),
    "v": lambda message: message.data(),
    "s": _text(lambda message: len(message.data())),
    "h": _text(lambda message: json.dumps(message.properties(), ensure_ascii=False)),
    "t": _text(lambda message: message.publish_timestamp()),
    "e": _text(lambda message: message.event_timestamp()),
    "T": _text(lambda message: message.topic_name()),
    "p": _text(lambda message: message.message_id().partition),
    "n": _text(lambda message: message.producer_name()),
    "r": _text(lambda message: message.redelivery_count()),
}


def compile_template(text: str, schemas: TopicSchemas | None = None) -> Piece:
    """A function from a message to the bytes that stand for it; `InvalidInput` for a wrong letter. With
    schemas a payload is shown as its value."""
    known = dict(_PIECES)
    if schemas is not None:
        known["v"] = lambda message: value_text(message, schemas)
    pieces: list[Piece] = []
    literal = ""

    def end_literal() -> None:
        nonlocal literal
        if literal:
            data = literal.encode("utf-8", "surrogateescape")
            pieces.append(lambda message: data)
            literal = ""

    at = 0
    for match in _TOKEN.finditer(text):
        literal += text[at : match.start()]
        at = match.end()
        letter, escaped = match[1], match[2]
        if letter == "%":
            literal += "%"
        elif letter is not None:
            if letter not in known:
                there = " ".join(f"%{one}" for one in known)
                raise InvalidInput(f"format {text!a}: no %{letter}; there are {there} %%")
            end_literal()
            pieces.append(known[letter])
        elif escaped in _ESCAPES:
            literal += _ESCAPES[escaped]
        else:
            raise InvalidInput(f"format {text!a}: no \\{escaped}; there are \\n \\t \\r \\0 \\\\")
    literal += text[at:]
    end_literal()
    return lambda message: b"".join([piece(message) for piece in pieces])


def json_line(message: Message, schemas: TopicSchemas | None = None) -> bytes:
    """A message as one line of JSON, which `milepost produce --json` reads again as the same message.

    What is no text is in base64, under a name that says so; null is a value of its own, and no text. With
    schemas a payload is its value, which `--schema` reads again.
    """
    document: dict[str, Any] = {
        "topic": message.topic_name(),
        "id": str(message.message_id()),
        "index": message.index(),
        **_key(message),
        **_text_or_bytes("ordering_key", message.ordering_key_bytes()),
        "publish_time": message.publish_timestamp(),
        "event_time": message.event_timestamp(),
        "redelivery_count": message.redelivery_count(),
        "properties": message.properties(),
    }
    value = NO_VALUE if schemas is None else value_of(message, schemas)
    if value is NO_VALUE:
        document |= _text_or_bytes("data", None if message.has_null_value() else message.data())
    else:
        document |= {"schema_version": message.int_schema_version(), "value": value}
    return _dumped(document) + b"\n"


def value_of(message: Message, schemas: TopicSchemas) -> Any:
    """The value of a message in JSON; `NO_VALUE` for null, and where no schema has written it, or its schema
    does not fit: one such message ends no command."""
    if message.has_null_value():
        return NO_VALUE
    try:
        return schemas.value_of(message.data(), message.schema_version(), message.key_bytes())
    except SchemaMismatch as error:
        note(f"{message.message_id()}: {error}; its bytes are shown")
        return NO_VALUE


def value_text(message: Message, schemas: TopicSchemas) -> bytes:
    """The value of a message as one line; the payload as it came if it has none."""
    value = value_of(message, schemas)
    if value is NO_VALUE:
        return message.data()
    return value.encode("utf-8", "replace") if isinstance(value, str) else _dumped(value)


def _dumped(value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can only escape
        return json.dumps(value).encode()


def _key(message: Message) -> dict[str, str | None]:
    if message.has_binary_key():
        return {"key_base64": base64.b64encode(message.key_bytes()).decode()}
    return {"key": message.partition_key() if message.has_key() else None}


def _text_or_bytes(name: str, value: bytes | None) -> dict[str, str | None]:
    try:
        return {name: None if value is None else value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value or b"").decode()}
