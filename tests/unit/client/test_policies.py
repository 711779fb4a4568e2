"""Choices that cannot be are refused when they are made."""

from __future__ import annotations

import pytest

from milepost.client.policies import (
    ConsumerBatchReceivePolicy,
    ConsumerDeadLetterPolicy,
    ConsumerKeySharedPolicy,
    KeySharedMode,
    NegativeAckBackoff,
)
from milepost.errors import InvalidInput


def test_a_batch_receive_ends_sometime() -> None:
    with pytest.raises(InvalidInput, match="never returns"):
        ConsumerBatchReceivePolicy(-1, -1, -1)


@pytest.mark.parametrize("ranges", [None, [], [(5, 4)], [(-1, 4)], [(0, 65536)]])
def test_sticky_ranges_are_ranges(ranges: list[tuple[int, int]] | None) -> None:
    with pytest.raises(InvalidInput, match="sticky"):
        ConsumerKeySharedPolicy(KeySharedMode.Sticky, sticky_ranges=ranges)


@pytest.mark.parametrize("count", [0, -1])
def test_a_letter_dies_after_a_redelivery_at_least(count: int) -> None:
    with pytest.raises(InvalidInput, match="max_redeliver_count"):
        ConsumerDeadLetterPolicy(count)


def test_negative_acks_back_off() -> None:
    backoff = NegativeAckBackoff(first_ms=10, max_ms=100)
    assert [backoff.delay_ms(count) for count in range(5)] == [10, 20, 40, 80, 100]
    assert backoff.delay_ms(10**9) == 100
    with pytest.raises(InvalidInput, match="back-off"):
        NegativeAckBackoff(first_ms=0)
    with pytest.raises(InvalidInput, match="back-off"):
        NegativeAckBackoff(multiplier=0.5)
