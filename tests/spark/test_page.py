"""The examples of docs/spark.md, run as they stand but for the broker's address and the checkpoints."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pulsar
from pulsar.schema import AvroSchema, Long, Record, String
from pyspark.sql import SparkSession

from spark.conftest import values_of

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"
# With three dots for what is the reader's, or for a cluster: read and not run.
NOT_RUN = ("...", "addPyFile")


class Order(Record):  # type: ignore[misc]
    id = Long()
    item = String()


def examples(url: str, scratch: Path) -> list[str]:
    found = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    return [
        one.replace('"pulsar://localhost:6650"', json.dumps(url))
        .replace(
            '.format("milepost")', f'.format("milepost").option("serviceUrl", {json.dumps(url)})'
        )
        .replace('"checkpoints/', f'"{scratch}/')
        for one in found
        if not any(mark in one for mark in NOT_RUN)
    ]


def test_examples_run(
    spark: SparkSession, broker: Any, client: pulsar.Client, tmp_path: Path
) -> None:
    events, orders = (f"persistent://public/default/{name}" for name in ("events", "orders"))
    client.create_producer(events).send(b"one")
    producer = client.create_producer(orders, schema=AvroSchema(Order))
    producer.send(Order(id=1, item="screws"))
    read, typed, copied, written = examples(broker.url, tmp_path)
    names: dict[str, Any] = {"spark": spark}
    exec(read, names)  # our own page
    assert names["events"].count() == 1
    exec(typed, names)
    assert [tuple(row) for row in names["orders"].collect()] == [(0, 1, "screws")]
    stream = spark.readStream.format("milepost").options(serviceUrl=broker.url, topic=events)
    before = {one.id for one in spark.streams.active}
    exec(copied, {"events": stream.load()})
    (query,) = (one for one in spark.streams.active if one.id not in before)
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    assert values_of(broker.url, "persistent://public/default/copies") == [b"one"]
    exec(written, names)
    consumer = client.subscribe(
        orders,
        "s",
        schema=AvroSchema(Order),
        initial_position=pulsar.InitialPosition.Earliest,
    )
    found = [consumer.receive(30_000).value() for _ in range(2)]
    assert [(one.id, one.item) for one in found] == [(1, "screws"), (1, "nails")]
