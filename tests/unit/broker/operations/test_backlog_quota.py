"""Is a backlog past its quota, and what would bring it below?"""

from __future__ import annotations

from typing import Any

from stage.frames import message
from stage.stage import TOPIC, Stage
from stage.talk import error_of, produce

from milepost.broker.operations import backlog_quota
from milepost.broker.policies.policy import Level
from milepost.broker.policies.table import POLICIES

SIZE, TIME = POLICIES["backlog_quota_size"], POLICIES["backlog_quota_time"]


def set_quota(stage: Stage, quota_policy: Any, **value: Any) -> None:
    stage.run(stage.broker.policies.book.set(Level.TOPIC, TOPIC, quota_policy, value))
    stage.turn()


def fill(stage: Stage, count: int = 10) -> None:
    topic = stage.topic()
    producer = topic.producers.get("p") or stage.producer(topic)
    stage.publish(producer, *(message(number, b"x" * 100) for number in range(count)))


def test_a_backlog_is_what_a_durable_subscription_has_not_acked(stage: Stage) -> None:
    topic = stage.topic()
    fill(stage)
    assert backlog_quota.backlog_index(topic) == 10
    stage.subscription(topic, "reader", 0, durable=False)
    assert backlog_quota.backlog_index(topic) == 10
    stage.subscription(topic, "a", 7)
    stage.subscription(topic, "b", 4)
    assert backlog_quota.backlog_index(topic) == 4


def test_without_a_quota_nothing_is_exceeded(stage: Stage) -> None:
    topic = stage.topic()
    stage.subscription(topic)
    fill(stage)
    assert backlog_quota.exceeded(topic, 10**15) is None
    assert backlog_quota.refusal(topic, 10**15) is None


def test_size_and_age_are_compared(stage: Stage) -> None:
    topic = stage.topic()
    subscription = stage.subscription(topic)
    fill(stage)
    size, now_ms = topic.log.size_from(0), stage.clock.wall_ms()
    set_quota(stage, SIZE, limitSize=size + 1, policy="producer_exception")
    assert backlog_quota.exceeded(topic, now_ms) is None
    set_quota(stage, SIZE, limitSize=size, policy="producer_exception")
    assert backlog_quota.exceeded(topic, now_ms) == topic.policies.quota_size
    set_quota(stage, SIZE, limitSize=size + 1, policy="producer_exception")
    set_quota(stage, TIME, limitTime=5, policy="producer_exception")
    assert backlog_quota.exceeded(topic, now_ms + 5000) is None
    assert backlog_quota.exceeded(topic, now_ms + 5001) == topic.policies.quota_time
    subscription.skip(10)
    assert backlog_quota.exceeded(topic, now_ms + 5001) is None


def test_producers_hear_which_of_the_two_it_is(stage: Stage) -> None:
    topic = stage.topic()
    stage.subscription(topic)
    fill(stage)
    client = stage.client()
    codes = {
        "producer_request_hold": "ProducerBlockedQuotaExceededError",
        "producer_exception": "ProducerBlockedQuotaExceededException",
        "consumer_backlog_eviction": "",
    }
    for number, (policy, code) in enumerate(codes.items()):
        set_quota(stage, SIZE, limitSize=10, policy=policy)
        assert error_of(produce(stage, client, number, f"p{number}")) == code


def test_an_eviction_goes_below_the_limit(stage: Stage) -> None:
    topic = stage.topic()
    fill(stage)
    set_quota(stage, SIZE, limitSize=topic.log.size_from(5), policy="consumer_backlog_eviction")
    past = topic.policies.quota_size
    assert past is not None
    index = backlog_quota.evicted_index(topic, past, 0)
    assert topic.log.size_from(index) <= past.limit * 0.9 < topic.log.size_from(index - 1)
    set_quota(stage, TIME, limitTime=5, policy="consumer_backlog_eviction")
    past = topic.policies.quota_time
    assert past is not None
    now_ms = stage.clock.wall_ms()
    assert backlog_quota.evicted_index(topic, past, now_ms) == 0
    assert backlog_quota.evicted_index(topic, past, now_ms + 5001) == 10
