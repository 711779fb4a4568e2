"""How a schema is said to a broker, and which one wrote a message."""

from __future__ import annotations

import subprocess
import sys

import pytest

from milepost.client.schemas import Readings, encode, schema_data, schema_info
from milepost.errors import InvalidInput
from milepost.schemas import (
    AutoConsumeSchema,
    AvroSchema,
    BytesSchema,
    Integer,
    Record,
    StringSchema,
)
from milepost.wire import pulsar_pb2 as pb

VERSION = bytes(8)


class Point(Record):
    x = Integer()


def test_bytes_have_none() -> None:
    assert schema_data(None) is None
    assert schema_data(BytesSchema()) is None


def test_a_schema_goes_over_the_wire_and_back() -> None:
    schema = AvroSchema(Point)
    data = schema_data(schema)
    assert data is not None
    assert data.type == pb.Schema.Avro
    assert schema_info(data) == schema.schema_info()


def test_contents_become_bytes() -> None:
    assert encode(None, b"x") == b"x"
    assert encode(None, bytearray(b"x")) == b"x"
    assert encode(StringSchema(), "x") == b"x"
    with pytest.raises(InvalidInput, match="is bytes, not str"):
        encode(None, "x")


def test_a_writer_is_asked_for_once() -> None:
    readings = Readings(AutoConsumeSchema())
    assert readings.lacks(VERSION)
    assert not readings.lacks(b"")
    readings.learn(VERSION, AvroSchema(Point).schema_info())
    assert not readings.lacks(VERSION)
    written = AvroSchema(Point).encode(Point(x=7))
    assert readings.decode(written, VERSION, b"") == {"x": 7}


def test_one_that_nobody_knows_is_not_asked_for_again() -> None:
    readings = Readings(AutoConsumeSchema())
    readings.learn(VERSION, None)
    assert not readings.lacks(VERSION)
    assert readings.decode(b"raw", VERSION, b"") == b"raw"


def test_text_needs_no_writer() -> None:
    readings = Readings(StringSchema())
    assert not readings.lacks(VERSION)
    assert readings.decode(b"x", VERSION, b"") == "x"


def test_the_client_does_not_import_what_it_may_not_need() -> None:
    """Schemas and HTTP have libraries of their own; a client of bytes starts without them."""
    program = (
        "import sys, milepost.aio\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('fastavro', 'httpx2', 'fastapi')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
