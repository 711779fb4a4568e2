"""Publishes that cannot be obeyed, and those that are odd and stored. See test_hostile.py."""

from __future__ import annotations

from typing import Any

import pytest
from compat.broker_process import BrokerProcess
from compat.hostile import (
    MESSAGE_SIZE_MAX,
    PADDING,
    SETTINGS,
    counted,
    entry_of,
    everyone_else_is_served,
    is_counted_and_hung_up,
    metadata,
    metric,
    neighbour,
    opened,
    plain,
    send,
    u32,
)
from compat.line import Line

from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import Receipt
from milepost.wire.scanners.varint import encode_varint

__all__ = ["SETTINGS", "everyone_else_is_served", "neighbour"]

# -- publishing --------------------------------------------------------------------------------------


GOOD = metadata().SerializeToString()
SIX = b"\0\0\0\x02\x18\0"  # the smallest message of a batch


def chunk(**fields: Any) -> bytes:
    of = {"uuid": "u", "num_chunks_from_msg": 2, "chunk_id": 0, "total_chunk_msg_size": 14}
    of.update(fields)
    return plain(**{name: value for name, value in of.items() if value is not None})


BAD_SENDS: dict[str, tuple[bytes, int]] = {
    "a wrong checksum": (send(entry_of(GOOD, b"payload", spoil=1)), pb.ChecksumError),
    "metadata beyond the frame": (send(entry_of(GOOD, b"p", size=500)), pb.NotAllowedError),
    "metadata of 2^32 - 1 bytes": (send(entry_of(GOOD, b"p", size=2**32 - 1)), pb.NotAllowedError),
    "no entry at all": (send(b""), pb.NotAllowedError),
    "a magic and no more": (send(b"\x0e\x01"), pb.ChecksumError),
    "half a checksum": (send(b"\x0e\x01\x00\x00"), pb.ChecksumError),
    "metadata that is no protobuf": (send(entry_of(b"\xff" * 30, b"p")), pb.NotAllowedError),
    "metadata without its fields": (send(entry_of(b"", b"p")), pb.NotAllowedError),
    # Once stored it would end the connection of every official consumer that gets it.
    "a property that is no message": (
        send(entry_of(GOOD + b"\x22\x04a2V5", b"p")),
        pb.NotAllowedError,
    ),
    "a property without its value": (
        send(entry_of(GOOD + b"\x22\x03\x0a\x01k", b"p")),
        pb.NotAllowedError,
    ),
    "two producer names": (send(entry_of(GOOD + b"\x0a\x01x", b"p")), pb.NotAllowedError),
    "a publish time before 1970": (
        send(entry_of(GOOD + b"\x18" + encode_varint(-1), b"p")),
        pb.NotAllowedError,
    ),
    "a batch of 0": (plain(num_messages_in_batch=0), pb.NotAllowedError),
    "a batch of -1": (plain(num_messages_in_batch=-1), pb.NotAllowedError),
    "a batch of 2^31 - 1": (plain(num_messages_in_batch=2**31 - 1), pb.NotAllowedError),
    "a batch of more than can be in it": (
        plain(num_messages_in_batch=3, payload=SIX * 2),
        pb.NotAllowedError,
    ),
    "a compressed batch of more than can be in it": (
        plain(num_messages_in_batch=3, payload=b"z", compression=1, uncompressed_size=17),
        pb.NotAllowedError,
    ),
    "a negative sequence id": (send(entry_of(GOOD, b"p"), sequence_id=-1), pb.NotAllowedError),
    "a highest sequence id below": (
        send(entry_of(GOOD, b"p"), sequence_id=5, highest_sequence_id=4),
        pb.NotAllowedError,
    ),
    "chunk 2 of 2": (chunk(chunk_id=2), pb.NotAllowedError),
    "chunk -1": (chunk(chunk_id=-1), pb.NotAllowedError),
    "chunk 0 of 0": (chunk(num_chunks_from_msg=0), pb.NotAllowedError),
    "a chunk without its number": (chunk(chunk_id=None), pb.NotAllowedError),
    "a chunk without a count": (chunk(num_chunks_from_msg=None), pb.NotAllowedError),
    "a chunk without a uuid": (chunk(uuid=None), pb.NotAllowedError),
    "a chunk larger than its message": (chunk(total_chunk_msg_size=6), pb.NotAllowedError),
    "more chunks than bytes": (chunk(num_chunks_from_msg=15), pb.NotAllowedError),
    "a chunk of a batch": (chunk(num_messages_in_batch=1), pb.NotAllowedError),
    "with metadata of a transaction that the command does not name": (
        send(entry_of(GOOD + b"\xb0\x01\x01\xb8\x01\x01", b"p")),
        pb.NotAllowedError,
    ),
    "a marker that ends a transaction": (
        send(
            entry_of(GOOD + b"\xa0\x01\x15\xb0\x01\x01\xb8\x01\x01", b""),
            txnid_least_bits=1,
            txnid_most_bits=1,
        ),
        pb.NotAllowedError,
    ),
    "with an id of its own": (
        send(entry_of(GOOD, b"p"), message_id=pb.MessageIdData(ledgerId=1, entryId=1)),
        pb.NotAllowedError,
    ),
}


