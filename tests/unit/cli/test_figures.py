"""Figures for people: their units, and names of topics that commands read again."""

from __future__ import annotations

import pytest

from milepost.cli.figures import age, short_topic, size
from milepost.positions.names import TopicName


def test_ages() -> None:
    assert age(864_000_000) == "10d"


def test_sizes_change_their_unit_where_the_next_begins() -> None:
    assert [size(n) for n in (1023, 1024, 1024**2 - 1, 1024**2)] == [
        "1023 B",
        "1.0 KiB",
        "1024 KiB",
        "1.0 MiB",
    ]


@pytest.mark.parametrize(
    "topic",
    [
        "persistent://public/default/orders",
        "persistent://acme/shop/orders-partition-3",
        "non-persistent://acme/shop/ticks",
        "persistent://public/default/a%2Fb",
        "persistent://public/default/a:b",
    ],
)
def test_a_short_name_means_the_same_topic(topic: str) -> None:
    assert str(TopicName.parse(short_topic(topic))) == topic


def test_a_text_that_is_no_name_stays() -> None:
    assert short_topic("persistent://x") == "persistent://x"
