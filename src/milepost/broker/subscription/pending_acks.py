"""Acks of transactions on one subscription: pending until the transaction ends.

A pending message is with no consumer and not acked. The transaction's commit acks it, its abort makes it
ready again, a seek forgets that it was ever pending. An ack that the disk refuses is undone: its messages are
ready again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from milepost.broker.dispatch import chunk_acks
from milepost.broker.dispatch.consumer import NO_EPOCH
from milepost.broker.messages import ids_to_indexes
from milepost.broker.metrics import subscription_counts
from milepost.broker.transactions.coordinator import Outcome
from milepost.broker.transactions.topic_transactions import PendingAcks
from milepost.cursor.cursor import TRANSACTIONS
from milepost.errors import (
    IndexNotFound,
    InvalidTransactionStatus,
    MilepostError,
    NotAllowed,
    PersistenceError,
    TooManyRequests,
    TransactionConflict,
)
from milepost.positions.ranges import IndexRanges, Range, joined
from milepost.positions.spans import Span
from milepost.storage.ledgers.not_in_memory import NotInMemory
from milepost.wire.events import Ack
from milepost.wire.scanners.ack_slices import ranges_in

if TYPE_CHECKING:
    from milepost.broker.dispatch.consumer import Consumer
    from milepost.broker.subscription.subscription import Subscription
    from milepost.broker.topic.topic import Topic
    from milepost.broker.transactions.topic_transactions import TopicTransactions
    from milepost.positions.transactions import TxnId


# Ranges of one ACK, which is obeyed as a whole: about 50 ms. The wire reads no more ids than that either.
RANGES_MAX = 10_000


def pend(consumer: Consumer, ack: Ack, done: Callable[[MilepostError | None], None]) -> None:
    """Obey an ACK of a transaction; `done` is called when it is durable that it is pending. Nothing
    changes if one of the messages is acked, or pending in another transaction."""
    subscription, txn_id = consumer.subscription, ack.transaction
    topic, journal, cursor = subscription.topic, subscription.journal, subscription.cursor
    assert txn_id is not None
    if journal is None or subscription.state_id is None:
        done(NotAllowed(f"subscription {subscription.name} of {topic.name} is not durable"))
        return
    if consumer.owes_echo is not None:
        done(None)  # the client sent it before it knew that the cursor was moved
        return
    transactions = topic.transactions
    if transactions is None:
        done(
            InvalidTransactionStatus(
                f"{topic.name} was deleted and made again since subscription {subscription.name} was "
                f"added to transaction {txn_id}"
            )
        )
        return
    subscription.keep_up()  # a client may ack an id that a member of a broadcast group has not been sent
    try:
        if ack.is_cut or len(ack.ids) > RANGES_MAX or _set_ranges(ack) > RANGES_MAX:
            raise TooManyRequests(
                f"an ack in transaction {txn_id} names more than {RANGES_MAX} ids or ranges of batch "
                "indexes: send it as several"
            )
        named, ranges = map(subscription.meant, _ranges(consumer, ack))
        # What the consumer holds itself is with no transaction, and not acked.
        elsewhere = [one for one in named if not cursor.holds(consumer.holder, *one)]
        if elsewhere:
            own = transactions.pending_of(txn_id, subscription.state_id, cursor.epoch)
            _check_conflict(subscription, txn_id, elsewhere, own)
    except NotInMemory:
        raise
    except MilepostError as error:
        done(error)
        return
    pended = cursor.pend(ranges, consumer.holder)
    subscription.let_go(pended)
    if not pended.ranges:
        journal.when_durable(done)
        return
    dispatcher, unshown = subscription.dispatcher, subscription.unshown
    if not unshown.in_use:
        consumers = subscription.consumers
        unshown.begin(one.holder for one in consumers if one.messages_out or one.unacked)
    in_order = dispatcher is not None and dispatcher.takes_cumulative
    unshown.gave(pended.ranges, consumer.holder, from_others=in_order)
    epoch, fresh = cursor.epoch, pended.ranges
    before = transactions.pending_of(txn_id, subscription.state_id, epoch)
    if before is not None:
        left = IndexRanges(fresh)
        left.discard_all(before)
        fresh = list(left)
    fact = transactions.pend(txn_id, subscription.state_id, epoch, pended.ranges)

    def durable(error: PersistenceError | None) -> None:
        if error is not None:
            # The client was told no: a commit must not ack it after all.
            _take_back(subscription, transactions, txn_id, PendingAcks(epoch, IndexRanges(fresh)))
            if not consumer.is_closed and cursor.epoch == epoch:
                unshown.shown(fresh, consumer.holder)  # before, and it means that still
        done(error)

    journal.beside(transactions.state_id, fact, durable)


def pend_again(topic: Topic) -> None:
    """What open transactions have acked is with no consumer, as it was before the restart."""
    transactions = topic.transactions
    assert transactions is not None
    for subscription in topic.subscriptions.values():
        for part in subscription.parts():
            pending = {} if part.state_id is None else transactions.pending(part.state_id)
            if not pending:
                continue
            # Once for all of them: there may be ten thousand. What is pended stays part of it.
            backlog = part.cursor.backlog_ranges()
            for acks in pending.values():
                if acks.epoch == part.cursor.epoch:
                    pended = part.cursor.pend(list(backlog & acks.ranges))
                    part.unshown.recovered(pended.ranges)


def count_of(subscription: Subscription) -> int:
    """How many messages transactions have acked that have not ended."""
    return subscription.cursor.inflight_count_of(TRANSACTIONS)


def acked_in(subscription: Subscription) -> Iterator[tuple[TxnId, IndexRanges]]:
    """What each transaction that has not ended has acked, the oldest first; what it acked before a seek is
    forgotten."""
    transactions, state_id = subscription.topic.transactions, subscription.state_id
    if transactions is None or state_id is None:
        return
    for txn_id, acks in transactions.pending(state_id).items():
        if acks.epoch == subscription.cursor.epoch:
            yield txn_id, acks.ranges


def end(subscription: Subscription, acks: Sequence[tuple[PendingAcks, Outcome]]) -> None:
    """Transactions have ended, durably: their acks count, or their messages are ready again."""
    cursor, counts = subscription.cursor, subscription.counts
    committed: list[Range] = []
    aborted: list[Range] = []
    for pending, outcome in acks:
        if outcome is Outcome.COMMIT:
            counts.transactions_committed += 1
        else:
            counts.transactions_aborted += 1
        if pending.epoch == cursor.epoch:  # else the cursor was moved meanwhile
            (committed if outcome is Outcome.COMMIT else aborted).extend(pending.ranges)
    if ranges := list(cursor.pended_within(committed)):
        _settle(subscription, ranges)
    _make_ready(subscription, list(cursor.pended_within(aborted)))


def _settle(subscription: Subscription, ranges: Sequence[Range]) -> None:
    acked = subscription.cursor.ack(ranges, TRANSACTIONS)
    subscription.unshown.settled(acked.ranges)
    subscription_counts.settled(subscription, acked)
    if given_up := subscription.gate.settled(acked.ranges):
        subscription.pass_over(joined(given_up))
    if subscription.topic.is_terminated:
        subscription.read_loop.wake()


def _take_back(
    subscription: Subscription, transactions: TopicTransactions, txn_id: TxnId, acks: PendingAcks
) -> None:
    """The disk has refused an ack of a transaction: it never was."""
    assert subscription.state_id is not None
    transactions.unpend(txn_id, subscription.state_id, acks)
    if subscription.cursor.epoch == acks.epoch:
        _make_ready(subscription, list(subscription.cursor.pended_within(list(acks.ranges))))


def _make_ready(subscription: Subscription, ranges: Sequence[Range]) -> None:
    """What was pending comes again."""
    if not ranges:
        return
    dispatcher = subscription.dispatcher
    by_id = dispatcher is not None and dispatcher.releases_by_id
    if subscription.handovers:
        # A consumer that is still being sent such a message does not hold it; the next one gets all of it.
        for handover in subscription.handovers.within(IndexRanges(ranges)):
            subscription.handovers.drop(handover)
    subscription.cursor.release(ranges, TRANSACTIONS, count=by_id)
    if dispatcher is not None and not by_id:
        _give_in_order(subscription, ranges[0][0])
    subscription.rescan()


def _give_in_order(subscription: Subscription, index: int) -> None:
    """Exclusive and Failover consumers get everything in order: what they hold comes again behind what is
    ready now at an index, if some of it lies behind that."""
    behind = IndexRanges([(index, subscription.cursor.end)])
    for consumer in subscription.consumers:
        if subscription.cursor.inflight_within(consumer.holder, behind):
            subscription.redeliver(consumer, (), NO_EPOCH)


def _set_ranges(ack: Ack) -> int:
    return sum(ranges_in(one.ack_set) for one in ack.ids if one.ack_set)


def _ranges(consumer: Consumer, ack: Ack) -> tuple[Sequence[Range], Sequence[Range]]:
    """What an ack names, and what its sender means of that."""
    subscription = consumer.subscription
    if ack.is_cumulative:
        ranges = _ranges_up_to(consumer, ack)
        return ranges, ranges
    unshown, named, meant = subscription.unshown, list[Range](), None
    if unshown.in_use:

        def meant(of_one_id: Sequence[Range]) -> Sequence[Range]:
            named.extend(of_one_id)
            return unshown.spoken_for(consumer.holder, of_one_id)

    spoken_for, failure = ids_to_indexes.acked(
        subscription.topic,
        ack,
        batch_index_ack=subscription.limits.batch_index_ack,
        end_index=subscription.cursor.end,
        meant=meant,
    )
    if failure is not None:
        raise failure
    return spoken_for if meant is None else named, spoken_for


def _ranges_up_to(consumer: Consumer, ack: Ack) -> Sequence[Range]:
    """What a cumulative ack covers: everything up to it that is not acked, and not the chunks of messages
    that end later, nor what its sender was not shown."""
    subscription = consumer.subscription
    cursor, dispatcher = subscription.cursor, subscription.dispatcher
    if dispatcher is None or not dispatcher.takes_cumulative or len(ack.ids) != 1:
        return ()
    end_index = chunk_acks.acked_end(subscription, ack.ids[0], consumer.holder)
    if end_index > cursor.end:
        raise IndexNotFound(f"a cumulative ack up to {end_index}, the end is {cursor.end}")
    if cursor.is_stale(end_index - 1):
        return ()
    if end_index <= cursor.mark_delete_index + 1:
        raise TransactionConflict(f"{subscription.name}: everything below {end_index} is acked")
    backlog = cursor.backlog_ranges()
    if hidden := subscription.unshown.hidden_below(end_index, consumer.holder):
        backlog.discard_all(hidden)
    unmet = chunk_acks.unmet_chunks(subscription, end_index)
    known = subscription.gate.ranges_up_to(end_index)
    if known is None:
        return list(backlog.within(0, end_index))
    covered = IndexRanges()
    for piece in known + unmet:
        covered.add(*piece)
    return list(backlog & covered)


def _check_conflict(
    subscription: Subscription, txn_id: TxnId, ranges: Sequence[Range], own: IndexRanges | None
) -> None:
    """Refuse what is acked, or pending in another transaction; the same ack again is welcome."""
    cursor = subscription.cursor
    pended = cursor.pended_within(ranges)
    if own is not None:
        pended.discard_all(own)
    if pended:
        raise TransactionConflict(
            f"{subscription.name} of {subscription.topic.name}: index {pended.first} is acked by "
            f"another transaction than {txn_id}"
        )
    for first, end_index in ranges:
        if cursor.is_acked(Span(first, end_index - first)):
            raise TransactionConflict(
                f"{subscription.name} of {subscription.topic.name}: index {first} is acked already"
            )
