"""The choice of the active consumer."""

from __future__ import annotations

from collections import Counter
from itertools import count
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.broker.dispatch.active_consumer import POINTS_PER_CONSUMER, choose_active
from milepost.wire.murmur import murmur3_32


class Candidate(NamedTuple):
    """The least that can be chosen."""

    name: str
    priority: int = 0


TOPICS = [f"persistent://public/default/t{number}" for number in range(500)]

candidates = st.lists(
    st.builds(Candidate, st.text("abc\uffff\U00010000", max_size=3), st.integers(0, 2)),
    min_size=1,
    max_size=8,
)


def test_nobody_is_active_where_nobody_is() -> None:
    assert choose_active([], 0) is None
    assert choose_active([], -1, "t") is None


def test_the_only_one_is_active() -> None:
    only = Candidate("a", 7)
    assert choose_active([only], 5) is only
    assert choose_active([only], -1, "t") is only


def test_partitions_go_round_the_names_in_order() -> None:
    consumers = [Candidate("c"), Candidate("a"), Candidate("b")]
    assert [choose_active(consumers, p).name for p in range(7)] == [*"abc", *"abc", "a"]


def test_a_lower_number_goes_first_and_the_others_stand_by() -> None:
    consumers = [Candidate("a", 2), Candidate("x", 1), Candidate("y", 1)]
    assert [choose_active(consumers, p).name for p in range(3)] == ["x", "y", "x"]
    assert {choose_active(consumers, -1, topic).name for topic in TOPICS} == {"x", "y"}


def test_names_are_ordered_as_java_orders_them() -> None:
    """U+10000 is two units from U+D800 on, and so before U+FFFF."""
    consumers = [Candidate("\uffff"), Candidate("\U00010000")]
    assert choose_active(consumers, 0).name == "\U00010000"


def test_of_one_name_the_first_to_come_is_first() -> None:
    first, second = Candidate("a"), Candidate("a")
    assert choose_active([first, second], 0) is first
    assert choose_active([first, second], 1) is second


def test_topics_without_partitions_spread() -> None:
    consumers = [Candidate(name) for name in "abcde"]
    counts = Counter(choose_active(consumers, -1, topic).name for topic in TOPICS)
    assert len(counts) == 5
    assert min(counts.values()) > len(TOPICS) / 5 / 2


def test_a_consumer_that_leaves_moves_only_its_own_topics() -> None:
    consumers = [Candidate(name) for name in "abcde"]
    for topic in TOPICS:
        chosen = choose_active(consumers, -1, topic)
        without = choose_active(consumers[1:], -1, topic)
        assert without == chosen or chosen.name == "a"


def ring_twin(consumers: list[Candidate], topic: str) -> Candidate:
    """The ring as a dict of all points, walked from the topic's hash on."""
    lowest = min(consumer.priority for consumer in consumers)
    eligible = [consumer for consumer in consumers if consumer.priority == lowest]
    eligible.sort(key=lambda consumer: consumer.name.encode("utf-16-be"))
    ring = {}
    for consumer in eligible:
        for number in range(POINTS_PER_CONSUMER):
            ring[murmur3_32(f"{consumer.name}{number}".encode()) & 0x7FFFFFFF] = consumer
    hashed = murmur3_32(topic.encode()) & 0x7FFFFFFF
    return ring[min((point for point in ring if point >= hashed), default=min(ring))]


@pytest.mark.parametrize("names", ["ab", "cd", "ef", "gh"])
def test_behind_the_last_point_the_ring_begins_again(names: str) -> None:
    consumers = [Candidate(name) for name in names]
    points = {
        murmur3_32(f"{consumer.name}{number}".encode()) & 0x7FFFFFFF: consumer
        for consumer in consumers
        for number in range(POINTS_PER_CONSUMER)
    }
    hashes = ((topic, murmur3_32(topic.encode()) & 0x7FFFFFFF) for topic in map(str, count()))
    topic = next(topic for topic, hashed in hashes if hashed > max(points))
    assert choose_active(consumers, -1, topic) is points[min(points)]


@given(candidates, st.text(max_size=10))
def test_the_ring_is_that_of_the_twin(consumers: list[Candidate], topic: str) -> None:
    assert choose_active(consumers, -1, topic) is ring_twin(consumers, topic)


@given(candidates, st.integers(-1, 20), st.randoms(use_true_random=False))
def test_the_order_of_coming_does_not_matter(
    consumers: list[Candidate], partition: int, order
) -> None:
    chosen = choose_active(consumers, partition, "t")
    order.shuffle(consumers)
    assert choose_active(consumers, partition, "t") == chosen
