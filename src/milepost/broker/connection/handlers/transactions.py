"""NEW_TXN, END_TXN and the other commands of transactions: all are refused.

There are no transactions. A client that asks is told so, by the reply that upstream gives with its
coordinator off; its connection stays, and everything else on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.auth.operations import Operation
from milepost.broker.connection.handlers.registry import Work, handles
from milepost.errors import NotAllowed
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.commands import Kind

if TYPE_CHECKING:
    from milepost.broker.connection.session import Session


@handles(Kind.TC_CLIENT_CONNECT_REQUEST, needs=Operation.IDENTIFIED)
def connect_coordinator(session: Session, command: pb.CommandTcClientConnectRequest) -> Work:
    """There is no coordinator of transactions: `NotAllowedError`."""
    return _refuse()


@handles(Kind.NEW_TXN, needs=Operation.IDENTIFIED)
def new_transaction(session: Session, command: pb.CommandNewTxn) -> Work:
    """There are no transactions: `NotAllowedError`."""
    return _refuse()


@handles(Kind.ADD_PARTITION_TO_TXN, needs=Operation.IDENTIFIED)
def add_partition(session: Session, command: pb.CommandAddPartitionToTxn) -> Work:
    """There are no transactions: `NotAllowedError`."""
    return _refuse()


@handles(Kind.ADD_SUBSCRIPTION_TO_TXN, needs=Operation.IDENTIFIED)
def add_subscription(session: Session, command: pb.CommandAddSubscriptionToTxn) -> Work:
    """There are no transactions: `NotAllowedError`."""
    return _refuse()


@handles(Kind.END_TXN, needs=Operation.IDENTIFIED)
def end_transaction(session: Session, command: pb.CommandEndTxn) -> Work:
    """There are no transactions: `NotAllowedError`."""
    return _refuse()


def _refuse() -> Work:
    raise NotAllowed("transactions are not supported")
