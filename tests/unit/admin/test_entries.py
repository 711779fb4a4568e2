"""An entry from headers and body: plain, batched, and not what it claims to be."""

from __future__ import annotations

import pytest

from milepost.admin.entries import messages_of_entry
from milepost.admin.errors import BadAnswer
from milepost.admin.request import Answer, get
from milepost.positions import MessageId
from milepost.wire import pulsar_pb2 as pb


def answer(body: bytes, **headers: str) -> Answer:
    named = {f"x-pulsar-{name.replace('_', '-')}": value for name, value in headers.items()}
    return Answer(get("/x"), "http://x", 200, {"x-pulsar-message-id": "3:7:1", **named}, body)


def batch(*payloads: bytes) -> bytes:
    out = b""
    for number, payload in enumerate(payloads):
        own = pb.SingleMessageMetadata(
            payload_size=len(payload), partition_key=f"k{number}", sequence_id=number, event_time=5
        )
        own.properties.add(key="a", value=str(number))
        data = own.SerializeToString()
        out += len(data).to_bytes(4, "big") + data + payload
    return out


def test_a_plain_message_with_all_it_says() -> None:
    (one,) = messages_of_entry(
        answer(
            b"hello",
            property='{"a": "b"}',
            publish_time="2026-11-15T14:00:00.5+02:00",
            event_time="1700",
            broker_entry_metadata_index="41",
            partition_key="k",
            producer_name="p",
            sequence_id="9",
        )
    )
    assert one.message_id == MessageId(3, 7, 1)
    assert (one.data, one.index, one.key, one.properties) == (b"hello", 41, "k", {"a": "b"})
    assert (one.publish_time, one.event_time) == (1794744000500, 1700)
    assert (one.producer_name, one.sequence_id, one.batch_size) == ("p", 9, 0)


def test_a_batch_is_unpacked_and_numbered() -> None:
    found = messages_of_entry(
        answer(batch(b"x", b"", b"zz"), num_batch_message="3", broker_entry_metadata_index="12")
    )
    assert [one.data for one in found] == [b"x", b"", b"zz"]
    assert [one.index for one in found] == [10, 11, 12]
    assert [one.message_id for one in found] == [MessageId(3, 7, 1, n) for n in range(3)]
    assert [one.key for one in found] == ["k0", "k1", "k2"]
    assert found[2].properties == {"a": "2"}
    assert {one.batch_size for one in found} == {3}
    assert found[1].event_time == 5


def test_an_encrypted_batch_stays_whole() -> None:
    (one,) = messages_of_entry(answer(b"?", num_batch_message="3", is_encrypted="true"))
    assert (one.data, one.is_encrypted) == (b"?", True)


@pytest.mark.parametrize("cut", range(1, len(batch(b"x", b"yy"))))
def test_a_batch_that_is_cut_off_is_told(cut: int) -> None:
    with pytest.raises(BadAnswer, match="not a batch of 2 messages"):
        messages_of_entry(answer(batch(b"x", b"yy")[:cut], num_batch_message="2"))


@pytest.mark.parametrize(
    "headers",
    [
        {"message_id": "seven"},
        {"publish_time": "yesterday"},
        {"sequence_id": "x"},
        {"property": "{"},
    ],
)
def test_headers_that_say_nothing(headers: dict[str, str]) -> None:
    with pytest.raises(BadAnswer, match="about no message"):
        messages_of_entry(answer(b"", **headers))


def test_an_id_is_needed() -> None:
    nameless = Answer(get("/x"), "http://x", 200, {}, b"")
    with pytest.raises(BadAnswer, match="X-Pulsar-Message-ID is missing"):
        messages_of_entry(nameless)
    assert messages_of_entry(nameless, MessageId(1, 2))[0].message_id == MessageId(1, 2)


def test_null_values_and_versions_of_schemas() -> None:
    (one,) = messages_of_entry(answer(b"", null_value="true", base64_schema_version="AAAAAAAAAAM="))
    assert (one.is_null, one.schema_version) == (True, (3).to_bytes(8, "big"))
    null = pb.SingleMessageMetadata(payload_size=0, null_value=True).SerializeToString()
    empty = pb.SingleMessageMetadata(payload_size=0).SerializeToString()
    body = b"".join(len(own).to_bytes(4, "big") + own for own in (null, empty))
    found = messages_of_entry(
        answer(body, num_batch_message="2", base64_schema_version="AAAAAAAAAAM=")
    )
    assert [one.is_null for one in found] == [True, False]
    assert {one.schema_version for one in found} == {(3).to_bytes(8, "big")}
    with pytest.raises(BadAnswer, match="schema-version"):
        messages_of_entry(answer(b"", base64_schema_version="?"))
