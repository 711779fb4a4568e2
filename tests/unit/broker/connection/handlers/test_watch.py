"""WATCH_TOPIC_LIST and its close."""

from __future__ import annotations

from typing import Any

from stage.stage import TOPIC, Stage
from stage.talk import error_of, request

from milepost.broker.directory.topic_watchers import topics_hash
from milepost.positions.names import TopicName
from milepost.wire import pulsar_pb2 as pb

OTHER = "persistent://public/default/other"


def watch(stage: Stage, client: Any, pattern: str = ".*/other.*", **fields: Any) -> Any:
    command = pb.CommandWatchTopicList(
        request_id=0, watcher_id=3, namespace="public/default", topics_pattern=pattern, **fields
    )
    return request(stage, client, command)


def test_who_watches_hears_of_new_topics(stage: Stage) -> None:
    stage.topic()
    stage.topic(OTHER)
    client = stage.client()
    reply = watch(stage, client)
    assert isinstance(reply, pb.CommandWatchTopicListSuccess)
    assert (list(reply.topic), reply.topics_hash) == ([OTHER], topics_hash([OTHER]))
    stage.run(stage.broker.create_partitioned_topic(TopicName.parse(f"{OTHER}-2"), 2))
    stage.turn()
    parts = [f"{OTHER}-2-partition-{number}" for number in (0, 1)]
    assert client.take() == [
        pb.CommandWatchTopicUpdate(
            watcher_id=3, new_topics=parts, topics_hash=topics_hash([OTHER, *parts])
        )
    ]


def test_a_client_that_knows_the_hash_is_not_told_again(stage: Stage) -> None:
    stage.topic(OTHER)
    reply = watch(stage, stage.client(), topics_hash=topics_hash([OTHER]))
    assert list(reply.topic) == []


def test_a_bad_pattern_is_refused_and_the_connection_goes_on(stage: Stage) -> None:
    client = stage.client()
    assert error_of(watch(stage, client, "(")) != ""
    assert isinstance(watch(stage, client), pb.CommandWatchTopicListSuccess)


def test_after_the_close_nothing_comes(stage: Stage) -> None:
    client, lost = stage.client(), stage.client()
    watch(stage, client)
    watch(stage, lost)
    for _ in range(2):
        closing = pb.CommandWatchTopicListClose(request_id=0, watcher_id=3)
        assert error_of(request(stage, client, closing)) == ""
    lost.session.lost()
    stage.topic(OTHER)
    stage.turn()
    assert client.take() == []
    assert len(stage.broker.watchers) == 0


def test_topics_of_a_namespace_by_pattern(stage: Stage) -> None:
    stage.topic()
    stage.topic(OTHER)
    for pattern, names, filtered in [
        (".*/other", [OTHER], True),
        ("(", [TOPIC, OTHER], False),  # the client's to judge
        ("x" * 51, [TOPIC, OTHER], False),
    ]:
        command = pb.CommandGetTopicsOfNamespace(
            request_id=0, namespace="public/default", topics_pattern=pattern
        )
        reply = request(stage, stage.client(), command)
        assert isinstance(reply, pb.CommandGetTopicsOfNamespaceResponse)
        assert sorted(reply.topics) == sorted(names)
        assert reply.filtered == filtered
