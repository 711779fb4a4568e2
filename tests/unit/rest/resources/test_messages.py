"""Messages looked at over REST."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from stage.frames import batch, chunk, message, metadata
from stage.http import Web
from stage.stage import Stage

from milepost.wire import pulsar_pb2 as pb
from milepost.wire.batches import split_batch
from milepost.wire.compression import compress
from milepost.wire.scanners.encode import send_frame

MakeStage = Callable[..., Stage]


@pytest.fixture
def web(web: Web) -> Web:
    stage = web.stage
    topic = stage.topic()
    stage.subscription(topic)
    stage.publish(stage.producer(topic), message(0), batch(1, 3), message(4))
    return web


def test_a_message_by_its_id(web: Web) -> None:
    answer = web("GET t/ledger/1/entry/0")
    assert (answer.status, answer.body) == (200, b"0")
    headers = answer.headers
    assert headers["x-pulsar-message-id"] == "1:0"
    assert headers["x-pulsar-broker-entry-metadata-index"] == "0"
    assert headers["x-pulsar-publish-time"] == "1970-01-01T00:00:00.001Z"
    assert headers["x-pulsar-producer-name"] == "p"
    assert headers["x-pulsar-property"] == "{}"


def test_a_batch_stays_one(web: Web) -> None:
    answer = web("GET t/ledger/1/entry/1")
    assert answer.headers["x-pulsar-num-batch-message"] == "3"
    assert answer.headers["x-pulsar-broker-entry-metadata-index"] == "3"
    assert [one.payload for one in split_batch(answer.body, 3)] == [b"1.0", b"1.1", b"1.2"]


@pytest.mark.parametrize("where", ["1/entry/3", "1/entry/-1", "2/entry/0", "-1/entry/0"])
def test_what_is_not_there_is_not_found(web: Web, where: str) -> None:
    assert web(f"GET t/ledger/{where}").status == 404


def test_messages_are_examined_by_count(web: Web) -> None:
    found = {
        query: web(f"GET t/examinemessage{query}").headers["x-pulsar-message-id"]
        for query in (
            "",
            "?initialPosition=earliest",
            "?initialPosition=earliest&messagePosition=2",
            "?initialPosition=latest&messagePosition=2",
            "?initialPosition=earliest&messagePosition=100",
            "?messagePosition=0",
        )
    }
    assert list(found.values()) == ["1:2", "1:0", "1:1", "1:1", "1:2", "1:2"]
    web.stage.topic("persistent://public/default/empty")
    assert web("GET empty/examinemessage").status == 412


def test_a_subscription_is_peeked_into(web: Web) -> None:
    """What it has not acked, whichever consumer holds it; and peeking changes nothing of it."""
    web("POST t/subscription/s/skip/1")
    answers = [web(f"GET t/subscription/s/position/{number}") for number in (1, 2, 1, 3, 0)]
    assert [one.status for one in answers] == [200, 200, 200, 404, 400]
    assert [one.headers["x-pulsar-message-id"] for one in answers[:3]] == ["1:1", "1:2", "1:1"]
    assert web("GET t/subscription/none/position/1?create=false").status == 404
    assert web("GET t/subscriptions").json == ["s"]


def test_peeking_makes_a_subscription_at_the_first_message(web: Web) -> None:
    answers = [web(f"GET t/subscription/new/position/{number}") for number in (2, 1, 4)]
    assert [one.status for one in answers] == [200, 200, 404]
    assert [one.headers["x-pulsar-message-id"] for one in answers[:2]] == ["1:1", "1:0"]
    assert web("GET t/subscriptions").json == ["new", "s"]
    assert web.stage.topic().subscriptions["new"].is_durable
    assert web("GET t/subscription/%E2%80%AE/position/1").status == 400
    web.stage.topic("persistent://public/default/empty")
    assert web("GET empty/subscription/new/position/1").status == 404
    assert web("GET empty/subscriptions").json == ["new"]


def test_peeking_makes_none_where_consumers_may_make_none(make_stage: MakeStage) -> None:
    web = Web(make_stage(allow_auto_subscription_creation=False))
    web.stage.topic()
    assert web("GET t/subscription/new/position/1").status == 404
    assert web("GET t/subscriptions").json == []


def test_a_payload_is_unpacked(web: Web) -> None:
    meta = metadata(9, compression=pb.LZ4, uncompressed_size=300, event_time=1_700_000_000_000)
    payload = compress(pb.LZ4, b"abc" * 100)
    frame = b"".join(send_frame(0, 9, meta.SerializeToString(), payload))
    web.stage.publish(web.stage.producer(web.stage.topic()), frame)
    answer = web("GET t/ledger/1/entry/3")
    assert answer.body == b"abc" * 100
    assert answer.headers["x-pulsar-compression"] == "LZ4"
    assert answer.headers["x-pulsar-event-time"] == "2023-11-14T22:13:20.000Z"


def test_what_a_producer_says_cannot_end_a_header(web: Web) -> None:
    """Nor can it be anything that a header cannot hold."""
    properties = [pb.KeyValue(key="цвет", value="a\r\nset-cookie: x")]
    frame = message(9, partition_key="a\r\nset-cookie: y", properties=properties)
    web.stage.publish(web.stage.producer(web.stage.topic()), frame, chunk(10, 0, 2))
    headers = web("GET t/ledger/1/entry/3").headers
    assert headers["x-pulsar-partition-key"] == "a%0D%0Aset-cookie%3A%20y"
    assert json.loads(headers["x-pulsar-property"]) == {"цвет": "a\r\nset-cookie: x"}
    assert all("\n" not in value and value.isascii() for value in headers.values())
    assert web("GET t/ledger/1/entry/4").headers["x-pulsar-property-total-chunks"] == "2"
