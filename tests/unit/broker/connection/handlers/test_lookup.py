"""PARTITIONED_METADATA and LOOKUP. Errors go into the replies' own fields, or clients would wait."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from stage.stage import TOPIC, Stage
from stage.talk import error_of, request

from milepost.positions.names import TopicName
from milepost.wire import pulsar_pb2 as pb

MakeStage = Callable[..., Stage]
Response = pb.CommandLookupTopicResponse


def lookup(stage: Stage, topic: str, listener: str = "") -> pb.CommandLookupTopicResponse:
    command = pb.CommandLookupTopic(
        topic=topic, request_id=0, advertised_listener_name=listener or None
    )
    reply = request(stage, stage.client(), command)
    assert isinstance(reply, Response)
    return reply


def partitions(
    stage: Stage, topic: str, **fields: bool
) -> pb.CommandPartitionedTopicMetadataResponse:
    command = pb.CommandPartitionedTopicMetadata(topic=topic, request_id=0, **fields)
    reply = request(stage, stage.client(), command)
    assert isinstance(reply, pb.CommandPartitionedTopicMetadataResponse)
    return reply


def test_every_topic_is_served_here(make_stage: MakeStage) -> None:
    stage = make_stage(advertised_address="broker.example", port=1234)
    reply = lookup(stage, TOPIC)
    assert reply.response == Response.Connect
    assert reply.authoritative
    assert reply.brokerServiceUrl == "pulsar://broker.example:1234"
    assert stage.broker.counters.lookups == 1
    assert stage.broker.topics == {}  # asking opens nothing


def test_a_client_is_told_the_listener_that_it_names(make_stage: MakeStage) -> None:
    stage = make_stage(
        advertised_listeners="in:pulsar://10.0.0.7:6650,out:pulsar+ssl://mq.example.com:443"
    )
    told = lookup(stage, TOPIC, "out")
    assert (told.brokerServiceUrl, told.brokerServiceUrlTls) == (
        "",
        "pulsar+ssl://mq.example.com:443",
    )
    assert lookup(stage, TOPIC).brokerServiceUrl == "pulsar://10.0.0.7:6650"
    unknown = lookup(stage, TOPIC, "test")
    assert unknown.response == Response.Failed
    assert error_of(unknown) == "ServiceNotReady"
    # By these words the C++ client knows that asking again is of no use.
    assert "the broker do not have test listener" in unknown.message


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        ("persistent://nobody/default/t", "TopicNotFound"),
        ("persistent://public/nowhere/t", "TopicNotFound"),
        ("what://is/this", "InvalidTopicName"),
    ],
)
def test_a_wrong_name_is_refused_in_the_reply_of_its_kind(
    stage: Stage, topic: str, error: str
) -> None:
    reply = lookup(stage, topic)
    assert reply.response == Response.Failed
    assert error_of(reply) == error
    count = partitions(stage, topic)
    assert count.response == pb.CommandPartitionedTopicMetadataResponse.Failed
    assert error_of(count) == error


def test_a_topic_that_is_not_there_has_no_partitions_and_is_not_made(stage: Stage) -> None:
    reply = partitions(stage, TOPIC)
    assert error_of(reply) == ""
    assert reply.partitions == 0
    assert stage.broker.directory.row(TopicName.parse(TOPIC)) is None


def test_who_would_not_make_it_is_told_that_it_is_not_there(stage: Stage) -> None:
    """PIP-344."""

    def asked(topic: str) -> tuple[str, int]:
        reply = partitions(stage, topic, metadata_auto_creation_enabled=False)
        return error_of(reply), reply.partitions

    assert asked(TOPIC) == ("TopicNotFound", 0)
    assert asked("non-persistent://public/default/n") == ("TopicNotFound", 0)
    stage.topic()
    assert asked(TOPIC) == ("", 0)
    many = "persistent://public/default/many"
    stage.run(stage.broker.create_partitioned_topic(TopicName.parse(many), 2))
    assert asked(many) == ("", 2)
    assert asked(f"{many}-partition-1") == ("", 0)


def test_a_partitioned_topic_says_how_many(stage: Stage) -> None:
    stage.run(stage.broker.create_partitioned_topic(TopicName.parse(TOPIC), 3))
    assert partitions(stage, TOPIC).partitions == 3
    assert partitions(stage, f"{TOPIC}-partition-1").partitions == 0


def test_where_topics_are_partitioned_by_default_asking_makes_one(make_stage: MakeStage) -> None:
    stage = make_stage(allow_auto_topic_creation_type="partitioned", default_num_partitions=4)
    asked = partitions(stage, TOPIC, metadata_auto_creation_enabled=False)
    assert error_of(asked) == "TopicNotFound"
    assert partitions(stage, TOPIC).partitions == 4
    assert stage.restarted().broker.directory.partitions(TopicName.parse(TOPIC)) == 4


def test_two_who_ask_at_once_get_the_same_answer(make_stage: MakeStage) -> None:
    stage = make_stage(allow_auto_topic_creation_type="partitioned", default_num_partitions=4)
    first, second = stage.client(), stage.client()
    for client in (first, second):
        client.say(pb.CommandPartitionedTopicMetadata(topic=TOPIC, request_id=1))
    stage.turn()
    for client in (first, second):
        (reply,) = client.take()
        assert (error_of(reply), reply.partitions) == ("", 4)
