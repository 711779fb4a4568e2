"""Consumers of a pattern: they find the topics that are there, and those that come."""

from __future__ import annotations

import re
from typing import Any

import pulsar
import pytest
from compat.broker_process import BrokerProcess
from compat.raw_client import RawClient
from compat.talk import RECEIVE_MS, send_all

from milepost.broker.directory.topic_watchers import topics_hash
from milepost.wire import pulsar_pb2 as pb

# The wheel takes `pattern_auto_discovery_period` and does not pass it on: it looks once a minute.
DISCOVERY_MS = 75_000


@pytest.mark.slow
def test_a_pattern_finds_topics_that_are_there_and_new_ones(
    client: pulsar.Client, broker: BrokerProcess, topic: str
) -> None:
    client.create_producer(f"{topic}-a").close()
    broker.create_partitioned_topic(f"{topic}-parts", 2)
    consumer = client.subscribe(
        re.compile(f"{topic}-.*"), "s", initial_position=pulsar.InitialPosition.Earliest
    )
    for name in ("a", "parts", "new"):
        send_all(client.create_producer(f"{topic}-{name}"), [name.encode()] * 3)
    client.create_producer(f"{topic.replace('default/', 'default/x')}-a").send(b"another topic")
    found = [consumer.receive(RECEIVE_MS).data() for _ in range(6)]
    assert sorted(found) == [b"a"] * 3 + [b"parts"] * 3
    assert [consumer.receive(DISCOVERY_MS).data() for _ in range(3)] == [b"new"] * 3


def test_a_watcher_is_told(broker: BrokerProcess, client: pulsar.Client, topic: str) -> None:
    """As Java clients do it; the C++ client asks again and again."""
    client.create_producer(f"{topic}-a").close()
    with RawClient(broker.port) as raw:
        command = pb.CommandWatchTopicList(
            request_id=0,
            watcher_id=1,
            namespace="public/default",
            topics_pattern=f".*{topic.rpartition('/')[2][-20:]}-.*",
        )
        found: Any = raw.request(command)
        assert list(found.topic) == [f"{topic}-a"]
        client.create_producer(f"{topic}-b").close()
        update = raw.expect(pb.CommandWatchTopicUpdate)
        assert list(update.new_topics) == [f"{topic}-b"]
        assert update.topics_hash == topics_hash([f"{topic}-a", f"{topic}-b"])
