"""Entries as the log has them: the same rows as single frames give, also around damage. No Spark here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest
from compat.broker_process import BrokerProcess, not_on_a_bucket

from milepost.client.connection.endpoint import Endpoint
from milepost.spark.offsets import Slice
from milepost.spark.reading.blocks import Block
from milepost.spark.reading.deliveries import TaskLink
from milepost.spark.reading.fetch import BrokerFeed, slice_batches
from milepost.spark.reading.places import Places
from milepost.wire.events import Delivery
from spark.conftest import MESSAGE_SIZE_MAX, Publisher

TOPIC = "persistent://public/default/runs"
SINGLES = 400
# That of one of the messages.
VALUE = b"single-77-77"


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[BrokerProcess]:
    settings = {"ledger_entries_max": 150, "max_message_size": MESSAGE_SIZE_MAX}
    with BrokerProcess(tmp_path, **settings) as broker:
        client = pulsar.Client(broker.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        publisher = Publisher(client, TOPIC, broker.url)
        publisher.singles(SINGLES)
        publisher.batches(100, 20)
        publisher.chunked(3 * MESSAGE_SIZE_MAX)
        publisher.singles(50)
        client.close()
        yield broker


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many entries the runs had that came."""
    seen: list[int] = []
    read = TaskLink.read_stored

    def counted(link: TaskLink, delivery: Delivery) -> Block:
        seen.append(delivery.stored_entries)
        return read(link, delivery)

    monkeypatch.setattr(TaskLink, "read_stored", counted)
    return seen


def rows(broker: BrokerProcess, *, first: int = 0, takes_stored: bool) -> list[dict[str, Any]]:
    feed = BrokerFeed(Endpoint(url=broker.url, timeout_s=20), TOPIC)
    feed._takes_stored = takes_stored
    with TaskLink.open(Endpoint(url=broker.url), TOPIC) as link:
        end = Places(link, TOPIC).end_index()
    batches = slice_batches(feed, Slice(TOPIC, first, end))
    return [row for batch in batches for row in batch.to_pylist()]


def test_the_rows_are_those_of_single_frames(filled: BrokerProcess, runs: list[int]) -> None:
    plain = rows(filled, takes_stored=False)
    assert not runs
    assert rows(filled, takes_stored=True) == plain
    assert sum(runs) >= SINGLES
    assert len(plain) == SINGLES + 100 + 1 + 50
    assert rows(filled, first=SINGLES + 30, takes_stored=True) == [
        row for row in plain if row["index"] >= SINGLES + 30
    ]


@not_on_a_bucket("a start brings ledgers that are damaged here anew")
def test_damage_costs_the_damaged_entry_alone(filled: BrokerProcess, runs: list[int]) -> None:
    plain = rows(filled, takes_stored=False)
    filled.stop()  # a checkpoint: all of it is in the files, and nothing else is read from the journal
    ledgers = (filled.data_of(TOPIC) / "ledgers").glob("*.ledger")
    (path,) = (one for one in ledgers if VALUE in one.read_bytes())
    content = bytearray(path.read_bytes())
    content[content.index(VALUE)] ^= 4
    path.write_bytes(content)
    filled.start()
    left = rows(filled, takes_stored=True)
    assert runs
    (lost,) = [row for row in plain if row["value"] == VALUE]
    assert left == [row for row in plain if row is not lost]
