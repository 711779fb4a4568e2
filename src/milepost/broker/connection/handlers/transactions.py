"""NEW_TXN, END_TXN and the other commands of transactions.

An answer means that what it says is on disk. A transaction belongs to the role that opened it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from milepost.broker.auth.authorizer import Target
from milepost.broker.auth.operations import Operation
from milepost.broker.connection.handlers.registry import Work, handles
from milepost.broker.transactions.coordinator import ABORT, OUTCOMES, Transaction
from milepost.broker.transactions.series import Series
from milepost.errors import InvalidInput, MilepostError, TransactionNotFound
from milepost.positions import TxnId, signed64
from milepost.positions.names import TopicName
from milepost.wire import pulsar_pb2 as pb
from milepost.wire import replies
from milepost.wire.commands import Kind
from milepost.wire.events import (
    AddSubscriptions,
    AddTopics,
    EndTransaction,
    NewTransaction,
    TransactionRequest,
)

if TYPE_CHECKING:
    from milepost.broker.connection.session import Session


# A client asks again for the last ones, if for any.
TOLD_ENDS_MAX = 100


@handles(Kind.TC_CLIENT_CONNECT_REQUEST, needs=Operation.IDENTIFIED)
def connect_coordinator(session: Session, command: pb.CommandTcClientConnectRequest) -> Work:
    """There is one coordinator, number 0, or one for each worker, with the number of its shard; another is
    `TransactionCoordinatorNotFound`. With transactions switched off it is `NotAllowedError`."""
    session.broker.transactions.check_coordinator(signed64(command.tc_id))
    session.write((replies.coordinator_connected(command.request_id),))
    return None


@handles(Kind.NEW_TXN, needs=Operation.IDENTIFIED)
def new_transaction(session: Session, command: NewTransaction) -> Work:
    """Opens a transaction of the client's role, which is aborted when `txn_ttl_millis` are over, restarts
    of the broker included. More than `max_active_transactions_per_coordinator` at once are
    `TooManyRequests`. With Milepost's own field `series` it is part of a numbered step, which is committed
    once: a step that was committed is `TransactionConflict`, an earlier one `NotAllowedError`, a run of the
    series that is over, or that another has followed, `ProducerFenced`. The first transaction of a
    new run aborts those that earlier runs have open."""
    service = session.broker.transactions
    service.check_coordinator(command.coordinator)
    if not service.is_ready:
        return _after(service.make_ready(), partial(_open, session, command))
    _open(session, command)
    return None


def _open(session: Session, command: NewTransaction) -> None:
    """Open a transaction, and answer when that is durable."""
    txn_id = session.broker.transactions.new(
        timeout_ms=command.timeout_ms,
        owner=session.role,
        series=None if command.series is None else Series(*command.series),
        done=lambda error: _answer(session, command, error, replies.new_transaction, txn_id),
    )


@handles(Kind.ADD_PARTITION_TO_TXN, needs=Operation.IDENTIFIED)
def add_partition(session: Session, command: AddTopics) -> Work:
    """Adds topics that the transaction will send to; the client needs the right to produce there. One
    that does not exist is `TopicNotFound`, an unknown transaction `TransactionNotFound`, one that has
    ended or is ending `InvalidTxnStatus`."""
    txn_id, service = _owned(session, command), session.broker.transactions
    names = [TopicName.parse(text) for text in command.topics]
    if session.broker.access_control.security.authorizer.is_enabled:
        for name in names:
            _check(session, Operation.PRODUCE, name)

    def done(error: MilepostError | None) -> None:
        _answer(session, command, error, replies.partitions_added, txn_id)

    def obey() -> None:
        _note_spellings(service.add_topics(txn_id, names, done), names, command.topics)

    if not service.is_usable(names):
        service.coordinator.find(txn_id)  # before a topic is opened for it
        return _after(service.make_ready_for(txn_id, names), obey)
    obey()
    return None


@handles(Kind.ADD_SUBSCRIPTION_TO_TXN, needs=Operation.IDENTIFIED)
def add_subscription(session: Session, command: AddSubscriptions) -> Work:
    """Adds subscriptions whose messages the transaction will ack; the client needs the right to consume.
    Errors as of ADD_PARTITION_TO_TXN."""
    txn_id, service = _owned(session, command), session.broker.transactions
    pairs = [(TopicName.parse(topic), name) for topic, name in command.pairs]
    for name, subscription in pairs:
        _check(session, Operation.CONSUME, name, subscription)
    service.coordinator.find(txn_id)

    def done(error: MilepostError | None) -> None:
        _answer(session, command, error, replies.subscriptions_added, txn_id)

    names = [name for name, _ in pairs]

    def obey() -> None:
        txn = service.add_subscriptions(txn_id, pairs, done)
        _note_spellings(txn, names, [topic for topic, _ in command.pairs])

    if not service.is_usable(names):
        return _after(service.make_ready_for(txn_id, (), pairs), obey)
    obey()
    return None


@handles(Kind.END_TXN, needs=Operation.IDENTIFIED)
def end_transaction(session: Session, command: EndTransaction) -> Work:
    """Commits or aborts, all of it in one durable step. The same end again is answered the same way, for a
    client that lost its connection before the answer; on a connection that has told it, it is
    `TransactionNotFound`, as upstream has it, but for Milepost's own client. The other end is
    `InvalidTxnStatus`. Those that Milepost's own field `also_txnid_least_bits` names end with it, in the same
    step. A commit of a step of a series aborts what else the series has open; errors as of NEW_TXN. With
    Milepost's own field `series` it aborts what a run of a series has open, and the run is over."""
    if command.action is None:
        raise InvalidInput("END_TXN without an action; commit or abort")
    if command.series is not None:
        return _end_run(session, command, Series(*command.series))
    txn_id, outcome = _owned(session, command), OUTCOMES[command.action]
    told, peer = session.told_ends, session.protocol.peer
    if told.get(txn_id) is outcome and not (peer is not None and peer.asks_for_ends_again):
        raise TransactionNotFound(f"transaction {txn_id} has ended, as this client was told")

    def done(error: MilepostError | None) -> None:
        if error is None:
            told[txn_id] = outcome
            if len(told) > TOLD_ENDS_MAX:
                del told[next(iter(told))]
        _answer(session, command, error, replies.transaction_ended, txn_id)

    service = session.broker.transactions
    also = [TxnId(txn_id.most, least) for least in command.also] if command.also else ()
    for one in also:
        service.coordinator.check_owner(one, session.role)
    service.end(txn_id, outcome, done, also)
    return None


