"""A message's fields, in a batch and alone."""

from __future__ import annotations

from typing import Any

import pytest

from milepost.client.messages.message import DeliveredEntry, Message
from milepost.client.schemas import Readings
from milepost.positions import ChunkMessageId, MessageId, Position
from milepost.schemas import StringSchema
from milepost.wire import pulsar_pb2 as pb

FIELDS: dict[str, Any] = {
    "properties": [pb.KeyValue(key="a", value="1")],
    "partition_key": "k",
    "ordering_key": b"o",
    "event_time": 17,
}


def entry(size: int = 0, **fields: Any) -> DeliveredEntry:
    chunks = fields.pop("chunks", ())
    return DeliveredEntry(
        None,
        "persistent://public/default/t",
        1,
        5,
        2,
        pb.MessageMetadata(producer_name="p", sequence_id=40, publish_time=99, **fields),
        batch_size=size,
        pending=1,
        last_index=9,
        redelivery_count=3,
        epoch=0,
        chunks=chunks,
    )


def alone(**fields: Any) -> Message:
    return Message(entry(**fields), -1, None, b"x", None)


def second_of_three(**fields: Any) -> Message:
    single = pb.SingleMessageMetadata(payload_size=1, **fields)
    return Message(entry(3), 1, single, b"x", None)


@pytest.mark.parametrize("make", [alone, second_of_three])
def test_fields_are_the_messages_own(make: Any) -> None:
    message = make(**FIELDS)
    assert message.properties() == {"a": "1"}
    assert (message.partition_key(), message.ordering_key()) == ("k", "o")
    assert (message.event_timestamp(), message.publish_timestamp()) == (17, 99)
    assert (message.producer_name(), message.redelivery_count()) == ("p", 3)
    assert message.topic_name().endswith("/t")
    assert message.value() == message.data() == b"x"
    assert message.encryption_context() is None


def test_ids_and_indexes() -> None:
    assert alone().message_id() == MessageId(1, 5, 2)
    assert alone().index() == 9
    inside = second_of_three()
    assert inside.message_id() == MessageId(1, 5, 2, 1)
    assert inside.message_id().batch_size == 3
    assert inside.index() == 8
    chunked = Message(entry(chunks=(Position(1, 2), Position(1, 5))), -1, None, b"x", None)
    assert isinstance(chunked.message_id(), ChunkMessageId)
    assert str(chunked.message_id()) == "1:2:2;1:5:2"


def test_sequence_ids() -> None:
    assert alone().sequence_id() == 40
    assert second_of_three().sequence_id() == 41
    assert second_of_three(sequence_id=77).sequence_id() == 77


def test_a_binary_key() -> None:
    message = alone(partition_key="AP8=", partition_key_b64_encoded=True)
    assert message.key_bytes() == b"\x00\xff"
    assert alone(partition_key="k").key_bytes() == b"k"
    assert alone(partition_key="abc", partition_key_b64_encoded=True).key_bytes() == b"abc"


def test_no_value_and_versions() -> None:
    assert alone(null_value=True).value() is None
    assert alone().int_schema_version() == -1
    assert alone(schema_version=bytes(7) + b"\x05").int_schema_version() == 5


def test_a_schema_decodes() -> None:
    message = Message(entry(), -1, None, "grüß".encode(), Readings(StringSchema()))
    assert message.value() == "grüß"


def test_it_shows_where_it_is() -> None:
    assert repr(alone()) == "<Message 1:5:2 of persistent://public/default/t, 1 bytes>"
