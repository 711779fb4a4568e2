"""The official client with an `http://` service URL: lookup, partitions and topic lists over HTTP."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.conftest import Serving

pulsar = pytest.importorskip("pulsar")


@pytest.fixture
def client(serving: Serving) -> Iterator[Any]:
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(serving.ready["http_url"], operation_timeout_seconds=10, logger=quiet)
    yield client
    client.close()


def make_partitioned(serving: Serving, topic: str, partitions: int) -> int:
    url = f"{serving.ready['http_url']}/admin/v2/persistent/public/default/{topic}/partitions"
    headers = {"content-type": "application/json"}
    body = str(partitions).encode()
    request = urllib.request.Request(url, body, headers, method="PUT")
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            status: int = answer.status
            return status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_a_message_there_and_back(client: Any) -> None:
    consumer = client.subscribe("orders", "billing")
    client.create_producer("orders").send(b"one coffee")
    message = consumer.receive(timeout_millis=10_000)
    assert message.data() == b"one coffee"
    consumer.acknowledge(message)


def test_partitions_are_found(serving: Serving, client: Any) -> None:
    assert make_partitioned(serving, "orders", 3) == 204
    assert make_partitioned(serving, "orders", 3) == 409
    names = client.get_topic_partitions("orders")
    assert names == [f"persistent://public/default/orders-partition-{n}" for n in range(3)]


def test_a_pattern_finds_topics(serving: Serving, client: Any) -> None:
    for topic in ("orders-eu", "orders-us", "refunds"):
        client.create_producer(topic).send(topic.encode())
    consumer = client.subscribe(
        re.compile("persistent://public/default/orders-.*"),
        "billing",
        initial_position=pulsar.InitialPosition.Earliest,
    )
    found = {consumer.receive(timeout_millis=10_000).data() for _ in range(2)}
    assert found == {b"orders-eu", b"orders-us"}
