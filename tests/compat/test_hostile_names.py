"""Names of topics and subscriptions, and what else SUBSCRIBE may ask. See test_hostile.py."""

from __future__ import annotations

from typing import Any

import pytest
from compat.broker_process import BrokerProcess
from compat.hostile import (
    SETTINGS,
    backlog,
    everyone_else_is_served,
    id_data,
    neighbour,
    publish,
    subscribe,
    subscribed,
)
from compat.line import Line

from milepost.wire import pulsar_pb2 as pb

__all__ = ["SETTINGS", "everyone_else_is_served", "neighbour"]

# -- names -------------------------------------------------------------------------------------------

SUBSCRIPTION_NAMES: dict[str, tuple[str, int | None]] = {
    # As upstream: the C++ client has a case for this code.
    "empty": ("", pb.ProducerBusy),
    "64 KiB": ("s" * 65536, pb.NotAllowedError),
    "NUL": ("a\0b", pb.NotAllowedError),
    "a line break": ("a\nb", pb.NotAllowedError),
    "an escape": ("a\x1b[2Jb", pb.NotAllowedError),
    "a C1 control": ("a\x9bb", pb.NotAllowedError),
    "text that turns round": ("a\u202eb", pb.NotAllowedError),
    "a line separator": ("a\u2028b", pb.NotAllowedError),
    # Decided: a slash is allowed, as upstream has it. Nothing is filed under the name.
    "a slash": ("team/reports", None),
    "dots": ("..", None),
    "letters of the world": ("abonnés-订阅", None),
}


@pytest.mark.parametrize("name", SUBSCRIPTION_NAMES)
def test_the_name_of_a_subscription(broker: BrokerProcess, topic: str, name: str) -> None:
    text, code = SUBSCRIPTION_NAMES[name]
    with Line(broker.port_of(topic)) as line:
        subscribe(line, topic, subscription=text)
        if code is None:
            line.hear(pb.CommandSuccess)
        else:
            assert line.hear(pb.CommandError).error == code
        # A producer may ask for one to be made as well.
        if text:
            line.say(
                pb.CommandProducer(
                    topic=topic, producer_id=1, request_id=2, initial_subscription_name=text
                )
            )
            if code is None:
                line.hear(pb.CommandProducerSuccess)
            else:
                assert line.hear(pb.CommandError).error == code
        assert line.is_alive()


def sticky(*ranges: tuple[int, int]) -> dict[str, Any]:
    return {
        "subType": pb.CommandSubscribe.Key_Shared,
        "keySharedMeta": pb.KeySharedMeta(
            keySharedMode=pb.STICKY, hashRanges=[pb.IntRange(start=a, end=b) for a, b in ranges]
        ),
    }


BAD_SUBSCRIBES: dict[str, tuple[dict[str, Any], int]] = {
    "ranges that overlap": (sticky((0, 100), (100, 200)), pb.ConsumerAssignError),
    "a range from below 0": (sticky((-1, 100)), pb.ConsumerAssignError),
    "a range beyond the last slot": (sticky((0, 65536)), pb.ConsumerAssignError),
    "a range that runs backwards": (sticky((200, 100)), pb.ConsumerAssignError),
    "sticky without a range": (sticky(), pb.ConsumerAssignError),
    "a priority below 0": ({"priority_level": -5}, pb.NotAllowedError),
    "a priority beyond all": ({"priority_level": 2**31 - 1}, pb.NotAllowedError),
}


@pytest.mark.parametrize("name", BAD_SUBSCRIBES)
def test_a_subscribe_that_cannot_be_obeyed(broker: BrokerProcess, topic: str, name: str) -> None:
    options, code = BAD_SUBSCRIBES[name]
    with Line(broker.port_of(topic)) as line:
        subscribe(line, topic, **options)
        assert line.hear(pb.CommandError).error == code
        # It is as if it had not been asked.
        subscribed(line, topic)
        assert line.is_alive()


