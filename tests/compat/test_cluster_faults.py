"""Three brokers behind proxies that make trouble, killed, paused and cut off under load: nothing is lost.

Each round has a cluster of its own. Official clients publish to topics of different shards and consume them;
Milepost's client consumes too, with acks that are answered, and comes anew every few seconds, so that what
it acked durably must not come again. A nemesis kills brokers and processes of shards, pauses brokers, moves
shards, cuts brokers off from the store, and lets the store be slow, refuse requests, and lose the answers of
requests that it has carried out. At the end all faults are over, everything is read,
`milepost.testing.checker` judges the history, and `milepost verify` the bucket.

`make cluster` runs it: `ROUNDS` of `SECONDS` each. `MILEPOST_S3=http://…` names another store, with the
bucket `milepost` in it and the usual credentials; otherwise it is one in memory that speaks S3.
"""

from __future__ import annotations

import http.client
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import pulsar
import pytest
from compat.broker_process import BrokerProcess
from compat.test_cluster import SHARDS, WAIT_S, Cluster, connected, place_of
from stage.s3 import S3Server
from stage.store_proxy import FINE, StoreProxy, Weather

import milepost
from milepost.broker.workers.placement import shard_of
from milepost.cli.server.verify_bucket import check_bucket
from milepost.errors import MilepostError
from milepost.positions.names import TopicName
from milepost.testing.checker import History, judge_file

ROUNDS = int(os.environ.get("MILEPOST_CLUSTER_ROUNDS", "8"))
SECONDS = float(os.environ.get("MILEPOST_CLUSTER_SECONDS", "60"))

pytestmark = [
    pytest.mark.skipif(not os.environ.get("MILEPOST_CLUSTER"), reason="a target: make cluster"),
    pytest.mark.timeout(600 + 3 * SECONDS),
]


def topics() -> list[str]:
    """One for each of the first three shards."""
    found: dict[int, str] = {}
    for number in range(1000):
        name = f"persistent://public/default/faults-{number}"
        found.setdefault(shard_of(TopicName.parse(name), SHARDS), name)
    return [found[shard] for shard in range(min(SHARDS, 3))]


