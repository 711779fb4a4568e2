"""Transactions of a write: tasks open them, the driver ends them.

Every attempt of a task that has rows writes in a transaction of its own, and tells the driver which. Of all
attempts Spark hands over one for each task; the driver commits those as one step of the broker. Attempts that
lost, or died, are never committed, and hold back what is behind them in their topics. The driver's commit
aborts them, and so does its abort: the broker knows all transactions of the run, those too of which no task
has told. A task that comes later than the driver's end is refused. Where no driver is left, they are aborted
with the first transaction of the next run, or when their time is over.

The transactions of a batch are a step of a series, which is named by the query; the step has the number of
the batch. The broker commits a step once, whatever drivers and executors try it again, and tells a later
attempt that it is done.

    txn = BatchTransaction.open(connection, Series("query", "run", 7), timeout_s=600)
    txn.add("persistent://public/default/t")         # before the first message goes there
    commit(connection, [txn.txn_id, …])              # the driver
    abort_run(connection, Series("query", "run", 7)) # or: of all tasks
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from milepost.client.connection.endpoint import Endpoint
from milepost.errors import (
    InvalidTransactionStatus,
    MilepostError,
    NotAllowed,
    TransactionNotFound,
)
from milepost.positions import TxnId, signed64, unsigned64
from milepost.spark.reading.link import Link
from milepost.spark.retries import patiently
from milepost.wire import pulsar_pb2 as pb

logger = logging.getLogger(__name__)

# Where there are several coordinators, all of a series have to be with one.
COORDINATOR: Final = 0
_WHERE: Final = f"persistent://pulsar/system/transaction_coordinator_assign-partition-{COORDINATOR}"


class Series(NamedTuple):
    """What a batch is a step of."""

    name: str
    run: str
    step: int | None
    """None: writing the same again writes it again."""


class BatchTransaction:
    """The transaction of one attempt of a task. It keeps no connection, which would be idle for long."""

    def __init__(self, connection: Endpoint, txn_id: TxnId) -> None:
        self._connection = connection
        self.txn_id = txn_id

    @classmethod
    def open(cls, connection: Endpoint, series: Series, timeout_s: float) -> BatchTransaction:
        """`TransactionConflict`: the step was committed before."""
        command = pb.CommandNewTxn(
            txn_ttl_millis=round(timeout_s * 1000),
            tc_id=COORDINATOR,
            series=_txn_series(series),
        )
        answer = _ask(connection, command)
        txn_id = TxnId(signed64(answer.txnid_most_bits), signed64(answer.txnid_least_bits))
        return cls(connection, txn_id)

    def add(self, topic: str) -> None:
        """Messages may be sent to this topic when it returns."""
        command = pb.CommandAddPartitionToTxn(
            txnid_least_bits=unsigned64(self.txn_id.least),
            txnid_most_bits=unsigned64(self.txn_id.most),
            partitions=[topic],
        )
        _ask(self._connection, command)

    def abort(self) -> None:
        """Take back what it has written."""
        command = _end([self.txn_id], pb.TxnAction.ABORT)
        _tell(self._connection, command, f"transaction {self.txn_id} is")


def check_coordinator(connection: Endpoint) -> None:
    """Ask whether a broker has what a write in transactions needs."""
    patiently(connection.timeout_s, lambda: _coordinator(connection).close())


def commit(connection: Endpoint, txn_ids: Sequence[TxnId]) -> None:
    """Let all of them count, as one step. `TransactionConflict`: another run has committed the step."""

    _ask(connection, _end(txn_ids, pb.TxnAction.COMMIT))


def abort_run(connection: Endpoint, series: Series) -> None:
    """Take back what the run has written, and let it write no more. What has ended stays as it is."""
    command = pb.CommandEndTxn(
        txnid_most_bits=COORDINATOR,
        txn_action=pb.TxnAction.ABORT,
        series=_txn_series(series),
    )
    _tell(connection, command, f"transactions of {series.name} are")


def _tell(connection: Endpoint, command: pb.CommandEndTxn, what: str) -> None:
    """Ask once for an abort. What cannot be told now the broker aborts when the batch is tried again, or
    when its time is over."""
    try:
        with (
            _coordinator(connection) as link,
            suppress(InvalidTransactionStatus, TransactionNotFound),  # it has ended
        ):
            link.ask(command)
    except MilepostError as error:
        logger.warning("%s left to the broker to abort: %s", what, error)


def _ask(connection: Endpoint, command: Any) -> Any:
    """A request, sent again while the broker is away. All that are asked for here may be asked for twice:
    an end is answered the same way, and a transaction that no task knows of ends with the batch."""

    def attempt() -> Any:
        with _coordinator(connection) as link:
            return link.ask(command)

    return patiently(connection.timeout_s, attempt)


def _coordinator(connection: Endpoint) -> Link:
    """A link on which the coordinator knows us."""
    link = Link.open(connection, _WHERE)
    try:
        if not link.ends_together:
            raise NotAllowed(
                f"option transactional needs Milepost, which ends the transactions of all tasks as one "
                f"step: the broker at {link.url} cannot"
            )
        link.ask(pb.CommandTcClientConnectRequest(tc_id=COORDINATOR))
    except BaseException:
        link.close()
        raise
    return link


def _txn_series(series: Series) -> pb.TxnSeries:
    return pb.TxnSeries(name=series.name, run=series.run, step=series.step)


def _end(txn_ids: Sequence[TxnId], action: pb.TxnAction) -> pb.CommandEndTxn:
    first, *others = txn_ids
    return pb.CommandEndTxn(
        txnid_least_bits=unsigned64(first.least),
        txnid_most_bits=unsigned64(first.most),
        txn_action=action,
        also_txnid_least_bits=[unsigned64(one.least) for one in others],
    )
