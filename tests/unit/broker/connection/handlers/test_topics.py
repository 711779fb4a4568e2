"""GET_TOPICS_OF_NAMESPACE."""

from __future__ import annotations

from stage.stage import TOPIC, Stage
from stage.talk import request

from milepost.positions.names import TopicName
from milepost.wire import pulsar_pb2 as pb

OTHER = "persistent://public/default/other"
Mode = pb.CommandGetTopicsOfNamespace


def topics(stage: Stage, **fields: object) -> pb.CommandGetTopicsOfNamespaceResponse:
    fields.setdefault("namespace", "public/default")
    command = pb.CommandGetTopicsOfNamespace(request_id=0, **fields)  # type: ignore[arg-type]
    reply = request(stage, stage.client(), command)
    assert isinstance(reply, pb.CommandGetTopicsOfNamespaceResponse)
    return reply


def test_topics_are_listed_partitions_each_by_its_name(stage: Stage) -> None:
    stage.topic(OTHER)
    stage.run(stage.broker.create_partitioned_topic(TopicName.parse(TOPIC), 2))
    reply = topics(stage)
    assert reply.topics == [OTHER, f"{TOPIC}-partition-0", f"{TOPIC}-partition-1"]
    assert reply.changed
    assert not reply.filtered
    assert topics(stage, mode=Mode.ALL).topics == reply.topics
    assert topics(stage, mode=Mode.NON_PERSISTENT).topics == []


def test_a_client_that_knows_the_hash_is_told_only_that_nothing_changed(stage: Stage) -> None:
    stage.topic(OTHER)
    known = topics(stage).topics_hash
    again = topics(stage, topics_hash=known)
    assert (again.topics, again.changed, again.topics_hash) == ([], False, known)
    stage.topic()
    changed = topics(stage, topics_hash=known)
    assert changed.changed
    assert changed.topics == [OTHER, TOPIC]
    assert changed.topics_hash != known


def test_the_hash_is_upstreams(stage: Stage) -> None:
    """CRC32C over the sorted names joined by commas, as text."""
    stage.topic(OTHER)
    stage.topic()
    assert topics(stage).topics_hash == "24fea4de"
    assert topics(stage, namespace="public/none").topics_hash == "0"


def test_a_namespace_that_is_not_there_has_none(stage: Stage) -> None:
    assert topics(stage, namespace="public/none").topics == []
