"""The load of shards: smoothed, and unknown at first."""

from __future__ import annotations

import os

import pytest

from milepost.storage.cluster.load import SETTLED_S, LoadMeter, SharedLoads


def test_a_young_process_says_nothing_and_an_old_one_what_it_took_lately() -> None:
    meter = LoadMeter(100.0, 5.0)
    said = [meter.look(100.0 + second, 5.0 + second * 0.4) for second in range(1, 41)]
    assert said[: int(SETTLED_S) - 1] == [None] * (int(SETTLED_S) - 1)
    assert said[-1] == pytest.approx(0.4)
    idle = [meter.look(140.0 + second, 21.0) for second in range(1, 11)]
    assert idle[-1] == pytest.approx(0.2), "half after ten seconds"


def test_a_clock_that_stands_still_changes_nothing() -> None:
    meter = LoadMeter(0.0, 0.0)
    for second in range(1, 40):
        meter.look(float(second), float(second))
    assert meter.look(39.0, 50.0) == pytest.approx(1.0)


def test_a_process_tells_another_of_its_shard() -> None:
    loads = SharedLoads(3)
    assert loads.known() == {}
    if not os.fork():
        loads.tell(1, 0.25)
        os._exit(0)
    os.wait()
    assert loads.known() == {1: 0.25}
    loads.forget(1)
    assert loads.known() == {}
