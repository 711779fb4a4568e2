"""Bundles over REST: what is done to all topics of a namespace, or to those of one bundle of it.

Upstream divides a namespace among brokers by ranges of hashes. Of one broker one bundle has it all, so both
paths of each call mean the same; another range is a 412, as there.

    PUT  /admin/v2/namespaces/public/default/unload
    POST /admin/v2/namespaces/public/default/0x00000000_0xffffffff/clearBacklog/billing

Many topics are gone through some at a time: each step waits for the disk, and the disk serves many at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Annotated, TypeVar

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel
from starlette.convertors import Convertor, register_url_convertor

from milepost.broker import skipping, upkeep
from milepost.broker.auth.operations import Operation
from milepost.broker.broker import Broker
from milepost.broker.subscription import Subscription
from milepost.broker.topic import Topic
from milepost.errors import (
    PreconditionFailed,
    ServiceNotReady,
    SubscriptionInUse,
    SubscriptionNotFound,
    TopicNotFound,
)
from milepost.positions.names import NamespaceName, TopicName
from milepost.rest import audit
from milepost.rest.permission import needs
from milepost.rest.request import ADMIN, AskedBroker, AskedNamespace, DryRun, no_content

router = APIRouter(
    prefix=f"{ADMIN}/namespaces/{{tenant}}/{{namespace}}",
    tags=["bundles"],
    dependencies=[needs(Operation.ADMINISTER_NAMESPACE)],
)

_T = TypeVar("_T")

BOUNDARIES = ("0x00000000", "0xffffffff")
BUNDLE = "_".join(BOUNDARIES)

# Topics that are gone through at once.
STEP_TOPICS = 64


class _BundleConvertor(Convertor[str]):
    """So that nothing else behind a namespace's name is taken for one of its bundles."""

    regex = "0x[0-9a-fA-F]{8}_0x[0-9a-fA-F]{8}"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("bundle", _BundleConvertor())


class Bundles(BaseModel):
    boundaries: list[str] = list(BOUNDARIES)
    numBundles: int = 1


class WouldClear(BaseModel):
    """What a dry run says: so much, of so many subscriptions, would be acked or forgotten."""

    subscriptions: int
    messages: int


async def _asked(broker: AskedBroker, name: AskedNamespace, request: Request) -> NamespaceName:
    broker.directory.namespace(name)
    bundle = request.path_params.get("bundle", BUNDLE)
    if bundle.lower() != BUNDLE:
        raise PreconditionFailed(f"{name} has no bundle {bundle}; all of it is in {BUNDLE}")
    return name


Whole = Annotated[NamespaceName, Depends(_asked)]


@router.get("/bundles")
async def get_bundles(name: Whole) -> Bundles:
    return Bundles()


@router.put("/unload", status_code=204)
@router.put("/{bundle:bundle}/unload", status_code=204)
async def unload(request: Request, broker: AskedBroker, name: Whole) -> None:
    """Close every topic; clients are told, come back, and open them again."""

    async def close(topic: Topic) -> None:
        with suppress(ServiceNotReady):  # somebody else closes it
            await upkeep.close_topic(broker, topic)

    topics = [one for one in broker.topics.values() if one.name.namespace == name]
    await _each(topics, close)
    audit.note(request, "unload-namespace", name, topics=len(topics))


@router.post("/clearBacklog", status_code=204, responses={200: {"model": WouldClear}})
@router.post(
    "/{bundle:bundle}/clearBacklog", status_code=204, responses={200: {"model": WouldClear}}
)
async def clear_backlog(
    request: Request, broker: AskedBroker, name: Whole, dry_run: DryRun = False
) -> Response:
    """Skip, in every topic and for every subscription, what was not acked."""
    return await _clear(request, broker, name, None, dry_run)


@router.post(
    "/clearBacklog/{subscription}", status_code=204, responses={200: {"model": WouldClear}}
)
@router.post(
    "/{bundle:bundle}/clearBacklog/{subscription}",
    status_code=204,
    responses={200: {"model": WouldClear}},
)
async def clear_backlog_of_one(
    request: Request, broker: AskedBroker, name: Whole, subscription: str, dry_run: DryRun = False
) -> Response:
    """The same for one subscription; 404 if no topic has it."""
    return await _clear(request, broker, name, subscription, dry_run)


async def _clear(
    request: Request, broker: Broker, name: NamespaceName, wanted: str | None, dry_run: bool
) -> Response:
    found = await _subscriptions(broker, name, wanted)
    if wanted is not None and not found:
        raise SubscriptionNotFound(f"no topic of {name} has a subscription {wanted}")
    if dry_run:
        return _would(found)

    async def skip(one: Subscription) -> None:
        await skipping.carry_out(broker, one, skipping.plan_all(one))

    await _each(found, skip)
    audit.note(request, "clear-backlog", name, subscription=wanted, subscriptions=len(found))
    return no_content()


@router.post("/unsubscribe/{subscription}", status_code=204, responses={200: {"model": WouldClear}})
@router.post(
    "/{bundle:bundle}/unsubscribe/{subscription}",
    status_code=204,
    responses={200: {"model": WouldClear}},
)
async def unsubscribe(
    request: Request, broker: AskedBroker, name: Whole, subscription: str, dry_run: DryRun = False
) -> Response:
    """Delete a subscription from every topic that has it; from none while it has a consumer on any."""
    found = await _subscriptions(broker, name, subscription)
    if dry_run:
        return _would(found)
    used = next((one.topic.name for one in found if one.consumers), None)
    if used is not None:
        raise SubscriptionInUse(f"subscription {subscription} has consumers connected to {used}")
    await _each(found, broker.delete_subscription)
    audit.note(request, "unsubscribe", name, subscription=subscription, topics=len(found))
    return no_content()


async def _subscriptions(
    broker: Broker, name: NamespaceName, wanted: str | None
) -> list[Subscription]:
    """Of all topics, those that nobody has opened included."""
    found: list[Subscription] = []

    async def look(text: str) -> None:
        with suppress(TopicNotFound):  # deleted meanwhile, or a partition that nobody has used
            topic = await broker.topic(TopicName.parse(text), create=False)
            found.extend(one for one in topic.subscriptions.values() if wanted in (None, one.name))

    await _each(broker.directory.topics(str(name)), look)
    return found


async def _each(things: Sequence[_T], work: Callable[[_T], Awaitable[None]]) -> None:
    for at in range(0, len(things), STEP_TOPICS):
        await asyncio.gather(*(work(one) for one in things[at : at + STEP_TOPICS]))


def _would(found: list[Subscription]) -> Response:
    said = WouldClear(
        subscriptions=len(found), messages=sum(skipping.plan_all(one).count for one in found)
    )
    return Response(said.model_dump_json(), media_type="application/json")
