"""Exactly once by a unique key: the bucket and the number of each row. Pure.

Behind a shuffle Spark may give a task that is tried again its rows in another order, and other rows
(SPARK-28650), so a row's place in its task numbers nothing. Its key does: rows are parted into buckets by a
hash of the key, each bucket is sorted by the key, and the rank in that order, behind the number of the
batch, is the row's number. Tried again, the same keys have the same numbers, whatever task has them and in
whatever order they come. What must hold for that, and is refused where it is seen not to:

- a bucket is in one task (`milepost.spark.arrange` sees to it),
- no key is missing or there twice,
- the keys of a batch are the same when it is replayed.

    >>> [(one.bucket, one.rows) for one in buckets(["b", "a", "c"])]
    [(3, [1]), (9, [0]), (15, [2])]
    >>> number(7, 2) == (7 << 32) + 2
    True
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from milepost.errors import NotAllowed

# More tasks than that cannot share the work. Part of what names a row: never to be changed.
BUCKETS: Final = 16
RANK_BITS: Final = 32

KEY_TYPES: Final = ("string", "binary", "bigint", "int")

Key = str | bytes | int


class Bucket(NamedTuple):
    bucket: int
    rows: list[int]
    """Places of its rows among those given, in the order of their keys. Invariant: never empty."""


def key_bytes(key: Key) -> bytes:
    """What is hashed, and what Spark's `crc32(cast(key AS STRING))` hashes."""
    return key if isinstance(key, bytes) else str(key).encode()


def bucket_of(key: Key) -> int:
    return zlib.crc32(key_bytes(key)) % BUCKETS


def buckets(keys: Sequence[Key | None]) -> list[Bucket]:
    """The rows of a task by bucket, each in the order of its keys."""
    parted: dict[int, list[tuple[bytes, int]]] = {}
    for row, key in enumerate(keys):
        if key is None:
            raise NotAllowed("a row has no uniqueKey: exactly once needs one for every row")
        parted.setdefault(bucket_of(key), []).append((key_bytes(key), row))
    found = []
    for bucket, pairs in sorted(parted.items()):
        pairs.sort()
        for (one, _), (other, row) in pairwise(pairs):
            if one == other:
                raise NotAllowed(
                    f"uniqueKey {keys[row]!a} is there twice in a batch: it is not unique"
                )
        found.append(Bucket(bucket, [row for _, row in pairs]))
    return found


def number(batch_id: int, rank: int) -> int:
    """The sequence id of a bucket's row."""
    assert 0 <= rank < 1 << RANK_BITS
    return batch_id << RANK_BITS | rank


def check_replay(last: int, batch_id: int, count: int, name: str) -> None:
    """May a batch of `count` rows be written behind number `last`, the newest that the topic has of this
    bucket? `name` is the query's."""
    last_batch, last_rank = last >> RANK_BITS, last & (1 << RANK_BITS) - 1
    if last < 0 or last_batch < batch_id:
        return
    if last_batch > batch_id:
        raise NotAllowed(
            f"{name} has written batch {last_batch}, and is at batch {batch_id} again: its checkpoint is "
            "older than the topic"
        )
    if last_rank >= count:
        raise NotAllowed(
            f"{name} wrote {last_rank + 1} rows or more of batch {batch_id} before, and has {count} now: "
            "a batch must have the same keys when it is replayed, and all of a bucket in one task "
            "(milepost.spark.arrange)"
        )
