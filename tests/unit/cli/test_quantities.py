"""Durations, sizes and times, right and wrong."""

from __future__ import annotations

import click
import pytest

from milepost.cli.quantities import DURATION, Property, duration_s, size_bytes, split_names, time_ms
from milepost.errors import InvalidInput


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("100m", 6000), ("3H", 10800), ("2d", 172_800), ("5w", 3_024_000)],
)
def test_durations(text: str, seconds: int) -> None:
    assert duration_s(text) == seconds


@pytest.mark.parametrize(
    ("text", "size"),
    [("4096", 4096), ("10M", 10 << 20), ("16g", 16 << 30), ("-1", -1), ("2KiB", 2048)],
)
def test_sizes(text: str, size: int) -> None:
    assert size_bytes(text) == size


@pytest.mark.parametrize("text", ["", "m", "3x", "1.5h", "3 h", "１"])
def test_what_is_neither(text: str) -> None:
    with pytest.raises(InvalidInput, match="expected a time"):
        duration_s(text)
    with pytest.raises(InvalidInput, match="expected a size"):
        size_bytes(text + "?")


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-15T14:00:00Z", 1794751200000),
        ("2026-11-15T14:00:00", 1794751200000),
        ("2026-11-15T16:00:00.250+02:00", 1794751200250),
        ("2026-11-15", 1794700800000),
        ("@1700000000000", 1700000000000),
        ("-10m", 400_000),
    ],
)
def test_times(text: str, moment: int) -> None:
    assert time_ms(text, now_ms=1_000_000) == moment


@pytest.mark.parametrize("text", ["", "now", "10m", "@x", "2026-13-01"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(InvalidInput, match="expected a time"):
        time_ms(text, now_ms=0)


def test_as_click_types() -> None:
    assert DURATION.convert("2m", None, None) == 120
    with pytest.raises(click.BadParameter, match="expected a time"):
        DURATION.convert("x", None, None)
    assert Property().convert("a=b=c", None, None) == ("a", "b=c")
    with pytest.raises(click.BadParameter, match="expected key=value"):
        Property().convert("a", None, None)


def test_names_behind_commas() -> None:
    assert split_names(("a,b", " c ,")) == ["a", "b", "c"]
