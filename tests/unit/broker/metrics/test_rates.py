"""Rates: exact over the last whole interval."""

from __future__ import annotations

from stage.frames import message
from stage.stage import Stage

from milepost.broker.metrics.rates import Rates


def test_there_is_no_rate_before_two_samples() -> None:
    one = Rates()
    assert one.per_second[:2] == (0.0, 0.0)
    one.sample(5.0, 1000, 1)
    assert one.per_second[:2] == (0.0, 0.0)
    one.sample(5.0, 2000, 2)  # at the same moment: no division by nothing
    assert one.per_second[:2] == (0.0, 0.0)


def test_everything_open_is_sampled_once_an_interval(stage: Stage) -> None:
    topic = stage.topic()
    producer = stage.producer(topic)
    consumer = stage.consumer(stage.subscription(topic), permits=1000)
    stage.tick(20)
    stage.publish(producer, *(message(number) for number in range(100)))
    stage.tick(10)
    for one in (topic.rates, producer.rates, consumer.rates, consumer.subscription.rates):
        assert one.per_second[0] == 10.0
    assert topic.rates.per_second[2] == 10.0
    stage.tick(10)
    assert topic.rates.per_second[0] == 0.0
