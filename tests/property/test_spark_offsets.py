"""Offsets against sets of (topic, index): whatever the limits and splits, each index is read once."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from milepost.spark.offsets import Offsets, admit, canonical, count, from_json, slices

topics = st.sampled_from(["a", "b", "c", "d"])
backlog = st.dictionaries(topics, st.tuples(st.integers(0, 1000), st.integers(0, 60)), max_size=4)


def indexes(start: Offsets, end: Offsets) -> list[tuple[str, int]]:
    """The dumb twin: everything between, one by one."""
    return [(t, index) for t in sorted(end) for index in range(start[t], end[t])]


@given(
    backlog,
    st.none() | st.integers(1, 300),
    st.none() | st.integers(1, 5000),
    st.integers(1, 20),
    st.none() | st.integers(1, 40),
)
def test_micro_batches_and_slices_are_the_topic_once(
    given_backlog: dict[str, tuple[int, int]],
    messages_max: int | None,
    bytes_max: int | None,
    partitions_min: int,
    slice_max: int | None,
) -> None:
    start = {t: first for t, (first, _) in given_backlog.items()}
    end = {t: first + n for t, (first, n) in given_backlog.items()}
    sizes = {t: 10.0 * number for number, t in enumerate(sorted(end), 1)}
    read: list[tuple[str, int]] = []
    at = start
    while at != end:
        admitted = admit(at, end, messages_max=messages_max, bytes_max=bytes_max, mean_sizes=sizes)
        went = count(at, admitted)
        assert 0 < went <= (messages_max or went)
        found = slices(at, admitted, partitions_min=partitions_min, messages_max=slice_max)
        assert all(0 < one.count <= (slice_max or one.count) for one in found)
        assert len(found) >= min(partitions_min, went)
        by_topic: dict[str, list[int]] = {}
        for one in found:
            by_topic.setdefault(one.topic, []).append(one.count)
            read += [(one.topic, index) for index in range(one.first_index, one.end_index)]
        assert all(max(sizes) - min(sizes) <= 1 for sizes in by_topic.values())
        at = admitted
    assert sorted(read) == indexes(start, end)


@given(st.dictionaries(st.text(max_size=8), st.integers(0, 2**63 - 1)))
def test_offsets_survive_their_text(offsets: Offsets) -> None:
    text = json.dumps(canonical(offsets))
    assert from_json(text) == offsets
    assert json.dumps(canonical(dict(reversed(list(offsets.items()))))) == text