@pytest.mark.parametrize("name", BAD_SENDS)
def test_a_send_that_cannot_be_obeyed(broker: BrokerProcess, topic: str, name: str) -> None:
    """Refused for itself: what is sent behind it is stored, and at the next index."""
    data, code = BAD_SENDS[name]
    with Line(broker.port_of(topic)) as line:
        opened(line, topic)
        with counted(broker, "publishes_refused", pb.ServerError.Name(code)):
            line.say(data)
            answer = line.hear(pb.CommandSendError)
            assert (answer.producer_id, answer.error) == (1, code), answer
        line.say(send(entry_of(metadata(9).SerializeToString(), b"good"), 9))
        assert line.hear(Receipt).entry_id == 0
        assert line.is_alive()


ODD_SENDS: dict[str, tuple[bytes, int]] = {
    # The checksum is optional on the wire.
    "no checksum": (send(u32(len(GOOD)) + GOOD + b"payload"), 1),
    # Decided: a batch is as large as its metadata says, as far as its bytes could hold that many.
    # The broker does not look into payloads; a consumer that finds fewer messages drops the entry.
    "a batch of fewer than are in it": (plain(num_messages_in_batch=1, payload=SIX * 5), 1),
    "a batch that holds something else": (plain(num_messages_in_batch=2, payload=b"?" * 12), 2),
    # A zip bomb stays as it is: the broker never decompresses.
    "a batch that says it unpacks to 4 GB": (
        plain(num_messages_in_batch=2, payload=b"z", compression=1, uncompressed_size=2**32 - 1),
        2,
    ),
    "a count beside the entry that is a lie": (send(entry_of(GOOD, b"p"), num_messages=1000), 1),
    "a name that is not UTF-8": (
        send(entry_of(GOOD.replace(b"stranger", b"str\xff\xfeger"), b"p")),
        1,
    ),
    "a payload of nothing": (plain(payload=b""), 1),
}


@pytest.mark.parametrize("name", ODD_SENDS)
def test_a_send_that_is_odd_and_stored(broker: BrokerProcess, topic: str, name: str) -> None:
    data, count = ODD_SENDS[name]
    with Line(broker.port_of(topic)) as line:
        opened(line, topic)
        line.say(data)
        assert line.hear(Receipt).entry_id == 0
        assert metric(broker, "milepost_topic_end_index", topic=topic) == count


def test_the_largest_message(broker: BrokerProcess, topic: str) -> None:
    """Frames may be a little larger than messages: one that is largest by a byte is refused whole."""
    with Line(broker.port_of(topic)) as line:
        opened(line, topic)
        empty = plain(payload=b"")
        room = MESSAGE_SIZE_MAX + PADDING + 4 - len(empty)
        line.say(plain(payload=bytes(room)))
        assert line.hear(Receipt).entry_id == 0
        is_counted_and_hung_up(broker, line, plain(payload=bytes(room + 1)), "frame_too_large")


def test_a_producer_that_is_not_there(broker: BrokerProcess, topic: str) -> None:
    with Line(broker.port_of(topic)) as line, Line(broker.port_of(topic)) as other:
        opened(other, topic, producer_id=1)
        # Another connection's producer is not this one's.
        is_counted_and_hung_up(broker, line, plain(), "unknown_producer")
        assert other.is_alive()
        # One that was just closed: its last sends may have been on their way.
        other.say(pb.CommandCloseProducer(producer_id=1, request_id=2))
        other.hear(pb.CommandSuccess)
        other.say(plain())
        assert other.is_alive()
        assert not other.heard


def test_sends_without_end_whose_answers_nobody_reads(broker: BrokerProcess, topic: str) -> None:
    """Reading stops while too much is under way; nothing is lost, and nobody else waits."""
    count = 50_000
    one = plain(payload=bytes(100))
    paused = metric(broker, "milepost_reads_paused_total")
    with Line(broker.port_of(topic), receive_buffer=4096) as line:
        opened(line, topic)
        line.say(one * count)
        for _ in range(count):
            receipt = line.hear(Receipt, within_s=20)
        assert receipt.entry_id == count - 1
    assert metric(broker, "milepost_reads_paused_total") > paused


def test_an_entry_that_names_another_producer(own_broker: Any, topic: str) -> None:
    """Where duplicates are looked for, a name in the entry is all that a restart knows of who sent it. A
    lie would make another producer's next publishes look like duplicates, answered and not stored."""
    broker: BrokerProcess = own_broker(deduplication=True)

    def open_producer(line: Line, producer_id: int, name: str) -> pb.CommandProducerSuccess:
        line.say(
            pb.CommandProducer(
                topic=topic, producer_id=producer_id, request_id=producer_id, producer_name=name
            )
        )
        return line.hear(pb.CommandProducerSuccess)

    def named(name: str, sequence_id: int) -> bytes:
        return pb.MessageMetadata(
            producer_name=name, sequence_id=sequence_id, publish_time=1
        ).SerializeToString()

    with Line(broker.port_of(topic)) as line:
        open_producer(line, 1, "honest")
        open_producer(line, 2, "liar")
        line.say(send(entry_of(named("honest", 0), b"p"), 0, producer_id=1))
        assert line.hear(Receipt).entry_id == 0
        line.say(send(entry_of(named("honest", 1000), b"p"), 1000, producer_id=2))
        assert line.hear(pb.CommandSendError).error == pb.NotAllowedError
        twice = named("liar", 1001) + b"\x0a\x06honest"
        line.say(send(entry_of(twice, b"p"), 1001, producer_id=2))
        assert line.hear(pb.CommandSendError).error == pb.NotAllowedError
    broker.restart()
    with Line(broker.port_of(topic)) as line:
        assert open_producer(line, 1, "honest").last_sequence_id == 0
        line.say(send(entry_of(named("honest", 1), b"p"), 1, producer_id=1))
        assert line.hear(Receipt).entry_id == 1
