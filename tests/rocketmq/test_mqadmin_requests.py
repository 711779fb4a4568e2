"""What mqadmin's commands ask, as frames: a name server and a broker in one, on Milepost's topics."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest
from compat.broker_process import BrokerProcess
from stage.remoting import Remoting, framed

from milepost.rocketmq import rocketmq_pb2 as pb
from milepost.rocketmq.remoting.frames import Command, encode


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {"rocketmq_port": 0, "rocketmq_namesrv_port": 0}
    with BrokerProcess(tmp_path_factory.mktemp("broker"), **settings) as process:
        yield process
        assert process.is_running
        assert not process.complaints()


@pytest.fixture
def mqadmin(broker: BrokerProcess) -> Iterator[Remoting]:
    client = Remoting(broker.rocketmq_namesrv_port)
    yield client
    client.close()


def produced(clients: Any, broker: BrokerProcess, topic: str, count: int) -> None:
    """So many messages to each of two partitions."""
    for partition in range(2):
        producer = clients.pulsar(broker).create_producer(
            f"persistent://public/default/{topic}-partition-{partition}"
        )
        for number in range(count):
            producer.send(b"%d" % number)


# -- the name server ---------------------------------------------------------------------------------


def test_the_cluster_is_this_broker(broker: BrokerProcess, mqadmin: Remoting) -> None:
    found = mqadmin.ask(106)
    address = f"127.0.0.1:{broker.rocketmq_namesrv_port}"
    assert f'{{0:"{address}"}}'.encode() in found.body  # a number as it is
    assert found.json["clusterAddrTable"] == {"standalone": ["milepost"]}
    assert found.json["brokerAddrTable"]["milepost"]["brokerAddrs"] == {"0": address}


def test_topics_and_their_routes(
    broker: BrokerProcess, mqadmin: Remoting, name: str, make_topic: Callable[..., str]
) -> None:
    make_topic(broker, name, 3)
    broker.rest("PUT", "/admin/v2/persistent/public/default/with.a.dot")
    listed = mqadmin.ask(206).json["topicList"]
    assert name in listed
    assert not [one for one in listed if "partition" in one or "." in one]
    route = mqadmin.ask(105, topic=name)
    assert b'{"0":' in route.body  # quoted here
    (queues,) = route.json["queueDatas"]
    assert (queues["readQueueNums"], queues["writeQueueNums"], queues["perm"]) == (3, 3, 6)
    assert mqadmin.ask(105, topic="no-such-topic").code == 17
    assert mqadmin.ask(105, topic="a/b").code == 1
    assert mqadmin.ask(105).code == 29


def test_a_topic_is_made_grown_and_deleted(
    broker: BrokerProcess, mqadmin: Remoting, name: str
) -> None:
    def put(queues: int, **fields: Any) -> int:
        told = {"readQueueNums": queues, "writeQueueNums": queues, "perm": 6, **fields}
        return mqadmin.ask(17, topic=name, **told).code

    assert put(2, attributes="+message.type=FIFO") == 0
    assert put(4) == 0
    settings = mqadmin.ask(351, topic=name).json
    assert (settings["readQueueNums"], settings["attributes"]) == (4, {"message.type": "FIFO"})
    assert put(3) == 29  # none is taken away
    assert put(4, readQueueNums=8) == 29
    assert put(4, perm=4) == 29
    assert put(4, attributes="+message.type=MIXED") == 29
    assert put(4, attributes="-message.type") == 29
    assert put(0) == 29
    status, topics = broker.rest("GET", "/admin/v2/persistent/public/default/partitioned")
    assert status == 200
    assert f"persistent://public/default/{name}" in topics
    assert mqadmin.ask(215, topic=name).code == 0
    assert mqadmin.ask(216, topic=name, clusterName="standalone").code == 0
    assert mqadmin.ask(215, topic=name).code == 0  # it is gone already
    assert mqadmin.ask(105, topic=name).code == 17
    assert mqadmin.ask(351, topic=name).code == 17


# -- topics ------------------------------------------------------------------------------------------


def test_offsets_are_indexes(
    broker: BrokerProcess,
    mqadmin: Remoting,
    clients: Any,
    name: str,
    make_topic: Callable[..., str],
) -> None:
    make_topic(broker, name, 2)
    empty = mqadmin.ask(202, topic=name).json["offsetTable"]
    assert empty[f"{name}/1"] == {"lastUpdateTimestamp": 0, "maxOffset": 0, "minOffset": 0}
    produced(clients, broker, name, 5)
    status = mqadmin.ask(202, topic=name)
    assert f'{{{{"topic":"{name}",'.encode() in status.body  # a queue is a key as it is
    queue = status.json["offsetTable"][f"{name}/1"]
    assert (queue["minOffset"], queue["maxOffset"]) == (0, 5)
    assert mqadmin.ask(30, topic=name, queueId=1).fields == {"offset": "5"}
    assert mqadmin.ask(31, topic=name, queueId=1).fields == {"offset": "0"}
    last_ms = queue["lastUpdateTimestamp"]
    assert mqadmin.ask(29, topic=name, queueId=1, timestamp=last_ms + 1).fields["offset"] == "5"
    assert int(mqadmin.ask(29, topic=name, queueId=1, timestamp=last_ms).fields["offset"]) < 5
    assert mqadmin.ask(29, topic=name, queueId=1, timestamp=0).fields["offset"] == "0"
    for bad in ({"queueId": 2}, {"queueId": -1}, {"queueId": "x"}, {"queueId": 10**30}):
        assert mqadmin.ask(30, topic=name, **bad).code == 29


# -- consumer groups ---------------------------------------------------------------------------------


@pytest.fixture
def read(
    broker: BrokerProcess, clients: Any, name: str, make_topic: Callable[..., str]
) -> tuple[str, list[Any]]:
    """A topic with two queues of five messages, and what a live consumer of the group `g…` holds of it."""
    make_topic(broker, name, 2)
    produced(clients, broker, name, 5)
    consumer = clients.pulsar(broker).subscribe(
        f"persistent://public/default/{name}",
        f"g-{name}",
        consumer_type=pulsar.ConsumerType.Shared,
        initial_position=pulsar.InitialPosition.Earliest,
        receiver_queue_size=10,
    )
    return f"g-{name}", [consumer, *(consumer.receive(20_000) for _ in range(10))]


def test_progress_of_a_group(mqadmin: Remoting, name: str, read: tuple[str, list[Any]]) -> None:
    group, (consumer, *messages) = read
    mine = sorted(
        (one for one in messages if one.topic_name().endswith("partition-1")),
        key=lambda one: one.message_id().entry_id(),
    )
    for message in mine[:2]:
        consumer.acknowledge(message)
    settled(mqadmin, name, group, 1, 2)
    for fields in ({"topic": name}, {}):
        answer = mqadmin.ask(208, consumerGroup=group, **fields)
        table = answer.json["offsetTable"]
        assert set(table) == {f"{name}/0", f"{name}/1"}
        queue = table[f"{name}/1"]
        assert (queue["brokerOffset"], queue["consumerOffset"]) == (5, 2)
        assert queue["pullOffset"] - queue["consumerOffset"] == 3  # in flight
        assert queue["lastTimestamp"] > 0
        assert table[f"{name}/0"]["lastTimestamp"] == 0  # nothing is acked there
    assert f"%RETRY%{group}" in mqadmin.ask(206).json["topicList"]
    (route,) = mqadmin.ask(105, topic=f"%RETRY%{group}").json["queueDatas"]
    assert route["readQueueNums"] == 1
    assert mqadmin.ask(300, topic=name).json == {"groupList": [group]}
    assert mqadmin.ask(208, consumerGroup="nobody-knows", topic=name).code == 26
    assert mqadmin.ask(208, consumerGroup=group, topic="no-such").code == 17
    assert mqadmin.ask(105, topic="%RETRY%nobody-knows").code == 17


def settled(mqadmin: Remoting, topic: str, group: str, queue: int, offset: int) -> None:
    """Return when the group is there: acks of a Pulsar consumer are on their way for a while."""
    for _ in range(2000):
        table = mqadmin.ask(208, consumerGroup=group, topic=topic).json["offsetTable"]
        if table[f"{topic}/{queue}"]["consumerOffset"] == offset:
            return
    pytest.fail(f"{group} is at {table}")


def test_a_reset_is_obeyed_by_a_live_consumer(
    broker: BrokerProcess, mqadmin: Remoting, name: str, read: tuple[str, list[Any]]
) -> None:
    group, (consumer, *messages) = read
    for message in messages:
        consumer.acknowledge(message)
    for queue in range(2):
        settled(mqadmin, name, group, queue, 5)
    told = {"topic": name, "group": group}
    moved = mqadmin.ask(222, **told, timestamp=0, isForce="true", queueId=-1, offset=-1)
    assert moved.json == {"offsetTable": {f"{name}/0": 0, f"{name}/1": 0}}
    again = [consumer.receive(20_000) for _ in range(10)]
    assert sorted(one.data() for one in again) == sorted(one.data() for one in messages)
    # To the end, as skipAccumulatedMessage does it.
    moved = mqadmin.ask(222, **told, timestamp=-1, isForce="true")
    assert moved.json == {"offsetTable": {f"{name}/0": 5, f"{name}/1": 5}}
    for late in again:
        consumer.acknowledge(late)  # it comes too late to change anything
    # One queue to an offset: mqadmin commits before it resets.
    assert mqadmin.ask(15, topic=name, consumerGroup=group, queueId=1, commitOffset=3).code == 0
    moved = mqadmin.ask(222, **told, timestamp=0, isForce="false", queueId=1, offset=3)
    assert moved.json == {"offsetTable": {f"{name}/1": 3}}
    table = mqadmin.ask(208, consumerGroup=group, topic=name).json["offsetTable"]
    assert [table[f"{name}/{n}"]["consumerOffset"] for n in range(2)] == [5, 3]
    # Without force nothing is skipped.
    moved = mqadmin.ask(222, **told, timestamp=2**50, isForce="false")
    assert moved.json == {"offsetTable": {f"{name}/0": 5, f"{name}/1": 3}}
    # Out of range: neither of the two requests moves anything.
    assert mqadmin.ask(15, topic=name, consumerGroup=group, queueId=1, commitOffset=6).code == 1
    assert mqadmin.ask(222, **told, timestamp=0, queueId=1, offset=6).code == 1
    assert mqadmin.ask(222, **told, timestamp=0, queueId=2, offset=1).code == 29
    assert mqadmin.ask(222, topic=name, group="nobody-knows", timestamp=0).code == 26
    assert mqadmin.ask(222, topic="no-such", group=group, timestamp=0).code == 17
    settled(mqadmin, name, group, 1, 3)
    path = f"/milepost/v1/topics/public/default/{name}/subscriptions/{group}/resets"
    assert {line["by"] for line in broker.rest("GET", path)[1]} == {"mqadmin"}


def test_groups_have_settings_before_they_read(
    broker: BrokerProcess, mqadmin: Remoting, name: str, make_topic: Callable[..., str]
) -> None:
    group = f"g-{name}"
    told = {"groupName": group, "consumeMessageOrderly": True, "retryMaxTimes": 3}
    assert mqadmin.ask(200, json.dumps(told).encode()).code == 0
    kept = mqadmin.ask(201).json["subscriptionGroupTable"][group]
    assert (kept["consumeMessageOrderly"], kept["retryMaxTimes"]) == (True, 3)
    assert f"%RETRY%{group}" in mqadmin.ask(206).json["topicList"]
    assert mqadmin.ask(208, consumerGroup=group).json["offsetTable"] == {}
    # A reset makes its subscriptions.
    make_topic(broker, name, 2)
    moved = mqadmin.ask(222, topic=name, group=group, timestamp=-1, isForce="true")
    assert moved.json["offsetTable"] == {f"{name}/0": 0, f"{name}/1": 0}
    assert mqadmin.ask(200, json.dumps(told).encode()).code == 0
    path = f"/admin/v2/persistent/public/default/{name}/subscription/{group}/properties"
    assert broker.rest("GET", path) == (200, {"rocketmq.fifo": "true", "rocketmq.retries": "3"})
    assert mqadmin.ask(200, json.dumps({"groupName": group}).encode()).code == 0
    assert broker.rest("GET", path) == (200, {})
    # Its positions go with cleanOffset only, as in RocketMQ.
    assert mqadmin.ask(207, groupName=group, cleanOffset="false").code == 0
    assert mqadmin.ask(300, topic=name).json == {"groupList": [group]}
    assert mqadmin.ask(207, groupName=group, cleanOffset="true").code == 0
    assert mqadmin.ask(300, topic=name).json == {"groupList": []}
    assert mqadmin.ask(208, consumerGroup=group).code == 26
    for bad in (
        b"",
        b"[]",
        b"{}",
        b'{"groupName":7}',
        b'{"groupName":"a b"}',
        b"[" * 50_000,
        b'{"groupName":"g","retryMaxTimes":"3"}',
        b'{"groupName":"g","retryMaxTimes":-1}',
        b'{"groupName":"g","retryMaxTimes":NaN}',
        b'{"groupName":"g","consumeMessageOrderly":1}',
        b'{"groupName":"g","attributes":{"a":1e999}}',
        b'{"groupName":"g","attributes":' + b'{"a":' * 900 + b"1" + b"}" * 901,
        b'{"groupName":"g","brokerId":' + b"9" * 20 + b"}",
    ):
        assert mqadmin.ask(200, bad).code == 1
    assert "g" not in mqadmin.ask(201).json["subscriptionGroupTable"]
    assert mqadmin.ask(200, b'{"groupName":"g","consumeEnable":false}').code == 29


def test_a_group_made_in_order_is_a_fifo_group_from_its_first_poll_on(
    broker: BrokerProcess, mqadmin: Remoting, raw: Any, name: str, make_topic: Callable[..., str]
) -> None:
    make_topic(broker, name)
    group = f"g-{name}"
    told = {"groupName": group, "consumeMessageOrderly": True}
    assert mqadmin.ask(200, json.dumps(told).encode()).code == 0
    settings = pb.Settings(client_type=pb.SIMPLE_CONSUMER)
    settings.subscription.group.name = group
    settings.subscription.subscriptions.add().topic.name = name
    (answer,) = raw.talk(pb.TelemetryCommand(settings=settings))
    assert answer.settings.subscription.fifo
    assert raw.receive(name, group, wait_s=0.1) == []
    path = f"/admin/v2/persistent/public/default/{name}/subscription/{group}/properties"
    assert broker.rest("GET", path) == (200, {"rocketmq.fifo": "true"})


def test_what_mqadmin_was_answered_is_there_after_a_kill(tmp_path: Path, clients: Any) -> None:
    """A topic, the settings of a group and a reset are on disk when they are answered."""
    with BrokerProcess(tmp_path, rocketmq_namesrv_port=0) as own:
        mqadmin = Remoting(own.rocketmq_namesrv_port)
        assert mqadmin.ask(17, topic="orders", readQueueNums=2, writeQueueNums=2, perm=6).code == 0
        assert mqadmin.ask(200, b'{"groupName":"g","retryMaxTimes":3}').code == 0
        produced(clients, own, "orders", 5)
        told = {"topic": "orders", "group": "g", "isForce": "true"}
        assert mqadmin.ask(222, **told, timestamp=-1).code == 0
        moved = mqadmin.ask(222, **told, timestamp=0, queueId=1, offset=2)
        assert moved.json == {"offsetTable": {"orders/1": 2}}
        own.restart()  # kill -9
        mqadmin.close()
        mqadmin = Remoting(own.rocketmq_namesrv_port)
        table = mqadmin.ask(208, consumerGroup="g").json["offsetTable"]
        assert [table[f"orders/{n}"]["consumerOffset"] for n in range(2)] == [5, 2]
        assert mqadmin.ask(201).json["subscriptionGroupTable"]["g"]["retryMaxTimes"] == 3
        mqadmin.close()
        assert not own.complaints()


# -- who is connected --------------------------------------------------------------------------------


def test_clients_of_both_kinds_are_among_the_connections(
    broker: BrokerProcess,
    mqadmin: Remoting,
    clients: Any,
    name: str,
    make_topic: Callable[..., str],
) -> None:
    make_topic(broker, name, 2)
    group = f"g-{name}"
    assert mqadmin.ask(203, consumerGroup=group).code == 206  # nobody is there
    assert mqadmin.ask(204, producerGroup=name).code == 1
    clients.producer(broker, name)
    clients.consumer(broker, group, name, tags="paid || sent")
    shared = clients.pulsar(broker)
    shared.create_producer(f"persistent://public/default/{name}", producer_name="pulsar-p")
    shared.subscribe(
        f"persistent://public/default/{name}",
        group,
        consumer_type=pulsar.ConsumerType.Shared,
        consumer_name="pulsar-c",
    )
    found = until(lambda: mqadmin.ask(203, consumerGroup=group).json, connected=2)
    languages = {one["clientId"]: one["language"] for one in found["connectionSet"]}
    (other,) = set(languages) - {"pulsar-c"}
    assert languages[other] == "PYTHON"
    subscription = found["subscriptionTable"][name]
    assert subscription["subString"] == "paid || sent"
    assert subscription["tagsSet"] == ["paid", "sent"]
    assert (found["consumeType"], found["messageModel"]) == ("CONSUME_ACTIVELY", "CLUSTERING")
    for client in languages:
        info = mqadmin.ask(307, consumerGroup=group, clientId=client, jstackEnable="false").json
        assert set(info["mqTable"]) == {f"{name}/0", f"{name}/1"}
        assert info["properties"]["PROP_CONSUME_TYPE"].startswith("CONSUME_")
    assert mqadmin.ask(307, consumerGroup=group, clientId="no-such").code == 206
    producers = until(lambda: mqadmin.ask(204, producerGroup=name).json, connected=2)
    assert "pulsar-p" in {one["clientId"] for one in producers["connectionSet"]}


def until(look: Callable[[], Any], *, connected: int) -> Any:
    """What is found when so many are connected: clients start in the background."""
    for _ in range(2000):
        found = look()
        if len(found["connectionSet"]) == connected:
            return found
    pytest.fail(f"{connected} are not connected: {found}")


# -- messages ----------------------------------------------------------------------------------------


def pulled(body: bytes) -> list[tuple[int, int, bytes, dict[str, str]]]:
    """Queue, offset, body and properties of messages, with addresses of four bytes."""
    found, at = [], 0
    while at < len(body):
        size, _, _, queue, _, offset = struct.unpack_from(">iiiiiq", body, at)
        data = body[at : at + size]
        (length,) = struct.unpack_from(">i", data, 84)
        end = 88 + length
        texts = data[end + 1 + data[end] + 2 :].decode().split("\x02")
        properties = dict(one.split("\x01", 1) for one in texts if one)
        found.append((queue, offset, data[88:end], properties))
        at += size
    return found


@pytest.fixture
def stored(
    broker: BrokerProcess, clients: Any, raw: Any, name: str, make_topic: Callable[..., str]
) -> str:
    """A topic of two queues: a batch of three and a single message of Pulsar's in queue 1, and one of
    RocketMQ's wherever it came to."""
    make_topic(broker, name, 2)
    topic = f"persistent://public/default/{name}-partition-1"
    producer = clients.pulsar(broker).create_producer(
        topic, batching_enabled=True, batching_max_publish_delay_ms=10_000
    )
    for number in range(3):
        producer.send_async(b"batch-%d" % number, None, properties={"n": str(number)})
    producer.flush()
    producer.send_async(b"single", None, properties={"KEYS": "k1 k2", "TAGS": "paid"})
    producer.flush()
    system = pb.SystemProperties(message_id=f"id-of-{name}", keys=["k2", "k3"], tag="sent")
    message = pb.Message(topic=pb.Resource(name=name), system_properties=system, body=b"rocket")
    assert raw.code("SendMessage", pb.SendMessageRequest(messages=[message])) == 20000
    return name


