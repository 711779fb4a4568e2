"""Every `>>>` example of the benchmarks' pure parts says what really happens."""

from __future__ import annotations

import doctest
from types import ModuleType

import pytest

from bench import peers
from bench.goals import figures, judgement
from bench.load import kafka


@pytest.mark.parametrize("module", [peers, figures, judgement, kafka])
def test_the_examples_are_true(module: ModuleType) -> None:
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0
