"""Transactions as an operator sees them: who has which open, on what topics; and their abort.

    GET  /admin/v3/transactions/slowTransactions/60000       open for longer than a minute
    POST /admin/v3/transactions/abortTransaction/0/17

Names and statuses are upstream's. Where transactions are switched off everything here is 503.
"""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import Depends, Path, Query, Request
from pydantic import BaseModel

from milepost.broker.auth.authorizer import BROKER, Target
from milepost.broker.auth.operations import Operation
from milepost.broker.broker import Broker
from milepost.broker.subscription import pending_acks
from milepost.broker.subscription.subscription import Subscription
from milepost.broker.topic.topic import Topic
from milepost.broker.transactions.coordinator import COORDINATOR_TOPIC, Outcome, Transaction
from milepost.broker.workers.transaction_parts import Parts, Written, acked, parts_of, written
from milepost.errors import Absent, MilepostError, NotFound
from milepost.positions.ids import Position
from milepost.positions.names import TopicName
from milepost.positions.spans import INDEX_MAX, Span
from milepost.positions.transactions import TxnId
from milepost.rest.audit import Asked
from milepost.rest.request import AskedBroker, Authoritative, open_topic, subscription_of
from milepost.rest.resources.message_ids import LONG_MAX
from milepost.rest.resources.reset import PersistentTopic
from milepost.rest.route_access import Router, identity_of

BASE = "/admin/v3/transactions"


async def _check_enabled(broker: AskedBroker) -> None:
    if not broker.settings.transaction_coordinator_enabled:
        raise Absent(503, "transactions are switched off: transaction_coordinator_enabled")


router = Router("transactions", prefix=BASE)

_OPERATORS = (Operation.SUPERUSER, Depends(_check_enabled))
_ROLES = (Operation.IDENTIFIED, Depends(_check_enabled))

TOPIC = "{tenant}/{namespace}/{topic}"
SUBSCRIPTION = f"{TOPIC}/{{subName:path}}"
TXN_ID = "{mostSigBits}/{leastSigBits}"

_STATUSES = {None: "OPEN", Outcome.COMMIT: "COMMITTING", Outcome.ABORT: "ABORTING"}

# Transactions that are looked at before others have their turn.
STEP = 100


class CoordinatorInfo(BaseModel):
    id: int
    brokerServiceUrl: str


class CoordinatorStats(BaseModel):
    state: str = "Ready"
    leastSigBits: int
    """The second half of the last id that was given."""
    lowWaterMark: int
    """Every transaction up to here has ended."""
    ongoingTxnSize: int
    recoverStartTime: int
    recoverEndTime: int


class InBufferStats(BaseModel):
    """What a transaction has written to a topic."""

    startPosition: str | None = None
    aborted: bool = False
    messages: int | None = None
    """Milepost's own: how many, while it is open."""


class InPendingAckStats(BaseModel):
    """What a transaction has acked on a subscription. Milepost's own; upstream says where a cumulative
    ack is, which is a number of messages here as every other."""

    messages: int | None = None


class TransactionMetadata(BaseModel):
    txnId: str
    status: str
    openTimestamp: int
    timeoutAt: int
    """Milliseconds after it was opened, as upstream has it."""
    owner: str | None = None
    """The role that opened it."""
    producedPartitions: dict[str, InBufferStats]
    ackedPartitions: dict[str, dict[str, InPendingAckStats]]


class BufferStats(BaseModel):
    state: str
    maxReadPosition: str
    """The last entry that consumers may get."""
    lastSnapshotTimestamps: int = 0
    lowWaterMarks: dict[int, int] | None = None
    ongoingTxnSize: int
    recoverStartTime: int = 0
    recoverEndTime: int = 0
    totalAbortedTransactions: int
    """Since the topic was opened."""
    snapshotType: str = "Single"


class PendingAckStats(BaseModel):
    state: str
    lowWaterMarks: dict[int, int] | None = None
    ongoingTxnSize: int
    recoverStartTime: int = 0
    recoverEndTime: int = 0


class PositionState(BaseModel):
    state: str
    """PendingAck, MarkDelete (it is acked), NotInPendingAck or InvalidPosition."""


async def _txn_id(
    most: Annotated[int, Path(alias="mostSigBits", ge=-LONG_MAX - 1, le=LONG_MAX)],
    least: Annotated[int, Path(alias="leastSigBits", ge=-LONG_MAX - 1, le=LONG_MAX)],
) -> TxnId:
    return TxnId(most, least)


async def _topic(
    request: Request, name: PersistentTopic, authoritative: Authoritative = False
) -> Topic:
    return await open_topic(request, name)


async def _subscription(
    topic: AskedTopic, name: Annotated[str, Path(alias="subName")]
) -> Subscription:
    return subscription_of(topic, name)


