"""What the methods of a cursor return.

`taken` is the same everywhere: holder → how many of the indexes inflight with it are not any more.
The broker lowers its counts of unacked messages by it, whichever consumer sent the command.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from milepost.positions.ranges import Range


class Delivered(NamedTuple):
    """The part of a range that went to a holder."""

    count: int  # type: ignore[assignment]  # in place of tuple.count, which has no use here
    """How many indexes; what to take off the permits."""

    ranges: Sequence[Range]
    """Which; the range asked for and nothing else when all of it was ready."""

    stale: Sequence[Range]
    """Those that were stale until now. If any, the delivery is a fact to be journaled."""


class Acked(NamedTuple):
    """What an ack did."""

    count: int  # type: ignore[assignment]
    """How many indexes are acked now and were not before."""

    ignored: int
    """How many of those named were stale: delivered before the last seek and not again since."""

    taken: dict[int, int]

    ranges: Sequence[Range]
    """What to journal before the answer leaves; empty when nothing changed."""


class Released(NamedTuple):
    """What went back from inflight to ready."""

    count: int  # type: ignore[assignment]
    taken: dict[int, int]


class Counts(NamedTuple):
    """Promise 4: the four add up to `end − first`, always."""

    ready: int
    inflight: int
    delayed: int
    acked: int
