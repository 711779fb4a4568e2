"""What was set: checked, durable, told."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from stage.stage import TOPIC, Stage

from milepost.broker.policies.book import FOLDERS
from milepost.broker.policies.policy import Level
from milepost.broker.policies.table import POLICIES
from milepost.errors import InvalidPolicy, PolicyOutOfRange
from milepost.positions.names import TopicName

MakeStage = Callable[..., Stage]

NAMESPACE = "public/default"
NAME = TopicName.parse(TOPIC)
TTL = POLICIES["message_ttl"]


def set_(stage: Stage, level: Level, name: str, policy: str, value: object) -> None:
    stage.run(stage.broker.policies.book.set(level, name, POLICIES[policy], value))


def test_a_topic_overrules_its_namespace(stage: Stage) -> None:
    book = stage.broker.policies.book
    set_(stage, Level.NAMESPACE, NAMESPACE, "message_ttl", 60)
    assert book.of(NAME).message_ttl_s == 60
    set_(stage, Level.TOPIC, TOPIC, "message_ttl", 5)
    assert book.of(NAME).message_ttl_s == 5
    stage.run(book.set(Level.TOPIC, TOPIC, TTL, None))
    assert book.of(NAME).message_ttl_s == 60
    set_(stage, Level.NAMESPACE, NAMESPACE, "message_ttl", None)
    assert book.of(NAME).message_ttl_s == 0


def test_topics_that_set_nothing_share_what_their_namespace_has(stage: Stage) -> None:
    """It is made once: opening a thousand topics took longer for their policies than for all else."""
    book, other = stage.broker.policies.book, TopicName.parse(f"{TOPIC}-2")
    assert book.of(NAME) is book.of(other)
    set_(stage, Level.NAMESPACE, NAMESPACE, "message_ttl", 60)
    assert book.of(NAME) is book.of(other)
    assert book.of(other).message_ttl_s == 60
    set_(stage, Level.TOPIC, TOPIC, "message_ttl", 5)
    assert (book.of(NAME).message_ttl_s, book.of(other).message_ttl_s) == (5, 60)
    stage.run(stage.broker.dynamic.set("maxProducersPerTopic", "7"))
    assert {book.of(name).max_producers for name in (NAME, other)} == {7}
    set_(stage, Level.NAMESPACE, NAMESPACE, "message_ttl", None)
    assert book.of(other).message_ttl_s == 0


def test_partitions_have_the_policies_of_the_whole(stage: Stage) -> None:
    set_(stage, Level.TOPIC, TOPIC, "message_ttl", 5)
    partition = TopicName.parse(f"{TOPIC}-partition-3")
    assert stage.broker.policies.book.of(partition).message_ttl_s == 5


def test_what_was_set_survives(stage: Stage) -> None:
    set_(stage, Level.NAMESPACE, NAMESPACE, "max_producers", 3)
    set_(stage, Level.TOPIC, TOPIC, "message_ttl", 5)
    policies = stage.restarted().broker.policies.book.of(NAME)
    assert (policies.max_producers, policies.message_ttl_s) == (3, 5)


def test_two_changes_at_once_are_both_made(stage: Stage) -> None:
    book = stage.broker.policies.book
    for policy, value in (("message_ttl", 5), ("max_producers", 3)):
        stage.loop.begin(book.set(Level.NAMESPACE, NAMESPACE, POLICIES[policy], value))
    stage.turn()
    for policies in (book.of(NAME), stage.restarted().broker.policies.book.of(NAME)):
        assert (policies.max_producers, policies.message_ttl_s) == (3, 5)


@pytest.mark.parametrize(
    ("policy", "value", "error"),
    [
        ("message_ttl", -1, PolicyOutOfRange),
        ("message_ttl", "one", InvalidPolicy),
        ("retention", {"retentionTimeInMinutes": 1}, InvalidPolicy),
        ("max_message_size", 2**30, PolicyOutOfRange),
    ],
)
def test_what_is_refused_changes_nothing(
    stage: Stage, policy: str, value: object, error: type[Exception]
) -> None:
    topic = stage.topic()
    before = topic.policies
    book = stage.broker.policies.book
    route = POLICIES[policy].topic
    assert route is not None
    with pytest.raises(error, match=route.path):
        set_(stage, Level.TOPIC, TOPIC, policy, value)
    assert topic.policies == before
    assert not book.values(Level.TOPIC, TOPIC)


def test_a_value_may_mean_that_there_is_none(stage: Stage) -> None:
    book = stage.broker.policies.book
    set_(stage, Level.NAMESPACE, NAMESPACE, "schema_compatibility", "FORWARD")
    set_(stage, Level.TOPIC, TOPIC, "schema_compatibility", "BACKWARD")
    set_(stage, Level.TOPIC, TOPIC, "schema_compatibility", "UNDEFINED")
    assert book.of(NAME).schema_compatibility == "FORWARD"


def test_whoever_is_deleted_is_forgotten(stage: Stage) -> None:
    book = stage.broker.policies.book
    set_(stage, Level.TOPIC, TOPIC, "message_ttl", 5)
    stage.run(book.forget(Level.TOPIC, TOPIC))
    assert book.of(NAME).message_ttl_s == 0
    assert stage.restarted().broker.policies.book.of(NAME).message_ttl_s == 0


def test_nothing_set_leaves_nothing_behind(stage: Stage) -> None:
    set_(stage, Level.TOPIC, TOPIC, "message_ttl", 5)
    set_(stage, Level.TOPIC, TOPIC, "message_ttl", None)
    assert not stage.store.catalog.docs(FOLDERS[Level.TOPIC])


def test_namespaces_decide_about_new_topics(make_stage: MakeStage) -> None:
    stage = make_stage(max_topics_per_namespace=1)
    book = stage.broker.policies.book
    assert book.auto_topics(NAME.namespace).allowed
    assert book.max_topics(NAME.namespace) == 1
    set_(stage, Level.NAMESPACE, NAMESPACE, "max_topics", 0)
    set_(
        stage, Level.NAMESPACE, NAMESPACE, "auto_topic_creation", {"allowAutoTopicCreation": False}
    )
    assert not book.auto_topics(NAME.namespace).allowed
    assert book.max_topics(NAME.namespace) == 0


def test_a_changed_setting_decides_about_new_topics_too(stage: Stage) -> None:
    book = stage.broker.policies.book
    assert book.auto_topics(NAME.namespace) is book.auto_topics(NAME.namespace)
    stage.run(stage.broker.dynamic.set("allowAutoTopicCreation", "false"))
    assert not book.auto_topics(NAME.namespace).allowed
