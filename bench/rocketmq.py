"""RocketMQ's calls on a broker of its own process: sends, receives with acks, latency, polls that wait.

    python -m bench rocketmq
    MILEPOST_PEER=… python -m bench rocketmq
    MILEPOST_ROCKETMQ=127.0.0.1:9876,127.0.0.1:8081 python -m bench rocketmq

With a peer a RocketMQ 5.3 has the same work, and its figures stand beside Milepost's. The second form names a
program that runs one (`bench/peers.py`). The third names the name server and the proxy of one that runs on
this machine with `flushDiskType=SYNC_FLUSH`; it gets topics `milepost-bench-…`, and `MILEPOST_ROCKETMQ_PID`
names its process, whose CPU is shown too. Both take turns, five rounds of each work; a figure is the one in
the middle.

The load is a bare gRPC client on the same machine (`bench/load/grpc_calls.py`), the same for both servers.
CPU is the server's alone. Every receipt and every ack is on disk.

The last rows are what Pulsar's clients feel of polls, as in `bench/attacks.py`: of many that wait, and of
some that come again as soon as they are answered.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import uvloop

import bench
from bench import Result, at_least, at_most, peers
from bench.load.attacker import Attacker
from bench.load.beside import Disturbance, compare
from bench.load.grpc_calls import GrpcCalls
from bench.load.target import started
from bench.load.workloads import Load
from milepost.rocketmq import rocketmq_pb2 as pb
from milepost.rocketmq.codes import Code
from milepost.rocketmq.remoting.frames import Command, Decoder, encode
from milepost.rocketmq.server import SERVICE

SENDS_ALONE, SENDS, RECEIVES, LATENCIES, IDLE_POLLS = 150, 1200, 600, 1000, 1000
WARM_UP = 1000
# Of each work: five figures have one in the middle.
TURNS = 5
RATE = 1000
START_S, SLOW_S, HEARTBEAT_S = 60, 60, 10
SENT, READ, LIVE = (pb.Resource(name=f"milepost-bench-{one}") for one in ("sent", "read", "live"))
GROUP = "bench"
HEADERS = (
    ("x-mq-client-id", "bench@1@1@1"),
    ("x-mq-language", "PYTHON"),
    ("x-mq-protocol", "v2"),
    ("x-mq-client-version", "5.1.2"),
)


def _path(name: str) -> str:
    return f"/{SERVICE}/{name}"


_SEND, _RECEIVE, _ACK = _path("SendMessage"), _path("ReceiveMessage"), _path("AckMessage")
PEER = os.environ.get("MILEPOST_ROCKETMQ", "")
# How the process that polls is told where; a name that the broker does not take for a setting.
PORT_NAME = "BENCH_ROCKETMQ_PORT"
BUSY_POLLS = 16
GROWTH_MAX, ROUNDS, ROUNDS_FULL = 1.2, 4, 16


class Process:
    """A server that is measured: the port of its gRPC, and its process, if that is known."""

    def __init__(self, name: str, port: int, pid: int | None) -> None:
        self.name = name
        self.port = port
        self._pid = pid

    def cpu_s(self) -> float | None:
        if self._pid is None:
            return None
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def rss_mib(self) -> float:
        lines = Path(f"/proc/{self._pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


class Milepost(Process):
    """A broker in a process of its own, with the topic."""

    def __init__(self, folder: str) -> None:
        ready = Path(folder, "ready")
        command = [sys.executable, "-m", "milepost.cli.main", "serve", "--host", "127.0.0.1"]
        command += ["--port", "0", "--http-port", "0", "--rocketmq-port", "0"]
        command += ["--data", f"{folder}/data", "--ready-file", str(ready)]
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, env=peers.environment()
        )
        deadline = time.monotonic() + START_S
        while not ready.exists():
            if time.monotonic() > deadline or self._process.poll() is not None:
                self.close()
                raise RuntimeError("milepost serve does not start")
            time.sleep(0.1)
        self.ports = json.loads(ready.read_text())
        super().__init__("Milepost", self.ports["rocketmq_port"], self._process.pid)

    def make_topic(self, name: str) -> None:
        command = [sys.executable, "-m", "milepost.cli.main", "topics", "create", name]
        url = f"http://127.0.0.1:{self.ports['http_port']}"
        subprocess.run([*command, "--admin-url", url], check=True, stdout=subprocess.DEVNULL)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


class RocketMq(Process):
    """One that runs already."""

    def __init__(self, name_server: str, port: int, pid: int | None) -> None:
        self._name_server = name_server
        super().__init__("RocketMQ", port, pid)

    def make_topic(self, name: str) -> None:
        """As `mqadmin updateTopic` does."""
        found = _ask(self._name_server, Command(106)).body.decode()
        address = found.partition('"brokerAddrs":{0:"')[2].partition('"')[0]
        fields = {"topic": name, "defaultTopic": "TBW102", "readQueueNums": "1"}
        fields |= {"writeQueueNums": "1", "perm": "6", "topicFilterType": "SINGLE_TAG"}
        fields |= {"topicSysFlag": "0", "order": "false", "attributes": "+message.type=NORMAL"}
        answer = _ask(address, Command(17, fields=fields))
        if answer.code != 0:
            raise RuntimeError(f"RocketMQ makes no topic: {answer.remark}")


@contextmanager
def rocketmq() -> Iterator[RocketMq]:
    """The one that the environment names, or one of its own for as long as it is wanted."""
    if PEER:
        name_server, proxy = PEER.split(",")
        pid = os.environ.get("MILEPOST_ROCKETMQ_PID")
        yield RocketMq(name_server, int(proxy.rpartition(":")[2]), int(pid) if pid else None)
        return
    with peers.running("rocketmq") as peer:
        yield RocketMq(f"127.0.0.1:{peer.second_port}", peer.port, peer.pid)


def _ask(address: str, command: Command) -> Command:
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=SLOW_S) as link:
        link.sendall(encode(command))
        decoder = Decoder()
        while (found := decoder.next()) is None:
            decoder.feed(link.recv(65536))
        return found


class Client:
    """One connection, as one client object of RocketMQ's has it."""

    def __init__(self, calls: GrpcCalls) -> None:
        self._calls = calls

    @classmethod
    async def connect(cls, port: int) -> Client:
        return cls(await GrpcCalls.connect(port, HEADERS))

    @asynccontextmanager
    async def consuming(self, *topics: pb.Resource) -> AsyncIterator[None]:
        """Tell the settings of a consumer, without which RocketMQ refuses its polls."""
        settings = pb.Settings(client_type=pb.SIMPLE_CONSUMER)
        settings.subscription.group.name = GROUP
        for topic in topics:
            settings.subscription.subscriptions.add(
                topic=topic, expression=pb.FilterExpression(type=pb.TAG, expression="*")
            )
        settings.subscription.long_polling_timeout.FromSeconds(20)
        said = pb.TelemetryCommand(settings=settings).SerializeToString()
        stream = await self._calls.begin(_path("Telemetry"), said, 600, is_last=False)
        await stream.began
        beating = asyncio.ensure_future(self._beat())
        yield
        beating.cancel()

    async def _beat(self) -> None:
        """Say that the client lives, as official ones do: RocketMQ forgets the settings of others."""
        alive = pb.HeartbeatRequest(client_type=pb.SIMPLE_CONSUMER)
        alive.group.name = GROUP
        while True:
            await self._calls.ask(_path("Heartbeat"), alive.SerializeToString(), SLOW_S)
            await asyncio.sleep(HEARTBEAT_S)

    async def send(self, topic: pb.Resource, body: bytes = bytes(100)) -> None:
        system = pb.SystemProperties(
            message_id=f"{time.monotonic_ns():034X}",
            body_encoding=pb.IDENTITY,
            message_type=pb.NORMAL,
            born_host="bench",
        )
        system.born_timestamp.GetCurrentTime()
        message = pb.Message(topic=topic, system_properties=system, body=body)
        request = pb.SendMessageRequest(messages=[message]).SerializeToString()
        (said,) = await self._calls.ask(_SEND, request, SLOW_S)
        answer = pb.SendMessageResponse.FromString(said)
        if answer.status.code != Code.OK:
            raise RuntimeError(answer.status.message)

    async def receive(self, topic: pb.Resource, wait_s: float = 20) -> list[pb.Message]:
        request = pb.ReceiveMessageRequest(
            group=pb.Resource(name=GROUP),
            message_queue=pb.MessageQueue(topic=topic),
            filter_expression=pb.FilterExpression(type=pb.TAG, expression="*"),
            batch_size=32,
        )
        request.invisible_duration.FromSeconds(600)
        request.long_polling_timeout.FromMilliseconds(int(wait_s * 1000))
        asked = request.SerializeToString()
        said = await self._calls.ask(_RECEIVE, asked, int(wait_s) + 30)
        answers = [pb.ReceiveMessageResponse.FromString(one) for one in said]
        if answers and answers[0].status.code not in (0, Code.OK, Code.MESSAGE_NOT_FOUND):
            raise RuntimeError(answers[0].status.message)
        return [one.message for one in answers if one.HasField("message")]

    async def ack(self, message: pb.Message) -> None:
        system = message.system_properties
        entry = pb.AckMessageEntry(
            message_id=system.message_id, receipt_handle=system.receipt_handle
        )
        group = pb.Resource(name=GROUP)
        request = pb.AckMessageRequest(group=group, topic=message.topic, entries=[entry])
        (said,) = await self._calls.ask(_ACK, request.SerializeToString(), SLOW_S)
        answer = pb.AckMessageResponse.FromString(said)
        if answer.status.code != Code.OK:
            raise RuntimeError(answer.status.message)

    def close(self) -> None:
        self._calls.close()


