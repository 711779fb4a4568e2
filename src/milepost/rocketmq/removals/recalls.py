"""Recalls delayed messages by their recall handles (RecallMessage).

A handle is in the receipt of a delayed message. It names the message and the time when it is due, and is
signed for its topic: nothing has to be looked up to read one, also after a restart. Refusals have RocketMQ's
codes: its proxy tells every fault of a handle as an internal error.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

from milepost.broker.auth.operations import Operation
from milepost.broker.operations import recalling
from milepost.broker.topic.topic import Topic
from milepost.errors import NotAllowed, NotFound
from milepost.positions.names import TopicName
from milepost.rocketmq import rocketmq_pb2 as pb
from milepost.rocketmq.calls import Call, Callers
from milepost.rocketmq.codes import OK, Code, Refused
from milepost.rocketmq.durable import durable
from milepost.rocketmq.handles import PROCESS_SIZE, Handle, Signer
from milepost.rocketmq.routes import Routes

if TYPE_CHECKING:
    from milepost.broker.broker import Broker

# In the place of a group, before the message id: no group has a slash.
_PURPOSE = "/recall/"


class Recalls:
    def __init__(self, broker: Broker, callers: Callers, routes: Routes, signer: Signer) -> None:
        self._broker = broker
        self._callers = callers
        self._routes = routes
        self.signer = signer

    def handle(
        self, name: TopicName, topic: Topic, index: int, message_id: str, due_ms: int
    ) -> str:
        """The handle of a delayed message; `topic` is the queue that it lies in."""
        partition = topic.name.partition if topic.name != name else -1
        named = Handle(topic.row.topic_id, partition, index, 0, bytes(PROCESS_SIZE), 0, due_ms)
        signed = self.signer.write(named, name.text, _PURPOSE + message_id)
        return f"{signed}.{base64.urlsafe_b64encode(message_id.encode()).decode()}"

    async def recall_message(
        self, call: Call, request: pb.RecallMessageRequest
    ) -> pb.RecallMessageResponse:
        """Answer when no group gets the message any more, and that is on disk. The same again is answered
        the same way."""
        name = self._routes.name_of(request.topic)
        self._callers.check(call, Operation.PRODUCE, name)
        self._routes.known(request.topic)
        handle, message_id = self._read(request.recall_handle, name)
        partition = name if handle.partition < 0 else name.partition_name(handle.partition)
        try:
            topic = await self._broker.topic(partition, create=False)
            if topic.row.topic_id != handle.topic_id:
                raise NotFound(f"{partition} was deleted since the message was sent")
            await recalling.prepare(topic, self._broker)
            topic.check_open()
            at, due_ms, engine = handle.index, handle.until_ms, self._broker.engine
            await durable(lambda done: recalling.recall(topic, at, due_ms, engine, done))
        except (NotFound, NotAllowed) as error:
            raise Refused(Code.INTERNAL_SERVER_ERROR, str(error)) from None
        self._broker.counters.rocketmq_recalls += 1
        return pb.RecallMessageResponse(status=OK, message_id=message_id)

    def _read(self, text: str, name: TopicName) -> tuple[Handle, str]:
        """The handle, and the message id; `Refused` for a text that was not made here for that topic."""
        signed, _, tail = text.partition(".")
        try:
            coded = tail.encode("ascii")
            message_id = base64.b64decode(coded, altchars=b"-_", validate=True).decode()
        except (binascii.Error, ValueError):
            found = None
        else:
            found = self.signer.read(signed, name.text, _PURPOSE + message_id)
        if found is None:
            raise Refused(
                Code.INTERNAL_SERVER_ERROR, f"recall handle {text[:40]!a} is not one of {name}"
            )
        return found, message_id
