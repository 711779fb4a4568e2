"""The proposal's promises through RocketMQ's own clients and mqadmin, with kills of the broker between.

Resets under live consumers are in test_resets.py; the numbers are those of tests/rip. Promises about
broadcast groups (I20 to I24) have no client here: RocketMQ 5's protocol knows no such group, and one that
Pulsar's clients have is refused.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest
from compat.broker_process import BrokerProcess
from stage.remoting import Remoting

from milepost.rocketmq import rocketmq_pb2 as pb

GROUP = "g"
OK, VOID = 20000, 40013


class World:
    """A broker that is killed, with both of RocketMQ's ends on it."""

    def __init__(self, broker: BrokerProcess, make_raw: Callable[..., Any]) -> None:
        self.broker = broker
        self._make_raw = make_raw
        self._connect()

    def _connect(self) -> None:
        self.raw = self._make_raw(f"127.0.0.1:{self.broker.rocketmq_port}")
        self.mqadmin = Remoting(self.broker.rocketmq_namesrv_port)

    def killed(self) -> None:
        self.mqadmin.close()
        self.broker.restart()  # kill -9
        self._connect()

    def close(self) -> None:
        self.mqadmin.close()

    def make(self, topic: str, queues: int) -> None:
        numbers = {"readQueueNums": queues, "writeQueueNums": queues}
        assert self.mqadmin.ask(17, topic=topic, perm=6, **numbers).code == 0

    def send(self, topic: str, count: int, **system: Any) -> None:
        for number in range(count):
            properties = pb.SystemProperties(message_id=f"id-{number}", **system)
            message = pb.Message(
                topic=pb.Resource(name=topic), system_properties=properties, body=b"%d" % number
            )
            request = pb.SendMessageRequest(messages=[message])
            assert self.raw.code("SendMessage", request) == OK

    def receive(self, topic: str, count: int) -> list[pb.Message]:
        found: list[pb.Message] = []
        while len(found) < count:
            found += self.raw.receive(topic, GROUP, count=count - len(found))
        return found

    def ack(self, topic: str, message: pb.Message) -> int:
        entry = pb.AckMessageEntry(receipt_handle=message.system_properties.receipt_handle)
        request = pb.AckMessageRequest(
            group=pb.Resource(name=GROUP), topic=pb.Resource(name=topic), entries=[entry]
        )
        return int(self.raw.code("AckMessage", request))

    def reset(self, topic: str, **asked: Any) -> dict[str, int]:
        moved = self.mqadmin.ask(222, topic=topic, group=GROUP, isForce="true", **asked)
        assert moved.code == 0, moved.remark
        table: dict[str, int] = moved.json["offsetTable"]
        return table

    def offsets(self, topic: str) -> dict[str, int]:
        table = self.mqadmin.ask(208, consumerGroup=GROUP, topic=topic).json["offsetTable"]
        return {queue: line["consumerOffset"] for queue, line in table.items()}

    def counts(self, topic: str) -> tuple[int, int, int, int]:
        """Ready, inflight, delayed, acked."""
        path = f"/admin/v2/persistent/public/default/{topic}/stats"
        stats = self.broker.rest("GET", path)[1]["subscriptions"][GROUP]
        return tuple(stats[f"messages{one}"] for one in ("Ready", "Inflight", "Delayed", "Acked"))  # type: ignore[return-value]


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    directory: Path = tmp_path_factory.mktemp("broker")
    with BrokerProcess(directory, rocketmq_port=0, rocketmq_namesrv_port=0) as process:
        yield process
        assert not process.complaints()


@pytest.fixture
def world(own: BrokerProcess, make_raw: Callable[..., Any]) -> Iterator[World]:
    made = World(own, make_raw)
    yield made
    made.close()


def test_a_reset_of_all_queues_is_on_disk_when_it_is_answered(world: World, name: str) -> None:
    """I1, I2, I3, I5, I6, I30, R6, R7, R9: kill after kill, every queue stands where the last answer said,
    and acks of before it change nothing."""
    world.make(name, 2)
    world.send(name, 12)
    for time_ms, is_full in ((0, True), (-1, True), (0, False)):
        held = world.receive(name, 12) if is_full else []
        assert {world.ack(name, one) for one in held[:6]} <= {OK}
        told = world.reset(name, timestamp=time_ms)
        assert sorted(told) == [f"{name}/0", f"{name}/1"]
        world.killed()
        assert world.offsets(name) == told
        assert {world.ack(name, one) for one in held} <= {VOID}
        assert world.offsets(name) == told
    assert len(world.receive(name, 12)) == 12


def test_every_consumer_obeys_and_one_that_was_away_too(
    world: World, clients: Any, name: str
) -> None:
    """I7, I8, I11, R5: a RocketMQ client, a Pulsar consumer of the same group and one that comes later get
    together each message once, from the target on."""
    world.make(name, 1)
    world.send(name, 10)
    held = world.receive(name, 5)
    topic = f"persistent://public/default/{name}-partition-0"
    consumer = clients.pulsar(world.broker).subscribe(
        topic, GROUP, consumer_type=pulsar.ConsumerType.Shared, receiver_queue_size=1
    )
    first = consumer.receive(20_000)
    world.reset(name, timestamp=0)
    assert {world.ack(name, one) for one in held} == {VOID}
    consumer.acknowledge(first)  # of before the reset
    seen = [consumer.receive(20_000).data()]
    consumer.close()  # what it has taken ahead, and has not acked, comes to others
    deadline = time.monotonic() + 60
    while len(set(seen)) < 10:
        assert time.monotonic() < deadline, seen
        seen += [one.body for one in world.raw.receive(name, GROUP, count=4, wait_s=1)]
    assert sorted(set(seen)) == [b"%d" % number for number in range(10)]
    assert len(seen) <= 12  # what the Pulsar consumer had and did not ack comes again


