"""Which broker claims a free shard, and which gives one away. Pure.

Every broker decides for itself, from what it sees on the board. Two that see the same decide the same; where
they see different things, both may claim, and the manifest of the shard decides.

    >>> assigned({"a": 2, "b": 0}, [5, 6, 7])
    {5: 'b', 6: 'b', 7: 'a'}
    >>> surplus({"a": 3, "b": 1}, "a", [1, 2, 3]), surplus({"a": 3, "b": 2}, "a", [1, 2, 3])
    (3, None)
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from milepost.storage.cluster.notice import Notice

EMPTY: Final[Mapping[str, Container[int]]] = MappingProxyType({})


def counts_of(living: Mapping[str, Notice]) -> dict[str, int]:
    """How many shards each broker has that may be given more."""
    return {name: len(one.shards) for name, one in living.items() if not one.is_leaving}


def assigned(
    counts: Mapping[str, int], free: Iterable[int], shunned: Mapping[str, Container[int]] = EMPTY
) -> dict[int, str]:
    """Which broker claims which free shard: one of those that have the fewest and do not shun it."""
    now = dict(counts)
    found: dict[int, str] = {}
    for shard in sorted(free):
        able = [name for name in now if shard not in shunned.get(name, ())]
        if able:
            found[shard] = min(able, key=lambda name: (now[name], name))
            now[found[shard]] += 1
    return found


def surplus(counts: Mapping[str, int], own: str, shards: Sequence[int]) -> int | None:
    """The shard that a broker gives away because another has two fewer; None if it keeps all.

    Of several brokers with the most, one gives at a time.
    """
    if own not in counts or not shards:
        return None
    heaviest = max(counts, key=lambda name: (counts[name], name))
    if heaviest != own or counts[own] - min(counts.values()) < 2:
        return None
    return max(shards)
