"""SENDs as official clients write them, and what the broker's end reads in them."""

from __future__ import annotations

from typing import Any

from milepost.positions import TxnId
from milepost.wire import pulsar_pb2 as pb
from milepost.wire import replies
from milepost.wire.batches import SingleMessage, join_batch
from milepost.wire.events import Command, Send, Sends
from milepost.wire.metadata import split_entry
from milepost.wire.protocol import ServerProtocol
from milepost.wire.scanners.encode import send_frame

PRODUCER = "p"


def metadata(sequence_id: int, producer: str = PRODUCER, **fields: Any) -> pb.MessageMetadata:
    return pb.MessageMetadata(
        producer_name=producer, sequence_id=sequence_id, publish_time=1, **fields
    )


def message(sequence_id: int, payload: bytes | None = None, **fields: Any) -> bytes:
    """One message; its payload is its sequence id unless given."""
    return frame_of(
        metadata(sequence_id, **fields), b"%d" % sequence_id if payload is None else payload
    )


def batch(sequence_id: int, count: int, *, highest: int = 0, **fields: Any) -> bytes:
    """A batch; the payloads are `<sequence id>.<batch index>`."""
    payloads = [b"%d.%d" % (sequence_id, number) for number in range(count)]
    body = join_batch(
        SingleMessage(pb.SingleMessageMetadata(payload_size=len(one)), one) for one in payloads
    )
    meta = metadata(sequence_id, num_messages_in_batch=count, **fields)
    if highest:
        meta.highest_sequence_id = highest
    return frame_of(meta, body, num_messages=count, highest_sequence_id=highest)


def chunk(sequence_id: int, chunk_id: int, count: int, **fields: Any) -> bytes:
    """One of `count` chunks; its payload is `<sequence id>/<chunk id>`."""
    fields.setdefault("uuid", f"{fields.get('producer', PRODUCER)}-{sequence_id}")
    meta = metadata(
        sequence_id,
        chunk_id=chunk_id,
        num_chunks_from_msg=count,
        total_chunk_msg_size=10 * count,
        **fields,
    )
    return frame_of(meta, b"%d/%d" % (sequence_id, chunk_id), is_chunk=True)


def marker(sequence_id: int, **fields: Any) -> bytes:
    return frame_of(metadata(sequence_id, marker_type=20, **fields), b"")


def spoiled(sequence_id: int) -> bytes:
    """A message whose bytes changed on the way: its checksum is wrong."""
    frame = message(sequence_id, b"spoiled")
    return frame[:-1] + bytes([frame[-1] ^ 1])


def frame_of(meta: pb.MessageMetadata, payload: bytes, **options: Any) -> bytes:
    if meta.HasField("txnid_least_bits"):
        options["txn_id"] = TxnId(meta.txnid_most_bits, meta.txnid_least_bits)
    return b"".join(send_frame(0, meta.sequence_id, meta.SerializeToString(), payload, **options))


def sends(*frames: bytes) -> list[Send]:
    """What the broker's end reads in these frames."""
    protocol = ServerProtocol(server_version="stage")
    protocol.receive(replies.reply(pb.CommandConnect(client_version="stage", protocol_version=21)))
    protocol.accept()
    events = protocol.receive(b"".join(frames))
    while protocol.has_more:
        events += protocol.receive(b"")
    read: list[Send] = []
    for event in events:
        assert isinstance(event, Sends), event
        read += event.sends
    return read


def payload_of(entry: bytes) -> str:
    return split_entry(entry).payload.decode()


def command(message: Any) -> Command:
    """A command as a session hears it."""
    from milepost.wire.commands import kind_of

    return Command(kind_of(message), message)
