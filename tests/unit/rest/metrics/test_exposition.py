"""The text of /metrics: what the library would write, a little at a time."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder

from milepost.broker.limits.time_slices import TimeSlices
from milepost.rest.metrics import exposition
from milepost.rest.metrics.exposition import Exposition, labels_text
from milepost.testing import ManualClock

OPEN_METRICS = "application/openmetrics-text; version=1.0.0"
VALUES = [0, 1, -1, 2.5, 1e300, float("inf"), float("nan"), 10**15, 123456789.25]
NAMES = ["plain", 'quo"te', "back\\slash", "new\nline", "ünï", ""]


class Collected:
    def __init__(self, *families: Metric) -> None:
        self._families = families

    def collect(self) -> tuple[Metric, ...]:
        return self._families


def families() -> list[Metric]:
    return [
        GaugeMetricFamily("a_gauge", "Of b,\nand c.", labels=["b", "c"]),
        CounterMetricFamily("a_counter", "Of b.", labels=["b", "c"]),
    ]


async def written(accept: str, slices: TimeSlices | None = None) -> bytes:
    encode, _ = choose_encoder(accept)
    text = Exposition(encode, slices or TimeSlices(ManualClock()))
    for family in families():
        rows = [
            (labels_text([("c", name), ("b", "x")]), value)
            for name in NAMES
            for value in VALUES[:1]
        ]
        rows += [
            (labels_text([("c", str(number)), ("b", "y")]), value)
            for number, value in enumerate(VALUES)
        ]
        await text.family(family, rows)
    return b"".join([part async for part in text.parts()])


def expected(accept: str) -> bytes:
    encode, _ = choose_encoder(accept)
    full = families()
    for family in full:
        assert isinstance(family, GaugeMetricFamily | CounterMetricFamily)
        for name in NAMES:
            family.add_metric(["x", name], VALUES[0])
        for number, value in enumerate(VALUES):
            family.add_metric(["y", str(number)], value)
    text: bytes = encode(Collected(*full))  # type: ignore[arg-type]
    return text


@pytest.mark.parametrize("accept", ["", OPEN_METRICS])
def test_it_is_the_library_s_text(accept: str) -> None:
    assert asyncio.run(written(accept)) == expected(accept)


@pytest.mark.parametrize("accept", ["", OPEN_METRICS])
def test_pieces_and_stretches_change_nothing(accept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exposition, "STRETCH", 2)
    monkeypatch.setattr(exposition, "PIECE_SIZE", 100)
    assert asyncio.run(written(accept)) == expected(accept)


def test_others_have_their_turn_between_two_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exposition, "STRETCH", 2)
    rests: list[int] = []

    class Tired(TimeSlices):
        @property
        def is_over(self) -> bool:
            return True

        async def rest(self) -> None:
            rests.append(1)

    asyncio.run(written("", Tired(ManualClock())))
    assert len(rests) >= 2 * (len(NAMES) + len(VALUES)) // 2