def test_a_subscription_of_another_type(broker: BrokerProcess, topic: str) -> None:
    with Line(broker.port_of(topic)) as line, Line(broker.port_of(topic)) as other:
        subscribed(line, topic, subType=pb.CommandSubscribe.Exclusive)
        for sub_type in (
            pb.CommandSubscribe.Exclusive,
            pb.CommandSubscribe.Shared,
            pb.CommandSubscribe.Failover,
            pb.CommandSubscribe.Key_Shared,
        ):
            subscribe(other, topic, subType=sub_type)
            assert other.hear(pb.CommandError).error == pb.ConsumerBusy
        assert other.is_alive()
        assert line.is_alive()


@pytest.mark.parametrize(
    ("ledger_id", "entry_id", "expected"),
    [(-1, -1, 3), (-7, 9, 3), (0, 0, 3), (2**63 - 1, 2**63 - 1, 0), (2**62, -1, 0)],
)
def test_a_reader_that_starts_nowhere(
    broker: BrokerProcess, topic: str, ledger_id: int, entry_id: int, expected: int
) -> None:
    with Line(broker.port_of(topic)) as line:
        publish(line, topic, 3)
        subscribed(
            line,
            topic,
            subType=pb.CommandSubscribe.Exclusive,
            durable=False,
            start_message_id=id_data(ledger_id, entry_id),
        )
        assert backlog(line) == expected


TOPIC_NAMES = {
    "nothing": "",
    "blank before": " persistent://public/default/t",
    "blank behind": "persistent://public/default/t ",
    "blank around the topic": "persistent://public/default/ t",
    "dots": "persistent://public/default/..",
    "dots for a tenant": "persistent://../default/t",
    "too long": "persistent://public/default/" + "t" * 4096,
    "too few parts": "persistent://public/t",
    "too many parts": "persistent://public/cluster/default/t",
    "capitals in the scheme": "Persistent://public/default/t",
    "another scheme": "file:///etc/passwd",
    "a line break": "persistent://public/default/a\nb",
    "NUL": "persistent://public/default/a\0b",
    "text that turns round": "persistent://public/default/a\u202eb",
}


@pytest.mark.parametrize("name", TOPIC_NAMES)
def test_the_name_of_a_topic(broker: BrokerProcess, name: str) -> None:
    text = TOPIC_NAMES[name]
    with Line(broker.port) as line:
        line.say(pb.CommandLookupTopic(topic=text, request_id=1))
        assert line.hear(pb.CommandLookupTopicResponse).error == pb.InvalidTopicName
        line.say(pb.CommandPartitionedTopicMetadata(topic=text, request_id=2))
        answer = line.hear(pb.CommandPartitionedTopicMetadataResponse)
        assert answer.error == pb.InvalidTopicName
        assert len(answer.message) < 1000
        line.say(pb.CommandProducer(topic=text, producer_id=1, request_id=3))
        assert line.hear(pb.CommandError).error == pb.InvalidTopicName
        subscribe(line, text)
        assert line.hear(pb.CommandError).error == pb.InvalidTopicName
        assert line.is_alive()


def test_partitions_that_do_not_exist(broker: BrokerProcess, topic: str) -> None:
    """`-partition-x` ends the name of an ordinary topic, as upstream has it. Decided: so does a number
    of a topic that has no partitions; one beyond those that a topic has is refused."""
    broker.create_partitioned_topic(f"{topic}-p", 2)
    for name in (f"{topic}-partition-x", f"{topic}-partition-01", f"{topic}-partition-99999"):
        with Line(broker.port_of(name)) as line:
            line.say(pb.CommandProducer(topic=name, producer_id=1, request_id=1))
            line.hear(pb.CommandProducerSuccess)
            line.say(pb.CommandCloseProducer(producer_id=1, request_id=2))
            line.hear(pb.CommandSuccess)
    with Line(broker.port_of(f"{topic}-p")) as line:
        for number in (2, 99999):
            line.say(
                pb.CommandProducer(
                    topic=f"{topic}-p-partition-{number}", producer_id=1, request_id=1
                )
            )
            assert line.hear(pb.CommandError).error == pb.TopicNotFound
