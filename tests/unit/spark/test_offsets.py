"""Offsets: the one text form, limits that are exact, slices that leave nothing out."""

from __future__ import annotations

import json

import pytest

from milepost.errors import InvalidCheckpoint
from milepost.spark.offsets import (
    Slice,
    admit,
    backlogs,
    canonical,
    check_resume,
    checked,
    count,
    from_json,
    is_held_back,
    slices,
)


def test_offsets_are_always_the_same_text() -> None:
    # Spark compares the text: another order of the keys would be another offset.
    assert json.dumps(canonical({"b": 1, "a": 2})) == '{"a": 2, "b": 1}'
    assert from_json('{"b": 1, "a": 2}') == {"a": 2, "b": 1}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("{", "are not JSON"),
        ("[1]", "are not an object"),
        ('{"a": -1}', "'-1' of 'a'"),
        ('{"a": 1.5}', "'1.5' of 'a'"),
        ('{"a": true}', "'True' of 'a'"),
        ('{"a": "7"}', "'7' of 'a'"),
        ('{"a": 9223372036854775808}', "'9223372036854775808'"),
    ],
)
def test_what_are_no_offsets_is_named(text: str, named: str) -> None:
    with pytest.raises(InvalidCheckpoint, match=named):
        from_json(text)


def test_offsets_that_were_read_as_objects_are_checked_too() -> None:
    assert checked({"b": 1, "a": 0}) == {"a": 0, "b": 1}
    with pytest.raises(InvalidCheckpoint):
        checked("a")


def test_backlogs_are_differences() -> None:
    assert backlogs({"a": 3, "b": 9, "gone": 4}, {"a": 10, "b": 9}) == {"a": 7, "b": 0}
    assert count({"a": 3, "b": 9}, {"a": 10, "b": 12}) == 10
    assert backlogs({"a": 3}, {"a": 1}) == {"a": 0}
    assert backlogs({"a": 1}, {"a": 1, "b": 1}) == {"a": 0}


def test_a_new_partition_is_pinned_where_it_begins_before_it_is_read() -> None:
    admitted = admit({"a": 1}, {"a": 3, "b": 9}, firsts={"b": 4})
    assert admitted == {"a": 3, "b": 4}
    assert slices({"a": 1}, admitted) == [Slice("a", 1, 3)]
    assert admit(admitted, {"a": 3, "b": 9}) == {"a": 3, "b": 9}
    assert admit({"a": 1}, {"a": 3, "b": 9}) == {"a": 3, "b": 0}


def test_a_checkpoint_of_other_topics_is_refused() -> None:
    check_resume({"a": 3, "gone": 9}, {"a": 3, "new": 0})
    check_resume({}, {"a": 3})
    check_resume({"a": 3}, {})
    with pytest.raises(InvalidCheckpoint, match="it has a, the query reads b"):
        check_resume({"a": 3}, {"b": 3})
    with pytest.raises(InvalidCheckpoint, match="at index 4 of a, which ends at 3"):
        check_resume({"a": 4}, {"a": 3})


def test_limits_are_shared_out_in_proportion() -> None:
    start, end = {"a": 0, "b": 10}, {"a": 90, "b": 20}
    assert admit(start, end) == end
    assert admit(start, end, messages_max=50) == {"a": 45, "b": 15}
    assert admit(start, end, messages_max=1000) == end
    # What rounding leaves over is given out as well: 50 means 50.
    assert count({"a": 0, "b": 0}, admit({"a": 0, "b": 0}, {"a": 33, "b": 34}, messages_max=5)) == 5


def test_a_limit_of_one_still_moves() -> None:
    start = dict.fromkeys("abc", 0)
    end = dict.fromkeys("abc", 100)
    for step in range(300):
        admitted = admit(start, end, messages_max=1)
        assert count(start, admitted) == 1, step
        start = admitted
    assert start == end


def test_a_limit_in_bytes_goes_by_the_mean_size() -> None:
    start, end = {"a": 0, "b": 0}, {"a": 100, "b": 100}
    sizes = {"a": 10.0, "b": 30.0}
    assert admit(start, end, bytes_max=4_000, mean_sizes=sizes) == end
    assert admit(start, end, bytes_max=2_000, mean_sizes=sizes) == {"a": 50, "b": 50}
    assert count(start, admit(start, end, bytes_max=1, mean_sizes=sizes)) == 1
    # Of both limits the stricter counts; without sizes there is no limit in bytes.
    assert count(start, admit(start, end, bytes_max=2_000, messages_max=7, mean_sizes=sizes)) == 7
    assert admit(start, end, bytes_max=1) == end


def test_a_partition_that_is_gone_keeps_its_place() -> None:
    assert admit({"a": 1, "gone": 5}, {"a": 3}) == {"a": 3, "gone": 5}


def test_a_batch_waits_for_more_but_not_for_ever() -> None:
    assert is_held_back(5, messages_min=10, waited_s=1, delay_max_s=2)
    assert not is_held_back(10, messages_min=10, waited_s=1, delay_max_s=2)
    assert not is_held_back(5, messages_min=10, waited_s=2, delay_max_s=2)
    assert not is_held_back(0, messages_min=10, waited_s=1, delay_max_s=2)


def test_slices_are_even() -> None:
    assert slices({"a": 3}, {"a": 13}, partitions_min=3) == [
        Slice("a", 3, 6),
        Slice("a", 6, 9),
        Slice("a", 9, 13),
    ]
    assert [one.count for one in slices({"a": 0}, {"a": 10}, messages_max=4)] == [3, 3, 4]


def test_partitions_get_tasks_by_their_backlog_and_at_least_one() -> None:
    found = slices({"a": 0, "b": 0}, {"a": 98, "b": 2}, partitions_min=4)
    assert [one.topic for one in found] == ["a"] * 4 + ["b"]


def test_there_are_no_empty_slices() -> None:
    assert slices({"a": 5}, {"a": 5}, partitions_min=8) == []
    assert [one.count for one in slices({"a": 0}, {"a": 3}, partitions_min=8)] == [1, 1, 1]


def test_no_block_is_cut() -> None:
    found = slices({"a": 5}, {"a": 95}, partitions_min=8, block=20)
    assert [(one.first_index, one.end_index) for one in found] == [
        (5, 20),
        (20, 40),
        (40, 60),
        (60, 80),
        (80, 95),
    ]
    assert slices({"a": 5}, {"a": 19}, partitions_min=8, block=20) == [Slice("a", 5, 19)]
