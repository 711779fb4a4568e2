"""Calls about subscriptions: create, delete, skip, expire, reset.

A position is a `MessageId`; `EARLIEST` and `LATEST` are positions too.
"""

from __future__ import annotations

from milepost.admin.request import (
    Json,
    Script,
    delete,
    get,
    post,
    put,
    subscription_path,
    topic_path,
)
from milepost.positions.ids import EARLIEST, LATEST, MessageId


def get_subscriptions(topic: str) -> Script[list[str]]:
    return (yield get(topic_path(topic, "subscriptions"))).strings()


def create_subscription(
    topic: str,
    subscription: str,
    position: MessageId = LATEST,
    *,
    replicated: bool = False,
    properties: dict[str, str] | None = None,
) -> Script[None]:
    """`Conflict` if it exists."""
    body = position_json(position)
    if properties:
        body["properties"] = properties
    yield put(subscription_path(topic, subscription), body, replicated=replicated or None)


def delete_subscription(topic: str, subscription: str, *, force: bool = False) -> Script[None]:
    """`PreconditionFailed` while consumers are connected, unless forced."""
    yield delete(subscription_path(topic, subscription), force=force)


def get_subscription_properties(topic: str, subscription: str) -> Script[dict[str, str]]:
    return (yield get(subscription_path(topic, subscription, "properties"))).object()


def update_subscription_properties(
    topic: str, subscription: str, properties: dict[str, str]
) -> Script[None]:
    """Replaces all of them."""
    yield put(subscription_path(topic, subscription, "properties"), properties)


def skip_messages(topic: str, subscription: str, count: int) -> Script[None]:
    """The next entries count as acked: a batch is one."""
    yield post(subscription_path(topic, subscription, "skip", count))


def skip_all_messages(topic: str, subscription: str) -> Script[None]:
    yield post(subscription_path(topic, subscription, "skip_all"))


def expire_messages(topic: str, subscription: str, older_than_s: int) -> Script[None]:
    yield post(subscription_path(topic, subscription, "expireMessages", older_than_s))


def expire_messages_until(
    topic: str, subscription: str, position: MessageId, *, excluded: bool = False
) -> Script[None]:
    body = {**position_json(position), "excluded": excluded}
    yield post(subscription_path(topic, subscription, "expireMessages"), body)


def expire_messages_for_all_subscriptions(topic: str, older_than_s: int) -> Script[None]:
    yield post(topic_path(topic, "all_subscription", "expireMessages", older_than_s))


def reset_cursor(
    topic: str, subscription: str, position: MessageId, *, excluded: bool = False
) -> Script[None]:
    """To a message, to be delivered next; or to the one after it."""
    body = {**position_json(position), "excluded": excluded}
    yield post(subscription_path(topic, subscription, "resetcursor"), body)


def reset_cursor_to_time(topic: str, subscription: str, timestamp_ms: int) -> Script[None]:
    """To the first message published at that time or later."""
    yield post(subscription_path(topic, subscription, "resetcursor", timestamp_ms))


def analyze_subscription_backlog(
    topic: str, subscription: str, position: MessageId | None = None
) -> Script[Json]:
    body = position_json(position) if position is not None else None
    return (yield post(subscription_path(topic, subscription, "analyzeBacklog"), body)).object()


def position_json(position: MessageId) -> Json:
    """A position as Pulsar's `ResetCursorData` has it; earliest and latest by their numbers."""
    if position in (EARLIEST, LATEST):
        return {"ledgerId": position.ledger_id, "entryId": position.entry_id}
    return {
        "ledgerId": position.ledger_id,
        "entryId": position.entry_id,
        "partitionIndex": position.partition,
        "batchIndex": position.batch_index,
    }
