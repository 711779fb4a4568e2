"""Stages for tests: one as it comes, or made to order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from stage.stage import Stage


@pytest.fixture
def make_stage() -> Iterator[Callable[..., Stage]]:
    """Makes stages that end with the test."""
    made: list[Stage] = []

    def make(**options: Any) -> Stage:
        made.append(Stage(**options))
        return made[-1]

    yield make
    for stage in made:
        stage.close()


@pytest.fixture
def stage(make_stage: Callable[..., Stage]) -> Stage:
    return make_stage()
