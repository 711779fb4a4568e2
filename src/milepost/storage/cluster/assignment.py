"""Which broker claims a free shard. Pure.

Every broker decides for itself, from what it sees on the board. Two that see the same decide the same; where
they see different things, both may claim, and the manifest of the shard decides.

    >>> assigned({"a": 2, "b": 0}, [5, 6, 7])
    {5: 'b', 6: 'b', 7: 'a'}
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
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
