"""Numbers by RocketMQ's own names, of what its clients and Pulsar's do on one topic."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from compat.broker_process import BrokerProcess

from milepost.rocketmq import rocketmq_pb2 as pb


def sent(topic: str, body: bytes) -> pb.SendMessageRequest:
    properties = pb.SystemProperties(message_id="id")
    message = pb.Message(topic=pb.Resource(name=topic), system_properties=properties, body=body)
    return pb.SendMessageRequest(messages=[message])


def numbers(broker: BrokerProcess, name: str) -> dict[str, float]:
    """What the lines about a topic say; of a group, those of group g alone."""
    found = {}
    for line in broker.rest("GET", "/metrics")[1].decode().splitlines():
        if match := re.fullmatch(r"(rocketmq_\w+)\{(.*)\} (\S+)", line):
            labels = dict(re.findall(r'(\w+)="([^"]*)"', match[2]))
            if labels.get("topic") == name and labels.get("consumer_group", "g") == "g":
                assert labels["node_type"] == "broker"
                found[match[1]] = float(match[3])
    return found


def test_a_group_is_counted_over_all_queues(
    broker: BrokerProcess, raw: Any, make_topic: Callable[..., str], name: str
) -> None:
    make_topic(broker, name, partitions=2)
    for number in range(4):
        assert raw.code("SendMessage", sent(name, b"%d" % number)) == 20000
    taken: list[pb.Message] = []
    while len(taken) < 3:
        taken += raw.receive(name, "g", count=3 - len(taken))
    system = taken[0].system_properties
    entry = pb.AckMessageEntry(message_id=system.message_id, receipt_handle=system.receipt_handle)
    request = pb.AckMessageRequest(
        group=pb.Resource(name="g"), topic=pb.Resource(name=name), entries=[entry]
    )
    assert raw.code("AckMessage", request) == 20000
    deadline = time.monotonic() + 30
    while numbers(broker, name)["rocketmq_consumer_ready_messages"] != 1:
        assert time.monotonic() < deadline  # what no poll has taken is given back after a second
    found = numbers(broker, name)
    assert found.pop("rocketmq_consumer_lag_latency") > 0
    assert found.pop("rocketmq_throughput_in_total") > 4
    assert found.pop("rocketmq_throughput_out_total") > 3
    assert found.pop("rocketmq_messages_out_total") >= 3  # what no poll takes is sent again later
    assert found == {
        "rocketmq_messages_in_total": 4,
        "rocketmq_consumer_ready_messages": 1,
        "rocketmq_consumer_inflight_messages": 2,
        "rocketmq_consumer_lag_messages": 3,
    }


def test_the_broker_counts_what_has_no_topic(broker: BrokerProcess) -> None:
    text = broker.rest("GET", "/metrics")[1].decode()
    for name in ("topic_number", "half_messages", "commit_messages_total"):
        assert re.search(rf'^rocketmq_{name}{{cluster="[^"]+",node_id="milepost",', text, re.M)


def test_nothing_of_it_is_shown_while_it_is_off(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path) as process:
        assert "\nrocketmq_" not in process.rest("GET", "/metrics")[1].decode()
