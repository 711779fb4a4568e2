"""The bundles of a namespace: lists, splits, unloads and clears them.

Upstream divides a namespace among brokers by ranges of hashes (`broker/directory/bundles.py`); here one
broker has all of them. A range that is no bundle is a 412, as there.

    PUT  /admin/v2/namespaces/public/default/unload
    PUT  /admin/v2/namespaces/public/default/0x00000000_0xffffffff/split
    POST /admin/v2/namespaces/public/default/0x00000000_0xffffffff/clearBacklog/billing

Many topics are gone through some at a time: each step waits for the disk, and the disk serves many at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Annotated, Any, NamedTuple, TypeVar

from fastapi import Body, Depends, Query, Request, Response
from pydantic import BaseModel

from milepost.broker.auth.operations import Operation
from milepost.broker.broker import Broker
from milepost.broker.directory.bundles import BY_RANGE, COUNT_MAX, KEY, WAYS, Bundles, hash_of
from milepost.broker.operations import skipping, topic_lifecycle
from milepost.broker.subscription.subscription import Subscription
from milepost.broker.topic.topic import Topic
from milepost.broker.workers import calls, moves
from milepost.errors import (
    AlreadyExists,
    PreconditionFailed,
    ServiceNotReady,
    SubscriptionInUse,
    SubscriptionNotFound,
    TopicNotFound,
)
from milepost.positions.names import NamespaceName, TopicName
from milepost.rest.audit import Asked
from milepost.rest.request import (
    ADMIN,
    AskedBroker,
    AskedNamespace,
    Destination,
    DryRun,
    no_content,
    register_word,
)
from milepost.rest.route_access import Router

router = Router(
    "bundles", Operation.ADMINISTER_NAMESPACE, prefix=f"{ADMIN}/namespaces/{{tenant}}/{{namespace}}"
)

_T = TypeVar("_T")

# Topics that are gone through at once.
STEP_TOPICS = 64


# So that nothing else behind a namespace's name is taken for one of its bundles.
BUNDLE = "0x[0-9a-fA-F]{8}_0x[0-9a-fA-F]{8}"
register_word("bundle", BUNDLE)
# A bundle, or which one by what is in it.
register_word("splittable", f"{BUNDLE}|LARGEST|HOT")


class BundlesData(BaseModel):
    boundaries: list[str]
    numBundles: int

    @classmethod
    def of(cls, bundles: Bundles) -> BundlesData:
        return cls(boundaries=bundles.boundaries, numBundles=len(bundles.names))


class TopicHashPositions(BaseModel):
    namespace: str
    bundle: str
    topicHashPositions: dict[str, int]


class WouldClear(BaseModel):
    """What a dry run says: so much, of so many subscriptions, would be acked or forgotten."""

    subscriptions: int
    messages: int


_WOULD: dict[int | str, dict[str, Any]] = {200: {"model": WouldClear}}


class Part(NamedTuple):
    """A namespace, or one bundle of it."""

    name: NamespaceName
    bundles: Bundles
    bundle: str | None

    def has(self, topic: TopicName | str) -> bool:
        return self.bundle is None or self.bundles.of(str(topic)) == self.bundle

    def open_in(self, broker: Broker) -> list[Topic]:
        """The topics of it that are open, persistent or not."""
        return [
            one
            for one in broker.topics.values()
            if one.name.namespace == self.name and self.has(one.name)
        ]

    def __str__(self) -> str:
        return str(self.name) if self.bundle is None else f"{self.name}/{self.bundle}"


def bundles_of(broker: Broker, name: NamespaceName) -> Bundles:
    return Bundles.of_doc(broker.directory.namespace(name))


async def _asked(broker: AskedBroker, name: AskedNamespace, request: Request) -> Part:
    bundles = bundles_of(broker, name)
    bundle = request.path_params.get("bundle")
    if bundle is not None:
        bundles.bounds(bundle)
    return Part(name, bundles, bundle and bundle.lower())


AskedPart = Annotated[Part, Depends(_asked)]


@router.get("/bundles")
async def get_bundles(part: AskedPart) -> BundlesData:
    return BundlesData.of(part.bundles)


@router.put("/{bundle:splittable}/split", status_code=204)
async def split(
    asked: Asked,
    name: AskedNamespace,
    bundle: str,
    way: Annotated[str, Query(alias="splitAlgorithmName")] = BY_RANGE,
    closes: Annotated[bool, Query(alias="unload")] = False,
    positions: Annotated[list[int] | None, Body(max_length=COUNT_MAX)] = None,
) -> None:
    """Divide a bundle in two, or at the positions in the body. `LARGEST` is the one with most topics,
    `HOT` the one with most messages a second."""
    bundles = bundles_of(asked.broker, name)
    if way not in WAYS:
        raise PreconditionFailed(f"{way[:80]} divides no bundle; {', '.join(WAYS)} do")
    traffic = _traffic(asked.broker, name)
    if bundle in ("LARGEST", "HOT"):
        shares = {one: bundles.within(one, traffic) for one in bundles.names}
        bundle = max(
            shares,
            key=lambda one: (
                len(shares[one])
                if bundle == "LARGEST"
                else sum(traffic[topic] for topic in shares[one])
            ),
        )
    bundles.bounds(bundle)
    inside = {topic: traffic[topic] for topic in bundles.within(bundle, traffic)}
    where = bundles.division(bundle, way, inside, positions or ())

    def change(doc: dict[str, Any]) -> dict[str, Any]:
        return {**doc, KEY: Bundles.of_doc(doc).divided(bundle, where).to_doc()}

    await asked.broker.directory.change_namespace(name, change)
    if closes:
        await unload(asked, Part(name, bundles, bundle.lower()))
    asked.note("split-bundle", name, bundle=bundle, positions=len(where))


def _traffic(broker: Broker, name: NamespaceName) -> dict[str, float]:
    """Every topic of a namespace with its messages a second, in and out."""
    rates = dict.fromkeys(broker.directory.topics(str(name)), 0.0)
    for topic in broker.topics.values():
        if topic.name.namespace == name:
            rates[str(topic.name)] = topic.rates.per_second[0] + topic.rates.per_second[2]
    return rates


@router.get("/{bundle:bundle}/topicHashPositions")
async def get_topic_hash_positions(
    broker: AskedBroker, part: AskedPart, topics: Annotated[list[str] | None, Query()] = None
) -> TopicHashPositions:
    """The hashes of a bundle's topics, or of those that are named."""
    assert part.bundle is not None
    inside = part.bundles.within(part.bundle, _traffic(broker, part.name))
    wanted = {str(TopicName.parse(_full(part.name, one))) for one in topics or ()}
    return TopicHashPositions(
        namespace=str(part.name),
        bundle=part.bundle,
        topicHashPositions={
            topic: hash_of(topic) for topic in inside if not wanted or topic in wanted
        },
    )


