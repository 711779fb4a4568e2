"""RocketMQ's own mqadmin: every everyday command prints the columns that it prints of a RocketMQ broker.

`COLUMNS` was recorded from RocketMQ 5.3.3 with the same workload. Where one runs, it is asked too:
`MILEPOST_ROCKETMQ=127.0.0.1:9876,127.0.0.1:8081` names its name server and its proxy; a topic `orders` and a
group `billing` are made there and deleted again. Needs a JDK and Maven with its packages: `make clients`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from compat.broker_process import BrokerProcess
from stage.official_rocketmq import rocketmq, started

InternalErrorException = rocketmq.v5.exception.client_exception.InternalErrorException

if os.environ.get("MILEPOST_CLIENTS") != "1":
    pytest.skip("mqadmin is tested by `make clients`", allow_module_level=True)

SOURCE = Path(__file__).with_name("mqadmin")
BUILD_TIMEOUT_S, RUN_TIMEOUT_S = 280, 280
MESSAGES, RECEIVED, ACKED = 10, 6, 4

PROGRESS = "#Topic #Broker Name #QID #Broker Offset #Consumer Offset #Diff #Inflight #LastTime"
MESSAGE = (
    "Topic: Tags: Keys: Queue ID: Queue Offset: CommitLog Offset: Reconsume Times: Born Timestamp: "
    "Store Timestamp: Born Host: Store Host: System Flag: Properties: Message Body Path:"
)
SUMS = "Consume TPS: Consume Diff Total: Consume Inflight Total:"
QUEUES = "#brokerName #queueId #offset"

# A command, and what it prints: the names of columns and of lines.
COLUMNS = {
    "clusterList": "#Cluster Name #Broker Name #BID #Addr #Version #InTPS(LOAD) #OutTPS(LOAD) "
    "#Timer(Progress) #PCWait(ms) #Hour #SPACE #ACTIVATED",
    "clusterList -m": "#Cluster Name #Broker Name #InTotalYest #OutTotalYest #InTotalToday "
    "#OutTotalToday",
    "topicList -c": "#Cluster Name #Topic #Consumer Group",
    "topicStatus -t TOPIC": "#Broker Name #QID #Min Offset #Max Offset #Last Updated Topic Put TPS:",
    "consumerProgress": "#Group #Count #Version #Type #Model #TPS #Diff Total",
    "consumerProgress -g GROUP -t TOPIC": f"{PROGRESS} {SUMS}",
    "consumerProgress -g GROUP -t TOPIC -s true": PROGRESS.replace("#Diff", "#Client IP #Diff")
    + f" {SUMS}",
    "queryMsgByOffset -t TOPIC -b BROKER -i 0 -o 0": f"OffsetID: {MESSAGE}",
    "queryMsgByKey -t TOPIC -k key-3": "#Message ID #QID #Offset",
    "queryMsgByUniqueKey -t TOPIC -i MESSAGE": MESSAGE,
    "queryMsgById -t TOPIC -i MESSAGE": f"OffsetID: {MESSAGE}",
    "statsAll -t TOPIC": "#Topic #Consumer Group #Accumulation #InTPS #OutTPS #InMsg24Hour "
    "#OutMsg24Hour",
    "resetOffsetByTime -g GROUP -t TOPIC -s 0": QUEUES,
    "skipAccumulatedMessage -g GROUP -t TOPIC": QUEUES,
}
# What RocketMQ has no columns for, since it finds no route for groups of its own gRPC clients.
OURS = {
    "consumerProgress -g GROUP": f"{PROGRESS} {SUMS}",
    "consumerConnection -g GROUP": "#ClientId #ClientAddr #Language #Version Below is subscription: "
    "#Topic #SubExpression ConsumeType: MessageModel: ConsumeFromWhere:",
    "consumerStatus -g GROUP": "#Index #ClientId #Version #ConsumerRunningInfoFile",
}
# Commands whose lines have names, all of which RocketMQ has too.
NAMED = {"brokerStatus -b ADDRESS": ":", "getBrokerConfig -b ADDRESS": "="}
# Told without columns.
PLAIN = ("topicList", "topicRoute -t TOPIC", "topicClusterList -t TOPIC", "printMsg -t TOPIC")


def columns(printed: str) -> str:
    """The names of columns, and of lines that have one."""
    found = []
    for line in printed.splitlines():
        if line.startswith("#"):
            found += re.findall(r"#[^#]*[^#\s]", line)
        elif named := re.match(r"([A-Z][A-Za-z ]+):(\s|$)", line):
            found.append(f"{named[1]}:")
    return " ".join(found)


class Mqadmin:
    """mqadmin in a process that is warm."""

    def __init__(self, class_path: str, home: Path) -> None:
        home.mkdir(exist_ok=True)
        command = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", class_path]
        command += [f"-Duser.home={home}", f"-Drocketmq.home.dir={home}", "Commands"]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=home,
        )

    def __call__(self, *words: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join(words).encode() + b"\n")
        self._process.stdin.flush()
        size = int(self._process.stdout.readline())
        return self._process.stdout.read(size).decode()

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()


@pytest.fixture(scope="module")
def mqadmin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mqadmin]:
    for tool in ("java", "javac", "mvn"):
        if shutil.which(tool) is None:
            pytest.skip(f"there is no {tool} here")
    made = tmp_path_factory.mktemp("mqadmin")
    shutil.copy(SOURCE / "pom.xml", made)
    jars = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"]
    fetched = subprocess.run(jars, cwd=made, capture_output=True, timeout=BUILD_TIMEOUT_S)
    if fetched.returncode:
        pytest.skip(f"mqadmin cannot be had here: {fetched.stdout[:300]!r}")
    build = ["javac", "-cp", "lib/*", "-d", "classes", str(SOURCE / "Commands.java")]
    subprocess.run(build, cwd=made, check=True, timeout=BUILD_TIMEOUT_S)
    tool = Mqadmin(f"{made}/classes:{made}/lib/*", made / "home")
    yield tool
    tool.close()


class World(NamedTuple):
    """A broker with a workload: messages sent, some received, some of those acked, all still connected."""

    mqadmin: Mqadmin
    name_server: str
    address: str
    broker: str
    cluster: str
    message: str

    def ask(self, command: str) -> str:
        words = {
            "TOPIC": "orders",
            "GROUP": "billing",
            "BROKER": self.broker,
            "ADDRESS": self.address,
            "CLUSTER": self.cluster,
            "MESSAGE": self.message,
        }
        told = [words.get(word, word) for word in command.split()]
        return self.mqadmin(*told, "-n", self.name_server)


def prepared(mqadmin: Mqadmin, name_server: str, proxy: str, clients: list[Any]) -> World:
    printed = mqadmin("clusterList", "-n", name_server).splitlines()
    cluster, broker, _, address = printed[1].split()[:4]
    world = World(mqadmin, name_server, address, broker, cluster, "")
    assert "success" in world.ask(
        "updateTopic -c CLUSTER -t TOPIC -r 2 -w 2 -a +message.type=NORMAL"
    )
    assert "success" in world.ask("updateSubGroup -c CLUSTER -g GROUP")
    configuration = rocketmq.ClientConfiguration(
        proxy, rocketmq.Credentials("", ""), request_timeout=15
    )
    producer = rocketmq.Producer(configuration, ("orders",))
    wanted = {"orders": rocketmq.FilterExpression()}
    consumer = rocketmq.SimpleConsumer(configuration, "billing", wanted, await_duration=10)
    clients += [producer, consumer]
    until = time.monotonic() + 60
    while True:
        try:
            started(producer)
            break
        except Exception:  # a broker tells its name server of a new topic after a while
            if time.monotonic() >= until:
                raise
    ids = []
    for number in range(MESSAGES):
        message = rocketmq.Message()
        message.topic, message.body = "orders", b"body-%d" % number
        message.tag, message.keys = "paid", f"key-{number}"
        ids.append(producer.send(message).message_id)
    started(consumer)
    held: list[Any] = []
    while len(held) < RECEIVED and time.monotonic() < until:
        with suppress(InternalErrorException):  # RocketMQ does not know the client's settings yet
            held += consumer.receive(RECEIVED - len(held), 300) or []
    for message in held[:ACKED]:
        consumer.ack(message)
    return world._replace(message=ids[0])


@pytest.fixture(scope="module")
def milepost(mqadmin: Mqadmin, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    settings = {"rocketmq_port": 0, "rocketmq_namesrv_port": 0}
    clients: list[Any] = []
    with BrokerProcess(tmp_path_factory.mktemp("broker"), **settings) as process:
        proxy = f"127.0.0.1:{process.rocketmq_port}"
        yield prepared(mqadmin, f"127.0.0.1:{process.rocketmq_namesrv_port}", proxy, clients)
        for client in clients:
            client.shutdown()
        assert not process.complaints()


@pytest.fixture(scope="module")
def real(mqadmin: Mqadmin) -> Iterator[World]:
    places = os.environ.get("MILEPOST_ROCKETMQ", "")
    if not places:
        pytest.skip("MILEPOST_ROCKETMQ names no RocketMQ to compare with")
    name_server, proxy = places.split(",")
    clients: list[Any] = []
    world = prepared(mqadmin, name_server, proxy, clients)
    yield world
    for client in clients:
        client.shutdown()
    world.ask("deleteSubGroup -c CLUSTER -g GROUP -r true")
    world.ask("deleteTopic -c CLUSTER -t TOPIC")


pytestmark = pytest.mark.timeout(BUILD_TIMEOUT_S + RUN_TIMEOUT_S)


@pytest.mark.parametrize("command", [*COLUMNS, *OURS])
def test_the_columns_are_those_of_rocketmq(milepost: World, command: str) -> None:
    assert columns(milepost.ask(command)) == {**COLUMNS, **OURS}[command]


@pytest.mark.parametrize("command", COLUMNS)
def test_rocketmq_prints_them_too(real: World, command: str) -> None:
    printed = real.ask(command)
    for _ in range(10):  # now and then it says that it is busy
        if columns(printed) == COLUMNS[command]:
            return
        printed = real.ask(command)
    assert columns(printed) == COLUMNS[command], printed


@pytest.mark.parametrize("command", NAMED)
def test_names_of_lines_are_among_those_of_rocketmq(
    milepost: World, real: World, command: str
) -> None:
    def names(world: World) -> set[str]:
        separator = NAMED[command]
        lines = world.ask(command).splitlines()
        return {line.split(separator)[0].strip() for line in lines if separator in line[1:]}

    ours = {name for name in names(milepost) if not name.startswith("=")}
    assert ours
    assert ours <= names(real)


@pytest.mark.parametrize("command", PLAIN)
def test_commands_without_columns_print_the_same_of_both(
    milepost: World, real: World, command: str
) -> None:
    def shape(world: World) -> list[str]:
        text = re.sub(r"\d+|[0-9A-F]{16,}", "0", world.ask(command))
        text = text.replace(world.broker, "BROKER").replace(world.cluster, "CLUSTER")
        return [line.split("MessageExt")[0] for line in text.splitlines() if line.strip()]

    if command == "topicList":  # RocketMQ has topics of its own
        assert "orders" in shape(milepost)
        assert "orders" in shape(real)
    elif command.startswith("printMsg"):  # which queue a message comes to is the broker's choice
        assert sum(line.startswith("MSGID") for line in shape(milepost)) == MESSAGES
        assert sum(line.startswith("MSGID") for line in shape(real)) == MESSAGES
    else:
        assert shape(milepost) == shape(real)


# -- what the columns say ----------------------------------------------------------------------------


def rows(printed: str, first: str) -> list[list[str]]:
    return [line.split() for line in printed.splitlines() if line.startswith(first)]


def test_the_numbers_add_up(milepost: World) -> None:
    milepost.ask("resetOffsetByTime -g GROUP -t TOPIC -s 0")
    status = rows(milepost.ask("topicStatus -t TOPIC"), "milepost")
    assert sum(int(row[3]) - int(row[2]) for row in status) == MESSAGES
    printed = milepost.ask("consumerProgress -g GROUP -t TOPIC")
    for row in rows(printed, "orders"):
        end, done, difference = map(int, row[3:6])
        assert (done, difference) == (0, end)
    assert f"Consume Diff Total: {MESSAGES}" in printed


def test_a_reset_to_an_offset_moves_one_queue_and_nothing_when_it_is_out_of_range(
    milepost: World,
) -> None:
    def done() -> list[int]:
        found = rows(milepost.ask("consumerProgress -g GROUP -t TOPIC"), "orders")
        return [int(row[4]) for row in found]

    milepost.ask("resetOffsetByTime -g GROUP -t TOPIC -s 0")
    assert done() == [0, 0]
    ask = "resetOffsetByTime -g GROUP -t TOPIC -s -1 -b ADDRESS -q 1 -o {}"
    assert "reset consumer offset to 2" in milepost.ask(ask.format(2))
    assert done() == [0, 2]
    assert "there is no index 99" in milepost.ask(ask.format(99))
    assert done() == [0, 2]


def test_an_offset_id_finds_its_message(milepost: World) -> None:
    printed = milepost.ask("queryMsgByOffset -t TOPIC -b BROKER -i 1 -o 2")
    (shown,) = re.findall(r"OffsetID:\s+([0-9A-F]{32})", printed)
    again = milepost.ask(f"queryMsgById -t TOPIC -i {shown}")
    assert f"OffsetID:            {shown}" in again
    assert re.search(r"Queue Offset:\s+2", again)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("topicRoute -t no-such", "CODE: 17"),
        ("consumerProgress -g no-such", "CODE: 17"),
        ("updateTopic -c CLUSTER -t TOPIC -r 1 -w 1", "cannot be taken away"),
        ("updateTopic -c CLUSTER -t TOPIC -r 2 -w 4", "a queue is a partition"),
        ("queryMsgByKey -t TOPIC -k no-such", "query message by key finished, but no message"),
        ("sendMessage -t TOPIC -p body", "rocketmq_port"),
        ("cleanExpiredCQ", "not supported"),
    ],
)
def test_what_is_refused_says_why(milepost: World, command: str, said: str) -> None:
    assert said in milepost.ask(command)


def test_a_topic_and_a_group_come_and_go(milepost: World) -> None:
    made: Callable[[str], str] = milepost.ask
    assert "success" in made("updateTopic -c CLUSTER -t passing -r 4 -w 4")
    assert "success" in made("updateSubGroup -c CLUSTER -g brief -o true -r 3")
    settings = made("getConsumerConfig -g brief")
    assert re.search(r"consumeMessageOrderly\s+=\s+true", settings)
    assert re.search(r"retryMaxTimes\s+=\s+3", settings)
    assert "success" in made("deleteSubGroup -c CLUSTER -g brief -r true")
    assert "success" in made("deleteTopic -c CLUSTER -t passing")
    assert "passing" not in made("topicList")
