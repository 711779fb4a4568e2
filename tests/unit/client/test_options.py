"""Options: the official package's names and defaults, and what cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from milepost.client.options import ConsumerOptions, ProducerOptions, made_of
from milepost.client.policies import ConsumerType, PartitionsRoutingMode
from milepost.errors import InvalidInput


@pytest.mark.parametrize(
    "given",
    [
        {"batching_enabled": True, "chunking_enabled": True},
        {"send_timeout_millis": -1},
        {"max_pending_messages": 0},
        {"max_pending_messages": True},
        {"batching_max_messages": 0},
        {"batching_max_publish_delay_ms": "10"},
        {"initial_sequence_id": -1},
        {"message_routing_mode": PartitionsRoutingMode.CustomPartition},
    ],
)
def test_a_producer_that_cannot_be(given: Any) -> None:
    with pytest.raises(InvalidInput):
        made_of(ProducerOptions, **given)


@pytest.mark.parametrize(
    "given",
    [
        {"subscription_name": ""},
        {"subscription_name": None},
        {"receiver_queue_size": -1},
        {"unacked_messages_timeout_ms": 9_999},
        {"max_pending_chunked_message": 0},
        {"priority_level": -1},
        {"mode": "loud"},
        {"member": "a"},
        {"start": "latest"},
        {"mode": "broadcast", "consumer_type": ConsumerType.Failover},
    ],
)
def test_a_consumer_that_cannot_be(given: Any) -> None:
    with pytest.raises(InvalidInput):
        made_of(ConsumerOptions, **{"subscription_name": "s", **given})


def test_a_member_of_a_broadcast_group_is_shared_and_says_who_it_is() -> None:
    made = made_of(
        ConsumerOptions, subscription_name="s", mode="broadcast", member="a", properties={"x": "y"}
    )
    assert made.consumer_type is ConsumerType.Shared
    said = {"x": "y", "milepost.mode": "broadcast", "milepost.member": "a"}
    assert made.all_properties == said
    assert made_of(ConsumerOptions, subscription_name="s").all_properties == {}


def test_none_is_the_default_and_unknown_names_are_refused() -> None:
    made = made_of(ConsumerOptions, subscription_name="s", properties=None, consumer_name=None)
    assert made.properties == {}
    with pytest.raises(TypeError, match="no option 'nonsense'"):
        made_of(ConsumerOptions, subscription_name="s", nonsense=1)


def test_names_and_defaults_are_the_official_packages() -> None:
    pulsar = pytest.importorskip("pulsar")
    import inspect

    ours_differ = {
        "schema",  # bytes are bytes without one
        "batch_index_ack_enabled",  # on: exactness is the product
        "batch_receive_policy",
        "properties",
    }
    not_ours = {
        "self",
        "topic",
        "message_listener",
        "crypto_key_reader",
        "encryption_key",
        "crypto_failure_action",
        "broker_consumer_stats_cache_time_ms",
        "lazy_start_partitioned_producers",
        "pattern_auto_discovery_period",
        "regex_subscription_mode",
    }
    for call, kind in (
        (pulsar.Client.create_producer, ProducerOptions),
        (pulsar.Client.subscribe, ConsumerOptions),
    ):
        ours = kind.__dataclass_fields__
        for name, parameter in inspect.signature(call).parameters.items():
            if name in not_ours:
                continue
            assert name in ours, name
            if name in ours_differ or parameter.default is inspect.Parameter.empty:
                continue
            theirs = parameter.default
            theirs = int(theirs) if hasattr(theirs, "value") else theirs
            assert ours[name].default == theirs, name
