"""Calls about transactions: which are open, whose, on what topics; and their abort.

admin.get_slow_transactions(60_000)
admin.abort_transaction(0, 17)
"""

from __future__ import annotations

from milepost.admin.request import Json, Request, Script, get, path
from milepost.errors import InvalidInput
from milepost.positions.names import TopicName

_BASE = "admin/v3/transactions"


def _of_topic(call: str, topic: str, *rest: object) -> str:
    name = TopicName.parse(topic)
    if not name.is_persistent:
        raise InvalidInput(f"{name} is not persistent: no transaction can write to it")
    return path(_BASE, call, name.tenant, name.namespace.local_name, name.local_name, *rest)


def list_coordinators() -> Script[object]:
    return (yield get(path(_BASE, "coordinators"))).json()


def get_coordinator_stats(coordinator: int | None = None) -> Script[Json]:
    """Of one coordinator, or of all by their numbers."""
    return (yield get(path(_BASE, "coordinatorStats"), coordinatorId=coordinator)).object()


def get_coordinator_internal_stats(coordinator: int, *, metadata: bool = False) -> Script[Json]:
    target = path(_BASE, "coordinatorInternalStats", coordinator)
    return (yield get(target, metadata=metadata)).object()


def get_slow_transactions(timeout_ms: int, coordinator: int | None = None) -> Script[Json]:
    """Those that have been open for longer, by their ids."""
    target = path(_BASE, "slowTransactions", timeout_ms)
    return (yield get(target, coordinatorId=coordinator)).object()


def get_transaction_metadata(most: int, least: int) -> Script[Json]:
    return (yield get(path(_BASE, "transactionMetadata", most, least))).object()


def get_transaction_in_buffer_stats(most: int, least: int, topic: str) -> Script[Json]:
    """What a transaction has written to a topic."""
    return (yield get(_of_topic("transactionInBufferStats", topic, most, least))).object()


def get_transaction_in_pending_ack_stats(
    most: int, least: int, topic: str, subscription: str
) -> Script[Json]:
    """What a transaction has acked on a subscription."""
    target = _of_topic("transactionInPendingAckStats", topic, subscription, most, least)
    return (yield get(target)).object()


def get_transaction_buffer_stats(
    topic: str, *, low_water_marks: bool = False, with_snapshots: bool = False
) -> Script[Json]:
    target = _of_topic("transactionBufferStats", topic)
    return (yield get(target, lowWaterMarks=low_water_marks, segmentStats=with_snapshots)).object()


def get_transaction_buffer_internal_stats(topic: str, *, metadata: bool = False) -> Script[Json]:
    target = _of_topic("transactionBufferInternalStats", topic)
    return (yield get(target, metadata=metadata)).object()


def get_pending_ack_stats(
    topic: str, subscription: str, *, low_water_marks: bool = False
) -> Script[Json]:
    target = _of_topic("pendingAckStats", topic, subscription)
    return (yield get(target, lowWaterMarks=low_water_marks)).object()


def get_pending_ack_internal_stats(
    topic: str, subscription: str, *, metadata: bool = False
) -> Script[Json]:
    target = _of_topic("pendingAckInternalStats", topic, subscription)
    return (yield get(target, metadata=metadata)).object()


def get_position_stats_in_pending_ack(
    topic: str, subscription: str, ledger_id: int, entry_id: int, batch_index: int | None = None
) -> Script[Json]:
    """Whether a message is acked, or pending in a transaction."""
    target = _of_topic("positionStatsInPendingAck", topic, subscription, ledger_id, entry_id)
    return (yield get(target, batchIndex=batch_index)).object()


def abort_transaction(most: int, least: int) -> Script[None]:
    """Of any role."""
    yield Request("POST", path(_BASE, "abortTransaction", most, least), {}, None)


def scale_transaction_coordinators(replicas: int) -> Script[None]:
    target = path(_BASE, "transactionCoordinator", "replicas")
    yield Request("POST", target, {}, str(replicas).encode())