def _full(namespace: NamespaceName, topic: str) -> str:
    return topic if "://" in topic else f"persistent://{namespace}/{topic}"


@router.delete("/{bundle:bundle}", status_code=204)
async def delete_bundle(broker: AskedBroker, part: AskedPart) -> None:
    """Give up a bundle without topics: the broker keeps nothing of one. 409 while it has a topic."""
    assert part.bundle is not None
    inside = part.bundles.within(part.bundle, _traffic(broker, part.name))
    if inside:
        raise AlreadyExists(f"bundle {part} still has {len(inside)} topics")


@router.put("/unload", status_code=204)
@router.put("/{bundle:bundle}/unload", status_code=204)
async def unload(asked: Asked, part: AskedPart, destination: Destination = "") -> None:
    """Close every topic; clients are told, come back, and open them again. With a destination every shard
    that has a topic of it goes to that broker of the cluster, with whatever else is in the shard."""
    if destination:
        names = filter(part.has, await calls.topics(asked.broker, str(part.name), "ALL"))
        workers = asked.broker.workers
        shard_of = (lambda name: 0) if workers is None else workers.placement.shard_of
        shards = {shard_of(TopicName.parse(name)) for name in names}
        moved = await moves.move(asked.broker, shards, destination)
        asked.note("move-namespace", part, destination=destination, shards=len(moved))
        return

    async def close(topic: Topic) -> None:
        with suppress(ServiceNotReady):  # another request closes it
            await topic_lifecycle.close_topic(asked.broker, topic)

    topics = part.open_in(asked.broker)
    await _each(topics, close)
    asked.note("unload-namespace", part, topics=len(topics))


