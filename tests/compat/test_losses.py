"""A topic that has lost messages: the official client is told at once, and goes on when that is accepted."""

from __future__ import annotations

import os
from pathlib import Path

import pulsar
import pytest
from compat.broker_process import BrokerProcess, not_on_a_bucket

TOPIC = "persistent://public/default/cut"


@not_on_a_bucket("a start brings ledgers that are damaged here anew")
def test_a_producer_of_a_topic_with_a_loss_is_refused_and_does_not_try_for_ever(
    tmp_path: Path,
) -> None:
    """It was let in, and each send made the C++ client connect again, ten times a second."""
    with BrokerProcess(tmp_path) as broker:
        client = pulsar.Client(broker.url)
        producer = client.create_producer(TOPIC, batching_enabled=False)
        for number in range(10):
            producer.send(b"%d" % number)
        client.close()
        broker.stop()
        (ledger,) = broker.data_of(TOPIC).glob("ledgers/*.ledger")
        os.truncate(ledger, ledger.stat().st_size - 50)
        broker.start()
        client = pulsar.Client(broker.url, operation_timeout_seconds=5)
        with pytest.raises(pulsar.NotAllowedError):
            client.create_producer(TOPIC)
        other = client.create_producer(f"{TOPIC}-not", batching_enabled=False)
        other.send(b"served on")
        status, answer = broker.rest("POST", "/admin/v2/persistent/public/default/cut/acceptLoss")
        assert status in (200, 204), (status, answer)
        client.create_producer(TOPIC, batching_enabled=False).send(b"10")
        client.close()
