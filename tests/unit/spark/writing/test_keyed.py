"""Exactly once by a unique key: buckets and numbers are the keys' own, whatever order rows come in."""

from __future__ import annotations

import random

import pytest

from milepost.errors import NotAllowed
from milepost.spark.writing.keyed import BUCKETS, Key, bucket_of, buckets, check_replay, number


def numbered(keys: list[Key]) -> dict[Key, tuple[int, int]]:
    """Bucket and rank of each key."""
    return {
        keys[row]: (bucket, rank) for bucket, rows in buckets(keys) for rank, row in enumerate(rows)
    }


@pytest.mark.parametrize("make", [str, lambda n: b"%d" % n, int])
def test_a_row_has_its_number_in_any_order(make: type[str]) -> None:
    keys = [make(number) for number in range(200)]
    expected = numbered(keys)
    assert len(set(expected.values())) == 200
    random.Random(1).shuffle(keys)
    assert numbered(keys) == expected
    # … and by whichever tasks the buckets are written.
    for some in ({0, 5}, {1}, set(range(BUCKETS)) - {0, 1, 5}):
        part = [key for key in keys if bucket_of(key) in some]
        assert numbered(part) == {key: expected[key] for key in part}


def test_buckets_are_those_that_spark_computes() -> None:
    # crc32 as Spark has it: SELECT pmod(crc32('a'), 16), pmod(crc32('17'), 16)
    assert (bucket_of("a"), bucket_of(b"a"), bucket_of(17), bucket_of("17")) == (3, 3, 2, 2)


def test_a_key_that_is_missing_or_there_twice_is_refused() -> None:
    assert buckets([]) == []
    with pytest.raises(NotAllowed, match="a row has no uniqueKey"):
        buckets(["a", None])
    with pytest.raises(NotAllowed, match="uniqueKey 'b' is there twice"):
        buckets(["b", "a", "c", "b"])


def test_numbers_grow_with_batch_and_ordinal() -> None:
    assert number(0, 0) == 0
    assert number(0, 5) < number(1, 0) < number(1, 1) < number(2, 0) < 1 << 63


def test_a_batch_follows_older_ones_and_continues_itself() -> None:
    check_replay(-1, 0, 1, "q")
    check_replay(number(3, 9), 4, 1, "q")
    check_replay(number(4, 0), 4, 2, "q")
    check_replay(number(4, 1), 4, 2, "q")


def test_a_batch_that_is_not_what_it_was_is_refused() -> None:
    with pytest.raises(NotAllowed, match="q wrote 3 rows or more of batch 4 before, and has 2 now"):
        check_replay(number(4, 2), 4, 2, "q")
    with pytest.raises(NotAllowed, match="q has written batch 5, and is at batch 4 again"):
        check_replay(number(5, 0), 4, 2, "q")
