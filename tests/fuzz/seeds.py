"""Seeds: real bytes of every kind, made by our own encoders."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import google_crc32c
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from milepost.wire import pulsar_pb2 as pb
from milepost.wire import replies
from milepost.wire.batches import SingleMessage, join_batch
from milepost.wire.commands import FROM_BROKER, FROM_CLIENT, encode_command
from milepost.wire.frames import command_frame
from milepost.wire.metadata import encode_broker_entry
from milepost.wire.scanners import encode

_SAMPLES: dict[int, object] = {
    FieldDescriptor.TYPE_STRING: "persistent://public/default/t",
    FieldDescriptor.TYPE_BYTES: b"\x00\x01",
    FieldDescriptor.TYPE_BOOL: True,
    FieldDescriptor.TYPE_DOUBLE: 1.5,
    FieldDescriptor.TYPE_INT32: 3,
    FieldDescriptor.TYPE_UINT32: 4,
    FieldDescriptor.TYPE_INT64: -5,
    FieldDescriptor.TYPE_UINT64: 300,
}


def _class_of(field: Any) -> type[Message]:
    return GetMessageClass(field.message_type)


def filled(kind: type[Message], depth: int = 0) -> Message:
    """A message with something in every field of it."""
    message = kind()
    for field in kind.DESCRIPTOR.fields:
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            if depth < 2:
                inner = filled(_class_of(field), depth + 1)
                at = getattr(message, field.name)
                at.add().CopyFrom(inner) if field.is_repeated else at.CopyFrom(inner)
            continue
        if field.type == FieldDescriptor.TYPE_ENUM:
            assert field.enum_type is not None
            value: object = field.enum_type.values[-1].number
        else:
            value = _SAMPLES[field.type]
        if field.is_repeated:
            getattr(message, field.name).extend([value, value])
        else:
            setattr(message, field.name, value)
    return message


def commands(kinds: frozenset[int]) -> list[Message]:
    """Each command twice: with every field, and with those that it must have."""
    found: list[Message] = []
    for field in pb.BaseCommand.DESCRIPTOR.fields:
        if field.message_type is None or field.number not in kinds:
            continue
        full = filled(_class_of(field))
        for name in ("first_chunk_message_id",):  # filled to a depth that is never valid
            for part in _ids(full):
                if part.HasField(name):
                    part.first_chunk_message_id.ClearField(name)
        found.append(full)
        bare = _class_of(field)()
        for inner in field.message_type.fields:
            if inner.is_required:
                value = getattr(full, inner.name)
                if inner.type == FieldDescriptor.TYPE_MESSAGE:
                    getattr(bare, inner.name).CopyFrom(value)
                else:
                    setattr(bare, inner.name, value)
        found.append(bare)
    return found


def _ids(message: Message) -> Iterator[pb.MessageIdData]:
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            for part in value if field.is_repeated else (value,):
                if isinstance(part, pb.MessageIdData):
                    yield part
                yield from _ids(part)


def metadata(**fields: object) -> bytes:
    made = pb.MessageMetadata(
        producer_name="producer-1",
        sequence_id=7,
        publish_time=1_700_000_000_000,
        **fields,  # type: ignore[arg-type]
    )
    return made.SerializeToString()


def batch_payload(count: int) -> bytes:
    return join_batch(
        SingleMessage(
            pb.SingleMessageMetadata(
                payload_size=number % 5,
                partition_key=f"k{number}",
                properties=[pb.KeyValue(key="a", value="b")] * (number % 2),
            ),
            bytes(number % 5),
        )
        for number in range(count)
    )


CHUNK = {"uuid": "u-1", "num_chunks_from_msg": 3, "total_chunk_msg_size": 30, "chunk_id": 1}

# Metadata with its payload.
ENTRIES: list[tuple[bytes, bytes]] = [
    (metadata(), b"payload"),
    (metadata(partition_key="k", ordering_key=b"o"), b"payload"),
    (metadata(partition_key="a2V5", partition_key_b64_encoded=True), b""),
    (metadata(num_messages_in_batch=3), batch_payload(3)),
    (metadata(num_messages_in_batch=70, highest_sequence_id=76), batch_payload(70)),
    (
        metadata(num_messages_in_batch=5, compression=pb.LZ4, uncompressed_size=900),
        bytes(range(90)),
    ),
    (metadata(**CHUNK), bytes(10)),
    (metadata(**{**CHUNK, "chunk_id": 0}), bytes(10)),
    (metadata(marker_type=10), b""),
    (metadata(deliver_at_time=1_800_000_000_000, event_time=5), b"later"),
    (metadata(schema_version=b"\0" * 8, replicated_from="west", replicate_to=["e", "f"]), b"x"),
    (
        metadata(
            encryption_keys=[pb.EncryptionKeys(key="k", value=b"v")],
            encryption_algo="a",
            encryption_param=b"p",
        ),
        bytes(40),
    ),
    (filled(pb.MessageMetadata).SerializeToString(), b"all"),
]


def stored_entries() -> list[bytes]:
    """Entries as they are stored and delivered: with and without the blocks in front."""
    found = []
    for number, (data, payload) in enumerate(ENTRIES):
        body = len(data).to_bytes(4, "big") + data + payload
        crc = int(google_crc32c.value(body)).to_bytes(4, "big")
        entry = b"\x0e\x01" + crc + body
        found += [body, entry, encode_broker_entry(1_700_000_000_000, number) + entry]
    return found


def send_frames() -> list[bytes]:
    found = []
    for number, (data, payload) in enumerate(ENTRIES):
        head, body = encode.send_frame(0, 7, data, payload)
        found.append(head + body)
        if number % 3 == 0:
            head, body = encode.send_frame(300, 2**40, data, payload)
            found.append(head + body)
    return found


def client_frames() -> list[bytes]:
    """What clients send: every command, SENDs of every kind, and runs of them."""
    found = [command_frame(encode_command(command)) for command in commands(FROM_CLIENT)]
    sends = send_frames()
    ack = command_frame(
        encode_command(
            pb.CommandAck(
                consumer_id=1,
                ack_type=pb.CommandAck.Individual,
                message_id=[
                    pb.MessageIdData(ledgerId=3, entryId=n, ack_set=[28] * (n % 3))
                    for n in range(20)
                ],
                request_id=5,
            )
        )
    )
    flow = command_frame(encode_command(pb.CommandFlow(consumer_id=1, messagePermits=1000)))
    return [*found, *sends, ack, flow, b"".join(sends), sends[0] * 5, sends[3] + ack + flow]


def broker_frames() -> list[bytes]:
    """What brokers send: every command, and MESSAGEs of every kind."""
    found = [command_frame(encode_command(command)) for command in commands(FROM_BROKER)]
    encoder = encode.MessageEncoder(1, -1)
    for number, entry in enumerate(stored_entries()):
        words = (28, -1)[: number % 3]
        head = encoder.head(3, number, len(entry), number % 2, words, number % 2 - 1, b"")
        found.append(bytes(head) + entry)
    found.append(encode.send_receipts(1, [(n, 0, 3, n) for n in range(5)]))
    found.append(replies.connected("Milepost-1", 21, 5 << 20, pb.FeatureFlags()))
    return found


def handshakes() -> list[bytes]:
    connect = command_frame(
        encode_command(
            pb.CommandConnect(
                client_version="Pulsar-CPP-v4.2.0",
                protocol_version=20,
                auth_method_name="token",
                auth_data=b"secret",
                feature_flags=pb.FeatureFlags(supports_broker_entry_metadata=True),
            )
        )
    )
    return [connect, *(connect + frame for frame in itertools.islice(client_frames(), 10))]
