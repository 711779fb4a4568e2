"""Options of consumers and readers: what cannot be, and what a reader is made of."""

from __future__ import annotations

import re
from typing import Any

import pytest

from milepost.client.consuming.subscribe_options import ConsumerOptions, ReaderOptions
from milepost.client.messages.key_reader import CryptoKeyReader
from milepost.client.policies import ConsumerType
from milepost.errors import InvalidInput
from milepost.positions import EARLIEST


@pytest.mark.parametrize(
    "given",
    [
        {"subscription_name": ""},
        {"subscription_name": None},
        {"consumer_type": 9},
        {"consumer_type": "Shared"},
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
        ConsumerOptions("t", **{"subscription_name": "s", **given})


def test_a_number_is_a_consumer_type() -> None:
    assert ConsumerOptions("t", "s", 3).consumer_type is ConsumerType.KeyShared  # type: ignore[arg-type]


def test_a_member_of_a_broadcast_group_is_shared_and_says_who_it_is() -> None:
    made = ConsumerOptions("t", "s", mode="broadcast", member="a", properties={"x": "y"})
    assert made.consumer_type is ConsumerType.Shared
    said = {"x": "y", "milepost.mode": "broadcast", "milepost.member": "a"}
    assert made.all_properties == said
    assert ConsumerOptions("t", "s").all_properties == {}


def test_a_reader_is_a_consumer_that_leaves_no_trace() -> None:
    keys = CryptoKeyReader("public.pem", "private.pem")
    reader = ReaderOptions("t", EARLIEST, subscription_role_prefix="audit", crypto_key_reader=keys)
    made = reader.of_consumer("1f")
    assert made.subscription_name == "audit-reader-1f"
    assert (made.is_durable, made.ack_receipt_enabled) == (False, False)
    assert made.crypto_key_reader is keys
    named = ReaderOptions("t", EARLIEST, subscription_name="mine").of_consumer("1f")
    assert named.subscription_name == "mine"


def test_a_pattern_is_a_topic() -> None:
    assert ConsumerOptions(re.compile("a.*"), "s").topic == re.compile("a.*")
