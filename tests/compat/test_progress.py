"""`milepost progress` against a count by hand, at random moments, while the broker has other things to do."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from compat.broker_process import BrokerProcess
from compat.raw_client import RawClient, subscribe
from compat.talk import RECEIVE_MS

import milepost
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import Delivery

MOMENTS = 12


@pytest.fixture
def load(broker: BrokerProcess, topic: str) -> Iterator[None]:
    """Somebody else publishes and consumes as fast as it can."""
    stop = threading.Event()
    client = milepost.Client(broker.url)
    consumer = client.subscribe(f"{topic}-load", "busy")
    producer = client.create_producer(f"{topic}-load")

    def work() -> None:
        while not stop.is_set():
            producer.send(b"x" * 100)
            consumer.acknowledge(consumer.receive(RECEIVE_MS))

    thread = threading.Thread(target=work)
    thread.start()
    yield
    stop.set()
    thread.join()
    client.close()


def asked(broker: BrokerProcess, subscription: str, topic: str) -> dict[str, Any]:
    """What the command line says."""
    command = [sys.executable, "-m", "milepost.cli.main", "progress", "-o", "json"]
    command += [
        "-g",
        subscription,
        "-t",
        topic,
        "--admin-url",
        f"http://127.0.0.1:{broker.http_port}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    (line,) = json.loads(done.stdout)
    return dict(line)


@pytest.mark.usefixtures("load")
def test_every_number_is_what_counting_gives(broker: BrokerProcess, topic: str) -> None:
    random = Random(7)
    publisher = milepost.Client(broker.url)
    producer = publisher.create_producer(topic)
    with RawClient(broker.port_of(topic)) as raw:
        subscribe(
            raw,
            topic,
            "s",
            pb.CommandSubscribe.Shared,
            consumer_name="counter",
            initialPosition=pb.CommandSubscribe.Earliest,
        )
        published = 0
        shown: list[Delivery] = []
        acked: set[int] = set()
        for _ in range(MOMENTS):
            for _ in range(random.randint(1, 20)):
                producer.send(b"%d" % published)
                published += 1
            permits = random.randint(0, published - len(shown))
            if permits:
                raw.say(pb.CommandFlow(consumer_id=0, messagePermits=permits))
            shown += raw.deliveries(permits)
            for index in random.sample(range(len(shown)), min(len(shown), random.randint(0, 9))):
                lies = pb.MessageIdData(
                    ledgerId=shown[index].ledger_id, entryId=shown[index].entry_id
                )
                raw.request(
                    pb.CommandAck(
                        consumer_id=0, ack_type=pb.CommandAck.Individual, message_id=[lies]
                    )
                )
                acked.add(index)
            line = asked(broker, "s", topic)
            unacked = [index for index in range(published) if index not in acked]
            holes = [index for index in unacked if index + 1 in acked and index + 1 < published]
            assert line["end"] == published
            assert line["acked"] == len(acked)
            assert line["inflight"] == len(shown) - len(acked)
            assert line["ready"] == published - len(shown)
            assert line["delayed"] == 0
            assert line["backlog"] == len(unacked)
            assert line["mark_delete_index"] == (unacked[0] if unacked else published) - 1
            assert line["holes"] == len(holes)
            assert [one["inflight"] for one in line["consumers"]] == [len(shown) - len(acked)]
            if holes:
                assert line["hole"]["index"] == unacked[0]
                assert line["hole"]["holder"] == "counter"
    publisher.close()
