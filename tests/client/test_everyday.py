"""What a person sees who uses the client: names in logs and tracebacks, and mistakes that cost little."""

from __future__ import annotations

import asyncio
import logging
import queue
from pathlib import Path
from typing import Any

import pytest

import milepost
import milepost.testing
from client.stub import scripted
from milepost import errors
from milepost.aio import Client
from milepost.client.connection import link
from milepost.positions import TopicName

LOGGER = "milepost.client"


def test_everything_says_what_it_is(service: str, topic: str) -> None:
    with milepost.Client(service) as client:
        name = str(TopicName.parse(topic))
        producer = client.create_producer(topic, "till")
        consumer = client.subscribe(topic, "billing")
        assert repr(client) == f"<Client of {service}>"
        assert repr(producer) == f"<Producer till of {name}, attached>"
        assert repr(consumer) == f"<Consumer of {name} by billing, attached>"
        assert (
            repr(client.create_reader(topic, milepost.MessageId.earliest)) == f"<Reader of {name}>"
        )
        many = client.subscribe([topic, topic + "-2"], "audit")
        assert repr(many).endswith(" by audit, 2 topics>")
    assert repr(client) == f"<Client of {service}, closed>"
    assert repr(producer) == f"<Producer till of {name}, closed>"
    assert repr(consumer) == f"<Consumer of {name} by billing, closed>"
    assert repr(many).endswith(", closed>")


async def test_a_lost_broker_is_a_warning_and_coming_back_a_line(
    topic: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    async with milepost.testing.broker(tmp_path) as broker:
        port = broker.port
        client = Client(broker.url, backoff_first_s=0.005, backoff_max_s=0.05)
        consumer = await client.subscribe(topic, "billing")
    whose = f"consumer of {TopicName.parse(topic)} by billing "
    async with milepost.testing.broker(tmp_path, port=port):
        await consumer.get_last_message_id()
        while not said(caplog, whose + "attached again after "):
            await asyncio.sleep(0.005)  # sleep: the line follows the answer
        await client.close()
    (lost,) = said(caplog, whose + "detached: ")
    assert lost.levelno == logging.WARNING


def said(caplog: pytest.LogCaptureFixture, beginning: str) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.getMessage().startswith(beginning)]


async def test_a_receipt_that_never_comes_is_told_with_its_reason(
    topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker whose disk is full takes the producer and refuses the message, again and again."""
    monkeypatch.setattr(link, "DISK_PAUSE_S", 0.01)
    async with scripted() as (client, stub):
        stub.disk_error = "no space left for the journal"
        producer = await client.create_producer(topic, send_timeout_millis=2000)
        with pytest.raises(errors.Timeout, match=r"in 2 s: .*no space left for the journal"):
            await producer.send(b"x")
        assert stub.producers > 1, "it did not come back to try again"


def test_a_listener_that_fails_hears_the_next_message(
    service: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    heard: queue.Queue[bytes] = queue.Queue()

    def listen(consumer: Any, message: Any) -> None:
        heard.put(message.data())
        if message.data() == b"0":
            raise ValueError("a listener's own mistake")

    with milepost.Client(service) as client:
        client.subscribe(topic, "s", message_listener=listen)
        producer = client.create_producer(topic)
        for number in range(2):
            producer.send(b"%d" % number)
        assert [heard.get(timeout=30) for _ in range(2)] == [b"0", b"1"]
    (line,) = [record for record in caplog.records if "its listener failed at" in record.message]
    assert line.exc_info


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda client: client.create_producer(17), "topic name 17 is not text"),
        (
            lambda client: client.subscribe("t", "s", consumer_type="shared"),
            "consumer_type 'shared'; there are ConsumerType.Exclusive, ConsumerType.Shared, ",
        ),
    ],
)
def test_a_mistake_is_told_with_what_would_be_right(service: str, call: Any, words: str) -> None:
    with milepost.Client(service) as client, pytest.raises(errors.InvalidInput) as caught:
        call(client)
    assert words in str(caught.value)
