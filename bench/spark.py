"""What a message costs on its way into Spark: decoding, with one core.

    python -m bench spark

Batches of 1,000 messages of 100 B with keys, event times and sequence ids, as official clients write them;
the best of several runs, since a shared machine only ever adds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from bench.cursor import Figure, at_least
from milepost.spark.columns import COLUMNS
from milepost.spark.decode import Decoder
from milepost.spark.entries import RawEntry
from milepost.wire import SingleMessage, encode_broker_entry, join_batch
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.encode import encode_entry_head

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


def run() -> Iterator[Figure]:
    made = entries()
    for what, columns in (
        ("all columns", COLUMNS),
        ("index, key, value", ("index", "key", "value")),
    ):
        figure = rate(columns, made)
        yield at_least(f"decode batches of 1,000 × 100 B: {what}", figure, "M/s", 5.0)