def pull(mqadmin: Remoting, topic: str, queue: int, offset: int, **fields: Any) -> Any:
    told = {"consumerGroup": "TOOLS_CONSUMER", "topic": topic, "queueId": queue}
    told |= {"queueOffset": offset, "maxMsgNums": 32, "sysFlag": 4, "commitOffset": 0}
    return mqadmin.ask(11, **{**told, "subscription": "*", **fields})


def test_a_pull_reads_messages_from_an_index_on(mqadmin: Remoting, stored: str) -> None:
    end = int(mqadmin.ask(30, topic=stored, queueId=1).fields["offset"])
    answer = pull(mqadmin, stored, 1, 1, maxMsgNums=3)
    assert [(one[0], one[1], one[2]) for one in pulled(answer.body)] == [
        (1, 1, b"batch-1"),  # from the middle of a batch on
        (1, 2, b"batch-2"),
        (1, 3, b"single"),
    ]
    assert answer.fields == {
        "suggestWhichBrokerId": "0",
        "nextBeginOffset": "4",
        "minOffset": "0",
        "maxOffset": str(end),
    }
    assert pulled(answer.body)[0][3]["n"] == "1"
    empty = pull(mqadmin, stored, 1, end)
    assert (empty.code, empty.fields["nextBeginOffset"]) == (19, str(end))
    beyond = pull(mqadmin, stored, 1, end + 5)
    assert (beyond.code, beyond.fields["nextBeginOffset"]) == (21, str(end))
    assert pull(mqadmin, stored, 2, 0).code == 29
    assert pull(mqadmin, "no-such", 0, 0).code == 17


