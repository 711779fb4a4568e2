"""Entries for people. Over HTTP: tests/unit/rest/resources/test_messages.py."""

from __future__ import annotations

import pytest
from stage.frames import metadata, sends

from milepost.broker.messages.entry_view import EntryView, time_text, view
from milepost.storage.ledgers.entry import Entry
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.compression import compress
from milepost.wire.scanners.encode import send_frame


def shown(payload: bytes, limit: int = 1 << 20, **fields: object) -> EntryView:
    meta = metadata(7, **fields).SerializeToString()
    (send,) = sends(b"".join(send_frame(0, 7, meta, payload)))
    entry = Entry(3, 4, 41, 1, 1_700_000_000_000, 0, b"", send.entry)
    return view(entry, with_index=True, payload_size_max=limit)


def test_what_was_not_said_is_not_shown() -> None:
    headers, payload = shown(b"x")
    assert payload == b"x"
    assert headers == {
        "X-Pulsar-Message-ID": "3:4",
        "X-Pulsar-PROPERTY": "{}",
        "X-Pulsar-Broker-Entry-METADATA-timestamp": "2023-11-14T22:13:20.000Z",
        "X-Pulsar-Broker-Entry-METADATA-index": "41",
        "X-Pulsar-publish-time": "1970-01-01T00:00:00.001Z",
        "X-Pulsar-Is-Encrypted": "false",
        "X-Pulsar-producer-name": "p",
        "X-Pulsar-sequence-id": "7",
    }


def test_a_payload_that_does_not_unpack_is_shown_as_it_lies() -> None:
    packed = compress(pb.ZLIB, b"abc" * 100)
    fields = {"compression": pb.ZLIB, "uncompressed_size": 300}
    assert shown(packed, **fields).payload == b"abc" * 100
    assert shown(packed, 299, **fields).payload == packed
    assert shown(b"spoiled", **fields).payload == b"spoiled"
    keys = [pb.EncryptionKeys(key="k", value=b"v")]
    assert shown(packed, encryption_keys=keys, **fields).payload == packed


@pytest.mark.parametrize(
    ("time_ms", "text"), [(-1, "1969-12-31T23:59:59.999Z"), (2**62, str(2**62))]
)
def test_times_that_no_calendar_has(time_ms: int, text: str) -> None:
    assert time_text(time_ms) == text


def test_too_many_properties_are_not_shown() -> None:
    """They would not fit into a header."""
    properties = [pb.KeyValue(key=str(number), value="x" * 100) for number in range(1000)]
    assert shown(b"x", properties=properties).headers["X-Pulsar-PROPERTY"] == "{}"
