"""What handlers take from a request: the broker, and names made of path parts.

Every dependency here is a coroutine: the framework would run a plain function in a thread.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from fastapi import Depends, Query, Request, Response
from starlette.convertors import Convertor, register_url_convertor

from milepost.broker.broker import Broker
from milepost.broker.subscription import Subscription
from milepost.broker.topic import Topic
from milepost.errors import (
    InvalidInput,
    MilepostError,
    NotPersistent,
    SubscriptionNotFound,
    TopicNotFound,
)
from milepost.positions.names import NamespaceName, TopicName

Domain = Literal["persistent", "non-persistent"]


class _DomainConvertor(Convertor[str]):
    """So that no other resource is taken for a topic: `/admin/v2/schemas/…` is none."""

    regex = "persistent|non-persistent"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("domain", _DomainConvertor())

ADMIN = "/admin/v2"
NAMESPACE = f"{ADMIN}/{{domain:domain}}/{{tenant}}/{{namespace}}"
TOPIC = f"{NAMESPACE}/{{topic}}"


class Elsewhere(MilepostError):
    """Another broker owns the topic: 307, with its address."""

    http_status = 307

    def __init__(self, name: TopicName, url: str) -> None:
        super().__init__(f"{name} is served by {url}")
        self.url = url


async def _broker(request: Request) -> Broker:
    broker: Broker = request.app.state.broker
    return broker


async def _topic(domain: Domain, tenant: str, namespace: str, topic: str) -> TopicName:
    return topic_name(domain, tenant, namespace, topic)


async def _namespace(tenant: str, namespace: str) -> NamespaceName:
    return NamespaceName.parse(f"{tenant}/{namespace}")


def topic_name(domain: str, tenant: str, namespace: str, topic: str) -> TopicName:
    return TopicName.parse(f"{domain}://{tenant}/{namespace}/{topic}")


AskedBroker = Annotated[Broker, Depends(_broker)]

# Of a path with {domain}/{tenant}/{namespace}/{topic}, or with {tenant}/{namespace}. A text that is
# no name is refused before the handler runs.
AskedTopic = Annotated[TopicName, Depends(_topic)]
AskedNamespace = Annotated[NamespaceName, Depends(_namespace)]


async def open_topic(request: Request, name: TopicName, *, create: bool = False) -> Topic:
    """The topic, if it is there and this broker has it. Asking creates nothing, but for a partition
    that nobody has used yet: its partitioned topic exists, and so does it. With `create` a topic that
    is not there is made, if topics may be made by using them."""
    if not name.is_persistent:
        raise NotPersistent(f"{name} is not persistent")
    owner = request.app.state.owner_of(name)
    if owner is not None:
        raise Elsewhere(name, owner)
    broker: Broker = request.app.state.broker
    found = broker.topics.get(name.text)
    if found is not None:
        return found
    exists = name.partition >= 0 and broker.directory.partitions(name.base) is not None
    return await broker.topic(name, create=create or exists)


async def _open(request: Request, name: AskedTopic, authoritative: Authoritative = False) -> Topic:
    return await open_topic(request, name)


async def _found(request: Request, name: AskedTopic, authoritative: Authoritative = False) -> Topic:
    broker: Broker = request.app.state.broker
    if broker.directory.partitions(name) is not None:
        raise TopicNotFound(f"{name} is partitioned, and has no such thing as a whole")
    return await open_topic(request, name)


async def _opened(
    request: Request, name: AskedTopic, authoritative: Authoritative = False
) -> Topic:
    if name.is_persistent:
        return await _found(request, name, authoritative)
    broker: Broker = request.app.state.broker
    broker.directory.check_namespace(name)
    topic = broker.topics.get(name.text)
    if topic is None:
        raise TopicNotFound(f"topic {name} is not in use, and nothing is stored of it")
    return topic


async def open_parts(request: Request, name: TopicName, *, create: bool = False) -> list[Topic]:
    """The topic, or all partitions of a partitioned one."""
    broker: Broker = request.app.state.broker
    partitions = broker.directory.partitions(name)
    if partitions is None:
        return [await open_topic(request, name, create=create)]
    return [await open_topic(request, name.partition_name(one)) for one in range(partitions)]


async def _parts(
    request: Request, name: AskedTopic, authoritative: Authoritative = False
) -> list[Topic]:
    return await open_parts(request, name)


async def _made_parts(
    request: Request, name: AskedTopic, authoritative: Authoritative = False
) -> list[Topic]:
    return await open_parts(request, name, create=True)


def subscription_of(topic: Topic, name: str) -> Subscription:
    subscription = topic.subscriptions.get(name)
    if subscription is None:
        raise SubscriptionNotFound(f"subscription {name} of {topic.name} does not exist")
    return subscription


# The lookup was redirected here by another broker: with one broker it changes nothing.
Authoritative = Annotated[bool, Query()]
# The topic; 405, or 404, for the name of a whole partitioned one.
OpenTopic = Annotated[Topic, Depends(_open)]
FoundTopic = Annotated[Topic, Depends(_found)]
# The same, and a non-persistent one that somebody uses.
OpenedTopic = Annotated[Topic, Depends(_opened)]
OpenParts = Annotated[list[Topic], Depends(_parts)]
MadeParts = Annotated[list[Topic], Depends(_made_parts)]

# For whatever destroys something: answer 200 with what it would do, and do nothing.
DryRun = Annotated[bool, Query(alias="dryRun")]


def no_content() -> Response:
    return Response(status_code=204)


_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,4000}", re.ASCII)


def whole_number(name: str, texts: list[str]) -> int:
    """A query parameter that must be there once, as a plain decimal number, however large."""
    if len(texts) != 1:
        raise InvalidInput(f"query {name}: expected once, found {len(texts)} times")
    if not _WHOLE_NUMBER.fullmatch(texts[0]):
        raise InvalidInput(f"query {name}: expected a whole number")
    return int(texts[0])
