"""What a broker answers about topics: status, settings, groups, offsets by time; makes and deletes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from milepost.broker.auth.operations import Operation
from milepost.broker.messages.ids_to_indexes import start_index_at
from milepost.broker.operations import partition_growth, topic_lifecycle
from milepost.errors import TopicNotFound
from milepost.positions.names import TopicName
from milepost.rocketmq.remoting import json_text
from milepost.rocketmq.remoting.codes import Ask, RemotingRefusal, Status
from milepost.rocketmq.remoting.json_text import Queue
from milepost.rocketmq.remoting.name_server import READ_AND_WRITE
from milepost.rocketmq.remoting.request import RETRIES, Answer, Request, queues_of

if TYPE_CHECKING:
    from milepost.broker.topic.topic import Topic

QUEUES_MAX = 32_767
# The types that a topic can be made with, by the attribute that names them.
TYPE = "message.type"
TYPES = ("NORMAL", "FIFO", "DELAY", "TRANSACTION")


async def opened_queues(request: Request, name: TopicName) -> list[Topic]:
    return [
        await request.broker.topic(one, create=False) for one in queues_of(request.broker, name)
    ]


async def asked_queue(request: Request, name: TopicName) -> Topic:
    """The queue that a request names."""
    queues = queues_of(request.broker, name)
    number = request.number("queueId", high=len(queues) - 1)
    return await request.broker.topic(queues[number], create=False)


# -- what is there -----------------------------------------------------------------------------------


async def get_status(request: Request) -> Answer:
    """The first and the end offset of each queue, and when the last message came."""
    name = request.known_topic(Operation.LOOK_UP)
    table: dict[Queue, Any] = {}
    rate_in = 0.0
    for number, topic in enumerate(await opened_queues(request, name)):
        first, end = topic.log.first_index, topic.visible_end
        table[Queue(name.local_name, number)] = {
            "lastUpdateTimestamp": topic.log.last_timestamp_ms if end > first else 0,
            "maxOffset": end,
            "minOffset": first,
        }
        rate_in += topic.rates.per_second[0]
    return Answer(body=json_text.encode({"offsetTable": table, "topicPutTps": rate_in}))


async def get_settings(request: Request) -> Answer:
    if request.text("topic").startswith(RETRIES):
        raise TopicNotFound(f"topic {request.text('topic')[:80]} is never written to")
    name = request.known_topic(Operation.LOOK_UP)
    count = len(queues_of(request.broker, name))
    found = {
        "attributes": {TYPE: kind} if (kind := await _type_of(request, name)) else {},
        "order": False,
        "perm": READ_AND_WRITE,
        "readQueueNums": count,
        "topicFilterType": "SINGLE_TAG",
        "topicName": name.local_name,
        "topicSysFlag": 0,
        "writeQueueNums": count,
    }
    return Answer(body=json_text.encode(found))


async def get_groups(request: Request) -> Answer:
    """The groups that read a topic."""
    name = request.known_topic(Operation.CONSUME)
    found = {
        group
        for topic in await opened_queues(request, name)
        for group, one in topic.subscriptions.items()
        if one.is_durable
    }
    return Answer(body=json_text.encode({"groupList": sorted(found)}))


# -- offsets -----------------------------------------------------------------------------------------


async def get_end(request: Request) -> Answer:
    topic = await asked_queue(request, request.known_topic(Operation.LOOK_UP))
    return Answer(fields={"offset": str(topic.visible_end)})


async def get_first(request: Request) -> Answer:
    topic = await asked_queue(request, request.known_topic(Operation.LOOK_UP))
    return Answer(fields={"offset": str(topic.log.first_index)})


async def search_by_time(request: Request) -> Answer:
    """The first message that came not before a time; the end if there is none."""
    topic = await asked_queue(request, request.known_topic(Operation.LOOK_UP))
    time_ms = request.number("timestamp", low=-1)
    index = await request.broker.engine.look(lambda: start_index_at(topic, time_ms))
    return Answer(fields={"offset": str(min(index, topic.visible_end))})


# -- making and deleting -----------------------------------------------------------------------------


async def put_topic(request: Request) -> Answer:
    """Make a topic with so many queues, or give it more."""
    name, broker = request.topic, request.broker
    request.check_topic(Operation.ADMINISTER_TOPIC, name)
    count = _queue_count(request)
    properties = _properties(request)
    known = broker.directory.partitions(name)
    if known is None and broker.directory.exists(name):
        if count != 1:
            raise RemotingRefusal(
                Status.INVALID_PARAMETER,
                f"topic {name.local_name} has no partitions: it is one queue, and stays one",
            )
    elif known is None:
        await broker.directory.create_partitioned(name, count, properties)
        request.note("create-partitioned-topic", name, partitions=count)
        return Answer()
    elif count < known:
        raise RemotingRefusal(
            Status.INVALID_PARAMETER,
            f"{count} queues for topic {name.local_name}, which has {known}: "
            "a queue cannot be taken away from a topic",
        )
    elif count > known:
        await partition_growth.grow(broker, name, count)
        request.note("update-partitioned-topic", name, partitions=count)
    if properties:
        await _set_properties(request, name, properties)
        request.note("set-properties", name)
    return Answer()


def _queue_count(request: Request) -> int:
    read = request.number("readQueueNums", low=1, high=QUEUES_MAX, default=8)
    write = request.number("writeQueueNums", low=1, high=QUEUES_MAX, default=8)
    if read != write:
        raise RemotingRefusal(
            Status.INVALID_PARAMETER,
            f"{read} queues to read and {write} to write: a queue is a partition, and is both",
        )
    permission = request.number("perm", default=READ_AND_WRITE)
    if permission != READ_AND_WRITE:
        raise RemotingRefusal(
            Status.INVALID_PARAMETER,
            f"perm = {permission}: a topic is there to be read and written (6); who may do that, "
            "`milepost topics grant-permission` says",
        )
    if request.flag("order"):
        raise RemotingRefusal(
            Status.INVALID_PARAMETER,
            "order: message groups are in order on every topic, for FIFO consumer groups",
        )
    return write


def _properties(request: Request) -> dict[str, str]:
    """The attributes `+name=value`, by commas; only the type of messages is one."""
    found = {}
    for text in filter(None, request.command.fields.get("attributes", "").split(",")):
        name, _, value = text.removeprefix("+").partition("=")
        if name.strip() != TYPE or not text.startswith("+"):
            raise RemotingRefusal(
                Status.INVALID_PARAMETER, f"attribute {text[:80]!a}: expected +{TYPE}=…"
            )
        if value.strip() not in TYPES:
            raise RemotingRefusal(
                Status.INVALID_PARAMETER,
                f"{TYPE} {value[:80]!a}: expected {', '.join(TYPES)}; without a type a topic takes "
                "normal, FIFO and delayed messages",
            )
        found[TYPE] = value.strip()
    return found


async def _set_properties(request: Request, name: TopicName, new: dict[str, str]) -> None:
    directory = request.broker.directory

    def changed(doc: dict[str, Any]) -> dict[str, Any]:
        return {**doc, "properties": {**doc.get("properties", {}), **new}}

    if directory.partitions(name) is not None:
        await directory.change_partitioned_doc(name, changed)
    else:
        topic = await request.broker.topic(name, create=False)
        await request.broker.change_topics([topic], changed)


async def _type_of(request: Request, name: TopicName) -> str:
    directory = request.broker.directory
    if directory.partitions(name) is not None:
        doc = directory.partitioned_doc(name)
    else:
        doc = (await request.broker.topic(name, create=False)).row.doc
    return str(doc.get("properties", {}).get(TYPE, ""))


async def delete_topic(request: Request) -> Answer:
    """Delete a topic with its messages and groups, also while it is in use; one that is not there is no
    error, as upstream."""
    asked, broker = request.text("topic"), request.broker
    if asked.startswith(RETRIES):
        request.check_namespace(Operation.LIST_TOPICS)
        return Answer()  # nothing is in it
    name = request.topic
    request.check_topic(Operation.ADMINISTER_TOPIC, name)
    if name.partition >= 0 or not broker.directory.exists(name):
        return Answer()
    if broker.directory.partitions(name) is not None:
        await topic_lifecycle.delete_partitioned(broker, name, force=True)
        request.note("delete-partitioned-topic", name)
    else:
        topic = await broker.topic(name, create=False)
        loss = topic_lifecycle.loss_of(topic, topic.log.end_index, subscriptions=True)
        await topic_lifecycle.delete_topic(broker, topic, force=True)
        request.note("delete-topic", name, **loss._asdict())
    return Answer()


HANDLERS = {
    Ask.GET_TOPIC_STATS_INFO: get_status,
    Ask.GET_TOPIC_CONFIG: get_settings,
    Ask.QUERY_TOPIC_CONSUME_BY_WHO: get_groups,
    Ask.GET_MAX_OFFSET: get_end,
    Ask.GET_MIN_OFFSET: get_first,
    Ask.SEARCH_OFFSET_BY_TIMESTAMP: search_by_time,
    Ask.UPDATE_AND_CREATE_TOPIC: put_topic,
    Ask.DELETE_TOPIC_IN_BROKER: delete_topic,
}
