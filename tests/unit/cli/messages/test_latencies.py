"""Quantiles to one percent, against sorting."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from milepost.cli.messages.latencies import QUANTILES, Latencies


@given(st.lists(st.floats(1e-5, 100.0), min_size=1, max_size=200))
def test_quantiles_are_those_of_the_sorted_list(seconds: list[float]) -> None:
    latencies = Latencies()
    for one in seconds:
        latencies.add(one)
    ordered = sorted(seconds)
    for share in QUANTILES.values():
        exact = ordered[math.ceil(share * len(ordered)) - 1] * 1000
        assert math.isclose(latencies.quantile_ms(share), exact, rel_tol=0.011)
    assert latencies.max_ms == max(seconds) * 1000


def test_nothing_and_no_time_at_all() -> None:
    latencies = Latencies()
    assert latencies.summary() == {"p50": 0.0, "p95": 0.0, "p99": 0.0, "p99.9": 0.0, "max": 0.0}
    latencies.add(-1.0, times=3)
    assert (latencies.count, latencies.max_ms) == (3, 0.001)
