"""A broker with something to see: groups that are well, slow, stuck behind a hole and without consumers.

The tests look at it, and so does the target that makes the pictures of docs/console.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import milepost as pulsar
from milepost.admin import Admin
from milepost.testing import broker
from milepost.testing.broker import BrokerForTest

ORDERS = "persistent://public/default/orders"
HOSTILE = "<img src=x onerror=\"window.hit='topic'\">"
HOSTILE_GROUP = "'\"><script>window.hit='group'</script>"
HOSTILE_TEXT = "</pre><script>window.hit='text'</script><img src=x onerror=\"window.hit='img'\">"
CITIES = ("Aachen", "Bergen", "Cork", "Delft", "Évora", "Faro", "Graz", "Hull")


@dataclass
class Scene:
    broker: BrokerForTest
    client: pulsar.Client
    admin: Admin
    consumers: dict[str, Any]

    @property
    def url(self) -> str:
        return f"{self.broker.http_url}/console/"


@contextmanager
def scene(**settings: Any) -> Iterator[Scene]:
    """A broker with a client, and nothing on it."""
    with (
        broker(http=True, **settings) as running,
        pulsar.Client(running.url) as client,
        Admin(running.http_url) as admin,
    ):
        yield Scene(running, client, admin, {})


def order(number: int) -> bytes:
    city = CITIES[number % len(CITIES)]
    lines = [{"sku": f"A-{number % 17:03}", "count": 1 + number % 3}]
    return json.dumps({"order": number, "city": city, "lines": lines}, ensure_ascii=False).encode()


def publish(scene: Scene, topic: str, count: int, *, first: int = 0, **options: Any) -> None:
    producer = scene.client.create_producer(topic, batching_enabled=True, block_if_queue_full=True)
    for number in range(first, first + count):
        producer.send_async(
            order(number),
            None,
            partition_key=CITIES[number % len(CITIES)],
            properties={"source": "shop" if number % 2 else "phone"},
            **options,
        )
    producer.flush()
    producer.close()


def fill_orders(scene: Scene, count: int = 5000) -> None:
    """The topic `orders` with four groups: billing has a hole that a consumer holds, reports is halfway,
    search has all, archive has no consumer."""
    subscribe = scene.client.subscribe
    early = pulsar.InitialPosition.Earliest
    scene.consumers = {
        name: subscribe(
            ORDERS,
            name,
            consumer_type=pulsar.ConsumerType.Shared,
            consumer_name=f"{name}-1",
            initial_position=early,
            receiver_queue_size=1000,
        )
        for name in ("billing", "reports", "search")
    }
    subscribe(ORDERS, "archive", initial_position=early).close()
    publish(scene, ORDERS, count)
    held = {count // 10 + number for number in (0, 1, 2, 3, 40)}
    taken = take(scene, "billing", count * 6 // 10)
    ack(scene, "billing", [one for one in taken if one.index() not in held])
    ack(scene, "reports", take(scene, "reports", count // 2))
    ack(scene, "search", take(scene, "search", count))


def take(scene: Scene, group: str, count: int) -> list[Any]:
    consumer = scene.consumers[group]
    return [consumer.receive(timeout_millis=60_000) for _ in range(count)]


def ack(scene: Scene, group: str, messages: list[Any]) -> None:
    scene.consumers[group].acknowledge(messages)


def fill_hostile(scene: Scene) -> None:
    """Names, keys, properties and payloads that would run in a page that took them for markup."""
    topic = f"persistent://public/default/{HOSTILE}"
    consumer = scene.client.subscribe(
        topic,
        HOSTILE_GROUP,
        consumer_name=HOSTILE_TEXT,
        initial_position=pulsar.InitialPosition.Earliest,
    )
    producer = scene.client.create_producer(topic)
    text = HOSTILE_TEXT
    producer.send(text.encode(), partition_key=text, properties={text: text})
    producer.send(json.dumps({text: text}).encode())
    producer.send(b"\xff\xfe<script>window.hit='bytes'</script>")
    consumer.receive(timeout_millis=60_000)
    scene.consumers[HOSTILE_GROUP] = consumer
