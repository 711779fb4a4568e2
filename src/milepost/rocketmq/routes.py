"""Which queues a topic has, and where: QueryRoute and QueryAssignment.

A client that asks is answered with the address that it has used itself: it is one that it can reach. Topics
are not made by asking for them.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import TYPE_CHECKING

from milepost.broker.auth.operations import Operation
from milepost.errors import TopicNotFound
from milepost.positions.names import TopicName
from milepost.rocketmq import names
from milepost.rocketmq import rocketmq_pb2 as pb
from milepost.rocketmq.calls import Call, Callers
from milepost.rocketmq.codes import OK, Code, Refused

if TYPE_CHECKING:
    from milepost.broker.broker import Broker

# Clients compare it: it must stay as it is.
BROKER_NAME = "milepost"
# A property of a topic: which type its messages have. MIXED, or none that is known here: any.
MESSAGE_TYPE = "message.type"
ACCEPTED = (pb.NORMAL, pb.FIFO, pb.DELAY, pb.TRANSACTION)
_BY_NAME = {pb.MessageType.Name(kind): (kind,) for kind in ACCEPTED}
# Endpoints are answered once for each queue.
ENDPOINTS_SIZE_MAX = 1024
# Of an assignment: the server chooses the queue.
ANY_QUEUE = -1


class Routes:
    def __init__(self, broker: Broker, callers: Callers) -> None:
        self._broker = broker
        self._callers = callers

    async def query_route(self, call: Call, request: pb.QueryRouteRequest) -> pb.QueryRouteResponse:
        name = self.name_of(request.topic)
        self._callers.check(call, Operation.LOOK_UP, name)
        self.known(request.topic)
        broker, accepted = self._address(request.endpoints), self.accepted(name)
        queues = [
            pb.MessageQueue(
                topic=request.topic,
                id=number,
                permission=pb.READ_WRITE,
                broker=broker,
                accept_message_types=accepted,
            )
            for number in range(self.queue_count(name))
        ]
        return pb.QueryRouteResponse(status=OK, message_queues=queues)

    async def query_assignment(
        self, call: Call, request: pb.QueryAssignmentRequest
    ) -> pb.QueryAssignmentResponse:
        name, group = self.name_of(request.topic), names.group_of(request.group)
        self._callers.check(call, Operation.CONSUME, name, group)
        self.known(request.topic)
        queue = pb.MessageQueue(
            topic=request.topic,
            id=ANY_QUEUE,
            permission=pb.READ_WRITE,
            broker=self._address(request.endpoints),
        )
        return pb.QueryAssignmentResponse(
            status=OK, assignments=[pb.Assignment(message_queue=queue)]
        )

    def name_of(self, resource: pb.Resource) -> TopicName:
        """The topic that a client names, whether it is there or not."""
        return names.topic_of(resource, self._broker.settings.rocketmq_namespace)

    def known(self, resource: pb.Resource) -> TopicName:
        """The topic that a client names; `TopicNotFound` if it is not there."""
        name = self.name_of(resource)
        self.known_name(name)
        return name

    def known_name(self, name: TopicName) -> None:
        """`TopicNotFound` for a topic that is not there, or is a partition of one."""
        self._broker.directory.check_namespace(name)
        if name.partition >= 0 or not self._broker.directory.exists(name):
            raise TopicNotFound(f"topic {name} does not exist")

    def queue_count(self, name: TopicName) -> int:
        """How many queues a topic has: its partitions, or the topic itself."""
        return self._broker.directory.partitions(name) or 1

    def queue(self, name: TopicName, number: int) -> TopicName:
        """One of them."""
        return (
            name if self._broker.directory.partitions(name) is None else name.partition_name(number)
        )

    def properties(self, name: TopicName) -> Mapping[str, str]:
        """Those that operators gave a topic that is there."""
        directory = self._broker.directory
        if directory.partitions(name) is not None:
            doc = directory.partitioned_doc(name)
        else:
            row = directory.row(name)
            doc = {} if row is None else row.doc
        found: Mapping[str, str] = doc.get("properties", {})
        return found

    def accepted(self, name: TopicName) -> tuple[pb.MessageType, ...]:
        """The types of messages that producers may send to a topic."""
        return _BY_NAME.get(self.properties(name).get(MESSAGE_TYPE, "").upper(), ACCEPTED)

    def _address(self, asked: pb.Endpoints) -> pb.Broker:
        if asked.ByteSize() > ENDPOINTS_SIZE_MAX:
            raise Refused(
                Code.ILLEGAL_ACCESS_POINT,
                f"endpoints of {asked.ByteSize()} bytes; {ENDPOINTS_SIZE_MAX} are allowed",
            )
        if asked.addresses:
            return pb.Broker(name=BROKER_NAME, endpoints=asked)
        host, broker = self._broker.settings.advertised_host, self._broker
        port = broker.rocketmq_port if broker.rocketmq_port >= 0 else broker.rocketmq_tls_port
        endpoints = pb.Endpoints(scheme=_scheme(host))
        endpoints.addresses.add(host=host, port=port)
        return pb.Broker(name=BROKER_NAME, endpoints=endpoints)


def _scheme(host: str) -> pb.AddressScheme:
    try:
        return pb.IPv4 if ipaddress.ip_address(host).version == 4 else pb.IPv6
    except ValueError:
        return pb.DOMAIN_NAME
