"""NEW_TXN, END_TXN and the other commands of transactions.

An answer means that what it says is on disk. A transaction belongs to the role that opened it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.auth.authorizer import Target
from milepost.broker.auth.operations import Operation
from milepost.broker.connection.handlers.registry import Work, handles
from milepost.broker.transactions.coordinator import Outcome
from milepost.errors import InvalidInput, TransactionNotFound
from milepost.positions import TxnId, signed64
from milepost.positions.names import TopicName
from milepost.wire import pulsar_pb2 as pb
from milepost.wire import replies
from milepost.wire.commands import Kind

if TYPE_CHECKING:
    from milepost.broker.connection.session import Session


@handles(Kind.TC_CLIENT_CONNECT_REQUEST, needs=Operation.IDENTIFIED)
def connect_coordinator(session: Session, command: pb.CommandTcClientConnectRequest) -> Work:
    """There is one coordinator, number 0; another is `TransactionCoordinatorNotFound`. With transactions
    switched off it is `NotAllowedError`."""
    session.broker.transactions.check_coordinator(signed64(command.tc_id))
    session.write((replies.coordinator_connected(command.request_id),))
    return None


@handles(Kind.NEW_TXN, needs=Operation.IDENTIFIED)
async def new_transaction(session: Session, command: pb.CommandNewTxn) -> None:
    """Opens a transaction of the client's role, which is aborted when `txn_ttl_millis` are over, restarts
    of the broker included. More than `max_active_transactions_per_coordinator` at once are
    `TooManyRequests`."""
    service = session.broker.transactions
    service.check_coordinator(signed64(command.tc_id))
    timeout_ms = signed64(command.txn_ttl_millis)
    txn_id = await service.new(timeout_ms=timeout_ms, owner=_role(session))
    session.write((replies.new_transaction(command.request_id, txn_id),))


@handles(Kind.ADD_PARTITION_TO_TXN, needs=Operation.IDENTIFIED)
async def add_partition(session: Session, command: pb.CommandAddPartitionToTxn) -> None:
    """Adds topics that the transaction will send to; the client needs the right to produce there. One
    that does not exist is `TopicNotFound`, an unknown transaction `TransactionNotFound`, one that has
    ended or is ending `InvalidTxnStatus`."""
    txn_id = _owned(session, command)
    names = [TopicName.parse(text) for text in command.partitions]
    for name in names:
        _check(session, Operation.PRODUCE, name)
    await session.broker.transactions.add_topics(txn_id, names)
    session.write((replies.partitions_added(command.request_id, txn_id),))


@handles(Kind.ADD_SUBSCRIPTION_TO_TXN, needs=Operation.IDENTIFIED)
async def add_subscription(session: Session, command: pb.CommandAddSubscriptionToTxn) -> None:
    """Adds subscriptions whose messages the transaction will ack; the client needs the right to consume.
    Errors as of ADD_PARTITION_TO_TXN."""
    txn_id = _owned(session, command)
    pairs = [(TopicName.parse(one.topic), one.subscription) for one in command.subscription]
    for name, subscription in pairs:
        _check(session, Operation.CONSUME, name, subscription)
    await session.broker.transactions.add_subscriptions(txn_id, pairs)
    session.write((replies.subscriptions_added(command.request_id, txn_id),))


@handles(Kind.END_TXN, needs=Operation.IDENTIFIED)
async def end_transaction(session: Session, command: pb.CommandEndTxn) -> None:
    """Commits or aborts, all of it in one durable step. The same end again is answered the same way, the
    other one is `InvalidTxnStatus`."""
    if not command.HasField("txn_action"):
        raise InvalidInput("END_TXN without an action; commit or abort")
    txn_id = _owned(session, command)
    await session.broker.transactions.end(txn_id, Outcome(command.txn_action))
    session.write((replies.transaction_ended(command.request_id, txn_id),))


def _owned(
    session: Session,
    command: pb.CommandAddPartitionToTxn | pb.CommandAddSubscriptionToTxn | pb.CommandEndTxn,
) -> TxnId:
    """The transaction that a command names, if it is the client's own: another role's is not there for
    it."""
    txn_id = TxnId(signed64(command.txnid_most_bits), signed64(command.txnid_least_bits))
    coordinator = session.broker.transactions.coordinator
    if txn_id.most != coordinator.number:
        raise coordinator.unknown(txn_id.most)
    txn = coordinator.open.get(txn_id.least)
    if txn is not None and txn.owner != _role(session):
        raise TransactionNotFound(f"transaction {txn_id} is not this client's")
    return txn_id


def _check(session: Session, operation: Operation, name: TopicName, subscription: str = "") -> None:
    guard = session.broker.access_control
    if guard.security.authorizer.is_enabled:
        target = Target.of_topic(name, subscription)
        guard.check(session.credentials.identity, operation, target)


def _role(session: Session) -> str | None:
    identity = session.credentials.identity
    return None if identity is None else identity.original_role or identity.role
