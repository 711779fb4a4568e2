from __future__ import annotations

import pytest

from milepost.errors import ProtocolError
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.commands import (
    FROM_BROKER,
    FROM_CLIENT,
    REPEATED_MAX,
    Kind,
    UnknownValue,
    decode_command,
    encode_command,
    kind_name,
    kind_of,
)
from milepost.wire.scanners.varint import encode_varint

SUBSCRIBE = pb.CommandSubscribe(
    topic="persistent://public/default/t",
    subscription="s",
    subType=pb.CommandSubscribe.Shared,
    consumer_id=1,
    request_id=2,
)


def base(kind: int, body: bytes) -> bytes:
    tag = encode_varint(kind << 3 | 2)
    return b"\x08" + encode_varint(kind) + tag + encode_varint(len(body)) + body


def reason_of(data: bytes) -> str:
    with pytest.raises(ProtocolError) as caught:
        decode_command(data)
    return caught.value.reason


def test_there_and_back() -> None:
    data = encode_command(SUBSCRIBE)
    library = pb.BaseCommand(type=pb.BaseCommand.SUBSCRIBE, subscribe=SUBSCRIBE)
    assert data == library.SerializeToString()
    assert decode_command(data) == (Kind.SUBSCRIBE, SUBSCRIBE)
    assert kind_of(SUBSCRIBE) == Kind.SUBSCRIBE


def test_every_kind_is_heard_by_somebody() -> None:
    others = {name for name, kind in Kind.items() if kind not in FROM_CLIENT | FROM_BROKER}
    assert others == {
        "END_TXN_ON_PARTITION",
        "END_TXN_ON_PARTITION_RESPONSE",
        "END_TXN_ON_SUBSCRIPTION",
        "END_TXN_ON_SUBSCRIPTION_RESPONSE",
    }, "what brokers say to one another"
    assert {kind_name(kind) for kind in FROM_CLIENT & FROM_BROKER} == {
        "PING",
        "PONG",
        "CLOSE_PRODUCER",
        "CLOSE_CONSUMER",
        "SEEK",
    }


def test_names() -> None:
    assert kind_name(4) == "SUBSCRIBE"
    assert kind_name(70) == "70"


@pytest.mark.parametrize("data", ["0812", "0812920100"])
def test_ping_needs_no_more_than_its_type(data: str) -> None:
    assert decode_command(bytes.fromhex(data)).kind == Kind.PING


def test_fields_of_the_future_are_skipped() -> None:
    data = base(4, SUBSCRIBE.SerializeToString() + b"\xa2\x06\x03abc\xa8\x06\x05") + b"\xa8\x3e\x01"
    kind, message = decode_command(data)
    assert kind == Kind.SUBSCRIBE
    assert isinstance(message, pb.CommandSubscribe)
    assert message.subscription == "s"


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\x08", id="cut"),
        pytest.param(b"\xff" * 20, id="nonsense"),
        pytest.param(b"\x0a\x01x", id="type of another wire type"),
        pytest.param(b"\x08\x04", id="no subscribe"),
        pytest.param(b"\x08\x04\x22\x00", id="empty subscribe"),
        pytest.param(b"\x08\x04" + encode_command(SUBSCRIBE)[2:-2], id="cut inside"),
        pytest.param(b"\x08\x05" + encode_command(SUBSCRIBE)[2:], id="another's fields"),
        pytest.param(
            base(4, SUBSCRIBE.SerializeToString().replace(b"\x12\x01s", b"\x12\x01\xff")),
            id="a name that is not UTF-8",
        ),
        pytest.param(
            base(4, SUBSCRIBE.SerializeToString() + b"\x52\x07\x0a\x02\xed\xa0\x12\x01b"),
            id="a property that is a lone surrogate",
        ),
        pytest.param(
            base(4, SUBSCRIBE.SerializeToString() + b"\x52\x03\x0a\x01a"), id="half a property"
        ),
        pytest.param(
            base(
                4, SUBSCRIBE.SerializeToString() + b"\x52\x04\x0a\x00\x12\x00" * (REPEATED_MAX + 1)
            ),
            id="too many properties",
        ),
        pytest.param(b"\xa0\x3e\x01" * 30_000, id="unknown fields without end"),
    ],
)
def test_bad_commands(data: bytes) -> None:
    assert reason_of(data) == "bad_command"


