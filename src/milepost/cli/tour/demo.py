"""`milepost demo`: a short tour that checks what it shows.

A broker in a process of its own, the official Pulsar client, a batch of ten messages, two of them
acknowledged, `kill -9`, a restart: the other eight come back, and nothing else does. Then events are
archived by Spark, verified, and a picture is drawn (`demo_lake.py`). Each step says what it does and why;
the data directory is temporary; it ends by itself within two minutes.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from milepost.cli.exits import CommandFailed, Exit
from milepost.cli.tour import demo_lake
from milepost.cli.tour.tour import expect, step, told

TOPIC = "persistent://public/default/orders"
SUBSCRIPTION = "billing"
ORDERS = [f"order-{number}" for number in range(10)]
ACKED = ["order-3", "order-7"]

START_TIMEOUT_S = 30.0
ACKS_ON_DISK_S = 0.1
CLIENT_TIMEOUT_S = 30
# Long enough for a message that should not come to come.
SILENCE_MS = 1000


@click.command(
    help="A short tour: publish a batch, crash the broker, see what comes back; then archive events with "
    "Spark, verify them and draw a picture."
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default="milepost-demo",
    show_default=True,
    help="Where to write the picture.",
)
@click.option(
    "--cluster",
    "is_cluster",
    is_flag=True,
    help="Another tour: three brokers on a bucket, one of them killed in the middle.",
)
def demo(out: Path, is_cluster: bool) -> None:
    pulsar = _official_client()
    if is_cluster:
        from milepost.cli.tour import demo_cluster

        demo_cluster.show(pulsar)
        return
    with tempfile.TemporaryDirectory(prefix="milepost-demo-") as folder:
        broker = BrokerProcess(Path(folder))
        try:
            _tour(broker, pulsar)
            demo_lake.show(broker.ready, pulsar, Path(folder), out, first=7)
        finally:
            broker.kill()
    click.echo("\nNext: `make run` starts a broker to keep, and prints where its console is.")
    click.echo("README.md says what else there is.")


def _official_client() -> ModuleType:
    try:
        return importlib.import_module("pulsar")
    except ImportError:
        raise CommandFailed(
            "the tour needs the official Pulsar client; pip install pulsar-client", Exit.USAGE
        ) from None


def _tour(broker: BrokerProcess, pulsar: ModuleType) -> None:
    click.echo("Milepost in a minute: a crash in the middle of a batch, and nothing lost.")

    step(1, "Start a broker on a free port, with an empty data directory.")
    told(f"{broker.start()['pulsar_url']} is up {broker.took}")

    step(2, "Publish ten orders as one batch, with the official Pulsar client.")
    with Client(broker, pulsar) as client:
        consumer = client.subscribe()
        client.publish(ORDERS)
        told("The batch is one entry on disk; each order in it has an index of its own, 0 to 9.")
        told("A receipt means: on stable storage. All ten have theirs.")

        step(3, f"Read all ten, and acknowledge two of them: {' and '.join(ACKED)}.")
        received = [consumer.receive(CLIENT_TIMEOUT_S * 1000) for _ in ORDERS]
        expect("received", ORDERS, [_text(message) for message in received])
        for message in received:
            if _text(message) in ACKED:
                consumer.acknowledge(message)
        told(f"{broker.progress(acked=2)}: together always ten, counted in messages.")
    # The broker has the acks, and wrote them in the same breath; it was not asked to say when it was
    # done. A disk is given a hundred times what it needs.
    time.sleep(ACKS_ON_DISK_S)

    step(4, "Kill the broker with kill -9: no goodbye, no last flush.")
    broker.kill()
    told("It is gone.")

    step(5, "Start it again on the same directory.")
    broker.start()
    told(f"It read its journal and is up again {broker.took}")

    step(6, "Subscribe again under the same name, and see what comes.")
    left = [order for order in ORDERS if order not in ACKED]
    with Client(broker, pulsar) as client:
        consumer = client.subscribe()
        again = [_text(consumer.receive(CLIENT_TIMEOUT_S * 1000)) for _ in left]
        told(" ".join(again))
        expect("received after the crash", left, again)
        try:
            surplus = _text(consumer.receive(SILENCE_MS))
        except pulsar.Timeout:
            surplus = None
        expect("one more", None, surplus)
        told(f"{broker.progress(acked=2)}.")
    told("The other eight, and only they: acks inside a batch survive a crash here.")


class Client:
    """The official client, as the tour uses it."""

    def __init__(self, broker: BrokerProcess, pulsar: ModuleType) -> None:
        self._pulsar = pulsar
        self._client = pulsar.Client(
            broker.ready["pulsar_url"],
            operation_timeout_seconds=CLIENT_TIMEOUT_S,
            logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self._client.close()

    def subscribe(self) -> Any:
        return self._client.subscribe(
            TOPIC,
            SUBSCRIPTION,
            consumer_type=self._pulsar.ConsumerType.Shared,
            initial_position=self._pulsar.InitialPosition.Earliest,
            batch_index_ack_enabled=True,
        )

    def publish(self, texts: list[str]) -> None:
        """All of them in one batch; returns when every receipt is there."""
        producer = self._client.create_producer(
            TOPIC,
            batching_enabled=True,
            batching_max_messages=len(texts),
            batching_max_publish_delay_ms=1000,
        )
        refused: list[str] = []

        def answered(result: Any, message_id: Any) -> None:
            if result != self._pulsar.Result.Ok:
                refused.append(str(result))

        for text in texts:
            producer.send_async(text.encode(), answered)
        producer.flush()
        expect("refused", [], refused)


class BrokerProcess:
    """`milepost serve` as a child, so that it can be killed without mercy."""

    def __init__(self, folder: Path) -> None:
        self.ready: dict[str, Any] = {}
        self.took = ""
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> dict[str, Any]:
        ready_file, log = self._folder / "ready.json", self._folder / "log"
        ready_file.unlink(missing_ok=True)
        command = [sys.executable, "-m", "milepost.cli.main", "serve", "--port", "0"]
        command += ["--http-port", "0", "--data", str(self._folder / "data")]
        command += ["--ready-file", str(ready_file)]
        # The tour shows the defaults, whatever is set where it runs.
        kept = {k: v for k, v in os.environ.items() if not re.match("MILEPOST_|PULSAR_PREFIX_", k)}
        began = time.perf_counter()
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(  # noqa: S603  # this program itself
                command, stdout=subprocess.DEVNULL, stderr=stderr, env=kept
            )
        while not ready_file.exists():
            if self._process.poll() is not None:
                lines = log.read_text("utf-8").splitlines() or ["it said nothing"]
                raise CommandFailed(f"the broker did not start: {lines[-1]}", Exit.FAILED)
            if time.perf_counter() - began > START_TIMEOUT_S:
                raise CommandFailed(
                    f"the broker was not up within {START_TIMEOUT_S:g} s", Exit.FAILED
                )
            time.sleep(0.01)
        self.took = f"after {time.perf_counter() - began:.1f} s"
        self.ready = json.loads(ready_file.read_text("utf-8"))
        return self.ready

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def progress(self, *, acked: int) -> str:
        """The subscription's three states, once so many are acked: the client groups its acks."""
        deadline = time.perf_counter() + CLIENT_TIMEOUT_S
        while (counts := self._counts())["acked"] < acked and time.perf_counter() < deadline:
            time.sleep(0.01)
        expect("messages acked", acked, counts["acked"])
        states = [counts[name] for name in ("ready", "inflight", "delayed", "acked")]
        expect("messages counted", len(ORDERS), sum(states))
        return f"acked {acked}, inflight {counts['inflight']}, ready {counts['ready']}"

    def _counts(self) -> dict[str, int]:
        url = f"{self.ready['http_url']}/metrics"
        with urllib.request.urlopen(url, timeout=CLIENT_TIMEOUT_S) as answer:  # noqa: S310
            text = answer.read().decode()
        found = re.findall(
            rf'^milepost_subscription_(\w+)\{{.*subscription="{SUBSCRIPTION}".*\}} (\d+)',
            text,
            re.M,
        )
        return {name: int(value) for name, value in found}


def _text(message: Any) -> str:
    data: bytes = message.data()
    return data.decode()


if __name__ == "__main__":
    from milepost.cli.main import run

    sys.exit(run(["demo", *sys.argv[1:]]))
