"""What a message costs on its way into Spark: decoding, with one core; with `--full` the whole way too.

    python -m bench spark
    python -m bench --full spark        # a broker, a session, live topics: needs Java

Batches of 1,000 messages of 100 B with keys, event times and sequence ids, as official clients write them;
the best of several runs, since a shared machine only ever adds.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pyarrow as pa

import bench
from bench import Result, at_least
from milepost.schemas import avro
from milepost.schemas.types import SchemaInfo, SchemaType
from milepost.spark.reading.decode import Decoder
from milepost.spark.reading.entries import RawEntry
from milepost.spark.values.columns import COLUMNS
from milepost.spark.values.values import codec_of
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.batches import SingleMessage, join_batch
from milepost.wire.metadata import encode_broker_entry
from milepost.wire.scanners.encode import encode_entry_head

BATCH = 1_000
BATCHES = 32
RUNS = 20
NOW = 1_794_741_333_444
TOPIC = "persistent://public/default/bench"


def entries() -> list[RawEntry]:
    made = []
    for number in range(BATCHES):
        first = number * BATCH
        payload = join_batch(
            SingleMessage(
                pb.SingleMessageMetadata(
                    partition_key=f"key-{at % 50}",
                    payload_size=100,
                    event_time=NOW + at,
                    sequence_id=first + at,
                ),
                bytes(100),
            )
            for at in range(BATCH)
        )
        metadata = pb.MessageMetadata(
            producer_name="standalone-0-1",
            sequence_id=first,
            publish_time=NOW,
            num_messages_in_batch=BATCH,
        ).SerializeToString()
        head = encode_entry_head(metadata, payload)
        made.append(
            RawEntry(3, number, encode_broker_entry(NOW, first + BATCH - 1) + head + payload)
        )
    return made


def rate(columns: tuple[str, ...], made: list[RawEntry]) -> float:
    """Millions of messages a second."""
    decoder = Decoder(TOPIC, columns)
    taken = []
    for _ in range(RUNS):
        began = time.perf_counter()
        rows = sum(batch.num_rows for batch in decoder.batches(made, 0, 1 << 62))
        taken.append(time.perf_counter() - began)
        assert rows == BATCH * BATCHES
    return BATCH * BATCHES / min(taken) / 1e6


def run() -> Iterator[Result]:
    made = entries()
    for what, columns in (
        ("all columns", COLUMNS),
        ("index, key, value", ("index", "key", "value")),
    ):
        figure = rate(columns, made)
        yield at_least(f"decode batches of 1,000 × 100 B: {what}", figure, "M/s", 5.0)
    yield from typed()
    if bench.FULL:
        from bench import spark_live

        yield from spark_live.run()


def typed() -> Iterator[Result]:
    """Values of a record with four fields, by its schema."""
    definition = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "sensor", "type": ["null", "string"]},
            {"name": "celsius", "type": "double"},
            {"name": "is_on", "type": "boolean"},
        ],
    }
    kind = pa.struct(
        [
            ("id", pa.int64()),
            ("sensor", pa.string()),
            ("celsius", pa.float64()),
            ("is_on", pa.bool_()),
        ]
    )
    values = [
        {"id": at, "sensor": f"s-{at % 50}", "celsius": at / 7, "is_on": at % 2 == 0}
        for at in range(BATCH * BATCHES)
    ]
    parsed = avro.parsed(definition)
    written = {
        SchemaType.AVRO: [avro.write(parsed, one) for one in values],
        SchemaType.JSON: [json.dumps(one).encode() for one in values],
    }
    for schema_type, data in written.items():
        info = SchemaInfo("", schema_type, json.dumps(definition).encode())
        codec, array = codec_of(info, info, kind), pa.array(data, pa.binary())
        taken = []
        for _ in range(5):
            began = time.perf_counter()
            assert len(codec.array(array)) == len(data)
            taken.append(time.perf_counter() - began)
        name = f"values by schema, four fields: {schema_type.name}"
        yield Result(name, len(data) / min(taken) / 1e6, "M/s")
