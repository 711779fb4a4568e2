"""Options of producers: what cannot be, and what None means."""

from __future__ import annotations

from typing import Any

import pytest

from milepost.client.policies import PartitionsRoutingMode
from milepost.client.producing.producer_options import ProducerOptions
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
        {"encryption_key": "nobody-has-it"},
    ],
)
def test_a_producer_that_cannot_be(given: Any) -> None:
    with pytest.raises(InvalidInput):
        ProducerOptions("t", **given)


@pytest.mark.parametrize(
    ("given", "batches"),
    [
        ({}, True),
        ({"chunking_enabled": True}, False),
        ({"batching_enabled": False}, False),
        ({"batching_enabled": True}, True),
    ],
)
def test_messages_are_batched_unless_they_are_chunked(given: Any, batches: bool) -> None:
    assert ProducerOptions("t", **given).batches is batches
