"""A message in RocketMQ's bytes has what was stored, where a reader of them looks for it."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.broker.messages.message_view import MessageView
from milepost.rocketmq.remoting.message_layout import (
    Place,
    encode_message,
    physical_offset,
    queue_and_index,
)

PLACE = Place("orders", 7, 3, "127.0.0.1", 9876)


def view(**fields: object) -> MessageView:
    plain = dict.fromkeys(MessageView._fields, 0)
    texts = dict.fromkeys(("id", "producer", "compression", "transaction", "fault"), "")
    given = {"index": 41, "came_ms": 1700, "publish_ms": 1600, "key": None, "properties": {}}
    return MessageView(**{**plain, **texts, **given, "payload": b"body", **fields})  # type: ignore[arg-type]


def read(data: bytes) -> dict[str, object]:
    """By the layout, with addresses of four bytes."""
    size, magic, crc, queue, flag, offset, physical, flags, born_ms = struct.unpack_from(
        ">iiiiiqqiq", data
    )
    assert size == len(data)
    assert magic & 0xFFFFFFFF == 0xDAA320A7
    assert flag == 0
    widths = [16 if flags & bit else 4 for bit in (16, 32)]
    at = 48
    born, at = data[at : at + widths[0] + 4], at + widths[0] + 4
    (stored_ms,) = struct.unpack_from(">q", data, at)
    stored, at = data[at + 8 : at + 12 + widths[1]], at + 12 + widths[1]
    times, prepared, body_size = struct.unpack_from(">iqi", data, at)
    assert (times, prepared) == (0, 0)
    body, at = data[at + 16 : at + 16 + body_size], at + 16 + body_size
    assert crc == zlib.crc32(body) & 0x7FFFFFFF
    topic, at = data[at + 1 : at + 1 + data[at]].decode(), at + 1 + data[at]
    (size,) = struct.unpack_from(">h", data, at)
    texts = data[at + 2 :].decode()
    assert len(data) == at + 2 + size
    properties = dict(one.split("\x01", 1) for one in texts.split("\x02") if one)
    return {
        "queue": queue,
        "offset": offset,
        "physical": physical,
        "born": (born_ms, born),
        "stored": (stored_ms, stored),
        "body": body,
        "topic": topic,
        "properties": properties,
    }


def test_everything_is_in_its_place() -> None:
    properties = {"TAGS": "paid", "UNIQ_KEY": "id-1", "__BORNHOST": "10.0.0.7:5000", "a": "ü"}
    found = read(
        encode_message(view(properties=properties, key="k", deliver_at_ms=99, event_ms=5), PLACE)
    )
    assert found == {
        "queue": 3,
        "offset": 41,
        "physical": physical_offset(3, 41),
        "born": (5, bytes([10, 0, 0, 7]) + struct.pack(">i", 5000)),
        "stored": (1700, bytes([127, 0, 0, 1]) + struct.pack(">i", 9876)),
        "body": b"body",
        "topic": "orders",
        "properties": {**properties, "__SHARDINGKEY": "k", "TIMER_DELIVER_MS": "99"},
    }


def test_a_message_of_a_pulsar_client_has_an_id_and_a_time() -> None:
    found = read(encode_message(view(), PLACE))
    assert found["properties"] == {"UNIQ_KEY": "00000000000000070000000000000029"}
    assert found["born"] == (1600, bytes(8))


@pytest.mark.parametrize("host", ["::1", "fe80::1%eth0"])
def test_addresses_of_ipv6_are_longer_and_say_so(host: str) -> None:
    data = encode_message(view(properties={"__BORNHOST": f"[{host}]:1"}), PLACE._replace(host=host))
    found = read(data)
    assert len(found["stored"][1]) == 20  # type: ignore[index]
    assert found["topic"] == "orders"


@pytest.mark.parametrize("host", ["", "example.org", "1.2.3", ":::::", "x:99999999"])
def test_what_is_no_address_is_none(host: str) -> None:
    assert read(encode_message(view(properties={"__BORNHOST": host}), PLACE))["born"] == (
        1600,
        bytes(8),
    )


def test_properties_that_are_too_many_are_left_out_and_one_says_so() -> None:
    many = {f"name-{number}": "v" * 500 for number in range(100)}
    properties = read(encode_message(view(properties=many), PLACE))["properties"]
    assert isinstance(properties, dict)
    assert "too large to be shown" in properties["milepost.fault"]
    assert len(properties) > 50


@given(
    st.dictionaries(st.text(max_size=200), st.text(max_size=2000), max_size=40),
    st.integers(0, 2**15 - 1),
    st.integers(0, 2**48 - 1),
)
def test_whatever_the_properties_the_layout_holds(
    properties: dict[str, str], queue: int, index: int
) -> None:
    stored = {name: value for name, value in properties.items() if name != "__BORNHOST"}
    data = encode_message(view(properties=stored, index=index), PLACE._replace(queue=queue))
    assert queue_and_index(struct.unpack_from(">q", data, 28)[0]) == (queue, index)
    assert struct.unpack_from(">i", data)[0] == len(data)