AskedTxn = Annotated[TxnId, Depends(_txn_id)]
AskedTopic = Annotated[Topic, Depends(_topic)]
AskedSubscription = Annotated[Subscription, Depends(_subscription)]
CoordinatorId = Annotated[int | None, Query(alias="coordinatorId", ge=-LONG_MAX, le=LONG_MAX)]
LowWaterMarks = Annotated[bool, Query(alias="lowWaterMarks")]


# -- the coordinator ---------------------------------------------------------------------------------


@router.get("/coordinators", *_OPERATORS)
async def get_coordinators(broker: AskedBroker) -> list[CoordinatorInfo]:
    """There is one, or one for each worker."""
    number = broker.transactions.coordinator.number
    name = TopicName.parse(f"{COORDINATOR_TOPIC}-partition-{number}")
    return [CoordinatorInfo(id=number, brokerServiceUrl=broker.lookup_url("", name))]


@router.get("/coordinatorStats", *_OPERATORS)
async def get_coordinator_stats(
    broker: AskedBroker, number: CoordinatorId = None
) -> CoordinatorStats | dict[int, CoordinatorStats]:
    """Of one coordinator, or of all by their numbers."""
    service = broker.transactions
    _check_coordinator(broker, number)
    coordinator = service.coordinator
    last, began_ms, ended_ms = coordinator.last_given, *service.recovered_ms
    found = CoordinatorStats(
        leastSigBits=last,
        lowWaterMark=min(coordinator.open, default=last + 1) - 1,
        ongoingTxnSize=len(coordinator.open),
        recoverStartTime=began_ms,
        recoverEndTime=ended_ms,
    )
    return {coordinator.number: found} if number is None else found


@router.get("/slowTransactions/{timeout}", *_OPERATORS, response_model_exclude_none=True)
async def get_slow_transactions(
    broker: AskedBroker,
    timeout_ms: Annotated[int, Path(alias="timeout", ge=0, le=LONG_MAX)],
    number: CoordinatorId = None,
) -> dict[str, TransactionMetadata]:
    """Those that have been open for longer than so many milliseconds, oldest first."""
    _check_coordinator(broker, number)
    opened_before = broker.clock.wall_ms() - timeout_ms
    txns = [
        txn
        for txn in broker.transactions.coordinator.open.values()
        if txn.opened_ms < opened_before
    ]
    parts = await parts_of(broker, txns)
    found: dict[str, TransactionMetadata] = {}
    for place, txn in enumerate(txns, 1):
        found[str(txn.txn_id)] = _metadata(broker, txn, parts[txn.txn_id])
        if not place % STEP:
            await asyncio.sleep(0)
    return found


@router.get(f"/transactionMetadata/{TXN_ID}", *_ROLES, response_model_exclude_none=True)
async def get_transaction_metadata(
    request: Request, broker: AskedBroker, txn_id: AskedTxn
) -> TransactionMetadata:
    """One that is open; any other is 404, and so is another coordinator's. The role that opened it may ask,
    and so may a role that may look up every topic of it: any role while it has none, as Go's client expects.
    Only superusers are told another role's name."""
    coordinator = broker.transactions.coordinator
    _check_coordinator(broker, txn_id.most)
    txn = coordinator.open.get(txn_id.least)
    if txn is None:
        raise NotFound(f"transaction {txn_id} is not open")
    identity, access = identity_of(request), broker.access_control
    is_own = identity is not None and txn.owner == identity.speaks_as
    if not is_own:
        for name in txn.all_topics():
            access.check(identity, Operation.LOOK_UP, Target.of_topic(TopicName.parse(name)))
    parts = await parts_of(broker, [txn], opens=True)
    found = _metadata(broker, txn, parts[txn_id])
    if not is_own and not access.security.authorizer.may(identity, Operation.SUPERUSER, BROKER):
        found.owner = None
    return found


@router.post(f"/abortTransaction/{TXN_ID}", *_OPERATORS, status_code=204)
async def abort_transaction(asked: Asked, txn_id: AskedTxn) -> None:
    """Abort one of any role; 204 when that is on disk, and again for one that was aborted. 409 for
    one that was committed, 404 for one that is not known."""
    broker = asked.broker
    _check_coordinator(broker, txn_id.most)
    txn = broker.transactions.coordinator.open.get(txn_id.least)
    answer: asyncio.Future[MilepostError | None] = asyncio.get_running_loop().create_future()

    def done(error: MilepostError | None) -> None:
        if not answer.done():
            answer.set_result(error)

    broker.transactions.end(txn_id, Outcome.ABORT, done)
    if (error := await answer) is not None:
        raise error
    owner = None if txn is None else txn.owner
    asked.note("abort-transaction", str(txn_id), owner=owner)


def _check_coordinator(broker: Broker, number: int | None) -> None:
    coordinator = broker.transactions.coordinator
    if number not in (None, coordinator.number):
        assert number is not None
        raise coordinator.unknown(number)


