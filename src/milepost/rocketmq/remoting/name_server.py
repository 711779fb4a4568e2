"""What a name server answers: routes, the cluster, the list of topics.

There is one broker, and it is this one. Its address is the advertised host, with the port that the client has
used: a client that has come with TLS goes on with TLS.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from milepost.broker.auth.operations import Operation
from milepost.broker.limits.time_slices import TimeSlices
from milepost.broker.monitoring.overview import opened
from milepost.errors import TopicNotFound
from milepost.positions.names import TopicName
from milepost.rocketmq import names
from milepost.rocketmq.remoting import group_settings, json_text
from milepost.rocketmq.remoting.codes import Ask
from milepost.rocketmq.remoting.request import RETRIES, Answer, Request, queues_of
from milepost.rocketmq.routes import BROKER_NAME

if TYPE_CHECKING:
    from milepost.broker.broker import Broker

READ_AND_WRITE = 6
MASTER = 0


def address_of(request: Request) -> str:
    """Where clients reach the broker."""
    host = request.broker.settings.advertised_host
    return f"[{host}]:{request.peer.own_port}" if ":" in host else f"{host}:{request.peer.own_port}"


def topic_names(broker: Broker) -> list[str]:
    """The topics that RocketMQ's names can reach, each once, without their partitions."""
    prefix = f"persistent://{broker.settings.rocketmq_namespace}/"
    whole = broker.directory.whole_topics(broker.settings.rocketmq_namespace)
    found = [text.removeprefix(prefix) for text in whole]
    return [name for name in found if names.is_topic_name(name)]


def queue_names(broker: Broker) -> Iterator[TopicName]:
    """The queues of all of them that were ever used, each when its turn comes: others have no groups."""
    prefix = f"persistent://{broker.settings.rocketmq_namespace}/"
    for text in broker.directory.all_topics():
        if not text.startswith(prefix):
            continue
        name = TopicName.parse(text)
        is_reachable = names.is_topic_name(name.base.local_name)
        if is_reachable and (name.partition < 0 or broker.directory.partitions(name.base)):
            yield name


async def group_names(broker: Broker) -> set[str]:
    """The consumer groups of all topics, and those that have settings only."""
    found = set(await group_settings.all_groups(broker))
    slices = TimeSlices(broker.clock)
    async for topic in opened(broker, queue_names(broker)):
        found.update(name for name, one in topic.subscriptions.items() if one.is_durable)
        if slices.is_over:
            await slices.rest()
    return {name for name in found if names.is_group_name(name)}


async def is_known_group(broker: Broker, group: str) -> bool:
    """Has a group a subscription, or settings?"""
    slices = TimeSlices(broker.clock)
    async for topic in opened(broker, queue_names(broker)):
        one = topic.subscriptions.get(group)
        if one is not None and one.is_durable:
            return True
        if slices.is_over:
            await slices.rest()
    return group in await group_settings.all_groups(broker)


async def get_route(request: Request) -> Answer:
    """Where the queues of a topic are. Every group has a route for its retries, and none of them a message:
    mqadmin finds a group's broker by it."""
    asked = request.text("topic")
    if asked.startswith(RETRIES):
        count = await _route_of_group(request, asked.removeprefix(RETRIES))
    else:
        count = len(queues_of(request.broker, request.known_topic(Operation.LOOK_UP)))
    route = {
        "brokerDatas": [_broker(request, str(MASTER))],
        "filterServerTable": {},
        "queueDatas": [
            {
                "brokerName": BROKER_NAME,
                "perm": READ_AND_WRITE,
                "readQueueNums": count,
                "topicSysFlag": 0,
                "writeQueueNums": count,
            }
        ],
    }
    return Answer(body=json_text.encode(route))


async def _route_of_group(request: Request, group: str) -> int:
    request.check_namespace(Operation.LIST_TOPICS)
    if not await is_known_group(request.broker, group):
        raise TopicNotFound(f"there is no consumer group {group[:80]!a}")
    return 1


def _broker(request: Request, key: str | int) -> dict[str, Any]:
    return {
        "brokerAddrs": {key: address_of(request)},
        "brokerName": BROKER_NAME,
        "cluster": request.broker.settings.cluster_name,
        "enableActingMaster": False,
    }


async def get_cluster(request: Request) -> Answer:
    """The broker, by the name of its cluster. Its address is quoted by a number, as upstream has it here."""
    cluster = request.broker.settings.cluster_name
    found = {
        "brokerAddrTable": {BROKER_NAME: _broker(request, MASTER)},
        "clusterAddrTable": {cluster: [BROKER_NAME]},
    }
    return Answer(body=json_text.encode(found))


async def get_topics(request: Request) -> Answer:
    """All topics, and a topic for the retries of each group: that is where mqadmin finds groups."""
    request.check_namespace(Operation.LIST_TOPICS)
    topics = topic_names(request.broker)
    retries = [f"{RETRIES}{group}" for group in sorted(await group_names(request.broker))]
    return Answer(body=json_text.encode({"topicList": [*topics, *retries]}))


async def forget_topic(request: Request) -> Answer:
    """mqadmin has had the broker delete it before."""
    request.check_topic(Operation.ADMINISTER_TOPIC, request.topic)
    return Answer()


async def keep_nothing(request: Request) -> Answer:
    """Settings of the name server for clients of RocketMQ 4: none of them is read here."""
    request.check(Operation.SUPERUSER)
    return Answer()


HANDLERS = {
    Ask.GET_ROUTEINFO_BY_TOPIC: get_route,
    Ask.GET_BROKER_CLUSTER_INFO: get_cluster,
    Ask.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: get_topics,
    Ask.DELETE_TOPIC_IN_NAMESRV: forget_topic,
    Ask.PUT_KV_CONFIG: keep_nothing,
    Ask.DELETE_KV_CONFIG: keep_nothing,
}
