"""`Transaction`: what takes part in one, and its end.

    async with client.transaction(timeout=60) as txn:
        await producer.send(b"charged", txn=txn)
        await consumer.acknowledge(message, txn=txn)

Leaving the block commits; an exception aborts. Without a block: `txn = await client.transaction()`, then
`commit` or `abort`.

A topic or subscription is added at the coordinator before the first message or ack of the transaction goes
there. The end waits for everything that takes part. When a part has failed, `commit` aborts instead and
raises `TransactionHasOperationFailed`: half of it is never committed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator
from datetime import timedelta
from enum import Enum
from types import TracebackType
from typing import Any, Final

from milepost.client.connection.context import Context
from milepost.client.transactions.coordinators import Coordinators
from milepost.errors import (
    InvalidInput,
    InvalidTransactionStatus,
    MilepostError,
    OutcomeUnknown,
    Timeout,
    TransactionHasOperationFailed,
    TransactionNotFound,
    TransactionTimedOut,
)
from milepost.positions import TxnId
from milepost.wire import pulsar_pb2 as pb

log = logging.getLogger("milepost.client")

TIMEOUT_S: Final = 60.0


class TransactionState(Enum):
    OPEN = "OPEN"
    COMMITTING = "COMMITTING"
    ABORTING = "ABORTING"
    COMMITTED = "COMMITTED"
    ABORTED = "ABORTED"
    ERROR = "ERROR"
    """The broker does not know it any more, or its end is unknown."""
    TIME_OUT = "TIME_OUT"


class Transaction:
    """One transaction. `client.transaction` makes it."""

    def __init__(
        self, context: Context, coordinators: Coordinators, txn_id: TxnId, timeout_s: float
    ) -> None:
        self.context = context
        self._coordinators = coordinators
        self._id = txn_id
        self._timeout_s = timeout_s
        self._due_s = context.clock.monotonic() + timeout_s
        self._state = TransactionState.OPEN
        # What was added at the coordinator, or is being added: (topic, subscription or "").
        self._added: dict[tuple[str, str], asyncio.Task[None]] = {}
        # Those that gather messages, each with what sends them.
        self._flushers: dict[object, Callable[[], None]] = {}
        # Sends and acks without an answer. Invariant: `_idle` is set when there are none.
        self._operations = 0
        self._idle = asyncio.Event()
        self._idle.set()
        # The first send or ack that failed: the transaction can only be aborted.
        self._failure: BaseException | None = None
        self._ending = asyncio.Lock()
        # The broker was asked to end it, and did not answer in time.
        self._was_end_asked = False

    def __repr__(self) -> str:
        return f"<Transaction {self._id}, {self.state.value}>"

    @property
    def id(self) -> TxnId:
        return self._id

    @property
    def state(self) -> TransactionState:
        if self._state is TransactionState.OPEN and self._is_due():
            self._state = TransactionState.TIME_OUT
        return self._state

    def _is_due(self) -> bool:
        return self.context.clock.monotonic() >= self._due_s

    # -- what takes part -----------------------------------------------------------------------------

    def check(self, context: Context) -> None:
        """Raise unless a message or an ack of this client may take part now."""
        if context is not self.context:
            raise InvalidInput(f"transaction {self._id} is of another client")
        if self.state is not TransactionState.OPEN:
            raise self._not_open()

    def _not_open(self) -> InvalidTransactionStatus:
        if self._state is TransactionState.TIME_OUT:
            return TransactionTimedOut(
                f"transaction {self._id} was open for longer than {self._timeout_s:g} s"
            )
        return InvalidTransactionStatus(
            f"transaction {self._id} is {self._state.value}, not {TransactionState.OPEN.value}"
        )

    def add_partition(self, topic: str) -> asyncio.Task[None]:
        """Done when messages may go to this topic. It is shared: shield it."""
        return self._add((topic, ""), lambda: self._coordinators.add_partition(self._id, topic))

    def add_subscription(self, topic: str, subscription: str) -> asyncio.Task[None]:
        """Done when acks may go to this subscription. It is shared: shield it."""
        return self._add(
            (topic, subscription),
            lambda: self._coordinators.add_subscription(self._id, topic, subscription),
        )

    def _add(
        self, what: tuple[str, str], ask: Callable[[], Coroutine[Any, Any, None]]
    ) -> asyncio.Task[None]:
        adding = self._added.get(what)
        if adding is None:
            adding = asyncio.create_task(ask(), name=f"add {what[0]} to {self._id}")
            adding.add_done_callback(_seen)
            self._added[what] = adding
        return adding

    def began(self, flusher: object = None, flush: Callable[[], None] | None = None) -> None:
        """A send or an ack takes part: the end waits for its answer. `flush` sends what `flusher`
        gathers."""
        self._operations += 1
        self._idle.clear()
        if flush is not None:
            self._flushers[flusher] = flush

    def ended(self, failure: BaseException | None) -> None:
        """… and was answered."""
        self._failure = self._failure or failure
        self._operations -= 1
        if not self._operations:
            self._idle.set()

    # -- ends ----------------------------------------------------------------------------------------

    async def commit(self) -> None:
        """Make everything in it count; returns when that is durable.

        Waits for its sends and acks first. When one of them failed the transaction is aborted, and this
        raises `TransactionHasOperationFailed`. After a `Timeout` it may be called again.
        """
        self.context.check()
        await _to_its_end(self._commit())

    async def abort(self) -> None:
        """Undo everything in it: its messages are never delivered, what it acked comes again."""
        self.context.check()
        await _to_its_end(self._abort())

    async def _commit(self) -> None:
        async with self._ending:
            if self.state is TransactionState.COMMITTED:
                return
            if self._state not in (TransactionState.OPEN, TransactionState.COMMITTING):
                raise self._not_open()
            self._state = TransactionState.COMMITTING
            await self._settle()
            if self._failure is None:
                await self._end(pb.TxnAction.COMMIT, TransactionState.COMMITTED)
                return
            self._state = TransactionState.ABORTING
            await self._end(pb.TxnAction.ABORT, TransactionState.ABORTED)
            raise TransactionHasOperationFailed(
                f"transaction {self._id} is aborted: {self._failure}"
            ) from self._failure

    async def _abort(self) -> None:
        async with self._ending:
            if self.state is TransactionState.ABORTED:
                return
            if self._state not in (TransactionState.OPEN, TransactionState.ABORTING):
                raise self._not_open()
            self._state = TransactionState.ABORTING
            await self._settle()
            await self._end(pb.TxnAction.ABORT, TransactionState.ABORTED)

    async def _settle(self) -> None:
        """Wait until every send and ack is answered: what comes behind the end belongs to nothing."""
        for flush in self._flushers.values():
            flush()
        self._flushers.clear()
        timeout_s = self.context.operation_timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()
        except TimeoutError:
            self._failure = self._failure or Timeout(
                f"{self._operations} sends and acks of transaction {self._id} were not answered"
                f" in {timeout_s:g} s"
            )

    async def _end(self, action: pb.TxnAction, state: TransactionState) -> None:
        try:
            await self._coordinators.end(self._id, action, was_asked=self._was_end_asked)
        except Timeout:
            self._was_end_asked = True
            raise
        except (TransactionNotFound, InvalidTransactionStatus, OutcomeUnknown):
            timed_out = self._is_due()
            self._state = TransactionState.TIME_OUT if timed_out else TransactionState.ERROR
            raise
        self._state = state

    async def close(self) -> None:
        """Abort it if it is open: its client is about to close."""
        if self.state is TransactionState.OPEN:
            await self._abort()

    async def open(self) -> None:
        """It is open when it is made."""

    async def __aenter__(self) -> Transaction:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Commit, or abort after an exception; nothing if it was ended inside."""
        if error is None:
            if self.state in (TransactionState.OPEN, TransactionState.TIME_OUT):
                await self.commit()
            return
        if self.state is not TransactionState.OPEN:
            return
        try:
            await self.abort()
        except MilepostError as failure:
            # The caller is told what went wrong first; the broker aborts it when its time is up.
            log.warning("transaction %s could not be aborted: %s", self._id, failure)


