"""RocketMQ's calls on a broker of its own process: sends, receives with acks, latency, polls that wait.

    python -m bench rocketmq
    MILEPOST_ROCKETMQ=127.0.0.1:9876,127.0.0.1:8081 python -m bench rocketmq

The second form names the name server and the proxy of a RocketMQ 5.3 that runs on this machine with
`flushDiskType=SYNC_FLUSH`: it has the same work in turn, and its figures stand beside Milepost's. It gets a
topic `milepost-bench`. `MILEPOST_ROCKETMQ_PID` names its process, whose CPU is shown too. Minutes lie between
the two turns: compare rates on a quiet machine, CPU on others.

The load is a bare gRPC client in Python on the same machine, which takes about as much of it as the broker
does; rates are of both together. CPU is the server's alone. Every receipt and every ack is on disk.

The last rows are what Pulsar's clients feel of polls, as in `bench/attacks.py`: of many that wait, and of
some that come again as soon as they are answered.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc

import bench
from bench import Result, at_least, at_most
from bench.load.attacker import Attacker
from bench.load.beside import Disturbance, compare
from bench.load.target import started
from bench.load.workloads import Load
from milepost.rocketmq import rocketmq_pb2 as pb
from milepost.rocketmq.codes import Code
from milepost.rocketmq.remoting.frames import Command, Decoder, encode
from milepost.rocketmq.server import SERVICE

SENDS, LATENCIES, IDLE_POLLS = 2000, 2000, 1000
WARM_UP = 500
RATE = 1000
START_S, SLOW_S = 60, 60
TOPIC = pb.Resource(name="milepost-bench")
GROUP, FRESH = "bench", "bench-fresh"
HEADERS = (
    ("x-mq-client-id", "bench@1@1@1"),
    ("x-mq-language", "PYTHON"),
    ("x-mq-protocol", "v2"),
    ("x-mq-client-version", "5.1.2"),
)
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
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + START_S
        while not ready.exists():
            if time.monotonic() > deadline or self._process.poll() is not None:
                self.close()
                raise RuntimeError("milepost serve does not start")
            time.sleep(0.1)
        self.ports = json.loads(ready.read_text())
        super().__init__("Milepost", self.ports["rocketmq_port"], self._process.pid)

    def make_topic(self) -> None:
        command = [sys.executable, "-m", "milepost.cli.main", "topics", "create", TOPIC.name]
        url = f"http://127.0.0.1:{self.ports['http_port']}"
        subprocess.run([*command, "--admin-url", url], check=True, stdout=subprocess.DEVNULL)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


class RocketMq(Process):
    """One that runs already."""

    def __init__(self) -> None:
        self._name_server, proxy = PEER.split(",")
        pid = os.environ.get("MILEPOST_ROCKETMQ_PID")
        super().__init__("RocketMQ", int(proxy.rpartition(":")[2]), int(pid) if pid else None)

    def make_topic(self) -> None:
        """As `mqadmin updateTopic` does."""
        found = _ask(self._name_server, Command(106)).body.decode()
        address = found.partition('"brokerAddrs":{0:"')[2].partition('"')[0]
        fields = {"topic": TOPIC.name, "defaultTopic": "TBW102", "readQueueNums": "1"}
        fields |= {"writeQueueNums": "1", "perm": "6", "topicFilterType": "SINGLE_TAG"}
        fields |= {"topicSysFlag": "0", "order": "false", "attributes": "+message.type=NORMAL"}
        answer = _ask(address, Command(17, fields=fields))
        if answer.code != 0:
            raise RuntimeError(f"RocketMQ makes no topic: {answer.remark}")


def _ask(address: str, command: Command) -> Command:
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=SLOW_S) as link:
        link.sendall(encode(command))
        decoder = Decoder()
        while (found := decoder.next()) is None:
            decoder.feed(link.recv(65536))
        return found


class Client:
    def __init__(self, port: int) -> None:
        self._channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
        self._send = self._method("SendMessage", pb.SendMessageRequest, pb.SendMessageResponse)
        self._ack = self._method("AckMessage", pb.AckMessageRequest, pb.AckMessageResponse)
        self._poll = self._channel.unary_stream(
            f"/{SERVICE}/ReceiveMessage",
            pb.ReceiveMessageRequest.SerializeToString,
            pb.ReceiveMessageResponse.FromString,
        )
        self._talk = self._channel.stream_stream(
            f"/{SERVICE}/Telemetry",
            pb.TelemetryCommand.SerializeToString,
            pb.TelemetryCommand.FromString,
        )

    def _method(self, name: str, request: Any, answer: Any) -> Any:
        path = f"/{SERVICE}/{name}"
        return self._channel.unary_unary(path, request.SerializeToString, answer.FromString)

    @asynccontextmanager
    async def consuming(self, group: str) -> AsyncIterator[None]:
        """Tell the settings of a consumer, without which RocketMQ refuses its polls."""
        settings = pb.Settings(client_type=pb.SIMPLE_CONSUMER)
        settings.subscription.group.name = group
        settings.subscription.subscriptions.add(
            topic=TOPIC, expression=pb.FilterExpression(type=pb.TAG, expression="*")
        )
        settings.subscription.long_polling_timeout.FromSeconds(20)
        stream = self._talk(metadata=HEADERS, timeout=600)
        await stream.write(pb.TelemetryCommand(settings=settings))
        await stream.read()
        yield
        stream.cancel()

    async def send(self, body: bytes = bytes(100)) -> None:
        system = pb.SystemProperties(
            message_id=f"{time.monotonic_ns():034X}",
            body_encoding=pb.IDENTITY,
            message_type=pb.NORMAL,
            born_host="bench",
        )
        system.born_timestamp.GetCurrentTime()
        message = pb.Message(topic=TOPIC, system_properties=system, body=body)
        request = pb.SendMessageRequest(messages=[message])
        answer = await self._send(request, metadata=HEADERS, timeout=SLOW_S)
        if answer.status.code != Code.OK:
            raise RuntimeError(answer.status.message)

    async def receive(self, group: str, wait_s: float = 20) -> list[pb.Message]:
        request = pb.ReceiveMessageRequest(
            group=pb.Resource(name=group),
            message_queue=pb.MessageQueue(topic=TOPIC),
            filter_expression=pb.FilterExpression(type=pb.TAG, expression="*"),
            batch_size=32,
        )
        request.invisible_duration.FromSeconds(600)
        request.long_polling_timeout.FromMilliseconds(int(wait_s * 1000))
        answers = [one async for one in self._poll(request, metadata=HEADERS, timeout=wait_s + 30)]
        if answers and answers[0].status.code not in (0, Code.OK, Code.MESSAGE_NOT_FOUND):
            raise RuntimeError(answers[0].status.message)
        return [one.message for one in answers if one.HasField("message")]

    async def ack(self, group: str, message: pb.Message) -> None:
        system = message.system_properties
        entry = pb.AckMessageEntry(
            message_id=system.message_id, receipt_handle=system.receipt_handle
        )
        request = pb.AckMessageRequest(group=pb.Resource(name=group), topic=TOPIC, entries=[entry])
        answer = await self._ack(request, metadata=HEADERS, timeout=SLOW_S)
        if answer.status.code != Code.OK:
            raise RuntimeError(answer.status.message)

    async def drain(self, group: str) -> None:
        while messages := await self.receive(group, 2):
            await asyncio.gather(*(self.ack(group, one) for one in messages))

    async def close(self) -> None:
        await self._channel.close()


def run() -> Iterator[Result]:
    with tempfile.TemporaryDirectory(prefix="milepost-bench-") as folder:
        own = Milepost(folder)
        try:
            own.make_topic()
            if not PEER:
                yield Result("RocketMQ 5.3: left out, MILEPOST_ROCKETMQ names none", 0, "")
                yield from asyncio.run(_all(own))
            else:
                peer = RocketMq()
                peer.make_topic()
                yield from _compare(asyncio.run(_all(own)), asyncio.run(_all(peer)))
        finally:
            own.close()
    yield from asyncio.run(_beside())


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


async def _all(target: Process) -> list[Result]:
    client = Client(target.port)
    try:
        await _sends(target, client, 16, WARM_UP)
        results = [
            *await _sends(target, client, 1, SENDS),
            *await _sends(target, client, 16, SENDS),
        ]
        async with client.consuming(GROUP):
            results += await _receives(target, client)
        async with client.consuming(FRESH):
            results += await _latency(client)
        if isinstance(target, Milepost):
            results += await _idle_polls(target, client)
    finally:
        await client.close()
    return results


async def _sends(target: Process, client: Client, producers: int, count: int) -> list[Result]:
    each = count // producers

    async def produce() -> None:
        for _ in range(each):
            await client.send()

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
    """What was sent, by sixteen consumers; an ack a message."""
    left = SENDS + SENDS // 2
    cpu_s, began, count = target.cpu_s(), time.perf_counter(), 0

    async def consume() -> None:
        nonlocal count
        while count < left and (messages := await client.receive(GROUP, 5)):
            for one in messages:
                await client.ack(GROUP, one)
            count += len(messages)

    await asyncio.gather(*(consume() for _ in range(16)))
    name = "receive and ack, 16 consumers"
    rate = count / (time.perf_counter() - began)
    return [Result(name, rate, "/s"), *_cpu(target, cpu_s, count, name)]


async def _latency(client: Client) -> list[Result]:
    """From the call of a send to the message in the hands of a consumer that waits."""
    await client.drain(FRESH)
    found: list[float] = []

    async def consume() -> None:
        while len(found) < LATENCIES and (messages := await client.receive(FRESH, 5)):
            now = time.perf_counter()
            found.extend(now - float(one.body) for one in messages)

    consumers = [asyncio.ensure_future(consume()) for _ in range(8)]
    await asyncio.sleep(1)  # they wait
    began, sends = time.perf_counter(), []
    for number in range(LATENCIES):
        await asyncio.sleep(max(began + number / RATE - time.perf_counter(), 0))
        sends.append(asyncio.ensure_future(client.send(b"%f" % time.perf_counter())))
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
    await client.drain(GROUP)
    before = target.rss_mib()
    polls = [asyncio.ensure_future(client.receive(GROUP, 10)) for _ in range(IDLE_POLLS)]
    await asyncio.sleep(6)
    grown = target.rss_mib() - before
    await asyncio.gather(*polls)
    return [at_most(f"{IDLE_POLLS:,} polls that wait: memory", grown, "MiB", 64)]


# -- what Pulsar's clients feel of it ------------------------------------------------------------------


async def waiting_polls(load: Load) -> Disturbance:
    """A thousand polls wait for messages that do not come."""

    @asynccontextmanager
    async def attack() -> AsyncIterator[None]:
        client = Client(int(os.environ[PORT_NAME]))
        polls = [asyncio.ensure_future(client.receive(GROUP, 20)) for _ in range(IDLE_POLLS)]
        await asyncio.sleep(3)  # all of them wait
        yield
        await _hang_up(client, polls)

    return attack


async def busy_polls(load: Load) -> Disturbance:
    """Some clients poll again as soon as they are answered, ten times a second each."""

    @asynccontextmanager
    async def attack() -> AsyncIterator[None]:
        client = Client(int(os.environ[PORT_NAME]))

        async def poll() -> None:
            while True:
                await client.receive(GROUP, 0.1)

        polls = [asyncio.ensure_future(poll()) for _ in range(BUSY_POLLS)]
        yield
        await _hang_up(client, polls)

    return attack


async def _hang_up(client: Client, polls: list[asyncio.Future[Any]]) -> None:
    for one in polls:
        one.cancel()
    await asyncio.gather(*polls, return_exceptions=True)
    await client.close()
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
        await link.produce(f"persistent://public/default/{TOPIC.name}", 0)
        for name in ATTACKS:
            async with Attacker(__name__, name, target.url) as attacker:
                rounds = ROUNDS_FULL if bench.FULL else ROUNDS
                beside = await compare(load, "beside", attacker.attack, rounds=rounds)
            told = f"{name}: p99 of Pulsar's publishing {beside.quiet_ms:.2f} ms, "
            told += f"beside it {beside.busy_ms:.2f}"
            results.append(at_most(told, beside.growth, "x", GROWTH_MAX))
    return results
