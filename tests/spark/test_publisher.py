"""What these tests publish with: chunks, also when the official client has met a broker that takes more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pulsar
from compat.broker_process import BrokerProcess

from milepost.spark.options import read_options
from milepost.spark.reading.survey import Survey


def test_chunks_are_cut_as_their_own_broker_says(
    broker: Any, publisher: Any, topic: str, tmp_path: Path
) -> None:
    publisher.singles(1)  # the client has its connection, and heard of the limit then
    with BrokerProcess(tmp_path) as other:
        client = pulsar.Client(other.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        client.create_producer("larger").send(b"x")
        client.close()
    publisher.chunked(150_000)
    survey = Survey(read_options({"topic": topic, "serviceUrl": broker.url}))
    assert survey.ends() == {topic: 4}
    survey.close()
