"""Which ledgers may go."""

from __future__ import annotations

import pytest

from milepost.broker.operations.retention import Kept, trim_index
from milepost.broker.policies.effective import Retention

# Four ledgers of 10 messages and 100 bytes, a second apart; the last one is open.
LEDGERS = [Kept(10 * (n + 1), 100, 1000 * (n + 1)) for n in range(4)]


@pytest.mark.parametrize(
    ("retention", "acked_index", "now_ms", "index"),
    [
        (Retention(0, 0), 40, 9000, 30),  # the open one stays
        (Retention(0, 0), 29, 9000, 20),  # a ledger goes whole
        (Retention(0, 0), 0, 9000, 0),  # what is not acked never goes
        (Retention(None, None), 40, 10**15, 0),
        (Retention(5000, None), 40, 6999, 10),
        (Retention(5000, None), 40, 7000, 20),
        (Retention(5000, None), 10, 99_000, 10),
        (Retention(None, 250), 40, 9000, 10),
        (Retention(None, 200), 40, 9000, 20),
        (Retention(None, 400), 40, 9000, 0),
        (Retention(5000, 200), 40, 0, 20),  # either is enough
        (Retention(5000, 10_000), 40, 7000, 20),
    ],
)
def test_what_is_acked_and_over_goes(
    retention: Retention, acked_index: int, now_ms: int, index: int
) -> None:
    assert trim_index(LEDGERS, acked_index, retention, now_ms) == index


def test_nothing_goes_of_nothing() -> None:
    assert trim_index([], 0, Retention(0, 0), 0) == 0
    assert trim_index(LEDGERS[:1], 10, Retention(0, 0), 9000) == 0