class TransactionOpening:
    """A transaction that is opened when it is awaited, or entered with `async with`."""

    def __init__(self, opening: Callable[[], Coroutine[Any, Any, Transaction]]) -> None:
        self._opening = opening
        self._opened: Transaction | None = None

    def __await__(self) -> Generator[Any, None, Transaction]:
        return self._opening().__await__()

    async def __aenter__(self) -> Transaction:
        self._opened = await self._opening()
        return self._opened

    async def __aexit__(self, *exc_info: Any) -> None:
        assert self._opened is not None
        await self._opened.__aexit__(*exc_info)


def check_transaction(txn: object, context: Context) -> None:
    """Raise unless it is an open transaction of this client."""
    if not isinstance(txn, Transaction):
        raise InvalidInput(f"txn is a {type(txn).__name__}: give what client.transaction gave")
    txn.check(context)


def timeout_of(timeout: float | timedelta) -> float:
    """Seconds, checked: `InvalidInput` for what a transaction cannot be given."""
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise InvalidInput(f"a transaction's timeout is a number of seconds, not {timeout!r}")
    if not 0.001 <= seconds <= 2**31:
        raise InvalidInput(f"a transaction's timeout of {timeout!r} is not from 1 ms to 2^31 s")
    return float(seconds)


async def _to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """A caller that is cancelled stops waiting; the end goes on."""
    ending = asyncio.create_task(work)
    ending.add_done_callback(_seen)
    await asyncio.shield(ending)


def _seen(work: asyncio.Task[None]) -> None:
    """Its failure is told to each caller that waits for it, and there may be none."""
    if not work.cancelled():
        work.exception()
