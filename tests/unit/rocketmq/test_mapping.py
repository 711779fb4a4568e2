"""What a message is on both sides."""

from __future__ import annotations

import hashlib
from typing import Any

from milepost.broker.messages.message_view import MessageView, views
from milepost.rocketmq import rocketmq_pb2 as pb
from milepost.rocketmq.mapping import message_of, sends_of, stable_id
from milepost.storage.ledgers.entry import Entry
from milepost.wire.metadata import chunk_info, split_entry

TOPIC = pb.Resource(name="orders")


def sent(**system: Any) -> pb.Message:
    properties = pb.SystemProperties(**{"message_id": "ID", **system})
    properties.born_timestamp.FromMilliseconds(1_700_000_000_123)
    return pb.Message(
        topic=TOPIC, user_properties={"own": "1"}, system_properties=properties, body=b"body"
    )


def stored(message: pb.Message) -> MessageView:
    """Send a message, and read what is stored of it."""
    (send,) = sends_of(
        message, message.body, 1000, producer="p", sequence_id=5, now_ms=1_700_000_001_000
    )
    entry = Entry(1, 2, 41, send.count, 1_700_000_002_000, 0, b"", send.entry)
    (view,) = views(entry, -1)
    return view


def back(view: MessageView) -> pb.Message:
    return message_of(view, TOPIC, topic_id=3, queue_id=2, store_host="host:8081")


def test_a_message_comes_back_as_it_was_sent() -> None:
    message = sent(tag="bill", keys=["k1", "k2"], born_host="till", trace_context="trace")
    found = back(stored(message))
    system = found.system_properties
    assert (found.body, dict(found.user_properties)) == (b"body", {"own": "1"})
    assert (system.message_id, system.tag, list(system.keys)) == ("ID", "bill", ["k1", "k2"])
    assert (system.born_host, system.trace_context) == ("till", "trace")
    assert system.born_timestamp.ToMilliseconds() == 1_700_000_000_123
    assert system.store_timestamp.ToMilliseconds() == 1_700_000_002_000
    assert (system.queue_id, system.queue_offset) == (2, 41)
    assert (system.message_type, system.body_encoding) == (pb.NORMAL, pb.IDENTITY)
    md5 = hashlib.md5(b"body").hexdigest().upper()
    assert system.body_digest == pb.Digest(type=pb.MD5, checksum=md5)
    assert not system.HasField("message_group")
    assert not system.HasField("delivery_timestamp")


def test_a_message_group_is_the_key() -> None:
    view = stored(sent(message_group="shop-7"))
    assert view.key == "shop-7"
    system = back(view).system_properties
    assert (system.message_type, system.message_group) == (pb.FIFO, "shop-7")


def test_a_delivery_time_is_kept_by_the_entry() -> None:
    message = sent()
    message.system_properties.delivery_timestamp.FromMilliseconds(1_700_000_060_000)
    (send,) = sends_of(message, b"body", 4, producer="p", sequence_id=5, now_ms=1_700_000_000_000)
    assert send.traits.deliver_at_time == 1_700_000_060_000
    assert split_entry(send.entry).is_intact
    system = back(stored(message)).system_properties
    assert system.message_type == pb.DELAY
    assert system.delivery_timestamp.ToMilliseconds() == 1_700_000_060_000


def test_what_a_pulsar_producer_sent() -> None:
    """It has no message id of RocketMQ's and gets one that never changes; names that RocketMQ keeps for
    itself are not shown as a user's."""
    view = stored(sent())._replace(
        properties={"a": "b", "TAGS": "t", "KEYS": "x y", "POP_CK": "z"},
        event_ms=0,
        producer="till-1",
        key=None,
    )
    found = back(view)
    system = found.system_properties
    assert system.message_id == stable_id(3, 41)
    assert len(system.message_id) == 32
    assert (system.tag, list(system.keys)) == ("t", ["x", "y"])
    assert dict(found.user_properties) == {"a": "b"}
    assert system.born_timestamp.ToMilliseconds() == 1_700_000_001_000
    assert system.born_host == "till-1"


def test_times_that_no_clock_shows_do_not_break_a_delivery() -> None:
    view = stored(sent())._replace(event_ms=2**62, came_ms=-5)
    system = back(view).system_properties
    assert system.born_timestamp.ToMilliseconds() == 253_402_300_799_000
    assert system.store_timestamp.ToMilliseconds() == 0


def test_a_body_that_could_not_be_read_says_so() -> None:
    found = back(stored(sent())._replace(fault="it is encrypted"))
    assert found.user_properties["milepost.fault"] == "it is encrypted"


def test_a_body_that_is_too_large_for_an_entry_is_stored_in_chunks() -> None:
    message = pb.Message(system_properties=pb.SystemProperties(message_id="ID", message_group="g"))
    sends = sends_of(message, b"0123456789", 4, producer="p", sequence_id=5, now_ms=1)
    chunks = [send.traits.chunk for send in sends]
    assert [(one.chunk_id, one.num_chunks, one.total_size) for one in chunks if one] == [
        (0, 3, 10),
        (1, 3, 10),
        (2, 3, 10),
    ]
    assert {one.uuid for one in chunks if one} == {"p-5"}
    assert [split_entry(send.entry).payload for send in sends] == [b"0123", b"4567", b"89"]
    for send, chunk in zip(sends, chunks, strict=True):
        assert chunk_info(split_entry(send.entry).metadata) == chunk
        assert send.sequence_id == 5