def test_the_numbers_add_up_and_outlive_a_kill(world: World, name: str) -> None:
    """I15 to I19: delayed messages that a poll has met are not ready, half messages are not there, and
    after a kill nothing is inflight."""
    world.make(name, 1)
    queue = f"{name}-partition-0"
    world.send(name, 3)
    later = pb.SystemProperties()
    later.delivery_timestamp.FromSeconds(int(time.time()) + 3600)
    world.send(name, 1, delivery_timestamp=later.delivery_timestamp)
    world.send(name, 3)
    world.send(name, 1, message_type=pb.TRANSACTION)
    held = world.receive(name, 4)
    assert [one.system_properties.queue_offset for one in held] == [0, 1, 2, 4]
    assert [world.ack(name, one) for one in held[:2]] == [OK, OK]
    assert world.counts(queue) == (2, 2, 1, 2)
    line = world.mqadmin.ask(208, consumerGroup=GROUP, topic=name).json["offsetTable"][f"{name}/0"]
    assert (line["brokerOffset"], line["consumerOffset"]) == (7, 2)
    assert line["pullOffset"] - line["consumerOffset"] == 2
    world.killed()
    assert world.counts(queue) == (5, 0, 0, 2)  # no poll has met the delayed message yet
    assert world.offsets(name) == {f"{name}/0": 2}
    assert [one.system_properties.queue_offset for one in world.receive(name, 4)] == [2, 4, 5, 6]
    assert world.counts(queue) == (0, 4, 1, 2)


def test_both_kinds_of_clients_count_alike(world: World, clients: Any, name: str) -> None:
    """I27 to I29: a queue offset is the index, within batches too; an ack hole shows as the first index that
    is not acked; a seek by Pulsar and a reset by mqadmin void the same handles."""
    world.make(name, 1)
    topic = f"persistent://public/default/{name}-partition-0"
    producer = clients.pulsar(world.broker).create_producer(
        topic, batching_enabled=True, batching_max_publish_delay_ms=1000
    )
    for number in range(5):
        producer.send_async(b"%d" % number, None)
    producer.flush()
    world.send(name, 1)
    held = world.receive(name, 6)
    assert [one.system_properties.queue_offset for one in held] == list(range(6))
    assert [world.ack(name, held[at]) for at in (0, 2)] == [OK, OK]
    assert world.offsets(name) == {f"{name}/0": 1}
    world.killed()
    assert world.offsets(name) == {f"{name}/0": 1}
    held = world.receive(name, 4)
    assert [one.system_properties.queue_offset for one in held] == [1, 3, 4, 5]
    consumer = clients.pulsar(world.broker).subscribe(
        topic, GROUP, consumer_type=pulsar.ConsumerType.Shared
    )
    consumer.seek(pulsar.MessageId.earliest)
    consumer.close()
    assert {world.ack(name, one) for one in held} == {VOID}
    held = world.receive(name, 6)
    assert world.reset(name, timestamp=0, queueId=0, offset=4) == {f"{name}/0": 4}
    assert {world.ack(name, one) for one in held} == {VOID}
    assert [one.system_properties.queue_offset for one in world.receive(name, 2)] == [4, 5]


def test_a_group_that_is_deleted_leaves_nothing(world: World, name: str) -> None:
    """I26: positions, settings and handles go together, and a kill brings none of them back."""
    world.make(name, 1)
    world.send(name, 3)
    held = world.receive(name, 3)
    assert world.ack(name, held[0]) == OK
    assert world.mqadmin.ask(207, groupName=GROUP, cleanOffset="true").code == 0
    world.killed()
    assert {world.ack(name, one) for one in held} == {VOID}
    assert world.mqadmin.ask(300, topic=name).json == {"groupList": []}
    assert [one.body for one in world.receive(name, 3)] == [b"0", b"1", b"2"]


def test_a_reset_of_a_group_that_has_read_nothing(world: World, name: str) -> None:
    """I12, I13: it shows in the progress at once, a kill keeps it, and the first poll begins there; one that
    is out of range changes nothing."""
    world.make(name, 1)
    world.send(name, 4)
    assert world.mqadmin.ask(200, json.dumps({"groupName": GROUP}).encode()).code == 0
    assert world.reset(name, timestamp=0, queueId=0, offset=3) == {f"{name}/0": 3}
    for offset in (5, 2**62):
        told = {"topic": name, "group": GROUP, "timestamp": 0, "queueId": 0, "offset": offset}
        assert world.mqadmin.ask(222, **told).code == 1
    assert world.mqadmin.ask(222, **{**told, "offset": -7}).code == 29
    assert world.offsets(name) == {f"{name}/0": 3}
    world.killed()
    assert world.offsets(name) == {f"{name}/0": 3}
    assert [one.body for one in world.receive(name, 1)] == [b"3"]
