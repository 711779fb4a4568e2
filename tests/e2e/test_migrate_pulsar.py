"""`milepost migrate` from a real Apache Pulsar: what its own clients wrote there arrives unchanged.

`MILEPOST_PEER` names a program that runs one: `$MILEPOST_PEER run pulsar --data DIR --port N --http-port M`
prints a line with `ready` when it serves.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pulsar
import pytest
from pulsar.schema import AvroSchema, Integer, Record, String
from stage.ports import free_port

from e2e.test_migrate import (
    Killed,
    Pair,
    ack_in_a_pattern,
    at_source,
    content,
    publish_all_kinds,
)
from milepost import testing
from milepost.admin import Admin, Missing
from milepost.cli.exits import Exit
from milepost.cli.main import run
from milepost.positions.ids import EARLIEST

NAMESPACE = "public/default"
QUIET = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)


class Peer(NamedTuple):
    """An Apache Pulsar, by the addresses that a broker for tests has."""

    url: str
    http_url: str


class Order(Record):
    name = String()
    count = Integer()


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    program = os.environ.get("MILEPOST_PEER")
    if not program:
        pytest.skip("no Apache Pulsar: MILEPOST_PEER does not name a program that runs one")
    port, http_port = free_port(), free_port()
    data = tmp_path_factory.mktemp("pulsar")
    command = [program, "run", "pulsar", "--data", str(data)]
    command += ["--port", str(port), "--http-port", str(http_port)]
    with Path(data, "log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
        )
    try:
        assert process.stdout is not None
        if not any("ready" in line for line in process.stdout):
            pytest.skip(f"no Apache Pulsar: {Path(data, 'log').read_text()[-200:]}")
        yield Peer(f"pulsar://127.0.0.1:{port}", f"http://127.0.0.1:{http_port}")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def fill(peer: Peer, topic: str, count: int) -> None:
    """Batches with keys, single messages, a chunked one; a group with holes, and one that is half way."""
    client = pulsar.Client(peer.url, logger=QUIET)
    group = client.subscribe(topic, "holes", pulsar.ConsumerType.Shared)
    plain = client.subscribe(topic, "plain")
    batched = client.create_producer(
        topic,
        schema=AvroSchema(Order),
        batching_enabled=True,
        batching_max_messages=50,
        block_if_queue_full=True,
        compression_type=pulsar.CompressionType.ZSTD,
    )
    for number in range(count):
        batched.send_async(
            Order(name=f"n{number}", count=number),
            None,
            properties={"n": str(number)},
            partition_key=f"k{number % 7}",
            ordering_key=f"o{number % 3}",
            event_timestamp=1_600_000_000_000 + number,
        )
    batched.flush()
    chunked = client.create_producer(topic, batching_enabled=False, chunking_enabled=True)
    chunked.send(os.urandom(6_000_000))
    for number in range(10):
        chunked.send(b"%d" % number)
    for number in range(count):
        message = group.receive(5000)
        if number < 100 or 150 <= number < 200 or number % 50 == 7:
            group.acknowledge(message)
    for _ in range(count // 2):
        message = plain.receive(5000)
    plain.acknowledge_cumulative(message)
    client.close()


def test_topics_of_pulsar_arrive_as_they_were(peer: Peer) -> None:
    one, parted = (f"persistent://{NAMESPACE}/{name}" for name in ("one", "parted"))
    retention = {"retentionTimeInMinutes": 60, "retentionSizeInMB": 100}
    with Admin(peer.http_url) as admin:
        admin.set_policy(NAMESPACE, "retention", retention)
        admin.create_partitioned_topic(parted, 3)
        admin.create_topic(f"persistent://{NAMESPACE}/empty")
        admin.create_topic(f"persistent://{NAMESPACE}/ended")
        admin.terminate_topic(f"persistent://{NAMESPACE}/ended")
    fill(peer, one, 500)
    client = pulsar.Client(peer.url, logger=QUIET)
    producer = client.create_producer(parted, batching_enabled=False)
    for number in range(30):
        producer.send(b"%d" % number, partition_key=f"k{number}")
    client.close()
    with testing.broker(http=True) as target:
        pair = Pair(peer, target)  # type: ignore[arg-type]
        for _ in range(2):
            assert run(["migrate", *pair.addresses, "-n", NAMESPACE]) == Exit.OK
        for topic in (one, *(f"{parted}-partition-{number}" for number in range(3))):
            assert content(target, topic) == content(peer, topic)  # type: ignore[arg-type]
        with Admin(peer.http_url) as here, Admin(target.http_url) as there:
            assert there.get_policy(NAMESPACE, "retention") == retention
            assert there.get_all_schemas(one)[0]["data"] == here.get_all_schemas(one)[0]["data"]
            state = there.get_internal_stats(f"persistent://{NAMESPACE}/ended")["state"]
            assert state == "Terminated"
            ours, theirs = (known.get_stats(one)["subscriptions"] for known in (there, here))
            for name in ("holes", "plain"):
                assert ours[name]["msgBacklog"] == theirs[name]["msgBacklog"], name


class KilledToPulsar(Killed):
    def held(self) -> int:
        with Admin(self.pair.target.http_url) as admin:
            try:
                return int(admin.get_internal_stats(self.topic)["numberOfEntries"])
            except Missing:
                return 0


def publish_some(url: str, topic: str, total: int) -> None:
    client = pulsar.Client(url, logger=QUIET)
    producer = client.create_producer(topic, batching_enabled=False, block_if_queue_full=True)
    for number in range(total):
        producer.send_async(b"%d" % number, None, partition_key=f"k{number % 9}")
    producer.flush()
    client.close()


@pytest.mark.parametrize("direction", ["from", "to"])
def test_runs_that_are_interrupted_at_random_lose_and_double_nothing(
    peer: Peer, direction: str
) -> None:
    """By kill -9 and by Ctrl-C, from Apache Pulsar and to it."""
    topic, total = f"persistent://{NAMESPACE}/random-{direction}", 12_000
    chance = random.Random(f"{direction}-19")
    with testing.broker(http=True) as other:
        source, target = (peer, other) if direction == "from" else (other, peer)
        pair = Pair(source, target)  # type: ignore[arg-type]
        publish_some(source.url, topic, total)
        with Admin(source.http_url) as admin:
            admin.create_subscription(topic, "group", EARLIEST)
            admin.skip_messages(topic, "group", 1234)
        runs = (Killed if direction == "from" else KilledToPulsar)(pair, topic)
        stops = sorted(chance.randrange(1, total) for _ in range(5))
        ends = [runs.run(stop, chance.choice((signal.SIGKILL, signal.SIGINT))) for stop in stops]
        assert 0 < ends[0] < total, "it was not stopped on its way"
        assert ends == sorted(ends)
        for _ in range(2):
            assert run(["migrate", *pair.addresses, "-t", topic]) == Exit.OK
        assert content(target, topic) == content(source, topic)  # type: ignore[arg-type]
        with Admin(target.http_url) as admin:
            assert admin.get_stats(topic)["subscriptions"]["group"]["msgBacklog"] == total - 1234


def test_what_milepost_has_goes_to_pulsar(peer: Peer, capsys: pytest.CaptureFixture[str]) -> None:
    """Messages of every kind and positions of whole entries; that batches come again is said."""
    topic = f"persistent://{NAMESPACE}/back"
    with testing.broker(http=True) as source:
        pair = Pair(source, peer)  # type: ignore[arg-type]
        at_source(pair, lambda client: publish_all_kinds(client, topic))
        at_source(pair, lambda client: ack_in_a_pattern(client, topic))
        for _ in range(2):
            assert run(["migrate", *pair.addresses, "-t", topic]) == Exit.OK
        told = capsys.readouterr().err
        assert "TO is an Apache Pulsar" in told
        assert "acked messages of batches come again" in told
        assert content(peer, topic) == content(source, topic)  # type: ignore[arg-type]
        with Admin(source.http_url) as here, Admin(peer.http_url) as there:
            ours, theirs = (known.get_stats(topic)["subscriptions"] for known in (here, there))
            assert set(ours) == set(theirs)
            for name in ours:
                assert ours[name]["msgBacklog"] == theirs[name]["msgBacklog"], name


def test_a_killed_run_from_pulsar_goes_on_where_it_stopped(peer: Peer) -> None:
    topic, total = f"persistent://{NAMESPACE}/killed", 20_000
    publish_some(peer.url, topic, total)
    with Admin(peer.http_url) as admin:
        admin.create_subscription(topic, "group", EARLIEST)
        admin.skip_messages(topic, "group", 1234)
    with testing.broker(http=True) as target:
        pair = Pair(peer, target)  # type: ignore[arg-type]
        runs = Killed(pair, topic)
        ends = [runs.run(until) for until in (1, total // 3, total)]
        assert 0 < ends[0] < total, "it was not killed on its way"
        assert run(["migrate", *pair.addresses, "-t", topic]) == Exit.OK
        assert content(target, topic) == content(peer, topic)  # type: ignore[arg-type]
        with Admin(target.http_url) as admin:
            assert admin.get_stats(topic)["subscriptions"]["group"]["msgBacklog"] == total - 1234