def run() -> Iterator[Result]:
    with (
        tempfile.TemporaryDirectory(prefix="milepost-bench-") as folder,
        ExitStack() as open_,
    ):
        own = Milepost(folder)
        try:
            targets: list[Process] = [own]
            try:
                targets.append(open_.enter_context(rocketmq()))
            except peers.Unavailable as reason:
                print(f"  not compared with RocketMQ: {reason}", flush=True)
            for target in targets:
                for topic in (SENT, READ, LIVE):
                    target.make_topic(topic.name)
            yield from uvloop.run(_in_turns(targets))
        finally:
            own.close()
    yield from uvloop.run(_beside())


def _compare(own: list[Result], peer: list[Result]) -> Iterator[Result]:
    """Milepost's figures, RocketMQ's, and what one is of the other where that is promised."""
    found = {one.name: one for one in peer}
    for one in own:
        yield one
        if one.name in found:
            other = found[one.name]
            yield Result(f"… RocketMQ: {other.name}", other.value, other.unit)
            if other.value and one.unit == "/s":
                yield at_least("… Milepost, times RocketMQ", one.value / other.value, "x", 1)
            elif other.value and one.name.endswith("p99"):
                yield at_most("… Milepost, times RocketMQ", one.value / other.value, "x", 0.5)


