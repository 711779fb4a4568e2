"""What handlers take from a request: the broker, topic and namespace names.

Every dependency here is a coroutine: the framework would run a plain function in a thread.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Literal

from fastapi import Depends, Query, Request, Response
from pydantic import BaseModel
from starlette.convertors import Convertor, register_url_convertor

from milepost.broker.broker import Broker
from milepost.broker.subscription.subscription import Subscription
from milepost.broker.topic.topic import Topic
from milepost.errors import (
    InvalidInput,
    MilepostError,
    NothingStored,
    NotPersistent,
    ServiceNotReady,
    SubscriptionNotFound,
    TopicNotFound,
)
from milepost.positions.names import NamespaceName, TopicName

Domain = Literal["persistent", "non-persistent"]

# How often all partitions are looked for, while operators unload some.
_OPENINGS_MAX = 10


class _Word(Convertor[str]):
    def __init__(self, regex: str) -> None:
        self.regex = regex  # type: ignore[misc]  # each has its own

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


def register_word(name: str, regex: str) -> None:
    """Let `{…:name}` in a path fit these words only."""
    register_url_convertor(name, _Word(regex))


# So that no other resource is taken for a topic: `/admin/v2/schemas/…` is none.
register_word("domain", "persistent|non-persistent")

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
    """The topic, if it is there, persistent, and this broker has it. Asking creates nothing; a partition
    is there as soon as its partitioned topic is. With `create` a topic that is not there is made, if
    topics may be made by using them."""
    if not name.is_persistent:
        check_topic(request.app.state.broker, name)
        raise NothingStored(f"{name} is not persistent: nothing of it is stored")
    return await _any_topic(request, name, create=create)


async def _any_topic(request: Request, name: TopicName, *, create: bool = False) -> Topic:
    """The same, persistent or not."""
    owner = request.app.state.owner_of(name)
    if owner is not None:
        raise Elsewhere(name, owner)
    broker: Broker = request.app.state.broker
    found = broker.topics.get(name.text)
    if found is not None:
        return found
    if not name.is_persistent:
        check_topic(broker, name)
    return await broker.topic(name, create=create)


def check_topic(broker: Broker, name: TopicName) -> None:
    """`TopicNotFound` for one that is not there; one that is not persistent is there while it is open."""
    broker.directory.check_namespace(name)
    if not broker.exists(name):
        unstored = "" if name.is_persistent else ", or no client has it open"
        raise TopicNotFound(f"topic {name} does not exist{unstored}")


async def check_persistent(name: AskedTopic) -> None:
    if not name.is_persistent:
        raise NotPersistent(f"{name} is not persistent")


# For what upstream refuses of every other topic, whether it is there or not.
PERSISTENT_ONLY = Depends(check_persistent)


async def _open(request: Request, name: AskedTopic, authoritative: Authoritative = False) -> Topic:
    return await open_topic(request, name)


async def _found(request: Request, name: AskedTopic, authoritative: Authoritative = False) -> Topic:
    broker: Broker = request.app.state.broker
    if broker.directory.partitions(name) is not None:
        raise TopicNotFound(_ask_a_partition(name))
    return await open_topic(request, name)


async def _opened(
    request: Request, name: AskedTopic, authoritative: Authoritative = False
) -> Topic:
    broker: Broker = request.app.state.broker
    if broker.directory.partitions(name) is not None:
        raise TopicNotFound(_ask_a_partition(name))
    return await _any_topic(request, name)


def _ask_a_partition(name: TopicName) -> str:
    return f"{name} is partitioned, and this is told of single partitions, as {name}-partition-0"


async def open_parts(request: Request, name: TopicName, *, create: bool = False) -> list[Topic]:
    """The topic, or all partitions of a partitioned one."""
    return await _all_open(request, name, open_topic, create=create)


async def opened_parts(request: Request, name: TopicName) -> list[Topic]:
    """The same, and of one that is not persistent."""
    return await _all_open(request, name, _any_topic)


async def _all_open(
    request: Request,
    name: TopicName,
    opened: Callable[..., Awaitable[Topic]],
    *,
    create: bool = False,
) -> list[Topic]:
    """Open the topic, or all partitions. While one is opened another may be closed, and opened by a client:
    a change of the closed one would be none, or harm the other. More may be on their way too."""
    broker: Broker = request.app.state.broker
    directory, is_change = broker.directory, request.method != "GET"
    for _ in range(_OPENINGS_MAX):
        if is_change:
            await directory.grown(name)
        partitions = directory.partitions(name)
        if partitions is None:
            topics = [await opened(request, name, create=create)]
        else:
            names = [name.partition_name(number) for number in range(partitions)]
            topics = [await opened(request, one) for one in names]
        is_all = directory.partitions(name) == partitions
        if is_change and directory.is_being_grown(name):
            continue
        if is_all and not any(topic.is_closed for topic in topics):
            return topics
    raise ServiceNotReady(f"partitions of {name} are being unloaded, or made")


async def _opened_parts(
    request: Request, name: AskedTopic, authoritative: Authoritative = False
) -> list[Topic]:
    return await opened_parts(request, name)


async def _parts(
    request: Request, name: AskedTopic, authoritative: Authoritative = False
) -> list[Topic]:
    return await open_parts(request, name)


async def _made_parts(
    request: Request, name: AskedTopic, authoritative: Authoritative = False
) -> list[Topic]:
    if not name.is_persistent:
        raise InvalidInput(f"{name} is not persistent: its subscriptions are made by consumers")
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
# The same, and a non-persistent one that is open, or a partition.
OpenedTopic = Annotated[Topic, Depends(_opened)]
OpenedParts = Annotated[list[Topic], Depends(_opened_parts)]
OpenParts = Annotated[list[Topic], Depends(_parts)]
MadeParts = Annotated[list[Topic], Depends(_made_parts)]

# The broker of a cluster that what is unloaded goes to, as `milepost brokers list` shows it.
Destination = Annotated[str, Query(alias="destinationBroker", max_length=512)]

# For whatever destroys something: answer 200 with what it would do, and do nothing.
DryRun = Annotated[bool, Query(alias="dryRun")]


def no_content() -> Response:
    return Response(status_code=204)


def json_list(said: Sequence[BaseModel]) -> Response:
    """What a dry run says of each partition."""
    body = ",".join(one.model_dump_json() for one in said)
    return Response(f"[{body}]", media_type="application/json")


_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,4000}", re.ASCII)


def whole_number(name: str, texts: list[str]) -> int:
    """A query parameter that must be there once, as a plain decimal number, however large."""
    if len(texts) != 1:
        raise InvalidInput(f"query {name}: expected once, found {len(texts)} times")
    if not _WHOLE_NUMBER.fullmatch(texts[0]):
        raise InvalidInput(f"query {name}: expected a whole number")
    return int(texts[0])
