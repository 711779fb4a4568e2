"""The calls of RocketMQ's consumers on a stage, without gRPC."""

from __future__ import annotations

import asyncio
from typing import Any

from milepost.broker.subscription.subscription import Subscription
from milepost.rocketmq import rocketmq_pb2 as pb
from milepost.rocketmq.calls import Call, Callers
from milepost.rocketmq.clients import Clients
from milepost.rocketmq.consuming.groups import Group
from milepost.rocketmq.consuming.queues import Manner
from milepost.rocketmq.consuming.receiving import Receiving
from milepost.rocketmq.routes import Routes
from milepost.rocketmq.sending import Sender, Sending
from stage.stage import Stage

TOPIC, GROUP = pb.Resource(name="t"), pb.Resource(name="g")
OK, VOID = 20000, 40013
INVISIBLE_S = 30


class Edge:
    """The calls of the edge, without gRPC."""

    def __init__(self, stage: Stage, group: str = "g") -> None:
        self.stage = stage
        self.topic = stage.topic()
        self.name = group

        def make() -> Receiving:
            broker = stage.broker
            callers, self.clients = Callers(broker), Clients(broker)
            routes = Routes(broker, callers)
            self.sending = Sending(broker, callers, routes)
            return Receiving(broker, callers, routes, self.clients, self.sending)

        self._tasks: list[asyncio.Task[Any]] = []
        self.receiving = stage.loop.do(make)
        stage.run(self.receiving.load())

    @property
    def subscription(self) -> Subscription:
        return self.topic.subscriptions[self.name]

    @property
    def group(self) -> Group:
        found = self.receiving.groups.find(self.topic.name, self.name)
        assert found is not None
        return found

    def publish(self, *frames: bytes) -> None:
        producer = self.topic.producers.get("p") or self.stage.producer(self.topic)
        self.stage.publish(producer, *frames)

    def begin(
        self, count: int, client: str = "c", *, tags: str = "*", push: bool = False
    ) -> asyncio.Task[Any]:
        """A poll; it may wait."""
        request = pb.ReceiveMessageRequest(
            group=pb.Resource(name=self.name),
            message_queue=pb.MessageQueue(topic=TOPIC),
            filter_expression=pb.FilterExpression(type=pb.TAG, expression=tags),
            batch_size=count,
            auto_renew=push,
        )
        request.invisible_duration.FromSeconds(INVISIBLE_S)
        task = self.stage.loop.begin(self.receiving.receive(caller(client), request))
        self._tasks.append(task)
        self.stage.turn()
        return task

    def hang_up(self) -> None:
        """The clients are gone."""
        for task in self._tasks:
            task.cancel()
        self.stage.turn()

    def messages(self, task: asyncio.Task[Any]) -> list[pb.Message]:
        group, taken = task.result()
        return [self.receiving.message(group, TOPIC, held) for held in taken]

    def poll(self, count: int, client: str = "c", **options: Any) -> list[pb.Message]:
        """The messages that are there now."""
        task = self.begin(count, client, **options)
        if task.done():
            return self.messages(task)
        task.cancel()
        self.stage.turn()
        return []

    def ack(self, handle: str) -> int:
        entry = pb.AckMessageEntry(receipt_handle=handle)
        request = pb.AckMessageRequest(
            topic=TOPIC, group=pb.Resource(name=self.name), entries=[entry]
        )
        return int(self.stage.run(self.receiving.ack_message(caller(), request)).status.code)

    def change(self, handle: str, seconds: int) -> tuple[int, str]:
        request = pb.ChangeInvisibleDurationRequest(
            topic=TOPIC, group=pb.Resource(name=self.name), receipt_handle=handle
        )
        request.invisible_duration.FromSeconds(seconds)
        answer = self.stage.run(self.receiving.change_invisible_duration(caller(), request))
        return answer.status.code, answer.receipt_handle

    def forward(self, request: pb.ForwardMessageToDeadLetterQueueRequest) -> None:
        self.stage.run(self.receiving.forward_to_dead_letters(caller(), request))

    def wear_out(self) -> None:
        """The one message of the topic is delivered as often as may be, and fails each time."""
        for _ in range(Manner().attempts_max):
            (one,) = self.poll(1)
            assert self.change(handle_of(one), 0)[0] == OK
            self.time_passes(0)

    def held_dead_letters(self) -> Sender:
        """The producer of the dead letters, which stores none before it is released."""
        there = self.stage.topic("persistent://public/default/%DLQ%g").name
        sender = self.stage.run(self.sending.sender(there))
        self.stage.loop.do(sender.hold)
        return sender

    def time_passes(self, seconds: float) -> None:
        """The timer of the leases fires."""
        self.stage.clock.advance(seconds)
        found = self.receiving.groups.find(self.topic.name, self.name)
        if found is not None:
            self.stage.loop.do(found.end_leases)
        self.stage.turn()


def caller(client: str = "c") -> Call:
    return Call(client, None, "127.0.0.1", None)


def bodies(messages: list[pb.Message]) -> list[bytes]:
    return [one.body for one in messages]


def handle_of(one: pb.Message) -> str:
    return one.system_properties.receipt_handle


def attempts(messages: list[pb.Message]) -> list[int]:
    return [one.system_properties.delivery_attempt for one in messages]