def test_consumers_of_rocketmq_4_cannot_pull(mqadmin: Remoting, stored: str) -> None:
    for refused in (
        pull(mqadmin, stored, 1, 0, consumerGroup="billing"),
        pull(mqadmin, stored, 1, 0, subscription="paid"),
        mqadmin.ask(34, b'{"clientID":"c","consumerDataSet":[{"groupName":"billing"}]}'),
        mqadmin.ask(34, b'{"clientID":"c","producerDataSet":[{"groupName":"p"}]}'),
        mqadmin.ask(34, b'{"clientID":"c","consumerDataSet":[7]}'),
    ):
        assert refused.code == 3
        assert refused.body == b""
    assert mqadmin.ask(34, b'{"consumerDataSet":[{"groupName":"TOOLS_CONSUMER"}]}').code == 0
    assert mqadmin.ask(34, b'{"consumerDataSet":7}').code == 1
    assert mqadmin.ask(35, clientID="c", consumerGroup="TOOLS_CONSUMER").code == 0


def test_a_message_is_found_by_its_place_in_the_id(mqadmin: Remoting, stored: str) -> None:
    (first, *_) = [pull(mqadmin, stored, 1, 2, maxMsgNums=1).body]
    (offset,) = struct.unpack_from(">q", first, 28)
    found = mqadmin.ask(33, topic=stored, offset=offset)
    assert found.body == first
    for bad in (offset + 1000, 7 << 48, 2**63 - 1):
        assert mqadmin.ask(33, topic=stored, offset=bad).code == 1
    assert mqadmin.ask(33, topic=stored, offset=-1).code == 29


