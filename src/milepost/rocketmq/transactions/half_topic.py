"""Where half messages are stored until their end, and what is stored of each.

They lie in a topic of the broker's own, beside no topic of users: no consumer, pattern or statistic of theirs
comes across it, and it holds no other message back. What of it is not acked on its one subscription is open.
Defaults by which messages and subscriptions of users are dropped do not hold there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from google.protobuf.message import DecodeError

from milepost.broker.messages.browse import message_of
from milepost.broker.operations import leases
from milepost.broker.policies.policy import Level
from milepost.broker.policies.table import POLICIES
from milepost.broker.subscription.subscription import Subscription
from milepost.broker.topic.topic import Topic
from milepost.errors import AlreadyExists, NotFound
from milepost.positions.names import TopicName
from milepost.rocketmq import rocketmq_pb2 as pb
from milepost.rocketmq.message_check import millis
from milepost.wire import pulsar_pb2
from milepost.wire.events import PLAIN, Send
from milepost.wire.scanners.encode import encode_entry_head

if TYPE_CHECKING:
    from milepost.broker.broker import Broker

NAME = TopicName.parse("persistent://pulsar/system/rocketmq-half-messages")
SUBSCRIPTION = "open"

# What would end half messages without a word to their producers.
_NO_QUOTA = {"limitSize": -1, "limitTime": -1, "policy": "producer_request_hold"}
_KEEPING = {
    "message_ttl": 0,
    "subscription_expiration": 0,
    "backlog_quota_size": _NO_QUOTA,
    "backlog_quota_time": _NO_QUOTA,
}

_TOPIC, _BIRTH, _ROLE, _FIRST_S = "topic", "birth", "role", "first_s"


class Stored(NamedTuple):
    """A half message as it lies there."""

    message: pb.Message
    topic: str
    birth: int
    role: str
    first_s: float
    """When a producer is asked first, after it was stored."""
    stored_ms: int


class HalfTopic:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._making = asyncio.Lock()

    async def find(self) -> tuple[Topic, Subscription] | None:
        """The topic and its subscription; None while no half message was ever stored."""
        if not self._broker.directory.exists(NAME):
            return None
        topic = await self._broker.topic(NAME, create=False)
        found = topic.subscriptions.get(SUBSCRIPTION)
        return None if found is None else (topic, found)

    async def make(self) -> tuple[Topic, Subscription]:
        """The same; made if it is not there."""
        async with self._making:
            broker = self._broker
            if (found := await self.find()) is not None:
                await self._keep_all()
                return found
            with suppress(AlreadyExists):
                await broker.directory.create_topic(NAME, broker.first_doc())
            await self._keep_all()
            topic = await broker.topic(NAME, create=False)
            # Before the first message: what lies there is open for as long as it is not acked.
            made = await broker.create_subscription(topic, SUBSCRIPTION, topic.log.first_index)
            return topic, made

    async def _keep_all(self) -> None:
        book = self._broker.policies.book
        known = book.values(Level.TOPIC, NAME.text)
        for name, value in _KEEPING.items():
            if known.get(name) != value:
                await book.set(Level.TOPIC, NAME.text, POLICIES[name], value)

    async def read(self, topic: Topic, index: int) -> Stored:
        """What is stored; `NotFound` if there is no half message."""
        view = await message_of(topic, index, self._broker.engine)
        if view is None:
            raise NotFound(f"{topic.name} has no message {index}")
        properties = view.properties
        try:
            return Stored(
                pb.Message.FromString(view.payload),
                properties[_TOPIC],
                int(properties[_BIRTH]),
                properties[_ROLE],
                float(properties[_FIRST_S]),
                view.came_ms,
            )
        except (KeyError, ValueError, DecodeError) as error:
            raise NotFound(f"message {index} of {topic.name} is no half message: {error}") from None


def open_indexes(subscription: Subscription) -> Iterator[int]:
    """The half messages that have not ended."""
    for first, end in leases.open_ranges(subscription):
        yield from range(first, end)


def entries_of(
    message: pb.Message,
    *,
    topic: str,
    birth: int,
    role: str,
    first_s: float,
    producer: str,
    sequence_id: int,
    now_ms: int,
) -> list[Send]:
    """The entry that a half message is stored as: the message itself, and what is to be known of it."""
    metadata = pulsar_pb2.MessageMetadata(
        producer_name=producer, sequence_id=sequence_id, publish_time=now_ms
    )
    if message.system_properties.HasField("born_timestamp"):
        metadata.event_time = millis(message.system_properties.born_timestamp)
    known = {_TOPIC: topic, _BIRTH: str(birth), _ROLE: role, _FIRST_S: f"{first_s:g}"}
    for name, value in known.items():
        metadata.properties.add(key=name, value=value)
    body = message.SerializeToString()
    head = encode_entry_head(metadata.SerializeToString(), body)
    return [Send(sequence_id, 0, 1, now_ms, head + body, PLAIN)]
