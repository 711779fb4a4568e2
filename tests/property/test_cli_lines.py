"""JSON lines of `consume` and `peek` come into `produce` as the same messages, whatever they hold."""

from __future__ import annotations

import io
import itertools
import json
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stage.counts import examples

import milepost
from milepost import testing
from milepost.admin import Admin
from milepost.cli import main
from milepost.cli.messages.lines import Line, read_line
from milepost.positions import EARLIEST
from milepost.schemas import AvroSchema

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SAME = (
    "key", "key_base64", "ordering_key", "ordering_key_base64", "event_time", "properties", "data",
    "data_base64", "value", "index",
)  # fmt: skip
NUMBERS = itertools.count()


class Sent(NamedTuple):
    content: bytes | None
    key: str | bytes | None
    ordering_key: bytes | None
    event_time: int | None
    properties: dict[str, str]

    @classmethod
    def of(cls, line: Line) -> Sent:
        return cls(line.data, line.key, line.ordering_key, line.event_time, line.properties or {})


MESSAGES = st.builds(
    Sent,
    st.none() | st.binary(max_size=50) | TEXT.map(str.encode),
    st.none() | TEXT | st.binary(max_size=10),
    st.none() | st.binary(max_size=10),
    st.none() | st.integers(1, 2**53),
    st.dictionaries(TEXT, TEXT, max_size=3),
)


class Desk:
    """A broker, a client, and command lines that are run here."""

    def __init__(self, url: str, client: milepost.Client) -> None:
        self.url = url
        self.client = client

    def __call__(self, *args: str, given: bytes = b"") -> list[bytes]:
        """Run a line; the lines that it printed."""
        out, kept = io.TextIOWrapper(io.BytesIO()), (sys.stdin, sys.stdout)
        sys.stdin, sys.stdout = io.TextIOWrapper(io.BytesIO(given)), out
        try:
            code = main.run(["--admin-url", self.url, *args])
        finally:
            sys.stdin, sys.stdout = kept
        assert code == 0, args
        out.flush()
        out.seek(0)
        return out.buffer.read().splitlines()


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    with testing.broker(http=True) as broker, milepost.Client(broker.url) as client:
        yield Desk(broker.http_url, client)


def parts(lines: list[bytes]) -> list[dict[str, Any]]:
    documents = [json.loads(line) for line in lines]
    return [{name: one[name] for name in SAME if name in one} for one in documents]


@given(st.lists(MESSAGES, min_size=1, max_size=8), st.booleans())
@settings(
    max_examples=examples(15),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_lines_go_out_and_come_in_unchanged(desk: Desk, sent: list[Sent], is_batched: bool) -> None:
    number = next(NUMBERS)
    topic, copy = f"out-{number}", f"in-{number}"
    producer = desk.client.create_producer(topic, batching_enabled=is_batched)
    for one in sent:
        producer.send_async(
            one.content,
            None,
            properties=one.properties,
            partition_key=one.key,
            ordering_key=one.ordering_key,
            event_timestamp=one.event_time,
        )
    producer.flush()
    producer.close()
    out = desk("consume", topic, "-e", "--json")
    assert [Sent.of(read_line(line, is_json=True)) for line in out] == sent
    assert parts(desk("peek", topic, "--json", "-n", "100")) == parts(out)
    desk("produce", copy, "--json", given=b"\n".join(out))
    assert parts(desk("consume", copy, "-e", "--json")) == parts(out)


def test_values_of_a_schema_go_out_and_come_in(desk: Desk) -> None:
    definition = {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "long"}, {"name": "raw", "type": ["null", "bytes"]}],
    }
    producer = desk.client.create_producer("typed", schema=AvroSchema(None, definition))
    for number in range(4):
        producer.send({"id": number, "raw": b"\xff" * number if number else None})
    producer.send(None, partition_key="gone")
    producer.close()
    out = desk("consume", "typed", "-e", "--json", "--schema")
    assert [json.loads(line).get("value") for line in out[:2]] == [
        {"id": 0, "raw": None},
        {"id": 1, "raw": {"bytes": "\xff"}},
    ]
    with Admin(desk.url) as admin:
        schema = admin.get_schema("typed")
        kept = {"type": "AVRO", "schema": schema["data"], "properties": {}}
        admin.create_schema("typed-copy", kept)
        desk("produce", "typed-copy", "--json", "--schema", given=b"\n".join(out))
        desk("produce", "typed-copy", "--schema", "-m", '{"id": 9, "raw": null}')
        # What was published is of the version that was there, byte for byte.
        assert len(admin.get_all_schemas("typed-copy")) == 1
    again = desk("consume", "typed-copy", "-e", "--json", "--schema")
    assert parts(again[:5]) == parts(out)
    assert json.loads(again[5])["value"] == {"id": 9, "raw": None}
    raw = [desk("consume", topic, "-e", "--json") for topic in ("typed", "typed-copy")]
    assert parts(raw[0]) == parts(raw[1][:5])
    assert desk("consume", "typed", "-e", "-S", "-w", "$.id>=3", "-f", "%i\\n") == [b"3"]
    assert desk("consume", "typed", "-e", "-w", "key=gone", "-f", "%i %k\\n") == [b"4 gone"]
    assert [line.split()[0] for line in desk("peek", "typed", "-w", "$.id<2")] == [
        b"INDEX",
        b"0",
        b"1",
    ]
    assert b'{"id": 1, "raw": {"bytes"' in desk("peek", "typed", "--from", "1", "-n", "1")[1]


def test_whole_messages_of_partitions_and_chunks_are_peeked(desk: Desk) -> None:
    with Admin(desk.url) as admin:
        admin.create_partitioned_topic("parted", 2)
        admin.create_subscription("parted", "billing", EARLIEST)
    chunking = {"batching_enabled": False, "chunking_enabled": True}
    producer = desk.client.create_producer("parted", **chunking)
    large = bytes(range(256)) * 4 * 6000  # more than a message may have
    for number in range(2):
        producer.send(b"small", partition_key=f"k{number}")
        producer.send(large, partition_key=f"k{number}")
    producer.close()
    for begin in (("-s", "billing"), ("--from", "earliest")):
        found = [json.loads(line) for line in desk("peek", "parted", *begin, "--json")]
        assert sorted(len(one.get("data") or one["data_base64"]) for one in found) == [
            *(5, 5),
            *[len(large) // 3 * 4] * 2,
        ]
        assert {one["topic"].rpartition("/")[2] for one in found} <= {
            "parted-partition-0",
            "parted-partition-1",
        }
