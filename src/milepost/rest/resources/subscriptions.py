"""Lists, creates, deletes, skips and expires subscriptions; their properties.

On the name of a partitioned topic most of it is done to every partition, as upstream does; what names a
position is not (405).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import Body, Path, Response
from pydantic import BaseModel, Field

from milepost.broker.auth.operations import Operation
from milepost.broker.broker import new_subscription
from milepost.broker.limits.time_slices import TimeSlices
from milepost.broker.messages.ids_to_indexes import start_index
from milepost.broker.operations import skipping, topic_lifecycle
from milepost.broker.operations.skipping import Skip
from milepost.broker.subscription.subscription import Subscription
from milepost.broker.topic.topic import Topic
from milepost.errors import AlreadyExists, IndexNotFound, SubscriptionInUse, SubscriptionNotFound
from milepost.positions.ids import Position
from milepost.positions.labels import check_label
from milepost.rest.audit import Asked
from milepost.rest.request import (
    TOPIC,
    AskedTopic,
    DryRun,
    MadeParts,
    OpenedParts,
    OpenParts,
    OpenTopic,
    json_list,
    no_content,
    open_parts,
    subscription_of,
)
from milepost.rest.resources.maintenance import Long
from milepost.rest.resources.message_ids import LONG_MAX
from milepost.rest.resources.topics import Properties
from milepost.rest.route_access import Router

router = Router("subscriptions", Operation.CONSUME)

SUBSCRIPTION = f"{TOPIC}/subscription/{{subscription:path}}"


class CursorPosition(BaseModel):
    """Upstream's ResetCursorData: where to stand, and with which properties."""

    ledgerId: Long = LONG_MAX
    entryId: Long = LONG_MAX
    partitionIndex: int = -1
    batchIndex: Annotated[int, Field(ge=-1, le=2**31 - 1)] = -1
    excluded: bool = False
    isExcluded: bool = False
    """Another spelling of the same."""
    properties: Properties = {}

    @property
    def position(self) -> Position:
        return Position(self.ledgerId, self.entryId)

    @property
    def is_excluded(self) -> bool:
        return self.excluded or self.isExcluded


class WouldSkip(BaseModel):
    """What a dry run says: these would be acked."""

    firstIndex: int
    endIndex: int
    messages: int


Seconds = Annotated[int, Path(ge=-LONG_MAX, le=LONG_MAX)]
_SKIPS: dict[int | str, dict[str, Any]] = {
    200: {"model": list[WouldSkip], "description": "Of a dry run: for each partition."}
}


# -- which there are ---------------------------------------------------------------------------------


@router.get(f"{TOPIC}/subscriptions")
async def get_subscriptions(topics: OpenedParts) -> list[str]:
    """By name; of a partitioned topic those of any partition."""
    return sorted({name for topic in topics for name in topic.subscriptions})


@router.get(f"{SUBSCRIPTION}/properties")
async def get_properties(topics: OpenParts, subscription: str) -> Properties:
    return subscription_of(topics[0], subscription).properties


@router.put(f"{SUBSCRIPTION}/properties", status_code=204)
async def set_properties(
    asked: Asked, topics: OpenParts, subscription: str, properties: Annotated[Properties, Body()]
) -> None:
    """Replace the subscription's properties."""
    found = [subscription_of(topic, subscription) for topic in topics]
    await topic_lifecycle.set_subscription_properties(asked.broker, found, properties)
    for one in found:
        asked.note("set-subscription-properties", one.topic.name, subscription=one.name)


@router.put(SUBSCRIPTION, status_code=204)
async def create_subscription(
    asked: Asked,
    name: AskedTopic,
    topics: MadeParts,
    subscription: str,
    at: Annotated[CursorPosition | Literal["latest", "earliest"] | None, Body()] = None,
) -> None:
    """Create a durable subscription at a position; at the latest if the body does not say. The topic is
    made with it where topics may be made by using them."""
    check_label("subscription", subscription)
    if len(topics) == 1 and subscription in topics[0].subscriptions:
        raise AlreadyExists(f"subscription {subscription} of {topics[0].name} exists")
    properties = at.properties if isinstance(at, CursorPosition) else {}
    created = done = 0
    while done < len(topics):
        created += await _create(asked, topics[done:], subscription, at, properties)
        done = len(topics)
        if (asked.broker.directory.partitions(name) or 0) > done:
            topics = await open_parts(
                asked.request, name
            )  # more came, and knew nothing of this one
    if not created:
        raise AlreadyExists(f"subscription {subscription} exists")
    asked.note("create-subscription", topics[0].name.base, subscription=subscription)


async def _create(
    asked: Asked,
    topics: Sequence[Topic],
    name: str,
    at: CursorPosition | str | None,
    properties: Properties,
) -> int:
    """Make a subscription on these topics in one step: a crash leaves all of them or none. How many were
    made; those that have it already, by a client that subscribed, stay as they are."""
    while True:
        missing = [topic for topic in topics if name not in topic.subscriptions]
        if not missing:
            return 0
        starts = await asked.broker.engine.look(
            lambda missing=missing: [_start(topic, at) for topic in missing]  # type: ignore[misc]
        )
        news = [
            new_subscription(topic, name, start, properties)
            for topic, start in zip(missing, starts, strict=True)
        ]
        try:
            return len(await asked.broker.create_subscriptions(news))
        except AlreadyExists:
            if all(name not in topic.subscriptions for topic in missing):
                raise


