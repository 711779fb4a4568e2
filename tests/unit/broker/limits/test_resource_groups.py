"""Resource groups: one bucket for all topics of a group, beside each topic's own."""

from __future__ import annotations

import pytest
from stage.frames import message
from stage.stage import Stage
from stage.talk import produce

from milepost.broker.limits.resource_groups import COUNT_MAX, FOLDER
from milepost.broker.policies.policy import Level
from milepost.broker.policies.table import POLICIES
from milepost.errors import InvalidInput, NotFound, PolicyOutOfRange, TooManyRequests
from milepost.testing.peer import Loopback

A, B = "persistent://public/default/a", "persistent://public/default/b"


@pytest.fixture
def stage(stage: Stage) -> Stage:
    """`public/default` is in a group of ten messages a second."""
    policies = stage.broker.policies
    stage.run(policies.groups.put("g", {"publishRateInMsgs": 10, "dispatchRateInMsgs": 4}))
    policy = POLICIES["resource_group"]
    stage.run(policies.book.set(Level.NAMESPACE, "public/default", policy, "g"))
    return stage


def publish(stage: Stage, client: Loopback, count: int) -> None:
    client.say(*(message(number) for number in range(count)))
    stage.turn()


def test_who_is_fast_holds_the_others_of_the_group(stage: Stage) -> None:
    fast, slow = stage.client(), stage.client()
    produce(stage, fast, topic=A)
    produce(stage, slow, topic=B)
    publish(stage, fast, 10)
    assert not fast.session.is_reading
    publish(stage, slow, 1)
    assert not slow.session.is_reading, "the bucket is empty for everybody"
    assert stage.broker.counters.group_publishes_held == 2
    throttle = stage.broker.policies.groups.publish_throttle("g")
    assert throttle is not None
    stage.clock.advance(2)
    stage.loop.do(throttle.look)
    assert fast.session.is_reading
    assert slow.session.is_reading


def test_a_group_without_the_rate_lets_everybody_go(stage: Stage) -> None:
    fast = stage.client()
    produce(stage, fast, topic=A)
    publish(stage, fast, 20)
    assert not fast.session.is_reading
    stage.run(stage.broker.policies.groups.put("g", {"publishRateInMsgs": -1}))
    stage.turn()
    assert fast.session.is_reading


def test_messages_go_out_at_the_groups_rate(stage: Stage) -> None:
    subscriptions = []
    for name in (A, B):
        topic = stage.topic(name)
        subscriptions.append(stage.subscription(topic, "s"))
        stage.publish(stage.producer(topic), *(message(number) for number in range(10)))
    for one in subscriptions:
        stage.consumer(one, permits=100)
    stage.turn()
    assert sum(one.unacked for one in subscriptions) == 4


def test_what_is_no_group(stage: Stage) -> None:
    groups = stage.broker.policies.groups
    with pytest.raises(NotFound, match="'none' does not exist"):
        groups.rates("none")
    with pytest.raises(PolicyOutOfRange):
        stage.run(groups.put("g", {"publishRateInMsgs": 2**31}))
    with pytest.raises(InvalidInput):
        stage.run(groups.put("a\nb", {}))
    assert groups.rates("g")["publishRateInMsgs"] == 10
    assert groups.publish_throttle("none") is groups.dispatch_throttle(None) is None


def test_there_is_a_largest_number_of_them(stage: Stage) -> None:
    groups = stage.broker.policies.groups
    catalog = stage.store.catalog
    with catalog.transaction():
        for number in range(COUNT_MAX - 1):
            catalog.put_doc(FOLDER, f"g{number}", groups.rates("g"))
    with pytest.raises(TooManyRequests):
        stage.run(groups.put("one-more", {}))
    stage.run(groups.put("g", {"publishRateInMsgs": 3}))
