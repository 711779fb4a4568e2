"""A broker that reads old messages from a store in trouble, and the official client that waits for them.

A store that does not answer has lost nothing: a consumer gets every message, in order, when it answers
again. Writes go through meanwhile, so the broker goes on serving.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator

import pulsar
import pytest
from compat.broker_process import BrokerProcess
from compat.test_bucket import client_of
from stage.s3 import S3Server
from stage.store_proxy import StoreProxy

TOPIC = "persistent://public/default/old"
COUNT = 400
SIZE = 20_000
# More than the attempts of two reads, with pauses that grow.
REFUSALS = 20


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[StoreProxy]:
    for name, value in {"ACCESS_KEY_ID": "k", "SECRET_ACCESS_KEY": "s", "REGION": "r"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    with S3Server() as store, StoreProxy(store.url, seed=1) as proxy:
        yield proxy


@pytest.fixture
def broker(own_broker: Callable[..., BrokerProcess], proxy: StoreProxy) -> BrokerProcess:
    """Has nothing in its directory, and a topic with a subscription in packs of the bucket."""
    broker = own_broker(
        bucket="s3://bucket/prefix",
        bucket_endpoint=proxy.url,
        journal_size_max="1MiB",
        ledger_size_max="2MiB",
        bucket_linger_s=0.01,
    )
    with client_of(broker) as client:
        client.subscribe(TOPIC, "s").close()
        producer = client.create_producer(TOPIC, batching_enabled=False, block_if_queue_full=True)
        for number in range(COUNT):
            producer.send_async(b"%d " % number + bytes(SIZE), lambda result, sent: None)
        producer.flush()
    broker.stop()
    shutil.rmtree(broker.data)
    broker.start()
    return broker


def numbers(consumer: pulsar.Consumer, count: int) -> list[int]:
    """The next messages, acked, without a pause of 90 seconds between them."""
    found = []
    for _ in range(count):
        message = consumer.receive(90_000)
        found.append(int(message.data().split()[0]))
        consumer.acknowledge(message)
    return found


@pytest.mark.parametrize("trouble", ["refused", "cut", "short"])
def test_a_consumer_that_catches_up_misses_nothing_while_the_store_gives_nothing(
    broker: BrokerProcess, proxy: StoreProxy, trouble: str
) -> None:
    """Longer than one read tries."""

    def spoil(path: str) -> str:
        return trouble if "/pack/" in path and proxy.faults[trouble] < REFUSALS else ""

    with client_of(broker) as client:
        consumer = client.subscribe(TOPIC, "s", receiver_queue_size=20)
        found = numbers(consumer, 20)
        proxy.spoil = spoil
        found += numbers(consumer, COUNT - 20)
        with pytest.raises(pulsar.Timeout):
            consumer.receive(200)
    assert found == list(range(COUNT))
    assert proxy.faults[trouble] >= REFUSALS
    assert "old messages cannot be read from the bucket: pack/" in broker.complaints()
