"""Which partition a message goes to."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from milepost.client.policies import PartitionsRoutingMode
from milepost.client.producing.routing import RoutedMessage, Router
from milepost.errors import InvalidInput

ROUND = PartitionsRoutingMode.RoundRobinDistribution


def routed(router: Router, count: int, partitions: int = 3, **fields: Any) -> list[int]:
    message = RoutedMessage(b"x", fields)
    return [router.route(message, partitions, 0.0) for _ in range(count)]


def test_round_robin_uses_all_in_turn() -> None:
    used = routed(Router(ROUND, random=Random(1)), 9)
    assert Counter(used) == {0: 3, 1: 3, 2: 3}
    assert used[:3] != used[:1] * 3


def test_a_batch_stays_together() -> None:
    router = Router(ROUND, random=Random(1), stays_for=4, stays_s=10.0)
    used = routed(router, 8)
    assert used[:4] == used[:1] * 4
    assert used[4:] == used[4:5] * 4
    assert used[0] != used[4]


def test_a_batch_does_not_stay_for_ever() -> None:
    router = Router(ROUND, random=Random(1), stays_for=100, stays_s=0.01)
    message = RoutedMessage(b"x", {})
    assert router.route(message, 3, 0.0) == router.route(message, 3, 0.009)
    assert router.route(message, 3, 0.02) != router.route(message, 3, 0.04)


@pytest.mark.parametrize("mode", [ROUND, PartitionsRoutingMode.UseSinglePartition])
def test_a_key_has_its_partition(mode: PartitionsRoutingMode) -> None:
    for key in ("a", "b", "c"):
        used = {
            place
            for seed in range(3)
            for place in routed(Router(mode, random=Random(seed)), 2, partition_key=key)
        }
        assert len(used) == 1


def test_one_for_all() -> None:
    router = Router(PartitionsRoutingMode.UseSinglePartition, random=Random(1))
    assert len(set(routed(router, 9))) == 1


def test_a_users_router_is_asked_and_checked() -> None:
    custom = PartitionsRoutingMode.CustomPartition
    router = Router(custom, random=Random(1), custom=lambda message, count: len(message.data()))
    assert routed(router, 1) == [1]
    with pytest.raises(InvalidInput, match="partition 1 of 1"):
        routed(router, 1, partitions=1)


def test_a_router_sees_the_message() -> None:
    fields = {"partition_key": "k", "ordering_key": "o", "properties": {"a": "1"}}
    message = RoutedMessage(b"x", fields)
    assert (message.partition_key(), message.ordering_key()) == ("k", "o")
    assert message.properties() == {"a": "1"}
    assert RoutedMessage(b"x", {}).partition_key() == ""