def test_as_many_properties_as_allowed() -> None:
    data = base(4, SUBSCRIBE.SerializeToString() + b"\x52\x04\x0a\x00\x12\x00" * REPEATED_MAX)
    message = decode_command(data).message
    assert isinstance(message, pb.CommandSubscribe)
    assert len(message.metadata) == REPEATED_MAX


def test_a_client_takes_any_number_of_topics() -> None:
    topics = pb.CommandGetTopicsOfNamespaceResponse(request_id=1, topics=["t"] * (REPEATED_MAX + 1))
    data = encode_command(topics)
    assert reason_of(data) == "bad_command"
    assert decode_command(data, repeated_max=len(data)).message == topics


@pytest.mark.parametrize("kind", [0, 1, 41, 49, 69, 70, 99, 2**31])
def test_unknown_commands(kind: int) -> None:
    with pytest.raises(ProtocolError, match=f"of type {kind}$") as caught:
        decode_command(b"\x08" + encode_varint(kind) + b"\x1a\x00")
    assert caught.value.reason == "unknown_command"


def nested(depth: int) -> pb.MessageIdData:
    message_id = pb.MessageIdData(ledgerId=1, entryId=depth)
    if depth > 1:
        message_id.first_chunk_message_id.CopyFrom(nested(depth - 1))
    return message_id


@pytest.mark.parametrize("depth", [1, 2])
def test_a_message_id_nests_once(depth: int) -> None:
    seek = pb.CommandSeek(consumer_id=1, request_id=2, message_id=nested(depth))
    assert decode_command(encode_command(seek)).message == seek


@pytest.mark.parametrize("depth", [3, 50])
def test_a_message_id_nests_no_deeper(depth: int) -> None:
    seek = pb.CommandSeek(consumer_id=1, request_id=2, message_id=nested(depth))
    assert reason_of(encode_command(seek)) == "nested_too_deep"
    many = pb.CommandRedeliverUnacknowledgedMessages(
        consumer_id=1, message_ids=[nested(1), nested(depth)]
    )
    assert reason_of(encode_command(many)) == "nested_too_deep"


def test_a_message_id_beyond_the_library() -> None:
    body = b"\x08\x01\x10\x01"
    for _ in range(200):
        body = b"\x08\x01\x10\x01\x3a" + encode_varint(len(body)) + body
    seek = b"\x08\x01\x10\x02\x1a" + encode_varint(len(body)) + body
    assert reason_of(base(Kind.SEEK, seek)) == "bad_command"


@pytest.mark.parametrize(
    ("data", "field"),
    [
        # A required enum reads as missing, an optional one as its default: neither is what was meant.
        (base(4, SUBSCRIBE.SerializeToString().replace(b"\x18\x01", b"\x18\x09")), "subType"),
        (base(4, SUBSCRIBE.SerializeToString() + b"\x68\x05"), "initialPosition"),
        (base(5, b"\x0a\x01t\x10\x01\x18\x02\x50\x07"), "producer_access_mode"),
        (base(4, SUBSCRIBE.SerializeToString() + b"\x8a\x01\x02\x08\x05"), "keySharedMode"),
        (base(5, b"\x0a\x01t\x10\x01\x18\x02\x3a\x07\x0a\x01s\x1a\x00\x20\x63"), "type"),
    ],
)
def test_enum_values_of_the_future(data: bytes, field: str) -> None:
    with pytest.raises(UnknownValue) as caught:
        decode_command(data)
    assert caught.value.reason == "unknown_value"
    assert caught.value.field_name == field
    message = caught.value.command.message
    assert isinstance(message, pb.CommandSubscribe | pb.CommandProducer)
    assert message.request_id == 2


def test_a_known_value_after_an_unknown_one() -> None:
    """Still a value that was not understood."""
    with pytest.raises(UnknownValue):
        decode_command(base(4, SUBSCRIBE.SerializeToString() + b"\x18\x09"))