def _metadata(broker: Broker, txn: Transaction, parts: Parts) -> TransactionMetadata:
    acked: dict[str, dict[str, InPendingAckStats]] = {}
    for (name, subscription), count in sorted(parts.acked.items()):
        acked.setdefault(txn.spelling_of(name), {})[subscription] = InPendingAckStats(
            messages=count
        )
    return TransactionMetadata(
        txnId=str(txn.txn_id),
        status=_STATUSES[broker.transactions.ending_as(txn.txn_id)],
        openTimestamp=txn.opened_ms,
        timeoutAt=txn.timeout_ms,
        owner=txn.owner,
        producedPartitions={
            txn.spelling_of(name): _in_buffer(one) for name, one in sorted(parts.written.items())
        },
        ackedPartitions=acked,
    )


# -- topics ------------------------------------------------------------------------------------------


@router.get(
    f"/transactionInBufferStats/{TOPIC}/{TXN_ID}", *_OPERATORS, response_model_exclude_none=True
)
async def get_transaction_in_buffer_stats(
    broker: AskedBroker, topic: AskedTopic, txn_id: AskedTxn
) -> InBufferStats:
    """What a transaction has written to a topic; nothing for one that is not known, as upstream."""
    return _in_buffer(await written(broker, topic, txn_id))


@router.get(f"/transactionBufferStats/{TOPIC}", *_OPERATORS, response_model_exclude_none=True)
async def get_transaction_buffer_stats(
    broker: AskedBroker,
    topic: AskedTopic,
    low_water_marks: LowWaterMarks = False,
    with_snapshots: Annotated[bool, Query(alias="segmentStats")] = False,
) -> BufferStats:
    """How many transactions have messages in a topic, and up to where consumers get them."""
    transactions = topic.transactions
    last = await broker.engine.look(lambda: topic.acked_position(topic.visible_end - 1))
    return BufferStats(
        state="NoSnapshot" if transactions is None else "Ready",
        maxReadPosition=str(last),
        lowWaterMarks={} if low_water_marks else None,
        ongoingTxnSize=0 if transactions is None else len(list(transactions.open_messages())),
        totalAbortedTransactions=0 if transactions is None else transactions.aborted,
    )


def _in_buffer(found: Written) -> InBufferStats:
    return InBufferStats(
        startPosition=found.start, aborted=found.is_aborted, messages=found.messages
    )


# -- subscriptions -----------------------------------------------------------------------------------


@router.get(
    f"/transactionInPendingAckStats/{SUBSCRIPTION}/{TXN_ID}",
    *_OPERATORS,
    response_model_exclude_none=True,
)
async def get_transaction_in_pending_ack_stats(
    subscription: AskedSubscription, txn_id: AskedTxn
) -> InPendingAckStats:
    """What a transaction has acked on a subscription; nothing for one that is not known."""
    return InPendingAckStats(messages=acked(subscription, txn_id))


@router.get(f"/pendingAckStats/{SUBSCRIPTION}", *_OPERATORS, response_model_exclude_none=True)
async def get_pending_ack_stats(
    subscription: AskedSubscription, low_water_marks: LowWaterMarks = False
) -> PendingAckStats:
    """How many transactions have acked something on a subscription, and have not ended."""
    is_used = subscription.topic.transactions is not None and subscription.state_id is not None
    acked_by = {
        txn_id for part in subscription.parts() for txn_id, _ in pending_acks.acked_in(part)
    }
    return PendingAckStats(
        state="Ready" if is_used else "None",
        lowWaterMarks={} if low_water_marks else None,
        ongoingTxnSize=len(acked_by),
    )


@router.get(f"/positionStatsInPendingAck/{SUBSCRIPTION}/{{ledgerId}}/{{entryId}}", *_OPERATORS)
async def get_position_stats_in_pending_ack(
    broker: AskedBroker,
    subscription: AskedSubscription,
    ledger_id: Annotated[int, Path(alias="ledgerId", ge=-LONG_MAX, le=LONG_MAX)],
    entry_id: Annotated[int, Path(alias="entryId", ge=-LONG_MAX, le=LONG_MAX)],
    batch_index: Annotated[int | None, Query(alias="batchIndex", ge=-1, le=INDEX_MAX)] = None,
) -> PositionState:
    """Whether a message is acked, or pending in a transaction: of a broadcast group, of any member's."""
    topic, cursor = subscription.topic, subscription.cursor
    try:
        first, end, _ = await broker.engine.look(
            lambda: topic.lookup(*Position(ledger_id, entry_id))
        )
    except NotFound:
        return PositionState(state="InvalidPosition")
    if batch_index is not None and batch_index >= 0:
        if batch_index >= end - first:
            return PositionState(state="InvalidPosition")
        first, end = first + batch_index, first + batch_index + 1
    if end <= cursor.end and cursor.is_acked(Span(first, end - first)):
        return PositionState(state="MarkDelete")
    is_pending = any(part.cursor.pended_within([(first, end)]) for part in subscription.parts())
    return PositionState(state="PendingAck" if is_pending else "NotInPendingAck")
