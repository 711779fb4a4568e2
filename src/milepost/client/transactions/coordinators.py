"""Asks transaction coordinators, and comes back to them after a lost connection.

A cluster has a fixed number of coordinators. Each is looked up as a partition of one topic, and a connection
has to introduce itself to it once. A transaction stays with the coordinator that opened it: its number is the
first half of the transaction's id.

    coordinators = Coordinators(context)
    txn_id = await coordinators.open(timeout_ms=60_000)
    await coordinators.end(txn_id, pb.TxnAction.COMMIT)

A request whose connection is lost is sent again, as long as the operation's time lasts. Adding twice changes
nothing. An end that was lost may have been obeyed: a coordinator that remembers says the same again; where
it has forgotten the transaction meanwhile, the caller is told `OutcomeUnknown`.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from typing import Any, Final

from milepost.client.connection.connection import Connection
from milepost.client.connection.context import Context
from milepost.client.connection.refusals import RETRIED
from milepost.errors import (
    ConnectError,
    MilepostError,
    OutcomeUnknown,
    Timeout,
    TransactionCoordinatorNotFound,
    TransactionNotFound,
)
from milepost.positions import TxnId, signed64, unsigned64
from milepost.wire import pulsar_pb2 as pb

log = logging.getLogger("milepost.client")

ASSIGN_TOPIC: Final = "persistent://pulsar/system/transaction_coordinator_assign"

# A coordinator that moves to another broker is not found for a while.
_RETRIED: Final = (*RETRIED, TransactionCoordinatorNotFound)


class Coordinators:
    def __init__(self, context: Context) -> None:
        self._context = context
        # How many there are; 0 until that was asked.
        self._count = 0
        self._turns = itertools.count()
        # The connection on which each coordinator knows us.
        self._connections: dict[int, Connection] = {}
        self._connecting: dict[int, asyncio.Lock] = {}

    # -- requests ------------------------------------------------------------------------------------

    async def open(self, timeout_ms: int) -> TxnId:
        """Open a transaction; coordinators take turns."""
        count = await self._find()
        number = next(self._turns) % count
        answer = await self._request(
            number, lambda: pb.CommandNewTxn(request_id=0, txn_ttl_millis=timeout_ms, tc_id=number)
        )
        return TxnId(signed64(answer.txnid_most_bits), signed64(answer.txnid_least_bits))

    async def add_partition(self, txn_id: TxnId, topic: str) -> None:
        """Messages are going to be published to this topic or partition."""
        await self._request(
            txn_id.most,
            lambda: pb.CommandAddPartitionToTxn(
                request_id=0,
                txnid_least_bits=unsigned64(txn_id.least),
                txnid_most_bits=unsigned64(txn_id.most),
                partitions=[topic],
            ),
        )

    async def add_subscription(self, txn_id: TxnId, topic: str, subscription: str) -> None:
        """Messages of this subscription are going to be acked."""
        await self._request(
            txn_id.most,
            lambda: pb.CommandAddSubscriptionToTxn(
                request_id=0,
                txnid_least_bits=unsigned64(txn_id.least),
                txnid_most_bits=unsigned64(txn_id.most),
                subscription=[pb.Subscription(topic=topic, subscription=subscription)],
            ),
        )

    async def end(self, txn_id: TxnId, action: pb.TxnAction, *, was_asked: bool = False) -> None:
        """Commit or abort; returns when that is durable. `was_asked`: before, without an answer."""
        await self._request(
            txn_id.most,
            lambda: pb.CommandEndTxn(
                request_id=0,
                txnid_least_bits=unsigned64(txn_id.least),
                txnid_most_bits=unsigned64(txn_id.most),
                txn_action=action,
            ),
            was_asked=was_asked,
        )

    # -- how they are asked --------------------------------------------------------------------------

    async def _request(
        self, number: int, command: Callable[[], Any], *, was_asked: bool = False
    ) -> Any:
        """`command` makes the request anew for every attempt."""
        timeout_s = self._context.operation_timeout_s
        backoff = self._context.backoff()
        trouble: MilepostError | None = None
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    is_sent = False
                    try:
                        connection = await self._connection(number)
                        asked = connection.ask(command())
                        is_sent = True
                        return await asked
                    except TransactionNotFound as error:
                        if was_asked:
                            raise OutcomeUnknown(
                                f"{error}: it was asked for before, and the answer was lost"
                            ) from error
                        raise
                    except _RETRIED as error:
                        trouble = error
                        was_asked = was_asked or (is_sent and isinstance(error, ConnectError))
                        self._connections.pop(number, None)
                        log.info("transaction coordinator %d: %s", number, error)
                    await asyncio.sleep(backoff.next_s())
        except TimeoutError:
            if isinstance(trouble, TransactionCoordinatorNotFound):
                raise trouble from None
            why = "" if trouble is None else f": {trouble}"
            raise Timeout(
                f"transaction coordinator {number} did not answer in {timeout_s:g} s{why}"
            ) from None

    async def _find(self) -> int:
        """How many coordinators there are."""
        if not self._count:
            self._count = await self._context.lookup.partitions(ASSIGN_TOPIC)
            if not self._count:
                raise TransactionCoordinatorNotFound(
                    "the broker has no transaction coordinator: is transactionCoordinatorEnabled on?"
                )
        return self._count

    async def _connection(self, number: int) -> Connection:
        """A connection on which this coordinator knows us."""
        known = self._connections.get(number)
        if known is not None and known.is_open:
            return known
        async with self._connecting.setdefault(number, asyncio.Lock()):
            known = self._connections.get(number)
            if known is not None and known.is_open:
                return known
            lookup = self._context.lookup
            where = await lookup.broker_of(f"{ASSIGN_TOPIC}-partition-{number}")
            connection = await lookup.connect(where)
            await connection.request(
                pb.CommandTcClientConnectRequest(request_id=0, tc_id=number),
                self._context.operation_timeout_s,
            )
            self._connections[number] = connection
            return connection