def _start(topic: Topic, at: CursorPosition | str | None) -> int:
    if at is None or at == "latest":
        return topic.visible_end
    if isinstance(at, str):
        return topic.log.first_index
    index = start_index(topic, at.ledgerId, at.entryId, batch_index=at.batchIndex) + at.is_excluded
    last = topic.log.last_position()
    if index > topic.visible_end and last is not None and at.position <= last:
        # At the end the subscription would get what lies between when the transaction is committed.
        raise IndexNotFound(
            f"{topic.name}: id {at.position} is not visible yet: an open transaction holds it back"
        )
    return min(index, topic.visible_end)


@router.delete(SUBSCRIPTION, status_code=204)
async def delete_subscription(
    asked: Asked, topics: OpenedParts, subscription: str, force: bool = False
) -> None:
    """Delete a subscription with its position; with `force`, also while it has consumers."""
    found = [
        topic.subscriptions[subscription] for topic in topics if subscription in topic.subscriptions
    ]
    if not found:
        raise SubscriptionNotFound(
            f"subscription {subscription} of {topics[0].name.base} is not there"
        )
    if not force and any(one.consumers for one in found):
        raise SubscriptionInUse(f"subscription {subscription} has consumers connected")
    positions = [one.cursor.mark_delete_index for one in found]
    await asked.broker.delete_subscriptions(found)
    for one, before in zip(found, positions, strict=True):
        asked.note(
            "delete-subscription",
            one.topic.name,
            subscription=one.name,
            mark_delete_index=before,
        )


# -- skip and expire ---------------------------------------------------------------------------------


@router.post(f"{SUBSCRIPTION}/skip/{{count}}", status_code=204, responses=_SKIPS)
async def skip_messages(
    asked: Asked,
    topic: OpenTopic,
    subscription: str,
    count: Annotated[int, Path(ge=-LONG_MAX, le=LONG_MAX)],
    dry_run: DryRun = False,
) -> Response:
    """Skip so many entries of the backlog."""
    one = subscription_of(topic, subscription)
    slices = TimeSlices(asked.broker.clock)
    plan = await skipping.plan_entries(one, count, slices, asked.broker.engine)
    return await _skip(asked, "skip", [(one, plan)], dry_run)


@router.post(f"{SUBSCRIPTION}/skip_all", status_code=204, responses=_SKIPS)
async def skip_all_messages(
    asked: Asked, topics: OpenParts, subscription: str, dry_run: DryRun = False
) -> Response:
    """Skip the whole backlog."""
    found = [subscription_of(topic, subscription) for topic in topics]
    plans = [(one, skipping.plan_all(one)) for one in found]
    return await _skip(asked, "skip-all", plans, dry_run)


@router.post(
    f"{SUBSCRIPTION}/expireMessages/{{expireTimeInSeconds}}", status_code=204, responses=_SKIPS
)
async def expire_messages(
    asked: Asked,
    topics: OpenParts,
    subscription: str,
    expireTimeInSeconds: Seconds,
    dry_run: DryRun = False,
) -> Response:
    """Skip what is older than so many seconds."""
    found = [subscription_of(topic, subscription) for topic in topics]
    return await _expire(asked, found, expireTimeInSeconds, dry_run)


@router.post(f"{SUBSCRIPTION}/expireMessages", status_code=204, responses=_SKIPS)
async def expire_messages_at(
    asked: Asked,
    topic: OpenTopic,
    subscription: str,
    at: Annotated[CursorPosition, Body()],
    dry_run: DryRun = False,
) -> Response:
    """Skip everything up to a position, with what lies there unless it is `excluded`."""
    one = subscription_of(topic, subscription)
    plan = await asked.broker.engine.look(
        lambda: skipping.plan_position(one, at.position, excluded=at.is_excluded)
    )
    return await _skip(asked, "expire", [(one, plan)], dry_run, expires=True)


@router.post(
    f"{TOPIC}/all_subscription/expireMessages/{{expireTimeInSeconds}}",
    status_code=204,
    responses=_SKIPS,
)
async def expire_messages_of_all(
    asked: Asked, topics: OpenParts, expireTimeInSeconds: Seconds, dry_run: DryRun = False
) -> Response:
    """Skip what is older than so many seconds, for every subscription."""
    found = [one for topic in topics for one in topic.subscriptions.values()]
    return await _expire(asked, found, expireTimeInSeconds, dry_run)


async def _expire(
    asked: Asked, found: list[Subscription], older_than_s: int, dry_run: bool
) -> Response:
    time_ms = asked.broker.clock.wall_ms() - older_than_s * 1000
    plans = await asked.broker.engine.look(
        lambda: [(one, skipping.plan_older(one, time_ms)) for one in found]
    )
    return await _skip(asked, "expire", plans, dry_run, expires=True)


async def _skip(
    asked: Asked,
    action: str,
    plans: list[tuple[Subscription, Skip]],
    dry_run: bool,
    *,
    expires: bool = False,
) -> Response:
    if dry_run:
        said = [
            WouldSkip(firstIndex=plan.first_index, endIndex=plan.end_index, messages=plan.count)
            for _, plan in plans
        ]
        return json_list(said)
    await skipping.carry_out_all(asked.broker, plans, expires=expires)
    for one, plan in plans:
        asked.note(action, one.topic.name, subscription=one.name, **plan._asdict())
    return no_content()
