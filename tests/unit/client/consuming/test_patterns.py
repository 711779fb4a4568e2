"""Which topics a pattern means."""

from __future__ import annotations

import re

import pytest

from milepost.client.consuming.patterns import TopicPattern, partitioned
from milepost.errors import InvalidInput


@pytest.mark.parametrize(
    ("pattern", "namespace", "matching"),
    [
        ("persistent://public/default/a.*", "public/default", "persistent://public/default/ab"),
        ("acme/shop/.*", "acme/shop", "persistent://acme/shop/x"),
        ("orders-.*", "public/default", "persistent://public/default/orders-eu"),
        ("persistent://public/default/(a|b)", "public/default", "persistent://public/default/b"),
    ],
)
def test_a_pattern_names_a_namespace_and_topics(
    pattern: str, namespace: str, matching: str
) -> None:
    found = TopicPattern.parse(re.compile(pattern))
    assert found.namespace == namespace
    assert found.matches(matching)
    assert not found.matches("persistent://other/space/ab")


def test_the_whole_name_must_match() -> None:
    found = TopicPattern.parse("persistent://public/default/ab")
    assert not found.matches("persistent://public/default/abc")


def test_partitions_are_their_topic() -> None:
    found = TopicPattern.parse("persistent://public/default/.*")
    topics = [
        f"persistent://public/default/{name}" for name in ("b", "a-partition-1", "a-partition-0")
    ]
    assert found.select(topics) == [
        "persistent://public/default/a",
        "persistent://public/default/b",
    ]


def test_what_is_listed_itself_has_no_partitions() -> None:
    topics = [f"persistent://public/default/{name}" for name in ("b", "a-partition-1", "c")]
    assert partitioned(topics) == {"persistent://public/default/a"}


@pytest.mark.parametrize("pattern", ["persistent://public/default/(", "*"])
def test_a_bad_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidInput):
        TopicPattern.parse(pattern)
