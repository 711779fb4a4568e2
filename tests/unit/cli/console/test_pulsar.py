"""The console's answers for an Apache Pulsar, made from Pulsar's REST as Milepost speaks it.

A Milepost that is taken for an Apache Pulsar tells what that tells; its own progress says what is true.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any, cast
from urllib.parse import quote

import pytest
from unit.cli.console.test_console import ask, served

import milepost as pulsar
from milepost import testing
from milepost.admin import Admin
from milepost.admin.calls import Calls
from milepost.admin.errors import ServerFault
from milepost.admin.face import SyncFace
from milepost.admin.request import Answer, Request
from milepost.admin.transport import HttpTransport
from milepost.cli.console import pulsar_reset
from milepost.errors import PreconditionFailed

TOPIC = "persistent://public/default/orders"
PATH = "/milepost/v1/topics/public/default/orders"
COUNT = 120


class Stage:
    def __init__(self, port: int, client: pulsar.Client, admin: Admin, url: str) -> None:
        self.port = port
        self.url = url
        self.client = client
        self.admin = admin

    def get(self, path: str, status: int = 200) -> Any:
        found, _, body = ask(self.port, "GET", path)
        assert found == status, body
        return json.loads(body)

    def post(self, path: str, asked: Any, status: int = 200) -> Any:
        body = asked if isinstance(asked, bytes) else json.dumps(asked).encode()
        found, _, told = ask(self.port, "POST", path, body)
        assert found == status, told
        return json.loads(told)


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with (
        testing.broker(http=True, ledger_entries_max=50) as broker,
        served(broker.http_url, is_pulsar=True) as port,
        pulsar.Client(broker.url) as client,
        Admin(broker.http_url) as admin,
    ):
        producer = client.create_producer(TOPIC, batching_enabled=False)
        consumer = client.subscribe(
            TOPIC,
            "holes",
            consumer_type=pulsar.ConsumerType.Shared,
            initial_position=pulsar.InitialPosition.Earliest,
        )
        client.subscribe(TOPIC, "archive", initial_position=pulsar.InitialPosition.Earliest).close()
        for number in range(COUNT):
            producer.send(
                b'{"n":%d}' % number, partition_key=f"k{number % 5}", properties={"n": str(number)}
            )
        taken = [consumer.receive(timeout_millis=60_000) for _ in range(COUNT)]
        chance = random.Random(19)
        consumer.acknowledge([one for one in taken if chance.random() < 0.6])
        yield Stage(port, client, admin, broker.http_url)


def test_the_strip_has_the_entries_that_are_acked(stage: Stage) -> None:
    truth = stage.admin.get_strip(TOPIC, "holes", columns=COUNT)
    whole = stage.get(f"{PATH}/subscriptions/holes/strip?columns={COUNT}")
    assert whole["acked"] == truth["acked"]
    assert [1 - one for one in whole["acked"]] == whole["ready"]
    for first, end, columns in ((0, COUNT, 7), (30, 77, 10), (100, COUNT + 9, 60)):
        query = f"first={first}&end={end}&columns={columns}"
        found = stage.get(f"{PATH}/subscriptions/holes/strip?{query}")
        told = stage.admin.get_strip(TOPIC, "holes", first=first, end=end, columns=columns)
        assert found["acked"] == told["acked"]
        unacked = [sum(one) for one in zip(told["ready"], told["inflight"], strict=True)]
        assert found["ready"] == unacked


def test_progress_and_overview_say_what_is_not_acked_and_why(stage: Stage) -> None:
    (truth,) = stage.admin.get_progress(TOPIC, subscription="holes")
    lines = {one["subscription"]: one for one in stage.get(f"{PATH}/progress")["subscriptions"]}
    line = lines["holes"]
    for name in ("first", "end", "acked", "backlog", "mark_delete_index", "holes"):
        assert line[name] == truth[name], name
    assert [one["name"] for one in line["consumers"]] == [one["name"] for one in truth["consumers"]]
    assert lines["archive"]["verdict"] == "NO_CONSUMER"
    overview = stage.get("/milepost/v1/overview?limit=10")
    assert (overview["topics"], overview["subscriptions"]) == (1, 2)
    assert overview["is_complete"]
    assert {one["subscription"] for one in overview["lines"]} == {"holes", "archive"}
    assert stage.get("/milepost/v1/namespaces/public/default/overview")["topics"] == 1
    (listed,) = stage.get("/milepost/v1/topics?search=ord")["topics"]
    assert (listed["name"], listed["subscriptions"], listed["messages"]) == (TOPIC, 2, None)
    assert stage.get("/milepost/v1/topics?search=none")["found"] == 0


def test_messages_by_entry_id_and_time_with_filters(stage: Stage) -> None:
    found = stage.get(f"{PATH}/messages?index=49&count=3")
    assert [one["index"] for one in found["messages"]] == [49, 50, 51]
    assert [one["properties"]["n"] for one in found["messages"]] == ["49", "50", "51"]
    assert found["next"] == 52
    at = stage.admin.get_message_id_by_index(TOPIC, 100)
    (by_id,) = stage.get(f"{PATH}/messages?id={at.ledger_id}:{at.entry_id}&count=1")["messages"]
    assert by_id["index"] == 100
    by_time = stage.get(f"{PATH}/messages?time={by_id['came_ms']}&count=1")["messages"]
    assert abs(by_time[0]["came_ms"] - by_id["came_ms"]) <= 1
    filtered = stage.get(f"{PATH}/messages?key=k3&property={quote('n=11')}&content=113")
    assert [one["index"] for one in filtered["messages"]] == [113]
    assert stage.get(f"{PATH}/messages?index={2**53}&count=1")["messages"] == []
    status, headers, body = ask(stage.port, "GET", f"{PATH}/messages/7/payload?batch=0")
    assert (status, body) == (200, b'{"n":7}')
    assert headers["content-type"] == "application/octet-stream"
    assert stage.get(f"{PATH}/messages/{COUNT}/payload", 404)["reason"].startswith(TOPIC)
    refusal = stage.get(f"{PATH}/messages/7/payload?batch=1", 404)["reason"]
    assert "entry 7 has 1 messages, none is 1" in refusal


def test_the_payload_of_a_chunked_message_is_whole_or_refused(stage: Stage) -> None:
    payload = bytes(range(256)) * 40
    producer = stage.client.create_producer(
        "chunked", batching_enabled=False, chunking_enabled=True, chunk_max_size=4096
    )
    producer.send(payload)
    path = "/milepost/v1/topics/public/default/chunked"
    (shown,) = stage.get(f"{path}/messages")["messages"]
    last = shown["index"]
    assert last == shown["chunks"] - 1 > 0
    status, _, body = ask(stage.port, "GET", f"{path}/messages/{last}/payload")
    assert (status, body) == (200, payload)
    refusal = stage.get(f"{path}/messages/{last - 1}/payload", 404)["reason"]
    assert f"at entry {last - 1} {last} of {last + 1} chunks are found" in refusal
    producer.close()
    stage.admin.delete_topic("persistent://public/default/chunked")


def test_a_batch_is_split_and_a_chunked_message_is_one(stage: Stage) -> None:
    producer = stage.client.create_producer(
        "mixed", batching_enabled=True, batching_max_publish_delay_ms=10_000
    )
    for number in range(3):
        producer.send_async(b"%d" % number, None)
    producer.flush()
    big = bytes(range(256)) * 30_000
    chunked = stage.client.create_producer("mixed", chunking_enabled=True, batching_enabled=False)
    chunked.send(big)
    path = "/milepost/v1/topics/public/default/mixed"
    found = stage.get(f"{path}/messages?payload_max=10")["messages"]
    assert [(one["index"], one["batch_size"]) for one in found[:3]] == [(0, 3)] * 3
    whole = found[3]
    assert (whole["size"], whole["is_cut"], len(found)) == (len(big), True, 4)
    assert ask(stage.port, "GET", f"{path}{whole['payload_path']}")[2] == big
    # Begun in the middle, a chunk is shown as it lies.
    (rest,) = stage.get(f"{path}/messages?index=2&payload_max=10")["messages"]
    assert rest["fault"]
    for one in (producer, chunked):
        one.close()
    stage.admin.delete_topic("persistent://public/default/mixed")


def test_a_reset_is_counted_before_and_then_done(stage: Stage) -> None:
    stage.admin.create_subscription(TOPIC, "moved")
    path = f"{PATH}/subscriptions/moved/reset"
    stage.post(path, {"position": "earliest"})
    seen = stage.post(path, {"index": 60, "dry_run": True})
    assert (seen["redelivered"], seen["skipped"], seen["dry_run"]) == (0, 60, True)
    assert stage.admin.get_progress(TOPIC, subscription="moved")[0]["backlog"] == COUNT
    assert stage.post(path, {"index": 70, "expected": 5}, 412)["reason"].endswith("and not 5")
    done = stage.post(path, {"index": 60, "expected": 0})
    assert done["moves"][0]["to"] == 60
    assert stage.admin.get_progress(TOPIC, subscription="moved")[0]["backlog"] == COUNT - 60
    at = stage.admin.get_message_id_by_index(TOPIC, 20)
    again = stage.post(path, {"id": f"{at.ledger_id}:{at.entry_id}"})
    assert (again["redelivered"], again["skipped"]) == (40, 0)
    stage.post(path, {"position": "latest"})
    assert stage.admin.get_progress(TOPIC, subscription="moved")[0]["backlog"] == 0
    stage.admin.delete_subscription(TOPIC, "moved")


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        (b"{", 400),
        (b"[]", 400),
        ({}, 400),
        ({"index": -1}, 400),
        ({"index": "x"}, 400),
        ({"index": True}, 400),
        ({"index": 1.5}, 400),
        ({"time": -1}, 400),
        ({"id": "no id"}, 400),
        ({"id": ""}, 400),
        ({"id": 7}, 400),
        ({"position": "middle"}, 400),
        ({"position": ["earliest"]}, 400),
        ({"position": "latest", "index": 3}, 400),
        ({"index": 3, "id": "1:1"}, 400),
    ],
)
def test_a_bad_reset_is_refused_by_name(stage: Stage, asked: Any, status: int) -> None:
    path = f"{PATH}/subscriptions/archive/reset"
    body = asked if isinstance(asked, bytes) else {**asked, "dry_run": True}
    assert stage.post(path, body, status)["reason"]


class Unloading(HttpTransport):
    """The way to a broker that refuses to reset one partition, which is being unloaded."""

    def exchange(self, request: Request) -> Answer:
        if "-partition-1/" in request.path and request.path.endswith("/resetcursor"):
            raise ServerFault(request.path, "http://pulsar", 503, "it is being unloaded")
        return super().exchange(request)


class Reached(Calls, SyncFace):
    """An admin client by a way of its own."""


def test_a_reset_that_stops_half_way_says_how_far_it_came(stage: Stage) -> None:
    topic = "persistent://public/default/split"
    stage.admin.create_partitioned_topic(topic, 3)
    for partition in range(3):
        name = f"{topic}-partition-{partition}"
        producer = stage.client.create_producer(name)
        producer.send(b"one")
        producer.close()
        stage.admin.create_subscription(name, "g")
    try:
        admin = cast("Admin", Reached(Unloading(stage.url)))
        with pytest.raises(PreconditionFailed, match=r"1 of 3 partitions .*-1 is not: .*unloaded"):
            pulsar_reset.reset(admin, topic, "g", {"position": "earliest"})
        admin.close()
        backlogs = [one["backlog"] for one in stage.admin.get_progress(topic, subscription="g")]
        assert sorted(backlogs) == [0, 0, 1]
    finally:
        stage.admin.delete_partitioned_topic(topic, force=True)


def test_what_is_not_there_is_a_404_and_bad_numbers_a_400(stage: Stage) -> None:
    none = "/milepost/v1/topics/public/default/none"
    for path in (f"{none}/progress", f"{none}/messages", f"{PATH}/subscriptions/none/strip"):
        assert stage.get(path, 404)["reason"]
    assert stage.get("/openapi.json", 404)["reason"]
    assert stage.get("/milepost/v1/what", 404)["reason"]
    for query in ("first=x", "first=5&end=2", "columns=-1", "end=99999999999999999999999"):
        assert stage.get(f"{PATH}/subscriptions/holes/strip?{query}", 400)["reason"]
    assert stage.post("/admin/v2/tenants/none", {}, 404)["reason"]


def test_a_read_only_console_passes_no_change_on() -> None:
    with (
        testing.broker(http=True) as broker,
        served(broker.http_url, read_only=True) as plain,
        served(broker.http_url, is_pulsar=True, read_only=True) as like_pulsar,
    ):
        for port in (plain, like_pulsar):
            assert json.loads(ask(port, "GET", "/milepost/v1/session")[2])["read_only"] is True
            status, _, told = ask(port, "POST", f"{PATH}/subscriptions/a/reset", b"{}")
            assert (status, "--read-only" in str(told)) == (403, True)
