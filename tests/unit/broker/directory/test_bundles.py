"""Bundles: every topic in exactly one, divided as upstream divides them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.broker.directory.bundles import (
    BY_POSITIONS,
    BY_RANGE,
    BY_TOPICS,
    BY_TRAFFIC,
    COUNT_MAX,
    HASH_MAX,
    Bundles,
    hash_of,
)
from milepost.errors import InvalidPartitions, PreconditionFailed

WHOLE = "0x00000000_0xffffffff"
# As Apache Pulsar 4.2.4 divides a new namespace, and hashes this topic.
FOUR = ["0x00000000", "0x40000000", "0x80000000", "0xc0000000", "0xffffffff"]
TOPIC = "non-persistent://public/adm/b"


def test_ranges_and_hashes_are_upstreams() -> None:
    four = Bundles.equal(4)
    assert four.boundaries == FOUR
    assert four.of(TOPIC) == "0xc0000000_0xffffffff"
    last = four.division("0xc0000000_0xffffffff", BY_RANGE, {})
    assert [hex(one) for one in last] == ["0xdfffffff"]


def test_a_namespace_begins_with_one() -> None:
    assert Bundles.of_doc({}).names == [WHOLE]
    assert Bundles.of_doc({"bundles": Bundles.equal(4).to_doc()}).boundaries == FOUR


@pytest.mark.parametrize("count", [0, -1, COUNT_MAX + 1])
def test_how_many_there_may_be(count: int) -> None:
    with pytest.raises(InvalidPartitions, match=str(count)):
        Bundles.equal(count)


def test_a_range_that_is_no_bundle_is_named() -> None:
    with pytest.raises(PreconditionFailed, match="no bundle 0x00000000_0x10000000, but 0x0"):
        Bundles.equal(4).bounds("0x00000000_0x10000000")
    assert Bundles.equal(4).bounds("0xC0000000_0xFFFFFFFF") == (0xC0000000, HASH_MAX)


def test_ways_to_divide() -> None:
    whole = Bundles()
    names = sorted((f"persistent://a/b/{number}" for number in range(5)), key=hash_of)
    rates = dict.fromkeys(names, 1.0)
    for way in (BY_TOPICS, BY_TRAFFIC):
        assert whole.division(WHOLE, way, {}) == []
        assert whole.division(WHOLE, way, {names[0]: 1.0}) == []
        (at,) = whole.division(WHOLE, way, rates)
        assert hash_of(names[1]) <= at < hash_of(names[2])
    (at,) = whole.division(WHOLE, BY_TRAFFIC, {**rates, names[4]: 100.0})
    assert hash_of(names[3]) <= at < hash_of(names[4])
    assert whole.division(WHOLE, BY_TRAFFIC, dict.fromkeys(names, 0.0)) == []
    assert whole.division(WHOLE, BY_POSITIONS, rates, [7, 9]) == [7, 9]
    assert whole.division(WHOLE, BY_POSITIONS, {names[0]: 1.0}, [7, 9]) == []
    with pytest.raises(PreconditionFailed, match="needs positions"):
        whole.division(WHOLE, BY_POSITIONS, rates)
    with pytest.raises(PreconditionFailed, match="halves divides no bundle"):
        whole.division(WHOLE, "halves", rates)


@given(
    st.lists(st.integers(-5, HASH_MAX + 5), max_size=20),
    st.lists(st.text(max_size=10), max_size=20, unique=True),
)
def test_every_topic_is_in_one_bundle(positions: list[int], names: list[str]) -> None:
    bundles = Bundles.equal(2)
    for bundle in list(bundles.names):
        bundles = bundles.divided(bundle, positions)
    shares = [bundles.within(bundle, names) for bundle in bundles.names]
    assert sorted(name for share in shares for name in share) == sorted(names)
    for bundle, share in zip(bundles.names, shares, strict=True):
        low, high = bundles.bounds(bundle)
        for name in share:
            assert bundles.of(name) == bundle
            assert low <= hash_of(name) < high or hash_of(name) == high == HASH_MAX
