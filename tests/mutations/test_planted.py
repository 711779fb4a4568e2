"""The list of planted bugs is true to the sources: each can be planted, and its tests are there."""

from __future__ import annotations

from pathlib import Path

import pytest

from mutations.planted import BUGS, Bug

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("bug", BUGS, ids=[f"{bug.path}: {bug.right[:40]}" for bug in BUGS])
def test_a_bug_can_be_planted(bug: Bug) -> None:
    assert (ROOT / bug.path).read_text().count(bug.right) == 1
    assert bug.wrong != bug.right
    for tests in bug.tests.split():
        assert (ROOT / tests).exists(), tests
