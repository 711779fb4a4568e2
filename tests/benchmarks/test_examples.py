"""Every `>>>` example of the benchmarks' pure parts says what really happens."""

from __future__ import annotations

import doctest
from types import ModuleType

import pytest

from bench import peers
from bench.__main__ import main
from bench.goals import figures, judgement
from bench.load import kafka


@pytest.mark.parametrize("module", [peers, figures, judgement, kafka])
def test_the_examples_are_true(module: ModuleType) -> None:
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0


def test_the_command_says_how_it_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    for asked in ("-h", "--help"):
        assert main([asked]) == 0
        assert "python -m bench goals --before" in capsys.readouterr().out
