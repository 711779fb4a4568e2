"""Passes over what no consumer may see: markers, messages of aborted transactions, recalled messages.

There may be millions of ranges, one for each transaction that a topic has ever seen. A subscription that is
made at the first message, or sought to it, has to pass over all of them in one step: a page of the sets at a
time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from milepost.broker.dispatch import chunk_acks
from milepost.broker.metrics import subscription_counts
from milepost.positions.ranges import IndexRanges, joined
from milepost.positions.spans import INDEX_MAX

if TYPE_CHECKING:
    from milepost.broker.subscription.subscription import Subscription

# Indexes that are passed over range by range: fewer than a page.
FEW: Final = 512


def pass_over(subscription: Subscription, hidden: IndexRanges, first: int) -> None:
    """Ack what is hidden from an index on."""
    end = subscription.cursor.end
    if end - first <= FEW:
        subscription.pass_over(list(hidden.within(first, end)))
        return
    if 2 * (end - first) < (hidden.end or 0):
        # What a batch has brought: a copy of all that was ever hidden would take milliseconds.
        passed = hidden & IndexRanges([(first, end)])
    else:
        passed = hidden.copy()
        passed.discard(0, first)
        passed.discard(end, INDEX_MAX)
    acked = subscription.cursor.skip_set(passed)
    if acked.taken:
        subscription.let_go(acked._replace(ranges=list(passed)))
    if acked.count:
        _note(subscription, passed)


def _note(subscription: Subscription, passed: IndexRanges) -> None:
    """What `Subscription.note_acked` does, for very many."""
    assert passed.first is not None
    assert passed.end is not None
    subscription.unshown.torn.discard_all(passed)
    subscription_counts.progressed(subscription, [(passed.first, passed.end)])
    if subscription.journal is not None:
        subscription.journal.note_set(passed)
    gate = subscription.gate
    if given_up := gate.settled(gate.known_within(passed)):
        subscription.pass_over(joined(given_up))
    for rest in chunk_acks.call_off(subscription) if subscription.handovers else ():
        subscription.note_acked(rest)
        subscription.counts.messages_acked -= rest.count
        subscription.rescan()
    if subscription.topic.is_terminated:
        subscription.read_loop.wake()