@router.post("/clearBacklog", status_code=204, responses=_WOULD)
@router.post("/{bundle:bundle}/clearBacklog", status_code=204, responses=_WOULD)
async def clear_backlog(asked: Asked, part: AskedPart, dry_run: DryRun = False) -> Response:
    """Skip, in every topic and for every subscription, what was not acked."""
    return await _clear(asked, part, None, dry_run)


@router.post("/clearBacklog/{subscription:path}", status_code=204, responses=_WOULD)
@router.post("/{bundle:bundle}/clearBacklog/{subscription:path}", status_code=204, responses=_WOULD)
async def clear_backlog_of_one(
    asked: Asked, part: AskedPart, subscription: str, dry_run: DryRun = False
) -> Response:
    """The same for one subscription; 404 if no topic has it."""
    return await _clear(asked, part, subscription, dry_run)


async def _clear(asked: Asked, part: Part, wanted: str | None, dry_run: bool) -> Response:
    found = await _subscriptions(asked.broker, part, wanted)
    if wanted is not None and not found:
        raise SubscriptionNotFound(f"no topic of {part} has a subscription {wanted}")
    if dry_run:
        return _would(found)

    async def skip(one: Subscription) -> None:
        await skipping.carry_out(asked.broker, one, skipping.plan_all(one))

    await _each(found, skip)
    asked.note("clear-backlog", part, subscription=wanted, subscriptions=len(found))
    return no_content()


@router.post("/unsubscribe/{subscription:path}", status_code=204, responses=_WOULD)
@router.post("/{bundle:bundle}/unsubscribe/{subscription:path}", status_code=204, responses=_WOULD)
async def unsubscribe(
    asked: Asked, part: AskedPart, subscription: str, dry_run: DryRun = False
) -> Response:
    """Delete a subscription from every topic that has it; from none while it has a consumer on any."""
    found = await _subscriptions(asked.broker, part, subscription)
    if dry_run:
        return _would(found)
    used = next((one.topic.name for one in found if one.consumers), None)
    if used is not None:
        raise SubscriptionInUse(f"subscription {subscription} has consumers connected to {used}")
    await _each(found, asked.broker.delete_subscription)
    asked.note("unsubscribe", part, subscription=subscription, topics=len(found))
    return no_content()


async def _subscriptions(broker: Broker, part: Part, wanted: str | None) -> list[Subscription]:
    """Of all topics, those that are not open included."""
    found: list[Subscription] = []

    async def look(text: str) -> None:
        with suppress(TopicNotFound):  # deleted meanwhile, or a partition that was never used
            topic = await broker.topic(TopicName.parse(text), create=False)
            found.extend(one for one in topic.subscriptions.values() if wanted in (None, one.name))

    topics = broker.directory.topics(str(part.name))
    await _each([one for one in topics if part.has(one)], look)
    return found


async def _each(things: Sequence[_T], work: Callable[[_T], Awaitable[None]]) -> None:
    for at in range(0, len(things), STEP_TOPICS):
        await asyncio.gather(*(work(one) for one in things[at : at + STEP_TOPICS]))


def _would(found: list[Subscription]) -> Response:
    said = WouldClear(
        subscriptions=len(found), messages=sum(skipping.plan_all(one).count for one in found)
    )
    return Response(said.model_dump_json(), media_type="application/json")