class Load:
    """Threads that publish and consume until they are told to stop."""

    def __init__(self, history: History, brokers: list[BrokerProcess], seed: int) -> None:
        self.history = history
        self.brokers = brokers
        self.random = Random(seed)
        self.over = threading.Event()
        self.published: dict[str, int] = {}
        self.failures: list[str] = []
        self.client = connected(brokers)
        self._threads: list[threading.Thread] = []

    def start(self, names: list[str]) -> None:
        for name in names:
            self.history.note("topic", topic=name, deduplicated=True)
            for work in (self.publish, self.consume, self.consume_ours):
                thread = threading.Thread(target=self._run, args=(work, name), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _run(self, work: Any, name: str) -> None:
        try:
            work(name)
        except BaseException as error:
            self.failures.append(f"{work.__name__} {name}: {type(error).__name__}: {error}")
            raise

    def stop(self) -> None:
        self.over.set()
        for thread in self._threads:
            thread.join(2 * WAIT_S)
        assert not self.failures, self.failures
        assert not any(thread.is_alive() for thread in self._threads), "a thread does not end"

    def publish(self, name: str) -> None:
        producer = self.client.create_producer(
            name, producer_name="p", send_timeout_millis=0, block_if_queue_full=True
        )

        def told(asked: int, result: pulsar.Result, sent: pulsar.MessageId) -> None:
            if result.value:
                self.history.unknown(asked)
            else:
                self.history.ok(asked, id=place_of(sent) if sent.entry_id() >= 0 else None)

        n = 0
        while not self.over.is_set():
            asked = self.history.invoke("publish", topic=name, message=f"{n}", by="p")
            producer.send_async(
                b"%d" % n, lambda result, sent, asked=asked: told(asked, result, sent)
            )
            n += 1
            time.sleep(0.01)  # sleep: a steady load, not as fast as it goes
        self.published[name] = n
        producer.flush()

    def consume(self, name: str) -> None:
        consumer = self.client.subscribe(name, "official", pulsar.ConsumerType.Shared)
        by = f"official-{name[-3:]}"
        self.history.note("join", topic=name, sub="official", by=by, mode="queue")
        while not self.over.is_set():
            with suppress(pulsar.Timeout):
                message = consumer.receive(200)
                text, place = message.data().decode(), place_of(message.message_id())
                self.history.note(
                    "receive", topic=name, sub="official", by=by, message=text, id=place
                )
                consumer.acknowledge(message)

    def consume_ours(self, name: str) -> None:
        """Come anew every few seconds: what was acked durably before must not come again."""
        url = "pulsar://" + ",".join(f"127.0.0.1:{one.port}" for one in self.brokers)
        life = 0
        while not self.over.is_set():
            life += 1
            with (
                suppress(MilepostError),
                milepost.Client(url, operation_timeout_seconds=10) as client,
            ):
                self._consume_once(client, name, f"ours-{life}-{name[-3:]}")

    def _consume_once(self, client: Any, name: str, by: str) -> None:
        until = time.monotonic() + self.random.uniform(2, 6)
        self.history.note("join", topic=name, sub="ours", by=by, mode="queue")
        consumer = client.subscribe(
            name, "ours", consumer_type=milepost.ConsumerType.Shared, receiver_queue_size=50
        )
        while time.monotonic() < until and not self.over.is_set():
            try:
                message = consumer.receive(timeout_millis=200)
            except milepost.Timeout:
                continue
            text = message.data().decode()
            found = message.message_id()
            place = [found.ledger_id, found.entry_id, found.batch_index]
            self.history.note("receive", topic=name, sub="ours", by=by, message=text, id=place)
            asked = self.history.invoke("ack", topic=name, sub="ours", by=by, messages=[text])
            try:
                consumer.acknowledge(message)
            except MilepostError:
                self.history.unknown(asked)
                raise
            self.history.ok(asked)


class Nemesis:
    """Makes trouble, one kind at a time, until the round is over."""

    def __init__(self, cluster: Cluster, proxies: list[StoreProxy], seed: int) -> None:
        self.cluster = cluster
        self.proxies = proxies
        self.random = Random(seed)
        self.done: Counter[str] = Counter()

    def run(self, seconds: float, load: Load) -> None:
        history = load.history
        until = time.monotonic() + seconds
        kinds = [self.storm, self.kill, self.move, self.cut, self.kill_process, self.pause]
        turn = 0
        while time.monotonic() < until and not load.failures:
            kind = kinds[turn % len(kinds)] if turn < len(kinds) else self.random.choice(kinds)
            turn += 1
            history.note("kill", note=kind.__name__)
            kind()
            history.note("start")
            self.done[kind.__name__] += 1
            time.sleep(self.random.uniform(0.5, 3))  # sleep: the nemesis's own clock

    def victim(self) -> BrokerProcess:
        return self.random.choice([one for one in self.cluster.brokers if one.is_running])

    def rest(self, low: float, high: float) -> None:
        time.sleep(self.random.uniform(low, high))  # sleep: how long a fault lasts

    def kill(self) -> None:
        broker = self.victim()
        self.cluster.kill(broker)
        self.rest(0, 3)
        broker.start()

    def kill_process(self) -> None:
        """Of one shard."""
        pids = self.cluster.pids(self.victim())[2:]
        if pids:
            with suppress(ProcessLookupError):
                os.kill(self.random.choice(pids), signal.SIGKILL)

    def move(self) -> None:
        """A shard, to a broker of the nemesis's choice; refused if that has it, or is not well."""
        name = self.random.choice(topics()).replace("://", "/")
        where = f"127.0.0.1:{self.victim().http_port}"
        path = f"/admin/v2/{name}/unload?destinationBroker={where}"
        with suppress(OSError, http.client.HTTPException):
            status, _ = self.victim().rest("PUT", path)
            self.done[f"move {status}"] += 1

    def pause(self) -> None:
        pids = self.cluster.pids(self.victim())
        self._signal(pids, signal.SIGSTOP)
        self.rest(1, min(30, SECONDS / 3))
        self._signal(pids, signal.SIGCONT)

    @staticmethod
    def _signal(pids: list[int], number: int) -> None:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def cut(self) -> None:
        proxy = self.random.choice(self.proxies)
        proxy.is_cut.set()
        self.rest(1, 9)
        proxy.is_cut.clear()

    def storm(self) -> None:
        for proxy in self.proxies:
            proxy.weather = Weather(
                latency_s=self.random.choice((0.0, 0.02, 0.2)),
                refused=self.random.choice((0.0, 0.1, 0.3)),
                lost=self.random.choice((0.05, 0.2)),
            )
        self.rest(2, 8)
        for proxy in self.proxies:
            proxy.weather = FINE


@pytest.fixture
def store() -> Iterator[str]:
    """The address of an object store, with credentials in the environment."""
    before = dict(os.environ)
    defaults = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_REGION": "us-east-1"}
    os.environ |= {**defaults, **before}
    try:
        if given := os.environ.get("MILEPOST_S3"):
            yield given
        else:
            with S3Server() as server:
                yield server.url
    finally:
        os.environ.clear()
        os.environ |= before


@pytest.mark.parametrize("number", range(ROUNDS))
def test_nothing_is_lost_whatever_happens_to_brokers_and_store(
    number: int, store: str, tmp_path: Path
) -> None:
    seed = int(os.environ.get("MILEPOST_CLUSTER_SEED", "0")) + number
    bucket = f"s3://milepost/{uuid4().hex}"
    history = History(tmp_path / "history.jsonl", buffered=True)
    history.note("start")
    with ExitStack() as stack:
        stack.callback(history.close)
        proxies = [stack.enter_context(StoreProxy(store, seed * 3 + n)) for n in range(3)]
        cluster = Cluster(tmp_path, proxies, bucket=bucket)
        stack.callback(lambda: [cluster.kill(one) for one in cluster.brokers if one.is_running])
        cluster.start()
        load = Load(history, cluster.brokers, seed)
        stack.callback(load.client.shutdown)
        stack.callback(load.over.set)
        load.start(topics())
        nemesis = Nemesis(cluster, proxies, seed)
        nemesis.run(SECONDS, load)
        cluster.start()
        load.stop()
        for name in topics():
            scan(cluster, load.client, history, name)
        report = check_bucket(bucket, endpoint=store)
    faults = sum((proxy.faults for proxy in proxies), Counter())
    counts = {name: history.counts[name] for name in ("publish ok", "ack ok", "receive")}
    print(f"seed {seed}: {dict(nemesis.done)}, faults {dict(faults)}, {counts}")
    assert judge_file(tmp_path / "history.jsonl").anomalies == []
    assert report.all_problems == []
    assert counts["publish ok"] > 100
    assert counts["ack ok"] > 100
    assert faults["lost"] > 0


def scan(cluster: Cluster, client: pulsar.Client, history: History, name: str) -> None:
    """Everything that a reader sees, by a client that has not been through the faults."""
    fresh = connected(cluster.brokers)
    try:
        reader = fresh.create_reader(name, pulsar.MessageId.earliest)
        history.note("scan", topic=name)
        stored: list[int] = []
        while reader.has_message_available():
            message = reader.read_next(30_000)
            stored.append(int(message.data()))
            place = place_of(message.message_id())
            history.note("stored", topic=name, message=message.data().decode(), id=place)
        history.note("scanned", topic=name)
    finally:
        fresh.close()
    assert stored == sorted(set(stored)), "order, and deduplication"
