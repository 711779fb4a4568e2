"""Every invariant and race of the proposal has its test: a number that no test names is a promise lost."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent
PLACES = (
    "rip/test_rip_progress.py",
    "rip/test_rip_reset.py",
    "rip/test_reset_races.py",
    "compat/test_resets.py",
    "unit/broker/operations/test_broadcast_members.py",
)
# Those that speak of RocketMQ's own protocol are not ours: I27 to I30, and R3, which has a test all the
# same.
NUMBERS = [f"I{number}" for number in range(1, 27)] + [f"R{number}" for number in range(1, 13)]

_RANGE = re.compile(r"\b([IR])(\d+) to [IR](\d+)\b")
_ONE = re.compile(r"\b([IR])(\d+)\b")
_NAME = re.compile(r"def test_(i|r)(\d+)_(?:to_[ir](\d+)_)?")


def named() -> set[str]:
    """Numbers in the names of tests, and in what is said of them."""
    found: set[str] = set()
    for place in PLACES:
        _, _, text = (TESTS / place).read_text("utf-8").partition("\ndef ")
        for kind, first, last in [*_RANGE.findall(text), *_NAME.findall(text)]:
            span = range(int(first), int(last or first) + 1)
            found |= {f"{kind.upper()}{number}" for number in span}
        found |= {f"{kind}{number}" for kind, number in _ONE.findall(text)}
    return found


@pytest.mark.parametrize("number", NUMBERS)
def test_it_has_a_test(number: str) -> None:
    assert number in named()
