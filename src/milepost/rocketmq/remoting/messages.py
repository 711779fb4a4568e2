"""Reads single messages for mqadmin: from an offset on, by an id, by a key. Consumes none.

A pull reads for the group of mqadmin's own tools only, and never waits; consumers of RocketMQ 4 are refused.
There is no index of keys: a query reads the messages of the time that it names, for a limited time, and says
if that was not enough.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from milepost.broker.auth.operations import Operation
from milepost.broker.limits.time_slices import TimeSlices
from milepost.broker.messages.browse import Filter, browse, message_of
from milepost.broker.messages.ids_to_indexes import start_index_at
from milepost.broker.messages.message_view import MessageView
from milepost.errors import InvalidInput
from milepost.rocketmq.message_check import KEYS, MESSAGE_ID
from milepost.rocketmq.remoting import json_text
from milepost.rocketmq.remoting.codes import Ask, RemotingRefusal, Status
from milepost.rocketmq.remoting.message_layout import (
    Place,
    encode_message,
    queue_and_index,
)
from milepost.rocketmq.remoting.request import Answer, Request
from milepost.rocketmq.remoting.topics import asked_queue, opened_queues

if TYPE_CHECKING:
    from milepost.broker.topic.topic import Topic

# The groups that mqadmin itself reads and sends by.
TOOLS = frozenset(
    ("TOOLS_CONSUMER", "CLIENT_INNER_PRODUCER", "SELF_TEST_C_GROUP", "SELF_TEST_P_GROUP")
)
PULL_MAX = 32
QUERY_MAX = 64
# Of the messages of one answer; the first may be larger.
ANSWER_SIZE_MAX = 1024 * 1024
# A query reads for so long: mqadmin waits a little longer.
QUERY_S = 3.0
ANYTHING = ("", "*")

_USE = "use RocketMQ 5 clients (gRPC, rocketmq_port) or Pulsar's"


# -- by place ----------------------------------------------------------------------------------------


async def pull(request: Request) -> Answer:
    """Messages from an offset on."""
    group = request.text("consumerGroup")
    if group not in TOOLS:
        raise RemotingRefusal(
            Status.REQUEST_CODE_NOT_SUPPORTED,
            f"group {group[:80]!a} cannot pull messages here: {_USE}",
        )
    if request.command.fields.get("subscription", "") not in ANYTHING:
        raise RemotingRefusal(
            Status.REQUEST_CODE_NOT_SUPPORTED, "a pull with a filter is not supported: ask for '*'"
        )
    name = request.known_topic(Operation.CONSUME)
    topic = await asked_queue(request, name)
    index = request.number("queueOffset")
    count = request.number("maxMsgNums", low=1, high=2**31 - 1, default=PULL_MAX)
    first, end = topic.log.first_index, topic.visible_end
    if not first <= index <= end:
        at = first if index < first else end
        return _pulled(Status.PULL_OFFSET_MOVED, topic, at, remark=f"there are [{first}, {end})")
    if index == end:
        return _pulled(Status.PULL_NOT_FOUND, topic, end, remark="there are no messages yet")
    found = await browse(
        topic,
        index,
        Filter(),
        count=min(count, PULL_MAX),
        slices=TimeSlices(request.broker.clock),
        disk=request.broker.engine,
        size_max=ANSWER_SIZE_MAX,
    )
    following = topic.visible_end if found.next_index is None else found.next_index
    if not found.messages:  # system messages, or parts of chunked ones
        return _pulled(Status.PULL_RETRY_IMMEDIATELY, topic, following)
    place = _place(request, topic)
    body = b"".join([encode_message(view, place) for view in found.messages])
    return _pulled(Status.SUCCESS, topic, following, body)


def _pulled(
    status: Status, topic: Topic, following: int, body: bytes = b"", remark: str = ""
) -> Answer:
    fields = {
        "suggestWhichBrokerId": "0",
        "nextBeginOffset": str(following),
        "minOffset": str(topic.log.first_index),
        "maxOffset": str(topic.visible_end),
    }
    return Answer(status, body, fields, remark)


async def view_by_id(request: Request) -> Answer:
    """The message that the number in an id names."""
    name = request.known_topic(Operation.CONSUME)
    number, index = queue_and_index(request.number("offset"))
    queues = await opened_queues(request, name)
    view = None
    if number < len(queues):
        view = await message_of(queues[number], index, request.broker.engine)
    if view is None:
        raise RemotingRefusal(
            Status.SYSTEM_ERROR,
            f"topic {name.local_name} has no message {index} in queue {number}",
        )
    return Answer(body=encode_message(view, _place(request, queues[number])))


def _place(request: Request, topic: Topic) -> Place:
    name = topic.name
    host = request.broker.settings.advertised_host
    try:
        ipaddress.ip_address(host)
    except ValueError:
        host = request.peer.own_host  # ids carry addresses, not names
    return Place(
        name.base.local_name,
        topic.row.topic_id,
        max(name.partition, 0),
        host,
        request.peer.own_port,
    )


# -- by key ------------------------------------------------------------------------------------------


async def query(request: Request) -> Answer:
    """Messages with a key, or with an id, that came in a time."""
    name, key = request.known_topic(Operation.CONSUME), request.text("key")
    begin_ms = request.number("beginTimestamp")
    end_ms = request.number("endTimestamp", default=2**62)
    count = min(request.number("maxNum", low=1, high=2**31 - 1, default=32), QUERY_MAX)
    queues = await opened_queues(request, name)
    is_id = request.flag("_UNIQUE_KEY_QUERY")
    search = Search(request, key, begin_ms, end_ms, count, is_id=is_id)
    for topic in queues:
        if is_id:
            await search.look_at_own_id(topic)
        if not search.is_done:
            await search.read(topic)
    if not search.found:
        cut = (
            ""
            if search.is_complete
            else (f"; after {search.read_count} entries the time was over: name a shorter time")
        )
        what = "id" if is_id else "key"
        raise RemotingRefusal(
            Status.QUERY_NOT_FOUND, f"no message of {name.local_name} has {what} {key[:80]!a}{cut}"
        )
    fields = {
        "indexLastUpdateTimestamp": str(request.broker.clock.wall_ms()),
        "indexLastUpdatePhyoffset": "0",
    }
    return Answer(body=b"".join(search.found), fields=fields)


class Search:
    """A search through the messages of a topic."""

    def __init__(
        self, request: Request, key: str, begin_ms: int, end_ms: int, count: int, *, is_id: bool
    ) -> None:
        self._request = request
        self._key = key
        self._begin_ms, self._end_ms = begin_ms, end_ms
        self._count = count
        self._is_id = is_id
        self._until = request.broker.clock.monotonic() + QUERY_S
        self.found: list[bytes] = []
        self._size = 0
        self.read_count = 0
        self.is_complete = True
        """Was all of the time read?"""

    @property
    def is_done(self) -> bool:
        return len(self.found) >= self._count or self._size >= ANSWER_SIZE_MAX

    async def look_at_own_id(self, topic: Topic) -> None:
        """A message that a Pulsar client has sent has an id that says where it is."""
        try:
            topic_id, index = int(self._key[:16], 16), int(self._key[16:], 16)
        except ValueError:
            return
        if len(self._key) == 32 and topic_id == topic.row.topic_id:
            view = await message_of(topic, index, self._request.broker.engine)
            if view is not None and MESSAGE_ID not in view.properties:
                self._add(topic, view)

    async def read(self, topic: Topic) -> None:
        """Read the messages that came in the time."""
        broker = self._request.broker
        index: int | None = await broker.engine.look(lambda: start_index_at(topic, self._begin_ms))
        wanted = Filter(property=f"{MESSAGE_ID if self._is_id else KEYS}={self._key}")
        while index is not None and index < topic.visible_end and not self.is_done:
            if broker.clock.monotonic() >= self._until:
                self.is_complete = False
                return
            browsed = await browse(
                topic,
                index,
                wanted,
                count=1,
                slices=TimeSlices(broker.clock),
                disk=broker.engine,
                size_max=ANSWER_SIZE_MAX,
            )
            self.read_count += browsed.looked_at
            for view in browsed.messages:
                if view.came_ms > self._end_ms:
                    return
                if self._fits(view):
                    self._add(topic, view)
            index = browsed.next_index

    def _fits(self, view: MessageView) -> bool:
        if self._is_id:
            return view.properties.get(MESSAGE_ID) == self._key
        return self._key in view.properties.get(KEYS, "").split()

    def _add(self, topic: Topic, view: MessageView) -> None:
        encoded = encode_message(view, _place(self._request, topic))
        self.found.append(encoded)
        self._size += len(encoded)


# -- mqadmin as a client -----------------------------------------------------------------------------


async def heartbeat(request: Request) -> Answer:
    """mqadmin's tools say that they live; consumers and producers of RocketMQ 4 are refused."""
    told = json_text.decode(request.body)
    for kind in ("consumerDataSet", "producerDataSet"):
        members = told.get(kind) or []
        if not isinstance(members, list):
            raise InvalidInput(f"a heartbeat whose {kind} is no list")
        groups = [one.get("groupName") if isinstance(one, dict) else one for one in members]
        for group in groups:
            if not isinstance(group, str) or group not in TOOLS:
                raise RemotingRefusal(
                    Status.REQUEST_CODE_NOT_SUPPORTED,
                    f"clients of RocketMQ 4 (group {str(group)[:80]!a}) are not served: {_USE}",
                )
    return Answer()


async def goodbye(request: Request) -> Answer:
    return Answer()


HANDLERS = {
    Ask.PULL_MESSAGE: pull,
    Ask.VIEW_MESSAGE_BY_ID: view_by_id,
    Ask.QUERY_MESSAGE: query,
    Ask.HEART_BEAT: heartbeat,
    Ask.UNREGISTER_CLIENT: goodbye,
}