def _end_run(session: Session, command: EndTransaction, series: Series) -> Work:
    """Abort a run by its series: the driver does not know the transactions of killed tasks."""
    if command.action != ABORT:
        raise InvalidInput(f"series {series.name}: a run can be aborted, not committed")
    service = session.broker.transactions
    coordinator = service.coordinator
    if command.txn_id.most != coordinator.number:
        raise coordinator.unknown(command.txn_id.most)
    no_one = TxnId(coordinator.number, 0)

    def done(error: MilepostError | None) -> None:
        _answer(session, command, error, replies.transaction_ended, no_one)

    end = partial(service.end_run, session.role, series, done)
    if not service.is_ready:  # it would be forgotten with the first transaction
        return _after(service.make_ready(), end)
    end()
    return None


async def _after(preparation: Coroutine[Any, Any, None], obey: Callable[[], None]) -> None:
    await preparation
    obey()


def _answer(
    session: Session,
    command: TransactionRequest,
    error: MilepostError | None,
    reply: Callable[[int, TxnId], bytes],
    txn_id: TxnId,
) -> None:
    if error is None:
        session.write((reply(command.request_id, txn_id),))
    else:
        session.refuse(command, error)


def _owned(session: Session, command: AddTopics | AddSubscriptions | EndTransaction) -> TxnId:
    """The transaction that a command names, if it is the client's own: another role's is not there for
    it."""
    txn_id = command.txn_id
    coordinator = session.broker.transactions.coordinator
    if txn_id.most != coordinator.number:
        raise coordinator.unknown(txn_id.most)
    coordinator.check_owner(txn_id, session.role)
    return txn_id


def _note_spellings(txn: Transaction, names: Sequence[TopicName], texts: Sequence[str]) -> None:
    """Its metadata calls a topic as the client does."""
    for name, text in zip(names, texts, strict=True):
        if name.text != text:
            txn.spell(name.text, text)


def _check(session: Session, operation: Operation, name: TopicName, subscription: str = "") -> None:
    guard = session.broker.access_control
    if guard.security.authorizer.is_enabled:
        target = Target.of_topic(name, subscription)
        guard.check(session.credentials.identity, operation, target)
