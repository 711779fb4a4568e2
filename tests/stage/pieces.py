"""A piece of a run: `MILEPOST_PIECE=2/8` keeps the second of eight, so that a long campaign can be run in
parts, and continued. All pieces together are the whole."""

from __future__ import annotations

import os

import pytest


def piece_of(told: str) -> tuple[int, int]:
    """The number of a piece and how many there are: `2/8` is the second of eight."""
    number, _, count = told.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise ValueError(f"{told!r} is no piece; the second of eight is 2/8")
    return int(number), int(count)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    told = os.environ.get("MILEPOST_PIECE")
    if told:
        number, count = piece_of(told)
        kept = items[number - 1 :: count]
        config.hook.pytest_deselected(items=[one for one in items if one not in set(kept)])
        items[:] = kept
