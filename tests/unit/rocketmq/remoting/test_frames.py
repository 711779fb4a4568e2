"""Remoting frames: a command is read as it was written, however its bytes come, and bounds hold."""

from __future__ import annotations

import json
import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.errors import ProtocolError
from milepost.rocketmq.remoting.frames import (
    BODY_SIZE_MAX,
    FRAME_SIZE_MAX,
    HEADER_SIZE_MAX,
    Command,
    Decoder,
    encode,
)

int32 = st.integers(-(2**31), 2**31 - 1)
texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)
commands = st.builds(
    Command,
    st.integers(-(2**15), 2**15 - 1),
    int32,
    int32,
    st.dictionaries(texts, texts, max_size=5),
    st.binary(max_size=200),
    texts,
    st.booleans(),
    st.just(0),
)


def decoded(data: bytes) -> list[Command]:
    decoder = Decoder()
    decoder.feed(data)
    found = []
    while (command := decoder.next()) is not None:
        found.append(command)
    return found


def framed(header: bytes, body: bytes = b"", kind: int = 0) -> bytes:
    size = 4 + len(header) + len(body)
    return struct.pack(">iI", size, kind << 24 | len(header)) + header + body


@given(st.lists(commands, max_size=4), st.data())
def test_commands_are_read_as_they_were_written_however_their_bytes_come(
    sent: list[Command], data: st.DataObject
) -> None:
    stream = b"".join(map(encode, sent))
    decoder, found, at = Decoder(), [], 0
    while at < len(stream):
        end = data.draw(st.integers(at + 1, len(stream)))
        decoder.feed(stream[at:end])
        at = end
        while (command := decoder.next()) is not None:
            found.append(command)
    assert found == sent
    assert not decoder.is_within_frame


@given(st.binary(max_size=300))
def test_bytes_are_commands_or_refused(data: bytes) -> None:
    with suppress(ProtocolError):
        assert all(isinstance(one.body, bytes) for one in decoded(data))


def test_numbers_and_truth_among_the_fields_are_text() -> None:
    header = {"code": 11, "extFields": {"a": 1, "b": True, "c": "x", "d": None, "e": 1.5}}
    (found,) = decoded(framed(json.dumps(header).encode()))
    assert found.fields == {"a": "1", "b": "true", "c": "x", "e": "1.5"}
    assert (found.opaque, found.flag) == (0, 0)


@pytest.mark.parametrize("language", ["COBOL", 77, None, {}])
def test_a_language_that_no_peer_knows_changes_nothing(language: object) -> None:
    header = json.dumps({"code": 1, "language": language}).encode()
    assert decoded(framed(header))[0].code == 1


def test_a_large_body_is_dropped_while_it_comes_and_what_is_behind_it_is_read() -> None:
    header = json.dumps({"code": 310}).encode()
    size = BODY_SIZE_MAX + 1
    stream = framed(header, bytes(size)) + encode(Command(28))
    decoder, found = Decoder(), []
    for at in range(0, len(stream), 1000):
        decoder.feed(stream[at : at + 1000])
        while (command := decoder.next()) is not None:
            found.append(command)
        assert decoder.size < 4000
    assert [(one.code, one.dropped, one.body) for one in found] == [(310, size, b""), (28, 0, b"")]


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">iI", -1, 0),
        struct.pack(">iI", -(2**31), 0),
        struct.pack(">iI", 0, 0),
        struct.pack(">iI", 3, 0),
        struct.pack(">iI", 2**31 - 1, 10),
        struct.pack(">iI", FRAME_SIZE_MAX + 1, 10),
        struct.pack(">iI", 20, 17),  # a header that is longer than its frame
        struct.pack(">iI", HEADER_SIZE_MAX + 10, HEADER_SIZE_MAX + 1),
        struct.pack(">iI", 20, 2 << 24 | 4),  # a form that is not known
        framed(b"[" * 60_000),
        framed(b'{"code":1,"extFields":' + b'{"a":' * 10_000),
        framed(b'{"code":' + b"9" * 5000 + b"}"),
        framed(b'{"code":1e400}'),
        framed(b'{"code":NaN}'),
        framed(b'{"code":true}'),
        framed(b'{"code":2147483648}'),
        framed(b'{"opaque":1}'),
        framed(b'{"code":1,"extFields":[1]}'),
        framed(b'{"code":1,"extFields":{"a":[1]}}'),
        framed(b'{"code":1,"extFields":{"a":"\\ud800"}}'),
        framed(b'{"code":1,"remark":7}'),
        framed(b"\xff\xfe"),
        framed(b"null"),
        framed(b""),
        framed(b"", kind=1),
        framed(struct.pack(">hBhiii", 1, 0, 0, 0, 0, 100), kind=1),
        framed(struct.pack(">hBhiii", 1, 0, 0, 0, 0, -5), kind=1),
        framed(struct.pack(">hBhiiii", 1, 200, 0, 0, 0, 0, 3) + b"\x7f\xff\x00", kind=1),
        framed(struct.pack(">hBhiiii", 1, 200, 0, 0, 0, 0, 0) + b"rest", kind=1),
    ],
)
def test_what_is_no_frame_is_refused_by_its_first_bytes(data: bytes) -> None:
    with pytest.raises(ProtocolError) as refused:
        decoded(data)
    assert refused.value.reason in ("remoting_length", "remoting_header")
    assert len(str(refused.value)) < 200
