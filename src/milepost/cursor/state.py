"""What of a cursor outlives a restart, as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from milepost.positions.ranges import IndexRanges


class CursorState(NamedTuple):
    """The fields of `Cursor` that a restart brings back, under their names there."""

    first: int
    end: int
    epoch: int

    backlog: IndexRanges
    """Everything that is not acked: after a restart it is all ready."""

    returned: IndexRanges
    """With what is inflight: after a restart it was with a consumer, and came back."""

    stale: IndexRanges
    redeliveries: Sequence[IndexRanges]
