"""What the tests with RocketMQ's clients share: a broker with the edge, official clients, and bare calls."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pulsar
import pytest
from compat.broker_process import BrokerProcess
from stage.official_rocketmq import rocketmq, started

from milepost.rocketmq import rocketmq_pb2 as pb
from milepost.rocketmq.server import SERVICE

_numbers = itertools.count()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), rocketmq_port=0) as process:
        yield process
        assert process.is_running
        assert not process.complaints()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name for a topic that no other test has, within RocketMQ's alphabet."""
    return f"{re.sub(r'[^a-z0-9]+', '-', request.node.name.lower())[:60]}-{next(_numbers)}"


@pytest.fixture
def make_topic() -> Callable[..., str]:
    def make(broker: BrokerProcess, name: str, partitions: int = 0) -> str:
        full = f"persistent://public/default/{name}"
        if partitions:
            broker.create_partitioned_topic(full, partitions)
        else:
            assert broker.rest("PUT", f"/admin/v2/persistent/public/default/{name}")[0] == 204
        return name

    return make


class Clients:
    """Official clients of both kinds, on one broker."""

    def __init__(self) -> None:
        self._rocketmq: list[Any] = []
        self._pulsar: list[pulsar.Client] = []

    def configuration(
        self, broker: BrokerProcess, key: str = "", secret: str = "any secret"
    ) -> rocketmq.ClientConfiguration:
        return rocketmq.ClientConfiguration(
            f"127.0.0.1:{broker.rocketmq_port}",
            rocketmq.Credentials(key, secret),
            request_timeout=15,  # machines that run tests are busy
        )

    def producer(
        self,
        broker: BrokerProcess,
        topic: str,
        key: str = "",
        checker: Any = None,
        secret: str = "any secret",
    ) -> rocketmq.Producer:
        configuration = self.configuration(broker, key, secret)
        return self._started(rocketmq.Producer(configuration, (topic,), checker))

    def consumer(
        self, broker: BrokerProcess, group: str, topic: str, tags: Any = "*", key: str = ""
    ) -> rocketmq.SimpleConsumer:
        """`tags`: or a filter."""
        filter_ = rocketmq.FilterExpression(tags) if isinstance(tags, str) else tags
        wanted = {topic: filter_}
        return self._started(
            rocketmq.SimpleConsumer(
                self.configuration(broker, key), group, wanted, await_duration=10
            )
        )

    def push_consumer(
        self, broker: BrokerProcess, group: str, topic: str, listener: rocketmq.MessageListener
    ) -> rocketmq.PushConsumer:
        wanted = {topic: rocketmq.FilterExpression()}
        return self._started(
            rocketmq.PushConsumer(self.configuration(broker), group, listener, wanted)
        )

    def pulsar(self, broker: BrokerProcess) -> pulsar.Client:
        self._pulsar.append(
            pulsar.Client(broker.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        )
        return self._pulsar[-1]

    def close(self, client: Any) -> None:
        self._rocketmq.remove(client)
        client.shutdown()

    def close_all(self) -> None:
        for client in list(self._rocketmq):
            self.close(client)
        for one in self._pulsar:
            one.shutdown()

    def _started(self, client: Any) -> Any:
        self._rocketmq.append(started(client))
        return client


@pytest.fixture
def clients() -> Iterator[Clients]:
    made = Clients()
    yield made
    made.close_all()


class Raw:
    """Calls as they are on the wire, also those that no official client makes."""

    def __init__(self, address: str, credentials: grpc.ChannelCredentials | None = None) -> None:
        # A connection of its own: others to the same address wait after a failure.
        # Its room for what it has not read stays as it is at first, 4 MiB: on one machine gRPC would soon
        # take 16 MiB, and a client that reads nothing would have read all.
        options = (("grpc.use_local_subchannel_pool", 1), ("grpc.http2.bdp_probe", 0))
        self._channel = (
            grpc.insecure_channel(address, options)
            if credentials is None
            else grpc.secure_channel(address, credentials, options)
        )
        self.headers = {"x-mq-client-id": "raw"}

    def call(self, name: str, request: Any, timeout: float = 30) -> Any:
        return self.begin(name, request, timeout).result()

    def begin(self, name: str, request: Any, timeout: float = 90) -> Any:
        """A call that is not waited for."""
        answer = getattr(pb, f"{name}Response")
        method = self._channel.unary_unary(
            f"/{SERVICE}/{name}", type(request).SerializeToString, answer.FromString
        )
        return method.future(request, timeout=timeout, metadata=tuple(self.headers.items()))

    def code(self, name: str, request: Any) -> int:
        return int(self.call(name, request).status.code)

    def stream(self, name: str, request: Any, timeout: float = 30) -> Any:
        method = self._channel.unary_stream(
            f"/{SERVICE}/{name}",
            type(request).SerializeToString,
            pb.ReceiveMessageResponse.FromString,
        )
        return method(request, timeout=timeout, metadata=tuple(self.headers.items()))

    def receive(
        self, topic: str, group: str, *, count: int = 16, wait_s: float = 5, **fields: Any
    ) -> list[pb.Message]:
        """The messages of one poll; `AssertionError` names the code if it is refused."""
        answers = list(self.stream("ReceiveMessage", poll(topic, group, count, wait_s, **fields)))
        assert [answers[0].WhichOneof("content"), answers[-1].WhichOneof("content")] == [
            "status",
            "delivery_timestamp",
        ]
        assert answers[0].status.code in (20000, 40401), answers[0].status
        return [answer.message for answer in answers[1:-1]]

    def talk(self, *commands: pb.TelemetryCommand) -> list[pb.TelemetryCommand]:
        return list(self.begin_talk(iter(commands)))

    def begin_talk(self, commands: Iterator[pb.TelemetryCommand]) -> Any:
        method = self._channel.stream_stream(
            f"/{SERVICE}/Telemetry",
            pb.TelemetryCommand.SerializeToString,
            pb.TelemetryCommand.FromString,
        )
        return method(commands, timeout=30, metadata=tuple(self.headers.items()))

    def close(self) -> None:
        self._channel.close()


def poll(
    topic: str, group: str, count: int = 16, wait_s: float = 5, **fields: Any
) -> pb.ReceiveMessageRequest:
    request = pb.ReceiveMessageRequest(
        group=pb.Resource(name=group),
        message_queue=pb.MessageQueue(topic=pb.Resource(name=topic)),
        batch_size=count,
    )
    request.long_polling_timeout.FromMilliseconds(int(wait_s * 1000))
    request.invisible_duration.FromSeconds(300)
    request.MergeFrom(pb.ReceiveMessageRequest(**fields))
    return request


@pytest.fixture
def make_raw() -> Iterator[Callable[..., Raw]]:
    made: list[Raw] = []

    def make(*arguments: Any) -> Raw:
        made.append(Raw(*arguments))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def raw(broker: BrokerProcess, make_raw: Callable[..., Raw]) -> Raw:
    return make_raw(f"127.0.0.1:{broker.rocketmq_port}")