async def _in_turns(targets: list[Process]) -> list[Result]:
    """All work, of each target in its turn."""
    async with AsyncExitStack() as open_:
        clients = []
        for target in targets:
            client = await Client.connect(target.port)
            open_.callback(client.close)
            await open_.enter_async_context(client.consuming(READ, LIVE))
            await _sends(target, client, 16, WARM_UP)
            # A group begins where RocketMQ's begin, and both have read something.
            await _receives(target, client)
            clients.append(client)
        results: list[Result] = []
        for work in (_sends_alone, _sends_at_once, _receives, _latency):
            found: list[list[list[Result]]] = [[] for _ in targets]
            for _ in range(TURNS):
                for rounds, target, client in zip(found, targets, clients, strict=True):
                    rounds.append(await work(target, client))
            middles = [_middle(rounds) for rounds in found]
            results += _compare(middles[0], middles[-1] if len(targets) > 1 else [])
        own = targets[0]
        assert isinstance(own, Milepost)
        return [*results, *await _idle_polls(own, clients[0])]


def _middle(rounds: list[list[Result]]) -> list[Result]:
    """Of each figure the one in the middle."""
    return [
        one._replace(value=statistics.median(of_a_round[place].value for of_a_round in rounds))
        for place, one in enumerate(rounds[0])
    ]


async def _sends_alone(target: Process, client: Client) -> list[Result]:
    return await _sends(target, client, 1, SENDS_ALONE)


async def _sends_at_once(target: Process, client: Client) -> list[Result]:
    return await _sends(target, client, 16, SENDS)


async def _sends(
    target: Process, client: Client, producers: int, count: int, topic: pb.Resource = SENT
) -> list[Result]:
    each = count // producers

    async def produce() -> None:
        for _ in range(each):
            await client.send(topic)

    cpu_s, began = target.cpu_s(), time.perf_counter()
    await asyncio.gather(*(produce() for _ in range(producers)))
    rate = producers * each / (time.perf_counter() - began)
    name = "send, one after another" if producers == 1 else f"send, {producers} at once"
    return [Result(name, rate, "/s"), *_cpu(target, cpu_s, producers * each, name)]


def _cpu(target: Process, before_s: float | None, messages: int, name: str) -> list[Result]:
    now_s = target.cpu_s()
    if before_s is None or now_s is None:
        return []
    return [Result(f"{name}: CPU a message", (now_s - before_s) * 1000 / messages, "ms")]


