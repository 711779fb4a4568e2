"""Consumer: when it may be given something."""

from __future__ import annotations

import pytest
from stage.stage import Stage

from milepost.broker.dispatch.consumer import NO_EPOCH, Consumer


@pytest.fixture
def consumer(stage: Stage) -> Consumer:
    return stage.consumer(stage.subscription(stage.topic()))


def test_a_new_one_has_no_permits_and_holds_nothing(consumer: Consumer) -> None:
    assert (consumer.permits, consumer.unacked, consumer.holds) == (0, 0, 0)
    assert consumer.held is None
    assert consumer.epoch == NO_EPOCH
    assert not consumer.can_take


@pytest.mark.parametrize(
    ("permits", "is_blocked", "is_writable", "can_take"),
    [
        (1, False, True, True),
        (0, False, True, False),
        (-3, False, True, False),
        (1, True, True, False),
        (1, False, False, False),
    ],
)
def test_it_can_take_with_permits_when_it_is_neither_blocked_nor_slow(
    consumer: Consumer, permits: int, is_blocked: bool, is_writable: bool, can_take: bool
) -> None:
    consumer.permits = permits
    consumer.is_blocked = is_blocked
    consumer.peer.is_writable = is_writable  # type: ignore[misc]
    assert consumer.can_take is can_take


def test_every_session_is_another_holder(stage: Stage, consumer: Consumer) -> None:
    subscription = consumer.subscription
    subscription.remove_consumer(consumer)
    assert stage.consumer(subscription).holder != consumer.holder
