"""Which consumers and producers are connected: RocketMQ's clients by their streams, Pulsar's by sockets.

A group's connections are those of both kinds, since both can read by one subscription. A RocketMQ 5 producer
has no group: as upstream does it, its producers are found under the name of their topic.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from milepost.broker.auth.operations import Operation
from milepost.broker.subscription.broadcast import BroadcastGroup
from milepost.positions.names import TopicName
from milepost.rocketmq.peer import EdgePeer
from milepost.rocketmq.remoting import group_settings, json_text
from milepost.rocketmq.remoting.codes import Ask, RemotingRefusal, Status
from milepost.rocketmq.remoting.consumer_groups import lines_of
from milepost.rocketmq.remoting.frames import VERSION
from milepost.rocketmq.remoting.json_text import Queue
from milepost.rocketmq.remoting.name_server import address_of, queue_names
from milepost.rocketmq.remoting.request import Answer, Request
from milepost.rocketmq.remoting.topics import opened_queues

if TYPE_CHECKING:
    from milepost.broker.peer import Peer
    from milepost.broker.subscription.subscription import Subscription
    from milepost.rocketmq.clients import Stream

# The languages of gRPC clients, by their numbers there, as this protocol calls them.
LANGUAGES = {
    1: "JAVA",
    2: "CPP",
    3: "DOTNET",
    4: "GO",
    5: "RUST",
    6: "PYTHON",
    7: "PHP",
    8: "NODE_JS",
}
# And those of Pulsar's clients, by what their versions say.
_WORDS = {
    "java": "JAVA",
    "cpp": "CPP",
    "c++": "CPP",
    "python": "PYTHON",
    "go": "GO",
    "node": "NODE_JS",
    "rust": "RUST",
}
ANYTHING = "*"


async def get_consumers(request: Request) -> Answer:
    """The consumers of a group, and what they have subscribed to."""
    group = request.group()
    request.check_namespace(Operation.LIST_TOPICS)
    streams = _streams_of(request, group)
    subscriptions = await group_settings.subscriptions_of(
        request.broker, queue_names(request.broker), group
    )
    found = {one["clientId"]: one for one in _consumers(streams, subscriptions)}
    if not found:
        raise RemotingRefusal(
            Status.CONSUMER_NOT_ONLINE, f"no consumer of group {group} is connected"
        )
    wanted: dict[str, str] = {}
    for one in subscriptions:
        if any(not isinstance(consumer.peer, EdgePeer) for consumer in one.consumers):
            wanted[one.topic.name.base.local_name] = ANYTHING
    for stream in streams:
        wanted |= {} if stream.consumer is None else stream.consumer.subscriptions
    is_push = any(one.consumer is not None and one.consumer.is_push for one in streams)
    is_broadcast = any(isinstance(one, BroadcastGroup) for one in subscriptions)
    told = {
        "connectionSet": list(found.values()),
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
        "consumeType": "CONSUME_PASSIVELY" if is_push or not streams else "CONSUME_ACTIVELY",
        "messageModel": "BROADCASTING" if is_broadcast else "CLUSTERING",
        "subscriptionTable": {topic: _subscription(topic, text) for topic, text in wanted.items()},
    }
    return Answer(body=json_text.encode(told))


async def get_running_info(request: Request) -> Answer:
    """What is known of one consumer of a group. Clients are not asked: the broker knows where each group
    stands."""
    group, client = request.group(), request.text("clientId")
    request.check_namespace(Operation.LIST_TOPICS)
    streams = [one for one in _streams_of(request, group) if _id_of(one) == client]
    subscriptions = await group_settings.subscriptions_of(
        request.broker, queue_names(request.broker), group
    )
    ids = {one["clientId"] for one in _consumers(streams, subscriptions)}
    if client not in ids:
        raise RemotingRefusal(
            Status.CONSUMER_NOT_ONLINE,
            f"consumer {client[:80]!a} of group {group} is not connected",
        )
    wanted: dict[str, str] = {}
    for stream in streams:
        wanted |= {} if stream.consumer is None else stream.consumer.subscriptions
    is_active = any(one.consumer is not None and not one.consumer.is_push for one in streams)
    told = {
        "mqPopTable": {},
        "mqTable": {
            Queue(name.base.local_name, max(name.partition, 0)): _queue_info(
                line.mark_delete_index + 1, line.inflight
            )
            for line in await lines_of(request, group)
            for name in (TopicName.parse(line.topic),)
        },
        "properties": {
            "PROP_CLIENT_VERSION": "V5_3_3",
            "PROP_CONSUMEORDERLY": "false",
            "PROP_CONSUMER_START_TIMESTAMP": str(request.broker.clock.wall_ms()),
            "PROP_CONSUME_TYPE": "CONSUME_ACTIVELY" if is_active else "CONSUME_PASSIVELY",
            "PROP_NAMESERVER_ADDR": address_of(request),
            "PROP_THREADPOOL_CORE_SIZE": "-1",
        },
        "statusTable": {},
        "subscriptionSet": [_subscription(topic, text) for topic, text in wanted.items()],
        "userConsumerInfo": {},
    }
    return Answer(body=json_text.encode(told))


async def get_producers(request: Request) -> Answer:
    """The producers of a topic, which is the name of their group."""
    name = request.topic_named(request.text("producerGroup"))
    request.check_topic(Operation.LOOK_UP, name)
    request.check_known(name)
    streams = [] if request.clients is None else request.clients.producers_of(name.text)
    found = {_id_of(one): _connection_of_stream(one) for one in streams}
    for topic in await opened_queues(request, name):
        for producer in topic.producers.values():
            if not isinstance(producer.peer, EdgePeer):
                found[producer.name] = _connection(producer.name, producer.peer)
    if not found:
        raise RemotingRefusal(
            Status.SYSTEM_ERROR, f"no producer of topic {name.local_name} is connected"
        )
    return Answer(body=json_text.encode({"connectionSet": list(found.values())}))


def _streams_of(request: Request, group: str) -> list[Stream]:
    return [] if request.clients is None else request.clients.consumers_of(group)


def _consumers(
    streams: Iterable[Stream], subscriptions: Iterable[Subscription]
) -> list[dict[str, Any]]:
    found = [_connection_of_stream(one) for one in streams]
    for subscription in subscriptions:
        for consumer in subscription.consumers:
            if not isinstance(consumer.peer, EdgePeer):
                found.append(_connection(consumer.name, consumer.peer))
    return found


def _id_of(stream: Stream) -> str:
    """What a client calls itself: its role stands before it."""
    return stream.call.client.partition("/")[2]


def _connection_of_stream(stream: Stream) -> dict[str, Any]:
    return {
        "clientAddr": stream.call.address,
        "clientId": _id_of(stream),
        "language": LANGUAGES.get(stream.language, "OTHER"),
        "version": VERSION,
    }


def _connection(name: str, peer: Peer) -> dict[str, Any]:
    """A client of Pulsar's: it has a name of its own, and the version of another protocol."""
    version = peer.client_version.lower()
    language = next((found for word, found in _WORDS.items() if word in version), "OTHER")
    return {"clientAddr": peer.address, "clientId": name, "language": language, "version": VERSION}


