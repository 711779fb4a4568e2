"""A broker whose data are in a bucket, the official client, and a local directory that does not matter."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pulsar
import pytest
from compat.broker_process import BrokerProcess

from milepost.testing.checker import History, judge

TOPIC = "persistent://public/default/orders"


@pytest.fixture
def bucket(tmp_path: Path) -> Path:
    return tmp_path / "bucket"


@contextmanager
def client_of(broker: BrokerProcess) -> Iterator[pulsar.Client]:
    client = pulsar.Client(
        broker.url,
        operation_timeout_seconds=30,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )
    try:
        yield client
    finally:
        client.close()


def lose_the_machine(broker: BrokerProcess) -> None:
    """The process is killed and its directory is gone."""
    broker.kill()
    shutil.rmtree(broker.data)


def test_nothing_is_lost_with_the_machine(
    own_broker: Callable[..., BrokerProcess], bucket: Path
) -> None:
    """Published, acked and deduplicated before; and again after each of several losses."""
    broker = own_broker(
        bucket=bucket.as_uri(), deduplication=True, journal_size_max="1MiB", bucket_linger_s=0.01
    )
    acked: set[int] = set()
    with client_of(broker) as client:
        consumer = client.subscribe(TOPIC, "s", pulsar.ConsumerType.Shared)
        producer = client.create_producer(TOPIC, producer_name="p", send_timeout_millis=60_000)
        for life in range(4):
            for n in range(life * 50, life * 50 + 50):
                producer.send(b"%d" % n + bytes(20_000))
            for _ in range(20):
                message = consumer.receive(30_000)
                consumer.acknowledge(message)
                acked.add(int(message.data().rstrip(b"\0")))
            consumer.close()
            lose_the_machine(broker)
            broker.start()
            consumer = client.subscribe(TOPIC, "s", pulsar.ConsumerType.Shared)
        rest = {int(consumer.receive(30_000).data().rstrip(b"\0")) for _ in range(200 - len(acked))}
        with pytest.raises(pulsar.Timeout):
            consumer.receive(500)
        everything = client.create_reader(TOPIC, pulsar.MessageId.earliest)
        stored = [int(everything.read_next(30_000).data().rstrip(b"\0")) for _ in range(200)]
    assert len(acked) == 80
    assert rest == set(range(200)) - acked
    assert stored == list(range(200))
    assert len(list((bucket / "pack").iterdir())) > 1, "the test is to cover checkpoints"


def test_kills_under_load_lose_no_receipt(
    own_broker: Callable[..., BrokerProcess], bucket: Path
) -> None:
    broker = own_broker(bucket=bucket.as_uri(), deduplication=True, journal_size_max="1MiB")
    history = History()
    history.note("start")
    over = threading.Event()

    def publish(client: pulsar.Client) -> None:
        producer = client.create_producer(
            TOPIC, producer_name="p", send_timeout_millis=0, block_if_queue_full=True
        )
        n = 0
        while not over.is_set():
            asked = history.invoke("publish", topic=TOPIC, message=str(n), by="p")
            producer.send_async(
                b"%d" % n, lambda result, sent, asked=asked: told(asked, result, sent)
            )
            n += 1
            if not n % 50:
                time.sleep(0.005)  # sleep: a steady load, not as fast as it goes
        producer.flush()

    def told(asked: int, result: pulsar.Result, sent: pulsar.MessageId) -> None:
        if result.value:
            history.unknown(asked)
        else:
            history.ok(asked, id=place_of(sent) if sent.entry_id() >= 0 else None)

    with client_of(broker) as client:
        thread = threading.Thread(target=publish, args=(client,))
        thread.start()
        for _ in range(4):
            wanted = history.counts["publish ok"] + 500
            deadline = time.monotonic() + 60
            while history.counts["publish ok"] < wanted and time.monotonic() < deadline:
                time.sleep(0.01)  # sleep: until the load has gone on
            assert history.counts["publish ok"] >= wanted
            history.note("kill")
            lose_the_machine(broker)
            history.note("start")
            broker.start()
        over.set()
        thread.join(60)
        reader = client.create_reader(TOPIC, pulsar.MessageId.earliest)
        history.note("scan", topic=TOPIC)
        while reader.has_message_available():
            message = reader.read_next(30_000)
            name, place = message.data().decode(), place_of(message.message_id())
            history.note("stored", topic=TOPIC, message=name, id=place)
        history.note("scanned", topic=TOPIC)
    assert judge(history.lines()).anomalies == []


def place_of(message_id: pulsar.MessageId) -> list[int]:
    return [message_id.ledger_id(), message_id.entry_id(), message_id.batch_index()]


def test_a_second_broker_does_not_take_the_bucket_from_one_that_is_well(
    own_broker: Callable[..., BrokerProcess], bucket: Path, tmp_path: Path
) -> None:
    broker = own_broker(bucket=bucket.as_uri())
    command = [sys.executable, "-m", "milepost.cli.main", "serve", "--bucket", bucket.as_uri()]
    command += ["--data", str(tmp_path / "other"), "--port", "0", "--http-port", "0"]
    second = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert second.returncode == 8
    last = second.stderr.splitlines()[-1]
    assert "the bucket is in use by broker" in last
    assert "stop it first, or give this one another prefix" in last
    with client_of(broker) as client:
        client.create_producer(TOPIC).send(b"still here")
    status, metrics = broker.rest("GET", "/metrics")
    assert status == 200
    assert b"milepost_bucket_may_serve 1.0" in metrics
    assert b'milepost_bucket_request_seconds_count{request="create"}' in metrics


def test_a_broker_that_cannot_write_to_its_bucket_stops_serving_until_it_can(
    own_broker: Callable[..., BrokerProcess], bucket: Path
) -> None:
    broker = own_broker(bucket=bucket.as_uri())
    with client_of(broker) as client:
        producer = client.create_producer(TOPIC, send_timeout_millis=60_000)
        producer.send(b"before")
        bucket.rename(bucket.with_name("away"))
        deadline = time.monotonic() + 30
        while "connections are closed" not in broker.log.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.05)  # sleep: until the broker says so
        path = "persistent/public/default/orders"
        assert broker.rest("GET", f"/lookup/v2/topic/{path}")[0] == 503
        for question in (f"{path}/stats", f"{path}/getMessageIdByIndex?index=0", "brokers/health"):
            status, body = broker.rest("GET", f"/admin/v2/{question}")
            assert status == 503
            assert "cannot write to its bucket" in body["reason"]
        assert b"milepost_bucket_may_serve 0.0" in broker.rest("GET", "/metrics")[1]
        bucket.with_name("away").rename(bucket)
        producer.send(b"after")
        assert broker.rest("GET", f"/admin/v2/{path}/stats")[0] == 200
        reader = client.create_reader(TOPIC, pulsar.MessageId.earliest)
        assert [reader.read_next(10_000).data() for _ in range(2)] == [b"before", b"after"]
    assert "the bucket takes writes again" in broker.log.read_text()
    assert "the bucket does not answer" in broker.complaints()
