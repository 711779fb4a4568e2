"""Several brokers on a bucket: how long clients wait when a shard moves, or its broker dies or is cut off.

    python -m bench cluster
    python -m bench --full cluster                 # more rounds

Three brokers share a bucket that is a folder, on this machine, and one official client publishes without a
pause, each message when the one before is answered. The wait is the longest time that one publish took. A
broker that is cut off is one whose processes are all stopped: no packet comes from it any more; the time is
that until a client of the other brokers has published. What opening a shard takes is the time from the death
of its process until one of its topics is served again.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count, islice
from pathlib import Path
from typing import Any

import pulsar

import bench
from bench import Result, at_most
from milepost.broker.workers.placement import shard_of
from milepost.positions.names import TopicName

BROKERS = 3
SHARDS = 4
TOPIC = "persistent://public/default/bench"
WAIT_S = 90.0
MOVES, MOVES_FULL = 20, 100
KILLS, KILLS_FULL = 6, 20
CUTS, CUTS_FULL = 2, 5
TOPICS = 10_000
CALLERS = 16

MOVE_MS_MAX = 500.0
KILL_S_MAX = 3.0
CUT_S_MAX = 10.0
OPEN_S_MAX = 5.0


class Member:
    """A broker of the cluster."""

    def __init__(self, folder: Path, number: int) -> None:
        self._folder = folder / f"broker-{number}"
        self._folder.mkdir()
        self._bucket = (folder / "bucket").as_uri()
        self._ready = self._folder / "ready.json"
        self._process: subprocess.Popen[bytes] | None = None
        self.port = self.http_port = 0

    def start(self) -> None:
        """Start; it is up when `is_up` says so."""
        self._ready.unlink(missing_ok=True)
        command = [sys.executable, "-m", "milepost.cli.main", "serve", "--host", "127.0.0.1"]
        command += ["--port", str(self.port), "--http-port", str(self.http_port)]
        command += ["--data", str(self._folder / "data"), "--ready-file", str(self._ready)]
        command += ["--bucket", self._bucket, "--log-level", "warning"]
        command += ["--set", f"shards={SHARDS}", "--set", "balance_by_load=false"]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log)
        until(lambda: self._ready.exists(), "a broker starts")
        ready = self.ready()
        self.port, self.http_port = ready["port"], ready["http_port"]

    @property
    def is_up(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def ready(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._ready.read_text())
        return found

    def shards(self) -> dict[int, int]:
        """Its shards, with their processes."""
        with suppress(FileNotFoundError):
            return {one["number"]: one["pid"] for one in self.ready()["shards"]}
        return {}

    def signal(self, *numbers: signal.Signals) -> None:
        """To all of its processes, one signal after the other."""
        ready = self.ready()
        pids = [ready["pid"], ready["agent"], *(one["pid"] for one in ready["shards"])]
        for number in numbers:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)

    def kill(self) -> None:
        if self.is_up:
            assert self._process is not None
            with suppress(FileNotFoundError):  # it never became ready
                self.signal(signal.SIGSTOP, signal.SIGKILL)
            self._process.kill()
            self._process.wait()

    def call(self, method: str, path: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.http_port, timeout=WAIT_S)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            answer.read()
            return answer.status
        finally:
            connection.close()


class Cluster:
    def __init__(self, folder: Path) -> None:
        self.members = [Member(folder, number) for number in range(BROKERS)]

    def start(self) -> None:
        """Start brokers that are not up; return when every one has a shard."""
        for one in self.members:
            if not one.is_up:
                one.start()

        def is_shared() -> bool:
            held = [set(one.shards()) for one in self.members]
            return all(held) and sum(map(len, held)) == SHARDS == len(set().union(*held))

        until(is_shared, "the brokers share the shards")

    def owner(self, shard: int) -> Member:
        found: list[Member] = []

        def is_owned() -> bool:
            found[:] = [one for one in self.members if one.is_up and shard in one.shards()]
            return len(found) == 1

        until(is_owned, "a shard has one broker")
        return found[0]

    def client(self, members: list[Member]) -> pulsar.Client:
        return pulsar.Client(
            "pulsar://" + ",".join(f"127.0.0.1:{one.port}" for one in members),
            operation_timeout_seconds=30,
            logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull),
        )

    def end(self) -> None:
        for one in self.members:
            one.kill()


class Load:
    """An official producer that publishes without a pause, and how long it waited."""

    def __init__(self, client: pulsar.Client) -> None:
        self._producer = client.create_producer(TOPIC, send_timeout_millis=0)
        self._over = threading.Event()
        self._began = time.monotonic()
        self._longest = 0.0
        self.sent = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.is_set():
            self._began = time.monotonic()
            self._producer.send(b"x" * 100)
            self._longest = max(self._longest, time.monotonic() - self._began)
            self.sent += 1

    def longest_during(self, event: Callable[[], None]) -> float:
        """The longest publish from the event on, until many went through behind it."""
        self._longest = 0.0
        event()
        before = self.sent
        until(lambda: self.sent >= before + 50, "the load goes on")
        return self._longest

    def end(self) -> None:
        self._over.set()
        self._thread.join()


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():
        if time.monotonic() > deadline:
            raise RuntimeError(f"not within {WAIT_S:g} s: {what}")
        time.sleep(0.005)


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


def moves(cluster: Cluster, load: Load, rounds: int) -> list[float]:
    """How long the producer waited in each move, in milliseconds."""
    shard, waits = shard_of(TopicName.parse(TOPIC), SHARDS), []
    path = f"/admin/v2/{TOPIC.replace('://', '/')}/unload?destinationBroker="
    for number in range(rounds):
        owner = cluster.owner(shard)
        others = [one for one in cluster.members if one is not owner]
        to = others[number % len(others)]

        def move(owner: Member = owner, to: Member = to) -> None:
            status = owner.call("PUT", f"{path}127.0.0.1:{to.http_port}")
            assert status == 204, status

        waits.append(load.longest_during(move) * 1000)
        time.sleep(0.5)  # what the move left behind is over
    return waits


def kills(cluster: Cluster, load: Load, rounds: int) -> list[float]:
    """The same when the broker of the topic is killed, in seconds."""
    shard, waits = shard_of(TopicName.parse(TOPIC), SHARDS), []
    for _ in range(rounds):
        waits.append(load.longest_during(cluster.owner(shard).kill))
        cluster.start()
        time.sleep(1.0)  # the new one is at rest
    return waits


def cuts(cluster: Cluster, rounds: int) -> list[float]:
    """How long after its broker is cut off a topic is served by another, in seconds."""
    shard, waits = shard_of(TopicName.parse(TOPIC), SHARDS), []
    for _ in range(rounds):
        owner = cluster.owner(shard)
        client = cluster.client([one for one in cluster.members if one is not owner])
        owner.signal(signal.SIGSTOP)
        began = time.monotonic()
        client.create_producer(TOPIC).send(b"x")
        waits.append(time.monotonic() - began)
        client.close()
        owner.signal(signal.SIGCONT)
        until(lambda owner=owner: shard not in owner.shards(), "it lets go")  # type: ignore[misc]
        cluster.start()
    return waits


def names(shard: int) -> Iterator[str]:
    """Topics of one shard."""
    every = (f"persistent://public/default/many-{number}" for number in count())
    return (one for one in every if shard_of(TopicName.parse(one), SHARDS) == shard)


def opened(cluster: Cluster) -> float:
    """How long a shard of many topics takes from the death of its process on, in seconds."""
    shard = 0
    owner = cluster.owner(shard)
    wanted = list(islice(names(shard), TOPICS))

    def make(some: list[str]) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", owner.http_port, timeout=WAIT_S)
        for name in some:
            connection.request("PUT", f"/admin/v2/{name.replace('://', '/')}")
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 204, answer.status
        connection.close()

    with ThreadPoolExecutor(CALLERS) as callers:
        list(callers.map(make, (wanted[number::CALLERS] for number in range(CALLERS))))
    last = f"/admin/v2/{wanted[-1].replace('://', '/')}/stats"
    os.kill(owner.shards()[shard], signal.SIGKILL)
    began = time.monotonic()

    def is_served() -> bool:
        # A connection that was on its way to the process that died is reset.
        with suppress(ConnectionError, http.client.HTTPException):
            status = owner.call("GET", last)
            assert status in (200, 503), status
            return status == 200
        return False

    until(is_served, "the shard is served again")
    return time.monotonic() - began


def run() -> Iterator[Result]:
    full = bench.FULL
    folder = Path(tempfile.mkdtemp(prefix="milepost-bench-"))
    cluster = Cluster(folder)
    try:
        cluster.start()
        client = cluster.client(cluster.members)
        load = Load(client)
        time.sleep(2.0)
        quiet = load.longest_during(lambda: time.sleep(2.0)) * 1000
        yield Result("a publish in the meantime, longest", quiet, "ms")
        moved = moves(cluster, load, MOVES_FULL if full else MOVES)
        yield Result(
            f"a producer's wait when its shard moves, p50 of {len(moved)}",
            quantile(moved, 0.5),
            "ms",
        )
        yield at_most(f"the same, p99 of {len(moved)}", quantile(moved, 0.99), "ms", MOVE_MS_MAX)
        killed = kills(cluster, load, KILLS_FULL if full else KILLS)
        yield Result(
            f"a producer's wait when its broker is killed, p50 of {len(killed)}",
            quantile(killed, 0.5),
            "s",
        )
        yield at_most(f"the same, p95 of {len(killed)}", quantile(killed, 0.95), "s", KILL_S_MAX)
        load.end()
        client.close()
        cut = cuts(cluster, CUTS_FULL if full else CUTS)
        yield at_most(
            f"a topic without a broker after a cut, longest of {len(cut)}", max(cut), "s", CUT_S_MAX
        )
        yield at_most(f"opening a shard with {TOPICS:,} topics", opened(cluster), "s", OPEN_S_MAX)
    finally:
        cluster.end()
        shutil.rmtree(folder, ignore_errors=True)
