"""Packing: what is compressed, encrypted and cut, and what is too large."""

from __future__ import annotations

from typing import Any

import pytest
from rsa_keys import Keys

from milepost.client.messages.encryption import Opener
from milepost.client.policies import CompressionType
from milepost.client.producing.batcher import Batch
from milepost.client.producing.outgoing import Outgoing, PendingEntry
from milepost.client.producing.packer import Packed, Packer, compressed
from milepost.client.producing.producer_options import ProducerOptions
from milepost.errors import MessageTooBig
from milepost.testing.clock import ManualClock
from milepost.wire import pulsar_pb2 as pb


def packer(*, size_max: int = 10_000, **options: Any) -> Packer:
    made = Packer(ProducerOptions("t", **options), ManualClock())
    made.attached("p", b"", size_max)
    return made


def batch(*payloads: bytes) -> Batch:
    messages = [Outgoing(payload, number) for number, payload in enumerate(payloads)]
    made = Batch(PendingEntry(0, -1, 0.0), messages[0], keyed=False)
    for message in messages:
        made.add(message)
    return made


def metadata_of(packed: Packed) -> pb.MessageMetadata:
    return pb.MessageMetadata.FromString(packed.metadata)


def test_compression_says_what_it_did() -> None:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=0)
    payload = compressed(metadata, b"a" * 100, CompressionType.ZSTD)
    assert metadata.compression == pb.ZSTD
    assert metadata.uncompressed_size == 100
    assert len(payload) < 100


def test_nothing_is_not_compressed() -> None:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=0)
    assert compressed(metadata, b"", CompressionType.LZ4) == b""
    assert not metadata.HasField("compression")


def test_a_message_says_what_the_broker_called_its_producer_and_schema() -> None:
    made = packer()
    made.attached("p-7", b"\0" * 7 + b"\2", 10_000)
    for packed in (*made.alone(Outgoing(b"x", 3)), made.batch(batch(b"x"))):
        metadata = metadata_of(packed)
        assert (metadata.producer_name, metadata.schema_version[-1]) == ("p-7", 2)


def test_a_batch_says_how_many_it_has() -> None:
    metadata = metadata_of(packer().batch(batch(b"a", b"b", b"c")))
    assert (metadata.num_messages_in_batch, metadata.highest_sequence_id) == (3, 2)


def test_what_is_too_large_is_refused_or_cut() -> None:
    with pytest.raises(MessageTooBig, match="20000 bytes to t"):
        packer().alone(Outgoing(bytes(20_000), 0))
    with pytest.raises(MessageTooBig):
        packer().batch(batch(bytes(9_000), bytes(9_000)))
    with pytest.raises(MessageTooBig):
        packer().check(10_001)
    cut = packer(chunking_enabled=True).alone(Outgoing(bytes(20_000), 0))
    assert sum(len(packed.payload) for packed in cut) == 20_000
    assert all(len(packed.metadata) + len(packed.payload) <= 10_000 for packed in cut)
    assert [metadata_of(packed).chunk_id for packed in cut] == list(range(len(cut)))


@pytest.mark.parametrize("size_max", [600, 1_000, 5_000])
def test_each_chunk_is_encrypted_and_no_larger_than_it_may_be(size_max: int) -> None:
    keys = Keys("k")
    made = packer(
        size_max=size_max, chunking_enabled=True, encryption_key="k", crypto_key_reader=keys
    )
    content = bytes(range(256)) * 40
    cut = made.alone(Outgoing(content, 0))
    assert len(cut) > 1
    assert all(len(packed.metadata) + len(packed.payload) <= size_max for packed in cut)
    opener = Opener(keys)
    opened = [opener.open(metadata_of(packed), packed.payload) for packed in cut]
    assert b"".join(opened) == content
    nonces = {metadata_of(packed).encryption_param for packed in cut}
    assert len(nonces) == len(cut)


def test_a_batch_is_compressed_then_encrypted() -> None:
    keys = Keys("k")
    made = packer(compression_type=CompressionType.ZLib, encryption_key="k", crypto_key_reader=keys)
    gathered = batch(*[b"the same " * 10] * 20)
    packed = made.batch(gathered)
    metadata = metadata_of(packed)
    assert len(packed.payload) < metadata.uncompressed_size == len(gathered.payload())
    assert len(Opener(keys).open(metadata, packed.payload)) == len(packed.payload) - 16