async def _receives(target: Process, client: Client) -> list[Result]:
    """What was sent before, by sixteen consumers; an ack a message."""
    await _sends(target, client, 40, RECEIVES, READ)
    cpu_s, began, count = target.cpu_s(), time.perf_counter(), 0

    async def consume() -> None:
        nonlocal count
        while count < RECEIVES:
            messages = await client.receive(READ, 1)
            for one in messages:
                await client.ack(one)
            count += len(messages)

    consumers = [asyncio.ensure_future(consume()) for _ in range(16)]
    await asyncio.wait(consumers, return_when=asyncio.FIRST_COMPLETED, timeout=SLOW_S)
    took_s = time.perf_counter() - began
    name = "receive and ack, 16 consumers"
    results = [Result(name, count / took_s, "/s"), *_cpu(target, cpu_s, count, name)]
    await asyncio.gather(*consumers)  # polls that wait for nothing
    return results


async def _latency(target: Process, client: Client) -> list[Result]:
    """From the call of a send to the message in the hands of a consumer that waits."""
    found: list[float] = []
    first = time.perf_counter()  # what an earlier run has left is acked, and does not count

    async def consume() -> None:
        while len(found) < LATENCIES:
            messages = await client.receive(LIVE, 2)
            now = time.perf_counter()
            found.extend(now - sent for one in messages if (sent := float(one.body)) >= first)
            await asyncio.gather(*(client.ack(one) for one in messages))

    consumers = [asyncio.ensure_future(consume()) for _ in range(8)]
    await asyncio.sleep(1)  # they wait
    began, sends = time.perf_counter(), []
    for number in range(LATENCIES):
        await asyncio.sleep(max(began + number / RATE - time.perf_counter(), 0))
        sends.append(asyncio.ensure_future(client.send(LIVE, b"%f" % time.perf_counter())))
    await asyncio.gather(*sends)
    rate = LATENCIES / (time.perf_counter() - began)
    await asyncio.gather(*consumers)
    took = sorted(found)
    name = f"send → receive at {RATE:,}/s"
    return [
        Result(f"{name}: reached", rate, "a second"),
        Result(f"{name}: p50", took[len(took) // 2] * 1000, "ms"),
        Result(f"{name}: p99", took[len(took) * 99 // 100] * 1000, "ms"),
    ]


async def _idle_polls(target: Process, client: Client) -> list[Result]:
    before = target.rss_mib()
    polls = [asyncio.ensure_future(client.receive(READ, 10)) for _ in range(IDLE_POLLS)]
    await asyncio.sleep(6)
    grown = target.rss_mib() - before
    await asyncio.gather(*polls)
    return [at_most(f"{IDLE_POLLS:,} polls that wait: memory", grown, "MiB", 64)]


# -- what Pulsar's clients feel of it ------------------------------------------------------------------


async def waiting_polls(load: Load) -> Disturbance:
    """A thousand polls wait for messages that do not come."""

    @asynccontextmanager
    async def attack() -> AsyncIterator[None]:
        client = await Client.connect(int(os.environ[PORT_NAME]))
        polls = [asyncio.ensure_future(client.receive(READ, 20)) for _ in range(IDLE_POLLS)]
        await asyncio.sleep(3)  # all of them wait
        yield
        await _hang_up(client, polls)

    return attack


async def busy_polls(load: Load) -> Disturbance:
    """Some clients poll again as soon as they are answered, ten times a second each."""

    @asynccontextmanager
    async def attack() -> AsyncIterator[None]:
        client = await Client.connect(int(os.environ[PORT_NAME]))

        async def poll() -> None:
            while True:
                await client.receive(READ, 0.1)

        polls = [asyncio.ensure_future(poll()) for _ in range(BUSY_POLLS)]
        yield
        await _hang_up(client, polls)

    return attack


async def _hang_up(client: Client, polls: list[asyncio.Future[Any]]) -> None:
    for one in polls:
        one.cancel()
    await asyncio.gather(*polls, return_exceptions=True)
    client.close()
    await asyncio.sleep(1)  # the broker has noticed


ATTACKS = {
    f"{IDLE_POLLS:,} polls that wait": waiting_polls,
    f"{BUSY_POLLS * 10} polls a second": busy_polls,
}


async def _beside() -> list[Result]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    os.environ[PORT_NAME] = str(port)
    results = []
    async with started("--rocketmq-port", str(port)) as target:
        load = Load(target)
        link = await load.link()
        await link.produce(f"persistent://public/default/{READ.name}", 0)
        for name in ATTACKS:
            async with Attacker(__name__, name, target.url) as attacker:
                rounds = ROUNDS_FULL if bench.FULL else ROUNDS
                beside = await compare(load, "beside", attacker.attack, rounds=rounds)
            told = f"{name}: p99 of Pulsar's publishing {beside.quiet_ms:.2f} ms, "
            told += f"beside it {beside.busy_ms:.2f}"
            results.append(at_most(told, beside.growth, "x", GROWTH_MAX))
    return results
