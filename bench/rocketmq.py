"""RocketMQ's calls on a broker of its own process: sends, receives with acks, latency, polls that wait.

    python -m bench rocketmq

The load is a bare gRPC client in Python on the same machine, which takes about as much of it as the broker
does; rates are of both together. CPU is the broker's alone. Every receipt and every ack is on disk.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc

from bench import Result, at_most
from milepost.rocketmq import rocketmq_pb2 as pb
from milepost.rocketmq.codes import Code
from milepost.rocketmq.server import SERVICE

SENDS, LATENCIES, IDLE_POLLS = 2000, 2000, 1000
RATE = 1000
START_S = 60
TOPIC = pb.Resource(name="bench")
HEADERS = (("x-mq-client-id", "bench"), ("x-mq-language", "PYTHON"))


class Target:
    """A broker in a process of its own."""

    def __init__(self, folder: str) -> None:
        ready = Path(folder, "ready")
        command = [sys.executable, "-m", "milepost.cli.main", "serve", "--host", "127.0.0.1"]
        command += ["--port", "0", "--http-port", "0", "--rocketmq-port", "0"]
        command += ["--data", f"{folder}/data", "--ready-file", str(ready)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + START_S
        while not ready.exists():
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise RuntimeError("milepost serve does not start")
            time.sleep(0.1)
        self.ports = json.loads(ready.read_text())

    def make_topic(self) -> None:
        command = [sys.executable, "-m", "milepost.cli.main", "topics", "create", TOPIC.name]
        url = f"http://127.0.0.1:{self.ports['http_port']}"
        subprocess.run([*command, "--admin-url", url], check=True, stdout=subprocess.DEVNULL)

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def rss_mib(self) -> float:
        lines = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


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

    def _method(self, name: str, request: Any, answer: Any) -> Any:
        path = f"/{SERVICE}/{name}"
        return self._channel.unary_unary(path, request.SerializeToString, answer.FromString)

    async def send(self, body: bytes = bytes(100)) -> None:
        system = pb.SystemProperties(message_id="id", body_encoding=pb.IDENTITY)
        message = pb.Message(topic=TOPIC, system_properties=system, body=body)
        answer = await self._send(pb.SendMessageRequest(messages=[message]), metadata=HEADERS)
        if answer.status.code != Code.OK:
            raise RuntimeError(answer.status.message)

    async def receive(self, group: str, wait_s: float = 20) -> list[pb.Message]:
        request = pb.ReceiveMessageRequest(
            group=pb.Resource(name=group),
            message_queue=pb.MessageQueue(topic=TOPIC),
            batch_size=32,
        )
        request.invisible_duration.FromSeconds(600)
        request.long_polling_timeout.FromMilliseconds(int(wait_s * 1000))
        answers = [one async for one in self._poll(request, metadata=HEADERS, timeout=wait_s + 10)]
        return [one.message for one in answers if one.HasField("message")]

    async def ack(self, group: str, message: pb.Message) -> None:
        system = message.system_properties
        entry = pb.AckMessageEntry(
            message_id=system.message_id, receipt_handle=system.receipt_handle
        )
        request = pb.AckMessageRequest(group=pb.Resource(name=group), topic=TOPIC, entries=[entry])
        await self._ack(request, metadata=HEADERS)

    async def drain(self, group: str) -> None:
        while messages := await self.receive(group, 1):
            await asyncio.gather(*(self.ack(group, one) for one in messages))

    async def close(self) -> None:
        await self._channel.close()


def run() -> Iterator[Result]:
    with tempfile.TemporaryDirectory(prefix="milepost-bench-") as folder:
        target = Target(folder)
        try:
            target.make_topic()
            yield from asyncio.run(_all(target))
        finally:
            target.close()


async def _all(target: Target) -> list[Result]:
    client = Client(target.ports["rocketmq_port"])
    results = [
        *await _sends(target, client, 1),
        *await _sends(target, client, 16),
        *await _receives(target, client),
        *await _latency(client),
        *await _idle_polls(target, client),
    ]
    await client.close()
    return results


async def _sends(target: Target, client: Client, producers: int) -> list[Result]:
    each = SENDS // producers

    async def produce() -> None:
        for _ in range(each):
            await client.send()

    cpu_s, began = target.cpu_s(), time.perf_counter()
    await asyncio.gather(*(produce() for _ in range(producers)))
    rate = producers * each / (time.perf_counter() - began)
    cpu_ms = (target.cpu_s() - cpu_s) * 1000 / (producers * each)
    name = "send, one after another" if producers == 1 else f"send, {producers} at once"
    return [Result(name, rate, "/s"), Result("… CPU of the broker a message", cpu_ms, "ms")]


async def _receives(target: Target, client: Client) -> list[Result]:
    """Everything that was sent, by sixteen consumers; an ack a message."""
    left = 2 * (SENDS // 16 * 16)
    cpu_s, began, count = target.cpu_s(), time.perf_counter(), 0

    async def consume() -> None:
        nonlocal count
        while count < left - 32 * 16 and (messages := await client.receive("g", 1)):
            for one in messages:
                await client.ack("g", one)
            count += len(messages)

    await asyncio.gather(*(consume() for _ in range(16)))
    rate = count / (time.perf_counter() - began)
    cpu_ms = (target.cpu_s() - cpu_s) * 1000 / count
    return [
        Result("receive and ack, 16 consumers", rate, "/s"),
        Result("… CPU of the broker a message", cpu_ms, "ms"),
    ]


async def _latency(client: Client) -> list[Result]:
    """From the call of a send to the message in the hands of a consumer that waits."""
    await client.drain("fresh")
    found: list[float] = []

    async def consume() -> None:
        while len(found) < LATENCIES and (messages := await client.receive("fresh", 5)):
            now = time.perf_counter()
            found.extend(now - float(one.body) for one in messages)

    consumers = [asyncio.ensure_future(consume()) for _ in range(8)]
    began, sends = time.perf_counter(), []
    for number in range(LATENCIES):
        await asyncio.sleep(max(began + number / RATE - time.perf_counter(), 0))
        sends.append(asyncio.ensure_future(client.send(b"%f" % time.perf_counter())))
    await asyncio.gather(*sends)
    await asyncio.gather(*consumers)
    took = sorted(found)
    name = f"send → receive at {RATE:,}/s"
    return [
        Result(f"{name}: p50", took[len(took) // 2] * 1000, "ms"),
        Result(f"{name}: p99", took[len(took) * 99 // 100] * 1000, "ms"),
    ]


async def _idle_polls(target: Target, client: Client) -> list[Result]:
    await client.drain("g")
    before = target.rss_mib()
    polls = [asyncio.ensure_future(client.receive("g", 15)) for _ in range(IDLE_POLLS)]
    await asyncio.sleep(8)
    grown = target.rss_mib() - before
    await asyncio.gather(*polls)
    return [at_most(f"{IDLE_POLLS:,} polls that wait: memory", grown, "MiB", 64)]
