"""What readers of a compacted topic get: the last message of each key.

`compactor.py` finds out which that is.

Nothing is written anew. The result is a set of indexes: those below the horizon that are kept; the entries
stay where they lie, with their ids, and a consumer that reads compacted passes over the rest. A batch that
is kept in part goes out whole with an ack set, as one that was acked in part does.

    key      a  b  a  c  b(empty)  │ a
    index    0  1  2  3  4         │ 5      horizon 5: kept {2, 3}; from 5 on everything is sent

    >>> compacted = Compacted(horizon=5, kept=IndexRanges([(2, 4)]))
    >>> compacted.next_kept(0), compacted.next_kept(4), list(compacted.gone(0, 9))
    (2, 5, [(0, 2), (4, 5)])
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from milepost.errors import CorruptData, UnknownFormat
from milepost.positions.ranges import IndexRanges, Range
from milepost.positions.varints import read_varint, write_varint
from milepost.storage.ledgers.entry import Entry

if TYPE_CHECKING:
    from milepost.broker.subscription.subscription import Subscription

VERSION = 1
_CHECKSUM_SIZE_BYTES = 4


class Compacted(NamedTuple):
    """What compaction has left of a topic."""

    horizon: int
    """Messages from here on were not looked at."""
    kept: IndexRanges
    """Invariant: all below the horizon."""

    def next_kept(self, index: int) -> int:
        """The first index at or behind this one that is to be sent."""
        if index >= self.horizon:
            return index
        found = self.kept.next_index(index)
        return self.horizon if found is None else found

    def last_kept(self, index: int) -> int:
        """The last index at or before this one that is to be sent; -1 if none is."""
        if index >= self.horizon:
            return index
        low, high = -1, index + 1
        while (
            high - low > 1
        ):  # something is kept in [low, index], or low is -1; nothing in [high, index]
            middle = (low + high) // 2
            found = self.kept.next_index(middle)
            if found is not None and found <= index:
                low = found
            else:
                high = middle
        return low

    def gone(self, first: int, end: int) -> Iterator[Range]:
        """The parts of `[first, end)` that are not to be sent."""
        return self.kept.gaps(first, min(end, self.horizon))

    def encode(self) -> bytes:
        out = bytearray([VERSION])
        write_varint(out, self.horizon)
        out += self.kept.to_bytes()
        out += zlib.crc32(out).to_bytes(_CHECKSUM_SIZE_BYTES, "little")
        return bytes(out)

    @classmethod
    def decode(cls, data: bytes) -> Compacted:
        if not data or data[0] != VERSION:
            raise UnknownFormat(f"a compaction of version {data[:1].hex() or 'none'}")
        body, checksum = data[:-_CHECKSUM_SIZE_BYTES], data[-_CHECKSUM_SIZE_BYTES:]
        computed, stored = zlib.crc32(body), int.from_bytes(checksum, "little")
        if computed != stored:
            raise CorruptData(f"a compaction with checksum {stored:#x}, computed {computed:#x}")
        horizon, at = read_varint(body, 1)
        return cls(horizon, IndexRanges.from_bytes(body[at:]))


@dataclass
class CompactionRuns:
    """What is known of a topic's compactions in this process. Statuses by upstream's names."""

    status: str = "NOT_RUN"
    last_error: str = ""
    succeeded_ms: int = 0
    failed_ms: int = 0
    took_ms: int = 0
    removed: int = 0
    """Messages that the last run left out."""


# -- what a subscription that reads compacted passes over ------------------------------------------------


def skip(subscription: Subscription) -> None:
    """Up to the first message that is kept, however far that is."""
    view, cursor = subscription.topic.compacted, subscription.cursor
    while view is not None and (ready := cursor.next_ready(0, 1)) is not None:
        kept = view.next_kept(ready[0])
        if kept == ready[0]:
            return
        subscription.pass_over([(ready[0], min(kept, cursor.end))])


def skip_within(subscription: Subscription, entries: Sequence[Entry]) -> None:
    """What of these entries is not kept: so that a batch shows only what is."""
    if (view := subscription.topic.compacted) is not None:
        first, end = entries[0].span.first_index, entries[-1].last_index + 1
        subscription.pass_over(list(view.gone(first, end)))
