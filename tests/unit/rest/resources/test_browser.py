"""Messages for people to read: where they begin, what fits a filter, how payloads are unpacked and cut."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from stage.frames import batch, chunk, frame_of, message, metadata
from stage.http import Web
from stage.stage import Stage

from milepost.wire import pulsar_pb2 as pb
from milepost.wire.compression import compress

MESSAGES = "/milepost/v1/topics/public/default/t/messages"


def properties(**values: str) -> list[pb.KeyValue]:
    return [pb.KeyValue(key=key, value=value) for key, value in values.items()]


@pytest.fixture
def web(stage: Stage) -> Web:
    producer = stage.producer(stage.topic())
    stage.publish(producer, message(0, b"zero", partition_key="a"))
    stage.publish(producer, batch(1, 3))
    stage.publish(producer, message(4, b"four", properties=properties(kind="x", hue="red")))
    return Web(stage)


def payloads(web: Web, query: str = "") -> list[bytes]:
    answer = web(f"GET {MESSAGES}{query}")
    assert answer.status == 200, answer.body
    return [base64.b64decode(one["payload"]) for one in answer.json["messages"]]


def test_a_batch_is_split(web: Web) -> None:
    found = web(f"GET {MESSAGES}").json
    assert [one["index"] for one in found["messages"]] == [0, 1, 2, 3, 4]
    assert [one["id"] for one in found["messages"]][1:3] == ["1:1:-1:0", "1:1:-1:1"]
    assert [one["batch_size"] for one in found["messages"]] == [0, 3, 3, 3, 0]
    assert (found["first"], found["end"], found["next"]) == (0, 5, None)
    assert payloads(web) == [b"zero", b"1.0", b"1.1", b"1.2", b"four"]


@pytest.mark.parametrize(
    ("query", "indexes"),
    [
        ("?index=2", [2, 3, 4]),
        ("?index=99", []),
        ("?id=1:1:-1:1", [2, 3, 4]),
        ("?id=1:2", [4]),
        ("?time=0", [0, 1, 2, 3, 4]),
        ("?time=9007199254740991", []),
        ("?index=1&count=2", [1, 2]),
        ("?key=a", [0]),
        ("?property=kind", [4]),
        ("?property=hue%3Dre", [4]),
        ("?property=hue%3Dblue", []),
        ("?content=1.", [1, 2, 3]),
        ("?content=our&property=kind", [4]),
    ],
)
def test_from_where_and_what_fits(web: Web, query: str, indexes: list[int]) -> None:
    found = web(f"GET {MESSAGES}{query}").json["messages"]
    assert [one["index"] for one in found] == indexes


def test_a_page_says_where_the_next_begins(web: Web) -> None:
    seen: list[int] = []
    at: int | None = 0
    while at is not None:
        page = web(f"GET {MESSAGES}?index={at}&count=2").json
        seen += [one["index"] for one in page["messages"]]
        at = page["next"]
    assert seen == [0, 1, 2, 3, 4]


def test_a_long_payload_is_cut_and_can_be_had_whole(web: Web) -> None:
    (first, *_) = web(f"GET {MESSAGES}?payload_max=2").json["messages"]
    assert (base64.b64decode(first["payload"]), first["is_cut"], first["size"]) == (b"ze", True, 4)
    whole = web(f"GET {MESSAGES}/0/payload")
    assert whole.body == b"zero"
    assert whole.headers["content-type"] == "application/octet-stream"
    assert whole.headers["content-disposition"] == 'attachment; filename="t-0"'
    assert whole.headers["x-content-type-options"] == "nosniff"
    assert web(f"GET {MESSAGES}/2/payload").body == b"1.1"
    assert web(f"GET {MESSAGES}/5/payload").status == 404


def test_payloads_of_one_answer_are_bounded_together(stage: Stage) -> None:
    producer = stage.producer(stage.topic())
    stage.publish(producer, message(0, b"x" * 65536))
    (alone,) = Web(stage)(f"GET {MESSAGES}?count=1&payload_max=65536").json["messages"]
    (among,) = Web(stage)(f"GET {MESSAGES}?count=200&payload_max=65536").json["messages"]
    assert (len(base64.b64decode(alone["payload"])), alone["is_cut"]) == (65536, False)
    assert (len(base64.b64decode(among["payload"])), among["is_cut"]) == (
        2 * 1024 * 1024 // 200,
        True,
    )


def test_what_is_compressed_is_unpacked_and_what_does_not_unpack_says_why(stage: Stage) -> None:
    producer = stage.producer(stage.topic())
    said: dict[str, Any] = {"compression": pb.ZSTD, "uncompressed_size": 3000}
    stage.publish(producer, frame_of(metadata(0, **said), compress(pb.ZSTD, b"abc" * 1000)))
    stage.publish(producer, frame_of(metadata(1, **said), b"no such thing"))
    good, bad = Web(stage)(f"GET {MESSAGES}?payload_max=5000").json["messages"]
    assert base64.b64decode(good["payload"]) == b"abc" * 1000
    assert (good["compression"], good["fault"]) == ("ZSTD", "")
    assert base64.b64decode(bad["payload"]) == b"no such thing"
    assert "ZSTD" in bad["fault"]


def test_a_chunked_message_is_one(stage: Stage) -> None:
    producer = stage.producer(stage.topic())
    stage.publish(producer, chunk(0, 0, 2))
    stage.publish(producer, message(1, b"between"))
    stage.publish(producer, chunk(0, 1, 2))
    web = Web(stage)
    between, whole = web(f"GET {MESSAGES}").json["messages"]
    assert (between["index"], whole["index"], whole["chunks"]) == (1, 2, 2)
    first, second = (web(f"GET t/ledger/1/entry/{number}").body for number in (0, 2))
    assert base64.b64decode(whole["payload"]) == first + second
    assert web(f"GET {MESSAGES}/2/payload").body == first + second
    assert web(f"GET {MESSAGES}/0/payload").status == 404


@pytest.mark.parametrize(
    "query", ["?count=0", "?count=201", "?index=-1", "?id=x", "?index=1&time=1", "?payload_max=-1"]
)
def test_what_makes_no_sense_is_refused(web: Web, query: str) -> None:
    assert web(f"GET {MESSAGES}{query}").status == 400


def test_payloads_are_decoded_by_the_schema_that_they_name(stage: Stage) -> None:
    web = Web(stage)
    schema = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]}
    body = {"type": "AVRO", "schema": json.dumps(schema), "properties": {}}
    producer = stage.producer(stage.topic())
    assert web("POST /admin/v2/schemas/public/default/t/schema", body).status == 200
    known, unknown = bytes(8), (9).to_bytes(8, "big")
    for number, (payload, version) in enumerate(
        [(b"\x0e", known), (b"not that", known), (b"\x0e", unknown), (b"\x0e", b"")]
    ):
        stage.publish(producer, message(number, payload, schema_version=version))
    found = web(f"GET {MESSAGES}").json["messages"]
    assert [(one["schema_type"], one["value"]) for one in found] == [
        ("AVRO", {"n": 7}),
        ("", None),
        ("", None),
        ("", None),
    ]
    assert [base64.b64decode(one["payload"]) for one in found] == [
        b"\x0e",
        b"not that",
        b"\x0e",
        b"\x0e",
    ]


def test_a_pair_whose_key_is_the_messages(stage: Stage) -> None:
    """Also where the producer says that its key is base64, and it is none."""
    web = Web(stage)
    body = {
        "type": "KEY_VALUE",
        "schema": json.dumps({"key": "", "value": ""}),
        "properties": {
            "kv.encoding.type": "SEPARATED",
            "key.schema.type": "INT32",
            "value.schema.type": "STRING",
        },
    }
    producer = stage.producer(stage.topic())
    assert web("POST /admin/v2/schemas/public/default/t/schema", body).status == 200
    for number, key in enumerate((base64.b64encode(b"\0\0\1\0").decode(), "no base64!")):
        metadata = {"partition_key": key, "partition_key_b64_encoded": True}
        stage.publish(producer, message(number, b"v", schema_version=bytes(8), **metadata))
    found = web(f"GET {MESSAGES}").json["messages"]
    assert [(one["schema_type"], one["value"]) for one in found] == [
        ("KEY_VALUE", {"key": 256, "value": "v"}),
        ("", None),
    ]