def test_messages_are_found_by_key_and_by_id(mqadmin: Remoting, stored: str) -> None:
    def query(key: str, **fields: Any) -> Any:
        told = {"topic": stored, "key": key, "maxNum": 64, "beginTimestamp": 0}
        return mqadmin.ask(12, **{**told, "endTimestamp": 2**53, **fields})

    assert [one[2] for one in pulled(query("k1").body)] == [b"single"]
    assert sorted(one[2] for one in pulled(query("k2").body)) == [b"rocket", b"single"]
    assert len(pulled(query("k2", maxNum=1).body)) == 1
    assert query("k").code == 22  # a part of a key is none
    assert query("k1", beginTimestamp=2**52).code == 22
    assert query("k1", endTimestamp=1).code == 22
    unique = {"_UNIQUE_KEY_QUERY": "true"}
    assert [one[2] for one in pulled(query(f"id-of-{stored}", **unique).body)] == [b"rocket"]
    (own,) = {one[3]["UNIQ_KEY"] for one in pulled(pull(mqadmin, stored, 1, 2, maxMsgNums=1).body)}
    assert [one[2] for one in pulled(query(own, **unique).body)] == [b"batch-2"]
    assert query(own[:-1] + "F", **unique).code == 22
    assert query("k1", topic="no-such").code == 17
    assert mqadmin.ask(12, topic=stored).code == 29


