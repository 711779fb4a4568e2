"""What tests ask of ack sets, reports and cursors, and the product does not."""

from __future__ import annotations

from milepost.cursor.cursor import Cursor
from milepost.positions.ackset import AckSet, _runs
from milepost.positions.spans import Span
from milepost.storage.recovery import RecoveryReport


def is_pending(ack_set: AckSet, batch_index: int) -> bool:
    """Is one message still to be acked?"""
    assert 0 <= batch_index < ack_set.size, (batch_index, ack_set)
    return bool(ack_set.bits >> batch_index & 1)


def pending_runs(ack_set: AckSet, first_index: int = 0) -> list[tuple[int, int]]:
    """What is still to be acked, as ascending half-open runs counted from `first_index`."""
    return _runs(ack_set.bits, first_index)


def acks_left(cursor: Cursor, span: Span) -> AckSet | None:
    """Which messages of an entry are still to be acked; None when all of them are."""
    left = cursor.backlog_ranges()
    bits = sum(
        1 << number
        for number in range(span.count)
        if any(first <= span.first_index + number < end for first, end in left)
    )
    found = AckSet(bits, span.count)
    return None if found.is_full else found


def is_clean(report: RecoveryReport) -> bool:
    """Was there nothing to do at the start: did the last run end with a checkpoint? Records of what was
    deleted behind them may be left: they mean nothing, and are no reason for a checkpoint."""
    return not (report.entries or report.facts or report.cut_bytes or report.damages)
