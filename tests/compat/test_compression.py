"""Payloads that one side packs and the other unpacks: the official client's libraries and ours."""

from __future__ import annotations

import pulsar
import pytest
from compat.broker_process import BrokerProcess
from compat.raw_client import RawClient, message_metadata, subscribe

from milepost.wire import pulsar_pb2 as pb
from milepost.wire.batches import SingleMessage, join_batch, split_batch
from milepost.wire.compression import compress, decompress
from milepost.wire.events import Delivery
from milepost.wire.metadata import split_entry

PAYLOADS = [b"", b"x", b"message " * 500, bytes(range(256)) * 17]
TYPES = {
    pb.NONE: pulsar.CompressionType.NONE,
    pb.LZ4: pulsar.CompressionType.LZ4,
    pb.ZLIB: pulsar.CompressionType.ZLib,
    pb.ZSTD: pulsar.CompressionType.ZSTD,
    pb.SNAPPY: pulsar.CompressionType.SNAPPY,
}


@pytest.mark.parametrize("kind", TYPES)
def test_the_official_client_reads_ours(
    broker: BrokerProcess, client: pulsar.Client, topic: str, kind: pb.CompressionType
) -> None:
    consumer = client.subscribe(topic, "s")
    with RawClient(broker.port_of(topic)) as raw:
        raw.request(pb.CommandProducer(topic=topic, producer_id=1, request_id=0))
        for number, payload in enumerate(PAYLOADS):
            used = kind if payload else pb.NONE  # see `compress`
            head = message_metadata(number, compression=used, uncompressed_size=len(payload))
            raw.send(1, head, compress(used, payload))
        batch = join_batch(
            SingleMessage(pb.SingleMessageMetadata(payload_size=len(payload)), payload)
            for payload in PAYLOADS
        )
        head = message_metadata(
            9,
            compression=kind,
            uncompressed_size=len(batch),
            num_messages_in_batch=len(PAYLOADS),
        )
        raw.send(1, head, compress(kind, batch), num_messages=len(PAYLOADS))
    assert [consumer.receive(5000).data() for _ in PAYLOADS * 2] == PAYLOADS * 2


@pytest.mark.parametrize("kind", TYPES)
def test_we_read_the_official_clients(
    broker: BrokerProcess, client: pulsar.Client, topic: str, kind: pb.CompressionType
) -> None:
    with RawClient(broker.port_of(topic)) as raw:
        subscribe(raw, topic, "s", permits=100)
        for is_batched in (False, True):
            producer = client.create_producer(
                topic, compression_type=TYPES[kind], batching_enabled=is_batched
            )
            for payload in PAYLOADS:
                producer.send(payload)
            producer.close()
            for payload in PAYLOADS:
                parts = split_entry(raw.expect(Delivery).entry)
                head = parts.metadata
                found = decompress(head.compression, parts.payload, head.uncompressed_size)
                if is_batched:
                    (single,) = split_batch(found, 1)
                    found = single.payload
                assert found == payload
                assert head.compression == kind