def test_statistics_of_a_topic_and_a_group(
    mqadmin: Remoting, name: str, read: tuple[str, list[Any]]
) -> None:
    group, _ = read
    counts = mqadmin.ask(315, statsName="TOPIC_PUT_NUMS", statsKey=name).json
    assert counts["statsDay"]["sum"] == 10
    counts = mqadmin.ask(315, statsName="GROUP_GET_NUMS", statsKey=f"{name}@{group}").json
    assert counts["statsDay"]["sum"] == 10
    assert mqadmin.ask(315, statsName="BROKER_PUT_NUMS", statsKey=name).code == 1
    assert mqadmin.ask(315, statsName="TOPIC_PUT_NUMS", statsKey="no-such").code == 17


# -- the broker itself -------------------------------------------------------------------------------


def test_the_broker_tells_of_itself(broker: BrokerProcess, mqadmin: Remoting) -> None:
    table = mqadmin.ask(28).json["table"]
    assert all(isinstance(value, str) for value in table.values())
    assert table["brokerVersionDesc"].startswith("Milepost_")
    assert len(table["putTps"].split()) == 3
    settings = dict(line.split("=", 1) for line in mqadmin.ask(26).body.decode().splitlines())
    assert settings["listenPort"] == str(broker.rocketmq_namesrv_port)
    assert settings["flushDiskType"] == "SYNC_FLUSH"


