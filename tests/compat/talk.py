"""What the tests say to the official client over and over: send many, receive some, expect nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any

import _pulsar
import pulsar

# Long enough for a machine that stops for a while, or a client that tries again after 30 s; a test that waits
# this long has failed.
RECEIVE_MS = 60_000

# How long silence is listened to. A message that should not come, comes at once or not at all.
SILENCE_MS = 250


def send_all(producer: pulsar.Producer, payloads: Iterable[bytes], **options: Any) -> list[Any]:
    """Send without waiting in between, then wait for every receipt; the ids in order."""
    ids: dict[int, Any] = {}
    failed: list[Any] = []
    done = threading.Semaphore(0)
    count = 0
    for count, payload in enumerate(payloads, 1):

        def receipt(result: Any, message_id: Any, number: int = count) -> None:
            if result == _pulsar.Result.Ok:
                ids[number] = message_id
            else:
                failed.append(result)
            done.release()

        producer.send_async(payload, receipt, **options)
    producer.flush()
    for _ in range(count):
        assert done.acquire(timeout=RECEIVE_MS / 1000), f"{len(ids)} receipts of {count}"
    assert not failed, failed
    return [ids[number] for number in range(1, count + 1)]


def send_batch(producer: pulsar.Producer, payloads: Sequence[bytes], **options: Any) -> list[Any]:
    """Send as one batch; the producer must allow one so large and wait for it."""
    ids = send_all(producer, payloads, **options)
    assert {(i.ledger_id(), i.entry_id()) for i in ids} == {(ids[0].ledger_id(), ids[0].entry_id())}
    assert [i.batch_index() for i in ids] == list(range(len(payloads)))
    return ids


def batching(client: pulsar.Client, topic: str, **options: Any) -> pulsar.Producer:
    """A producer whose batches end by `flush` only."""
    return client.create_producer(
        topic,
        batching_enabled=True,
        batching_max_messages=1000,
        batching_max_publish_delay_ms=60_000,
        **options,
    )


def receive(consumer: pulsar.Consumer, count: int) -> list[pulsar.Message]:
    return [consumer.receive(RECEIVE_MS) for _ in range(count)]


def payloads(messages: Iterable[pulsar.Message]) -> list[bytes]:
    return [message.data() for message in messages]


def silent(consumer: pulsar.Consumer, timeout_ms: int = SILENCE_MS) -> bool:
    """Nothing comes for a while."""
    try:
        consumer.receive(timeout_ms)
    except pulsar.Timeout:
        return True
    return False


def drain(consumer: pulsar.Consumer, timeout_ms: int = SILENCE_MS) -> list[pulsar.Message]:
    """Everything that comes until nothing does."""
    messages: list[pulsar.Message] = []
    while True:
        try:
            messages.append(consumer.receive(timeout_ms))
        except pulsar.Timeout:
            return messages


def id_tuple(message_id: Any) -> tuple[int, int, int, int]:
    return (
        message_id.ledger_id(),
        message_id.entry_id(),
        message_id.batch_index(),
        message_id.partition(),
    )
