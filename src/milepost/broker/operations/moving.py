"""Moves a message: publishes it to one topic and acks it in another, as one record of the journal.

    half messages ──ack──┐
                         ├─▶ one record ─▶ durable: visible there, acked here
    orders ─────publish──┘

After a crash both are true, or neither. What the record says of the subscription is made true when it is
durable, and not before: were the disk to refuse it, the ack must not reach the disk with a later fact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from milepost.broker.metrics import subscription_counts
from milepost.cursor.cursor import NO_HOLDER
from milepost.cursor.facts import AckFact
from milepost.cursor.outcomes import Acked
from milepost.errors import MilepostError, NotFound, PersistenceError, ServiceNotReady
from milepost.positions.ranges import IndexRanges, Range, joined
from milepost.positions.spans import Span

if TYPE_CHECKING:
    from milepost.broker.subscription.subscription import Subscription
    from milepost.storage.interface import Store


def move(
    subscription: Subscription,
    ranges: Sequence[Range],
    publish: Callable[[], bool],
    store: Store,
    done: Callable[[MilepostError | None], None],
    epoch: int | None = None,
) -> None:
    """Ack `ranges` with what `publish` submits; `done` is called when both are durable, or with the reason
    why neither is. `publish` says whether it has submitted anything. The caller moves a message once at a
    time: it is acked when that is durable. With an `epoch`, a subscription that has another one was moved,
    and stays as it is."""
    cursor, journal = subscription.cursor, subscription.journal
    assert journal is not None, f"{subscription.name} is not durable"

    def step() -> None:
        now = cursor.epoch
        if epoch is not None and epoch != now:
            done(NotFound(f"{subscription.name} was moved meanwhile"))
            return
        if any(cursor.is_acked(Span(first, end - first)) for first, end in ranges):
            done(NotFound(f"{subscription.name}: index {ranges[0][0]} is acked already"))
            return

        def durable(error: PersistenceError | None) -> None:
            if error is None and cursor.epoch == now:  # else an operator has moved it since
                _settle(subscription, cursor.ack(ranges, NO_HOLDER))
            done(error)

        with store.together():
            is_submitted = publish()
            if is_submitted:
                journal.fact_to_come(AckFact(now, IndexRanges(ranges)), durable)
        if not is_submitted:
            done(ServiceNotReady("the message was refused where it was to go"))

    store.when_unplanned(step)


def _settle(subscription: Subscription, acked: Acked) -> None:
    """Account for an ack that is durable already."""
    subscription_counts.settled(subscription, acked)
    subscription.let_go(acked)
    subscription.unshown.settled(acked.ranges)
    if given_up := subscription.gate.settled(acked.ranges):
        subscription.pass_over(joined(given_up))
    if subscription.topic.is_terminated:
        subscription.read_loop.wake()
