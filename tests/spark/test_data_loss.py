"""Messages that are no longer there: named with their exact range, or passed over; and empty topics."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pulsar
import pytest
from compat.broker_process import BrokerProcess

from milepost.client.connection.endpoint import Endpoint
from milepost.errors import DataLoss
from milepost.spark.offsets import Slice
from milepost.spark.options import read_options
from milepost.spark.reading.fetch import fetch
from milepost.spark.reading.survey import Survey
from spark.conftest import MESSAGE_SIZE_MAX

TOPIC = "persistent://public/default/lossy"


@pytest.fixture
def lossy(tmp_path: Path) -> Iterator[BrokerProcess]:
    settings = {"ledger_entries_max": 10, "max_message_size": MESSAGE_SIZE_MAX}
    with BrokerProcess(tmp_path, **settings) as broker:
        client = pulsar.Client(broker.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        producer = client.create_producer(TOPIC, batching_enabled=False)
        for number in range(35):
            producer.send(b"%d" % number)
        client.close()
        yield broker


def drop(broker: BrokerProcess, method: str, how: str) -> None:
    status, said = broker.rest(method, f"/admin/v2/{TOPIC.replace('://', '/')}/{how}")
    assert status in (200, 204), said


def indexes(connection: Endpoint, first: int, end: int, **more: bool) -> list[int]:
    found = fetch(connection, Slice(TOPIC, first, end), ("index",), **more)
    return [index for batch in found for index in batch["index"].to_pylist()]


@pytest.mark.parametrize(
    ("method", "how", "first"),
    [("POST", "trim", 30), ("DELETE", "truncate", 35)],
)
def test_a_range_that_was_trimmed_is_named_exactly(
    lossy: BrokerProcess, method: str, how: str, first: int
) -> None:
    connection = Endpoint(url=lossy.url, timeout_s=10)
    drop(lossy, method, how)
    survey = Survey(read_options({"topic": TOPIC, "serviceUrl": lossy.url, "timeout": "10s"}))
    assert (survey.firsts(), survey.ends()) == ({TOPIC: first}, {TOPIC: 35})
    survey.close()
    with pytest.raises(DataLoss, match=rf"messages \[5, {first}\) are no longer there"):
        indexes(connection, 5, 35)
    assert indexes(connection, 5, 35, fail_on_data_loss=False) == list(range(first, 35))


def test_a_topic_that_is_gone_is_lost_as_a_whole(lossy: BrokerProcess) -> None:
    connection = Endpoint(url=lossy.url, timeout_s=10)
    assert indexes(connection, 3, 5) == [3, 4]
    status, said = lossy.rest("DELETE", f"/admin/v2/{TOPIC.replace('://', '/')}?force=true")
    assert status == 204, said
    with pytest.raises(DataLoss, match=r"messages \[3, 5\) are no longer there"):
        indexes(connection, 3, 5)
    assert indexes(connection, 3, 5, fail_on_data_loss=False) == []
