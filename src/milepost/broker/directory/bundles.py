"""The bundles of a namespace: ranges of hashes into which its topics fall. Pure.

Upstream gives whole bundles to brokers. Here one broker has them all, so a bundle is a way to name some of a
namespace's topics: to list, unload, clear or count them. Ranges, hashes and the ways to divide one are
upstream's, so that tools that work by bundle find what they expect.

    >>> whole = Bundles()
    >>> whole.of("persistent://public/default/orders")
    '0x00000000_0xffffffff'
    >>> whole.divided("0x00000000_0xffffffff", [0x80000000]).names
    ['0x00000000_0x80000000', '0x80000000_0xffffffff']
"""

from __future__ import annotations

import zlib
from bisect import bisect_right, insort
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, Final

from milepost.errors import InvalidPartitions, PreconditionFailed

HASH_MAX: Final = 0xFFFFFFFF
COUNT_MAX: Final = 4096

# Ways to divide a bundle, by upstream's names; the first is used when none is named.
BY_RANGE, BY_TOPICS, BY_POSITIONS, BY_TRAFFIC = (
    "range_equally_divide",
    "topic_count_equally_divide",
    "specified_positions_divide",
    "flow_or_qps_equally_divide",
)
WAYS: Final = (BY_RANGE, BY_TOPICS, BY_POSITIONS, BY_TRAFFIC)

# The key in a namespace's document.
KEY: Final = "bundles"


def hash_of(name: str) -> int:
    """Of a topic's full name, a partition's own."""
    return zlib.crc32(name.encode())


def _text(boundary: int) -> str:
    return f"0x{boundary:08x}"


class Bundles:
    """A namespace's boundaries.

    Invariant: rising, the first 0, the last HASH_MAX; a bundle has its lower boundary and not its upper
    one, but for the last, which has both.
    """

    __slots__ = ("_boundaries",)

    def __init__(self, boundaries: Sequence[int] = (0, HASH_MAX)) -> None:
        self._boundaries = tuple(boundaries)
        assert (boundaries[0], boundaries[-1]) == (0, HASH_MAX), boundaries
        assert all(low < high for low, high in pairwise(boundaries)), boundaries

    @classmethod
    def of_doc(cls, doc: Mapping[str, Any]) -> Bundles:
        """As a namespace's document has them; one bundle where it has none."""
        return cls(doc[KEY]) if KEY in doc else cls()

    @classmethod
    def equal(cls, count: int) -> Bundles:
        """So many of one size, as a namespace is made with."""
        if not 1 <= count <= COUNT_MAX:
            raise InvalidPartitions(f"{count} bundles; allowed are 1 to {COUNT_MAX}")
        return cls([*(number * ((HASH_MAX + 1) // count) for number in range(count)), HASH_MAX])

    def to_doc(self) -> list[int]:
        return list(self._boundaries)

    @property
    def boundaries(self) -> list[str]:
        return [_text(one) for one in self._boundaries]

    @property
    def names(self) -> list[str]:
        return [f"{low}_{high}" for low, high in pairwise(self.boundaries)]

    def of(self, name: str) -> str:
        """The bundle of a topic."""
        place = self._place(hash_of(name))
        return f"{_text(self._boundaries[place])}_{_text(self._boundaries[place + 1])}"

    def _place(self, hashed: int) -> int:
        return min(bisect_right(self._boundaries, hashed), len(self._boundaries) - 1) - 1

    def bounds(self, bundle: str) -> tuple[int, int]:
        """Of a bundle that the namespace has, by its name in any letters."""
        if bundle.lower() not in self.names:
            shown = ", ".join(self.names[:4]) + (", …" if len(self.names) > 4 else "")
            raise PreconditionFailed(f"there is no bundle {bundle[:80]}, but {shown}")
        low, _, high = bundle.partition("_")
        return int(low, 16), int(high, 16)

    def within(self, bundle: str, names: Iterable[str]) -> list[str]:
        """Those of some topics that fall into a bundle."""
        place = self.names.index(bundle.lower())
        return [name for name in names if self._place(hash_of(name)) == place]

    def divided(self, bundle: str, positions: Iterable[int]) -> Bundles:
        """The same with more boundaries in a bundle; those outside of it are left out."""
        low, high = self.bounds(bundle)
        boundaries = list(self._boundaries)
        for position in sorted({one for one in positions if low < one < high}):
            insort(boundaries, position)
        if len(boundaries) - 1 > COUNT_MAX:
            raise PreconditionFailed(f"a namespace has at most {COUNT_MAX} bundles")
        return Bundles(boundaries)

    def division(
        self, bundle: str, way: str, traffic: Mapping[str, float], given: Sequence[int] = ()
    ) -> list[int]:
        """Where a way divides a bundle: nowhere, if its topics give no reason.

        `traffic` has the bundle's topics, each with its messages a second.
        """
        low, high = self.bounds(bundle)
        if way == BY_RANGE:
            return [low + (high - low) // 2]
        hashes = sorted((hash_of(name), rate) for name, rate in traffic.items())
        if way == BY_POSITIONS:
            if not given:
                raise PreconditionFailed(f"{BY_POSITIONS} needs positions")
            return list(given) if len(hashes) > 1 else []
        if len(hashes) <= 1:
            return []
        if way == BY_TOPICS:
            behind = len(hashes) // 2
        elif way == BY_TRAFFIC:
            sums = list(accumulate(rate for _, rate in hashes))
            if not sums[-1]:
                return []
            # As near to half of it as whole topics allow.
            behind = 1 + min(
                range(len(hashes) - 1), key=lambda number: abs(sums[number] - sums[-1] / 2)
            )
        else:
            raise PreconditionFailed(f"{way[:80]} divides no bundle; {', '.join(WAYS)} do")
        return [(hashes[behind - 1][0] + hashes[behind][0]) // 2]