# -- what is refused ---------------------------------------------------------------------------------


def test_clients_of_rocketmq_4_are_told_what_to_use(mqadmin: Remoting) -> None:
    for code, body in ((310, bytes(300_000)), (10, b"x"), (36, b""), (38, b""), (9999, b"")):
        answer = mqadmin.ask(code, body)
        assert answer.code == 3
        assert "rocketmq_port" in answer.remark
        assert str(code) in answer.remark
    for members in ('["CID_x"]', "[[1]]", "[{}]", "[7]"):
        assert mqadmin.ask(34, b'{"consumerDataSet":%s}' % members.encode()).code == 3


def test_a_binary_header_is_answered_in_kind(mqadmin: Remoting) -> None:
    mqadmin.socket.sendall(encode(Command(105, 7, fields={"topic": "no-such"}, is_binary=True)))
    answer = mqadmin.answer()
    assert (answer.code, answer.header["opaque"]) == (17, 7)
    assert answer.remark


def test_requests_are_answered_in_order_and_one_way_ones_not_at_all(mqadmin: Remoting) -> None:
    asked = [mqadmin.request(106, flag=2), mqadmin.request(28), mqadmin.request(9999, flag=2)]
    asked += [mqadmin.request(106, flag=1), mqadmin.request(106)]
    mqadmin.socket.sendall(b"".join(asked))
    assert [mqadmin.answer().header["opaque"] for _ in range(2)] == [2, 5]


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">iI", -1, 0),
        struct.pack(">iI", 2**31 - 1, 4),
        struct.pack(">iI", 20, 17),
        framed(b"[" * 60_000),
        framed(b"{}", kind=9),
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_what_is_no_frame_ends_its_connection_alone(
    broker: BrokerProcess, mqadmin: Remoting, data: bytes
) -> None:
    stranger = Remoting(broker.rocketmq_namesrv_port)
    stranger.socket.sendall(data)
    assert stranger.is_closed()
    stranger.close()
    assert mqadmin.ask(106).code == 0