def _subscription(topic: str, expression: str) -> dict[str, Any]:
    tags = [one.strip() for one in expression.split("||")]
    return {
        "classFilterMode": False,
        "codeSet": [],
        "expressionType": "TAG",
        "subString": expression or ANYTHING,
        "subVersion": 0,
        "tagsSet": [one for one in tags if one and one != ANYTHING],
        "topic": topic,
    }


def _queue_info(done: int, inflight: int) -> dict[str, Any]:
    return {
        "cachedMsgCount": inflight,
        "cachedMsgMaxOffset": 0,
        "cachedMsgMinOffset": 0,
        "cachedMsgSizeInMiB": 0,
        "commitOffset": done,
        "droped": False,
        "lastConsumeTimestamp": 0,
        "lastLockTimestamp": 0,
        "lastPullTimestamp": 0,
        "locked": False,
        "transactionMsgCount": 0,
        "transactionMsgMaxOffset": 0,
        "transactionMsgMinOffset": 0,
        "tryUnlockTimes": 0,
    }


HANDLERS = {
    Ask.GET_CONSUMER_CONNECTION_LIST: get_consumers,
    Ask.GET_CONSUMER_RUNNING_INFO: get_running_info,
    Ask.GET_PRODUCER_CONNECTION_LIST: get_producers,
}
