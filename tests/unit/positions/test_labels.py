from __future__ import annotations

import pytest

from milepost.errors import InvalidInput
from milepost.positions.labels import LABEL_LENGTH_MAX, check_label


@pytest.mark.parametrize(
    "label", ["", "s", "team/reports", "..", "abonnés-订阅", "a b", "x" * 1024]
)
def test_nearly_anything_goes(label: str) -> None:
    check_label("subscription", label)


@pytest.mark.parametrize(
    "label",
    ["a\0b", "a\nb", "a\x1b[2J", "a\x7f", "a\x9b", "a\u2028b", "a\u202eb", "a\u2066b", "\ud800"],
)
def test_what_plays_with_the_reader_does_not(label: str) -> None:
    with pytest.raises(InvalidInput, match=r"^producer name '.*': character U\+[0-9A-F]{4} is not"):
        check_label("producer", label)


def test_a_label_has_an_end() -> None:
    with pytest.raises(InvalidInput) as caught:
        check_label("consumer", "\n" * (LABEL_LENGTH_MAX + 1))
    assert len(str(caught.value)) < 200
