"""`milepost demo --cluster`: three brokers on one bucket, one of them killed in the middle, nothing lost.

The bucket is a folder of this machine, the client is the official one. Orders are published one after the
other, each with its receipt, while the broker that has their topic is killed with all its processes. Another
one takes over; the producer only waits. Then every order is read once, in order, and the bucket is verified.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import click

from milepost.broker.workers.placement import shard_of
from milepost.cli.exits import CommandFailed, Exit
from milepost.cli.server.verify_bucket import check_bucket
from milepost.cli.tour.tour import expect, step, told
from milepost.positions.names import TopicName

TOPIC: Final = "persistent://public/default/orders"
BROKERS: Final = 3
SHARDS: Final = 3
ORDERS: Final = 300
# The broker is killed when so many orders have their receipts.
KILL_AT: Final = 100
START_TIMEOUT_S: Final = 60.0
SEND_TIMEOUT_MS: Final = 60_000
CLIENT_TIMEOUT_S: Final = 30


def show(pulsar: ModuleType) -> None:
    """Run the tour; `CommandFailed` if a promise does not hold."""
    with tempfile.TemporaryDirectory(prefix="milepost-demo-") as folder:
        bucket = (Path(folder) / "bucket").as_uri()
        brokers = [Broker(Path(folder) / f"broker-{n}", bucket) for n in range(1, BROKERS + 1)]
        try:
            _tour(brokers, bucket, pulsar, Path(folder) / "client.log")
        finally:
            for broker in brokers:
                broker.kill()
    click.echo("\nNext: docs/cluster.md says how to run a cluster, and deploy/ has examples.")


def _tour(brokers: list[Broker], bucket: str, pulsar: ModuleType, log: Path) -> None:
    click.echo("Three brokers and a bucket: one dies in the middle, and nothing is lost.")

    step(1, f"Start {BROKERS} brokers on an empty bucket, a folder of this machine.")
    began = time.perf_counter()
    for broker in brokers:
        broker.start()
    _await_balance(brokers)
    told(f"They share {SHARDS} shards after {time.perf_counter() - began:.1f} s; none keeps data.")

    step(2, f"Publish {ORDERS} orders with the official Pulsar client, each with its receipt.")
    client = pulsar.Client(
        "pulsar://" + ",".join(f"127.0.0.1:{broker.port}" for broker in brokers),
        operation_timeout_seconds=CLIENT_TIMEOUT_S,
        # A client without its broker has much to say.
        logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, str(log)),
    )
    try:
        publishing = Publishing(client)
        publishing.await_count(KILL_AT)
        owner = _owner(brokers)
        told(f"{owner.name} has their topic; {KILL_AT} orders have receipts.")

        step(3, f"Kill {owner.name} with kill -9, all its processes, while orders go on.")
        owner.kill()
        publishing.await_count(ORDERS)
        heir = _owner([one for one in brokers if one is not owner])
        told(
            f"{heir.name} has taken over; the producer waited {publishing.longest_s:.1f} s at most."
        )
        told(f"All {ORDERS} orders have receipts now.")

        step(4, "Read the topic from its beginning.")
        reader = client.create_reader(TOPIC, pulsar.MessageId.earliest)
        found = [int(reader.read_next(SEND_TIMEOUT_MS).data()) for _ in range(ORDERS)]
        expect("read", list(range(ORDERS)), found)
        expect("more to read", False, reader.has_message_available())
        told(f"{ORDERS} orders, each once, in order: none lost, none doubled.")
    finally:
        client.close()

    step(5, "Verify the bucket, while the two brokers serve it.")
    report = check_bucket(bucket)
    expect("damage", [], report.all_problems)
    (topic,) = [one for one in report.topics if one.name == TOPIC]
    expect("messages in the bucket", ORDERS, topic.end_index - topic.first_index)
    told("Every object is there, and every entry intact.")


class Publishing:
    """Orders that are published one after the other, on a thread of their own."""

    def __init__(self, client: Any) -> None:
        self._producer = client.create_producer(
            TOPIC, producer_name="till", send_timeout_millis=SEND_TIMEOUT_MS
        )
        self._news = threading.Condition()
        self._count = 0
        self._failure: str | None = None
        self.longest_s = 0.0
        """How long an order waited for its receipt at most."""
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        for number in range(ORDERS):
            began = time.perf_counter()
            try:
                self._producer.send(b"%d" % number)
            except Exception as error:  # of the client's own classes
                self._failure = f"{type(error).__name__}: {error}"
            with self._news:
                self.longest_s = max(self.longest_s, time.perf_counter() - began)
                self._count += 1
                self._news.notify_all()
            if self._failure is not None:
                return

    def await_count(self, count: int) -> None:
        """Return when so many orders have their receipts."""
        with self._news:
            self._news.wait_for(
                lambda: self._count >= count or self._failure is not None, START_TIMEOUT_S
            )
            expect("failures", None, self._failure)
            expect(f"{count} receipts", True, self._count >= count)


class Broker:
    """`milepost serve --bucket … --shards …` as a child, with all its processes."""

    def __init__(self, folder: Path, bucket: str) -> None:
        folder.mkdir()
        self.name = folder.name
        self._ready_file = folder / "ready.json"
        self._log = folder / "log"
        self._command = [sys.executable, "-m", "milepost.cli.main", "serve", "--port", "0"]
        self._command += ["--http-port", "0", "--data", str(folder / "data"), "--bucket", bucket]
        self._command += ["--shards", str(SHARDS), "--ready-file", str(self._ready_file)]
        self._command += ["--set", "deduplication=true"]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        kept = {k: v for k, v in os.environ.items() if not re.match("MILEPOST_|PULSAR_PREFIX_", k)}
        with self._log.open("ab") as stderr:
            self._process = subprocess.Popen(  # noqa: S603  # this program itself
                self._command, stdout=subprocess.DEVNULL, stderr=stderr, env=kept
            )

    def ready(self) -> dict[str, Any] | None:
        """What it says of itself; None before it is up."""
        if self._process is not None and self._process.poll() is not None:
            lines = self._log.read_text("utf-8").splitlines() or ["it said nothing"]
            raise CommandFailed(f"{self.name} did not start: {lines[-1]}", Exit.FAILED)
        try:
            found: dict[str, Any] = json.loads(self._ready_file.read_text("utf-8"))
        except FileNotFoundError:
            return None
        return found

    def shards(self) -> set[int]:
        ready = self.ready()
        return set() if ready is None else {one["number"] for one in ready["shards"]}

    @property
    def port(self) -> int:
        ready = self.ready()
        assert ready is not None
        return int(ready["pulsar_url"].rpartition(":")[2])

    def kill(self) -> None:
        if self._process is None:
            return
        ready = self.ready() if self._process.poll() is None else None
        processes = [self._process.pid]
        if ready is not None:
            processes += [ready["agent"], *(one["pid"] for one in ready["shards"])]
        # Stopped first: none of them may see another one die, and drain.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in processes:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
        self._process.wait()
        self._process = None


def _await_balance(brokers: list[Broker]) -> None:
    """Return when each broker has a shard."""
    deadline = time.perf_counter() + START_TIMEOUT_S
    while True:
        held = [broker.shards() for broker in brokers]
        if all(held) and sum(map(len, held)) == SHARDS:
            return
        if time.perf_counter() > deadline:
            raise CommandFailed(
                f"the brokers did not share their shards within {START_TIMEOUT_S:g} s: {held}",
                Exit.FAILED,
            )
        time.sleep(0.05)


def _owner(brokers: list[Broker]) -> Broker:
    """The broker that has the topic."""
    shard = shard_of(TopicName.parse(TOPIC), SHARDS)
    deadline = time.perf_counter() + START_TIMEOUT_S
    while time.perf_counter() < deadline:
        for broker in brokers:
            if shard in broker.shards():
                return broker
        time.sleep(0.05)
    raise CommandFailed(f"no broker has shard {shard}", Exit.FAILED)
