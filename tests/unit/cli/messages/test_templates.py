"""Format strings and lines of JSON."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from milepost.cli.messages.lines import read_line
from milepost.cli.messages.templates import compile_template, json_line
from milepost.errors import InvalidInput
from milepost.positions import MessageId
from milepost.schemas import PrimitiveSchema, SchemaType, version_bytes


class Given:
    """A message with known answers."""

    def __init__(
        self,
        data: bytes | None = b"one coffee",
        index: int | None = 41,
        key: str | bytes | None = "guest",
        ordering_key: bytes | None = None,
    ) -> None:
        self._data = data
        self._index = index
        self._key = key
        self._ordering_key = ordering_key

    def has_null_value(self) -> bool:
        return self._data is None

    def has_key(self) -> bool:
        return self._key is not None

    def has_binary_key(self) -> bool:
        return isinstance(self._key, bytes)

    def key_bytes(self) -> bytes:
        return self._key if isinstance(self._key, bytes) else b""

    def ordering_key_bytes(self) -> bytes | None:
        return self._ordering_key

    def data(self) -> bytes:
        return self._data or b""

    def index(self) -> int | None:
        return self._index

    def message_id(self) -> MessageId:
        return MessageId(3, 7, 1, 2)

    def partition_key(self) -> str:
        return self._key if isinstance(self._key, str) else ""

    def properties(self) -> dict[str, str]:
        return {"a": "ö"}

    def publish_timestamp(self) -> int:
        return 1700

    def event_timestamp(self) -> int:
        return 5

    def topic_name(self) -> str:
        return "persistent://a/b/c-partition-1"

    def producer_name(self) -> str:
        return "p"

    def redelivery_count(self) -> int:
        return 2

    def schema_version(self) -> bytes:
        return version_bytes(3)

    def int_schema_version(self) -> int:
        return 3


def message(*args: Any) -> Any:
    return cast("Any", Given(*args))


@pytest.mark.parametrize(
    ("template", "shown"),
    [
        ("%v\\n", b"one coffee\n"),
        ("%i %I %k", b"41 3:7:1:2 guest"),
        ("%s|%t|%e|%r|%p|%n", b"10|1700|5|2|1|p"),
        ("%T %h", 'persistent://a/b/c-partition-1 {"a": "ö"}'.encode()),
        ("100%%\\t\\\\\\0", b"100%\t\\\0"),
        ("", b""),
    ],
)
def test_letters(template: str, shown: bytes) -> None:
    assert compile_template(template)(message()) == shown


def test_a_payload_is_printed_as_it_came() -> None:
    assert compile_template("%v")(message(b"\xff\n")) == b"\xff\n"
    assert compile_template("[%i]")(message(b"", None)) == b"[]"


@pytest.mark.parametrize("template", ["%z", "%", "\\x", "\\"])
def test_letters_that_are_none(template: str) -> None:
    with pytest.raises(InvalidInput, match="format"):
        compile_template(template)


@pytest.mark.parametrize("data", [b"one coffee", b"\xff\xfe", "ü\n".encode()])
def test_a_line_of_json_is_read_again(data: bytes) -> None:
    line = json_line(message(data))
    assert line.count(b"\n") == 1
    document = json.loads(line)
    assert (document["index"], document["id"]) == (41, "3:7:1:2")
    assert read_line(line, is_json=True)[:5] == (data, "guest", {"a": "ö"}, 5, None)


@pytest.mark.parametrize(
    ("data", "key", "ordering_key"),
    [
        (None, "k", None),
        (b"", "k", None),
        (b"null", "k", b"o"),
        (b"x", None, b"\xff"),
        (b"x", "", b""),
        (b"x", b"\x00\xff", None),
    ],
)
def test_null_empty_and_bytes_are_read_again_as_they_were(
    data: bytes | None, key: str | bytes | None, ordering_key: bytes | None
) -> None:
    line = read_line(json_line(message(data, 1, key, ordering_key)), is_json=True)
    assert (line.data, line.key, line.ordering_key) == (data, key, ordering_key)


class Schemas:
    """Every payload is of one INT32, or of what it is not."""

    def value_of(self, data: bytes, version: bytes, key: bytes) -> Any:
        assert (version, key) == (version_bytes(3), b"")
        return PrimitiveSchema(SchemaType.INT32).decode(data)


SCHEMAS = cast("Any", Schemas())


def test_a_payload_is_its_value_by_its_schema() -> None:
    seven = message((7).to_bytes(4, "big"))
    document = json.loads(json_line(seven, SCHEMAS))
    assert (document["value"], document["schema_version"]) == (7, 3)
    assert not {"data", "data_base64"} & document.keys()
    assert compile_template("%v", SCHEMAS)(seven) == b"7"
    assert read_line(json_line(seven, SCHEMAS), is_json=True).value == 7


def test_a_payload_that_its_schema_does_not_fit_is_shown_as_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert json.loads(json_line(message(b"\xff"), SCHEMAS))["data_base64"] == "/w=="
    assert compile_template("%v", SCHEMAS)(message(b"\xff")) == b"\xff"
    assert capsys.readouterr().err == 2 * (
        "3:7:1:2: 1 bytes are no INT32: it has 4; its bytes are shown\n"
    )


def test_null_is_no_value_of_a_schema() -> None:
    document = json.loads(json_line(message(None), SCHEMAS))
    assert document["data"] is None
    assert "value" not in document
