"""Bytes into messages: however they arrive, with keys, as JSON."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.cli.messages.lines import Cutter, Line, read_line, repeated
from milepost.cli.messages.values import NO_VALUE
from milepost.errors import InvalidInput


@given(st.lists(st.binary(max_size=9)), st.sampled_from([b"\n", b"ab"]))
def test_a_stream_is_cut_alike_however_it_arrives(pieces: list[bytes], delimiter: bytes) -> None:
    cutter = Cutter(delimiter)
    found = [one for piece in pieces for one in cutter.feed(piece)] + cutter.end()
    expected = b"".join(pieces).split(delimiter)
    assert found == (expected if expected[-1] else expected[:-1])


def test_plain_and_with_a_key() -> None:
    assert read_line(b"a:b") == Line(b"a:b")
    assert read_line(b"a:b:c", key_separator=":") == Line(b"b:c", "a")
    assert read_line(b"abc", key_separator=":") == Line(b"abc")
    with pytest.raises(InvalidInput, match="not UTF-8"):
        read_line(b"\xff:x", key_separator=":")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (b'{"data": "x"}', Line(b"x", None, {}, None)),
        (b'{"data": {"a": 1}, "key": 7}', Line(b'{"a": 1}', "7", {}, None)),
        (b'{"data_base64": "/w==", "event_time": 5}', Line(b"\xff", None, {}, 5)),
        (b'{"data": "x", "event_time": -1}', Line(b"x", None, {}, 2**64 - 1)),
        (b'{"data": null, "key": null}', Line(None, None, {}, None)),
        (b'{"data": "null", "ordering_key": "o"}', Line(b"null", None, {}, None, b"o")),
        (b'{"data": "x", "properties": {"a": 1}, "index": 3}', Line(b"x", None, {"a": "1"}, None)),
    ],
)
def test_as_json(text: bytes, line: Line) -> None:
    assert read_line(text, is_json=True) == line


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"x",
        b"[]",
        b"{}",
        b'{"data_base64": "?"}',
        b'{"data": "x", "properties": 1}',
        b"\xff",
        b'{"data": "x", "properties": {"a": null}}',
        b'{"key": "x"}',
        b'{"schema_version": 1}',
        b'{"data": "x", "event_time": 18446744073709551616}',
        b'{"data": "x", "event_time": -9223372036854775809}',
    ],
)
def test_what_is_no_json_line(text: bytes) -> None:
    with pytest.raises(InvalidInput, match="expected a JSON object"):
        read_line(text, is_json=True)


def test_a_value_is_left_to_the_schema() -> None:
    assert read_line(b'{"value": {"a": null}}', is_json=True).value == {"a": None}
    assert read_line(b'{"value": null}', is_json=True).value is None
    assert read_line(b'{"data": "x"}', is_json=True).value is NO_VALUE


def test_again_and_again() -> None:
    assert list(repeated(iter([Line(b"a"), Line(b"b")]), 2)) == [Line(b"a"), Line(b"b")] * 2
