"""Which shard a broker gives away because it carries much more than another. Pure.

A shard weighs 1, and more by the processor time that it takes: `PER_CORE` for a whole core. Where nothing is
loaded, brokers so have as many shards as each other, give or take one. The heaviest broker gives to the
lightest, a shard at a time, and only one that makes a clear difference:

- the sum of the squares of all brokers' weights falls by at least 2 with every move, so moves come to an end;
- the gap is a quarter larger than the shard is heavy, so it does not come back as long as no broker's weight
  changes by a quarter of the shard's.

    >>> idle = {"a": {1: 0.0, 2: 0.0, 3: 0.0}, "b": {4: 0.0}}
    >>> surplus(idle, "a", [1, 2, 3]), surplus(idle, "b", [4])
    (Surplus(shard=3, broker='b'), None)
    >>> surplus({"a": {1: 0.9, 2: 0.4}, "b": {3: 0.0, 4: 0.0}}, "a", [1, 2])
    Surplus(shard=2, broker='b')
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

# What a whole core weighs, in shards that do nothing.
PER_CORE: Final = 10.0
# A shard is given if the gap between the brokers is so many times its weight, or more.
CLEAR: Final = 1.25
# By so much the sum of squares falls when one of three idle shards goes where one is.
WORTH: Final = 2.0

# The loads of each broker's shards, in cores.
Loads = Mapping[str, Mapping[int, float]]
NONE_SHUNNED: Final[Mapping[str, Container[int]]] = MappingProxyType({})


class Surplus(NamedTuple):
    """A shard to give, and the broker to give it to."""

    shard: int
    broker: str


def weight(load: float) -> float:
    return 1.0 + PER_CORE * load


def weights(loads: Loads) -> dict[str, float]:
    """What each broker carries."""
    return {name: sum(map(weight, shards.values())) for name, shards in loads.items()}


def surplus(
    loads: Loads,
    own: str,
    movable: Iterable[int],
    shunned: Mapping[str, Container[int]] = NONE_SHUNNED,
) -> Surplus | None:
    """The shard that a broker gives away, and to which; None if it keeps all. Every broker that may be given
    shards is in `loads`; of several with the most, one gives at a time."""
    carried = weights(loads)
    if own not in carried or len(loads[own]) < 2:
        return None
    if max(carried, key=lambda name: (carried[name], name)) != own:
        return None
    to = min(carried, key=lambda name: (carried[name], name))
    gap = carried[own] - carried[to]
    worth = {
        shard: 2.0 * heavy * (gap - heavy)
        for shard in movable
        if gap >= CLEAR * (heavy := weight(loads[own][shard])) and shard not in shunned.get(to, ())
    }
    best = max(worth, key=lambda shard: (worth[shard], shard), default=None)
    return None if best is None or worth[best] < WORTH else Surplus(best, to)
