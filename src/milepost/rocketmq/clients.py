"""The clients that are known: when each was last heard, and the stream of settings that it keeps open.

A client tells its settings on the stream and is told those that hold for it. No call waits for that: clients
may call without a stream. On a producer's stream it is asked how transactions have ended that it has begun. A
client that keeps silent for `ALIVE_S` is taken for gone, and one that does not read what it is told loses its
stream.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from google.protobuf.duration_pb2 import Duration

from milepost.errors import MilepostError
from milepost.positions.names import TopicName
from milepost.rocketmq import names
from milepost.rocketmq import rocketmq_pb2 as pb
from milepost.rocketmq.calls import Call
from milepost.rocketmq.codes import OK, Code, Refused
from milepost.rocketmq.consuming.queues import Manner
from milepost.rocketmq.message_check import BODY_SIZE_MAX

if TYPE_CHECKING:
    from milepost.broker.broker import Broker

# Clients say something every ten seconds.
ALIVE_S = 30.0
CLIENTS_MAX = 20_000
# What a client is told and has not read: so many commands.
TOLD_MAX = 16
# Bytes of that, of all clients together. A client that would be told more loses its stream.
UNREAD_SIZE_MAX = 64 * 1024 * 1024
# Topics of a producer that are remembered, to ask it about transactions.
TOPICS_MAX = 256
# Of the topics and filters of a consumer, those that are shown to operators.
SHOWN_MAX, SHOWN_LENGTH_MAX = 16, 256

# Room for properties, tag, keys and ids beside a body.
HEAD_SIZE = 64 * 1024
# Of what a client tells at once.
SETTINGS_SIZE_MAX = 256 * 1024
RECEIVE_BATCH_MAX = 32
POLL_S_MAX = 20
# The k-th failure of a message waits for the k-th of these.
BACKOFF_S = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
# The number of a language, in the settings of a client. This client knows no list of times, and would try
# nothing again.
NODE = 8

_KINDS = {
    "publishing": (pb.PRODUCER,),
    "subscription": (pb.PUSH_CONSUMER, pb.SIMPLE_CONSUMER),
}


class Told(NamedTuple):
    """What a consumer says of itself, as far as it is shown to operators."""

    group: str
    namespace: str
    """Of the group, as it was said; empty for the one of clients that name none."""
    is_push: bool
    subscriptions: Mapping[str, str]
    """A topic → the filter."""


class Unread:
    """Bytes of what clients were told and have not read, of all of them together."""

    def __init__(self) -> None:
        self.size = 0

    def has_room(self, size: int) -> bool:
        return self.size + size <= UNREAD_SIZE_MAX


class Stream:
    """What a client is told, and on which topics it sends."""

    def __init__(self, call: Call, unread: Unread) -> None:
        self.call = call
        self._unread = unread
        self.topics: set[str] = set()
        self.language = 0
        """By its number in the protocol."""
        self.consumer: Told | None = None
        """None: it is a producer, or has said nothing yet."""
        # As bytes: commands with long lists take several times as much. None: nothing follows.
        self._told: asyncio.Queue[bytes | None] = asyncio.Queue(TOLD_MAX)
        self._size = 0  # what of the unread bytes is its own
        self._is_over = False

    def tell(self, command: pb.TelemetryCommand) -> bool:
        """Tell the client something that it has not asked for; False if it does not read, or if others do
        not and too much waits for them."""
        if self._is_over or self._told.full():
            return False
        if not self._unread.has_room(command.ByteSize()):
            return False
        said = command.SerializeToString()
        self._count(len(said))
        self._told.put_nowait(said)
        return True

    def answer(self, command: pb.TelemetryCommand) -> None:
        """Tell it what it has asked for; `Refused` if it does not read, or if others do not."""
        if not self.tell(command):
            raise Refused(Code.TOO_MANY_REQUESTS, "too much of what clients were told is not read")

    async def last(self) -> None:
        """Nothing more is told."""
        await self._told.put(None)

    def end(self) -> None:
        """It is told nothing more, whether it has read all or not."""
        self._is_over = True
        self._count(-self._size)

    def _count(self, size: int) -> None:
        self._size += size
        self._unread.size += size

    async def write(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        """Write what the client is told, to the end."""
        while (said := await self._told.get()) is not None:
            await write(said)
            self._count(-len(said))


class Clients:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        # The client → its open stream, the one that was asked the longest ago first.
        self._streams: OrderedDict[str, Stream] = OrderedDict()
        # The client → when it was last heard, the one that has been silent the longest first. Ids that were
        # heard once are kept apart: made-up ones must not push out clients that live.
        self._heard: OrderedDict[str, float] = OrderedDict()
        self._strangers: OrderedDict[str, float] = OrderedDict()
        self.streams = 0
        self._unread = Unread()

    def heard(self, call: Call) -> None:
        """A client has made a call."""
        client, now = call.client, self._broker.clock.monotonic()
        is_new = client not in self._heard and self._strangers.pop(client, None) is None
        has_room = len(self._heard) < CLIENTS_MAX or client in self._heard
        there = self._strangers if is_new or not has_room else self._heard
        there[client] = now
        there.move_to_end(client)
        if len(self._strangers) > CLIENTS_MAX:
            self._strangers.popitem(last=False)

    def is_alive(self, client: str) -> bool:
        heard = self._heard.get(client, self._strangers.get(client))
        return heard is not None and self._broker.clock.monotonic() - heard < ALIVE_S

    def left(self, client: str) -> None:
        """A client has said that it ends."""
        self._heard.pop(client, None)
        self._strangers.pop(client, None)

    def tick(self, now: float) -> None:
        """Forget clients that are gone."""
        for known in (self._heard, self._strangers):
            while known:
                client, heard = next(iter(known.items()))
                if now - heard < ALIVE_S:
                    break
                del known[client]

    @contextmanager
    def stream(self, call: Call) -> Iterator[Stream]:
        """The stream of a client, while it is open."""
        streams_max = self._broker.settings.rocketmq_calls_max // 4
        if self.streams >= streams_max:
            raise Refused(Code.TOO_MANY_REQUESTS, f"{streams_max} streams are open already")
        self.streams += 1
        stream = self._streams[call.client] = Stream(call, self._unread)
        try:
            yield stream
        finally:
            self.streams -= 1
            stream.end()
            if self._streams.get(call.client) is stream:
                del self._streams[call.client]

    async def listen(
        self,
        stream: Stream,
        commands: AsyncIterator[pb.TelemetryCommand],
        manner_of: Callable[[Call, pb.Subscription], Awaitable[Manner]],
        name_of: Callable[[pb.Resource], TopicName],
    ) -> None:
        """Answer the settings of a client for as long as it keeps its stream open."""
        async for command in commands:
            self.heard(stream.call)
            if command.HasField("settings"):
                await self._answer_settings(stream, command.settings, manner_of, name_of)
            del command  # it may be large, and the next one may take long to come
        await stream.last()

    async def _answer_settings(
        self,
        stream: Stream,
        told: pb.Settings,
        manner_of: Callable[[Call, pb.Subscription], Awaitable[Manner]],
        name_of: Callable[[pb.Resource], TopicName],
    ) -> None:
        settings = settings_for(told, body_size_max(self._broker))
        stream.language = settings.user_agent.language
        if settings.HasField("subscription"):
            stream.consumer = _told(settings)
            manner = await manner_of(stream.call, settings.subscription)
            settings.subscription.fifo = manner.is_fifo
            settings.backoff_policy.max_attempts = manner.attempts_max
        for topic in settings.publishing.topics[:TOPICS_MAX]:
            with suppress(MilepostError):  # no topic of that name can be there
                self.sends_to(stream.call.client, name_of(topic).text)
        stream.answer(pb.TelemetryCommand(status=OK, settings=settings))

    def sends_to(self, client: str, topic: str) -> None:
        """A client sends to a topic: it can be asked about transactions there."""
        stream = self._streams.get(client)
        if stream is not None and len(stream.topics) < TOPICS_MAX:
            stream.topics.add(topic)

    def consumers_of(self, group: str) -> list[Stream]:
        """The clients that read by a group of the namespace of `rocketmq_namespace`, and keep a stream
        open. A group of the same name in another namespace is another group."""
        default = self._broker.settings.rocketmq_namespace
        return [
            one
            for one in self._streams.values()
            if (told := one.consumer) is not None
            and told.group == group
            and names.is_namespace(told.namespace, default)
        ]

    def producers_of(self, topic: str) -> list[Stream]:
        """The clients that send to a topic and keep a stream open."""
        return [one for one in self._streams.values() if topic in one.topics]

    def producer_of(self, topic: str, may: Callable[[Call], bool]) -> Stream | None:
        """The stream of a producer of a topic that may be asked, each in its turn."""
        for client, stream in self._streams.items():
            if topic in stream.topics and may(stream.call):
                self._streams.move_to_end(client)
                return stream
        return None


def _told(settings: pb.Settings) -> Told:
    subscription = settings.subscription
    shown = {
        one.topic.name[: names.NAME_LENGTH_MAX]: one.expression.expression[:SHOWN_LENGTH_MAX]
        for one in subscription.subscriptions[:SHOWN_MAX]
    }
    said = subscription.group.resource_namespace or next(
        (one.topic.resource_namespace for one in subscription.subscriptions[:1]), ""
    )
    group, _ = names.split_group(subscription.group.name)
    return Told(group, said, settings.client_type == pb.PUSH_CONSUMER, shown)


def body_size_max(broker: Broker) -> int:
    """The largest body: RocketMQ's, or what is left of the broker's for the properties."""
    return min(BODY_SIZE_MAX, broker.settings.max_message_size - HEAD_SIZE)


def settings_for(told: pb.Settings, body_max: int) -> pb.Settings:
    """The settings that hold for a client, made from those that it told; `Refused` for bad ones."""
    part = told.WhichOneof("pub_sub")
    if part is None:
        raise Refused(Code.BAD_REQUEST, "settings without publishing or subscription")
    if told.client_type not in _KINDS[part]:
        raise Refused(
            Code.UNRECOGNIZED_CLIENT_TYPE,
            f"a client of type {told.client_type} with settings of {part} is not supported",
        )
    answer = pb.Settings()
    answer.CopyFrom(told)
    answer.metric.on = False
    policy = answer.backoff_policy
    if part == "publishing":
        policy.max_attempts = policy.max_attempts or 3
        backoff = pb.ExponentialBackoff(multiplier=2)
        backoff.initial.FromMilliseconds(10)
        backoff.max.FromMilliseconds(1000)
        policy.exponential_backoff.CopyFrom(backoff)
        answer.publishing.max_body_size = body_max
        answer.publishing.validate_message_type = True
        return answer
    subscription = answer.subscription
    names.group_of(subscription.group)
    policy.max_attempts = Manner().attempts_max
    if told.user_agent.language == NODE:
        backoff = pb.ExponentialBackoff(multiplier=3)
        backoff.initial.FromSeconds(BACKOFF_S[0])
        backoff.max.FromSeconds(BACKOFF_S[-1])
        policy.exponential_backoff.CopyFrom(backoff)
    else:
        policy.customized_backoff.CopyFrom(
            pb.CustomizedBackoff(next=[Duration(seconds=step) for step in BACKOFF_S])
        )
    subscription.fifo = False
    subscription.receive_batch_size = RECEIVE_BATCH_MAX
    asked_s = subscription.long_polling_timeout.seconds
    subscription.long_polling_timeout.FromSeconds(
        asked_s if 0 < asked_s <= POLL_S_MAX else POLL_S_MAX
    )
    return answer
