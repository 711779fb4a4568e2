"""A RocketMQ message as an entry of Pulsar's, and a stored message as RocketMQ's.

The table is in docs/rocketmq.md. What a RocketMQ producer sends comes back to a RocketMQ consumer as it was;
a Pulsar consumer finds tag, keys and message id among the properties, by RocketMQ's own names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from google.protobuf.timestamp_pb2 import Timestamp

from milepost.broker.messages.message_view import MessageView
from milepost.rocketmq import rocketmq_pb2 as pb
from milepost.rocketmq.message_check import (
    BORN_HOST,
    KEYS,
    MESSAGE_ID,
    RESERVED,
    TAGS,
    TIME_MS_MAX,
    TRACE,
    TRANSACTION,
    millis,
)
from milepost.wire import pulsar_pb2
from milepost.wire.events import PLAIN, ChunkInfo, Send, Traits
from milepost.wire.metadata import chunk_info, entry_metadata_and_end, is_batch, message_count
from milepost.wire.scanners.encode import encode_entry_head

# Says why a body is as it was stored: encrypted, for instance.
FAULT = "milepost.fault"
# Without these a body that is encrypted or packed cannot be read.
SEALED = (
    "encryption_algo",
    "encryption_param",
    "compression",
    "uncompressed_size",
    "num_messages_in_batch",
    "schema_version",
)


def sends_of(
    message: pb.Message, body: bytes, size_max: int, *, producer: str, sequence_id: int, now_ms: int
) -> list[Send]:
    """The entries that a message is stored as: chunks, as Pulsar's producers send them, if its body is
    larger than `size_max`. No RocketMQ producer sends such a body, but one may go to the dead letters."""
    metadata, traits = _head(message, producer, sequence_id, now_ms)
    if len(body) <= size_max:
        return [_entry(metadata, body, traits, sequence_id, now_ms)]
    count = -(-len(body) // size_max)
    metadata.uuid = f"{producer}-{sequence_id}"
    metadata.num_chunks_from_msg, metadata.total_chunk_msg_size = count, len(body)
    sends = []
    for number in range(count):
        metadata.chunk_id = number
        chunk = ChunkInfo(metadata.uuid, number, count, len(body))
        part = body[number * size_max : (number + 1) * size_max]
        sends.append(_entry(metadata, part, traits._replace(chunk=chunk), sequence_id, now_ms))
    return sends


def sealed_sends_of(
    message: pb.Message, entries: Sequence[bytes], *, producer: str, sequence_id: int, now_ms: int
) -> list[Send]:
    """The entries of a message whose body cannot be unpacked: its own, each with what its producer said of
    it, and with the properties of `message`. Chunks stay the chunks that they are: each may be encrypted
    by itself."""
    sends = []
    for entry in entries:
        sealed, at = entry_metadata_and_end(entry)
        metadata, traits = _head(message, producer, sequence_id, now_ms)
        _seal(metadata, sealed)
        traits = traits._replace(is_batch=is_batch(sealed))
        if (chunk := chunk_info(sealed)) is not None:
            metadata.uuid = f"{producer}-{sequence_id}"
            metadata.chunk_id, metadata.num_chunks_from_msg = chunk.chunk_id, chunk.num_chunks
            metadata.total_chunk_msg_size = chunk.total_size
            traits = traits._replace(chunk=chunk._replace(uuid=metadata.uuid))
        send = _entry(metadata, entry[at:], traits, sequence_id, now_ms)
        sends.append(send._replace(count=message_count(metadata)))
    return sends


def _seal(metadata: pulsar_pb2.MessageMetadata, sealed: pulsar_pb2.MessageMetadata) -> None:
    """Say of a body how it is encrypted, packed and batched."""
    metadata.encryption_keys.extend(sealed.encryption_keys)
    for name in SEALED:
        if sealed.HasField(name):
            setattr(metadata, name, getattr(sealed, name))


def _entry(
    metadata: pulsar_pb2.MessageMetadata, part: bytes, traits: Traits, sequence_id: int, now_ms: int
) -> Send:
    head = encode_entry_head(metadata.SerializeToString(), part)
    return Send(sequence_id, 0, 1, now_ms, head + part, traits)


def _head(
    message: pb.Message, producer: str, sequence_id: int, now_ms: int
) -> tuple[pulsar_pb2.MessageMetadata, Traits]:
    system = message.system_properties
    metadata = pulsar_pb2.MessageMetadata(
        producer_name=producer, sequence_id=sequence_id, publish_time=now_ms
    )
    if system.HasField("born_timestamp"):
        metadata.event_time = millis(system.born_timestamp)
    properties = dict(message.user_properties)
    properties[MESSAGE_ID] = system.message_id
    if system.HasField("tag"):
        properties[TAGS] = system.tag
    if system.keys:
        properties[KEYS] = " ".join(system.keys)
    if system.born_host:
        properties[BORN_HOST] = system.born_host
    if system.trace_context:
        properties[TRACE] = system.trace_context
    if system.message_type == pb.TRANSACTION:
        properties[TRANSACTION] = "true"
    for name, value in properties.items():
        metadata.properties.add(key=name, value=value)
    if system.HasField("message_group"):
        metadata.partition_key = system.message_group
    traits = PLAIN
    if system.HasField("delivery_timestamp"):
        metadata.deliver_at_time = millis(system.delivery_timestamp)
        traits = Traits(deliver_at_time=metadata.deliver_at_time)
    return metadata, traits


def message_of(
    view: MessageView, topic: pb.Resource, *, topic_id: int, queue_id: int, store_host: str
) -> pb.Message:
    """A stored message, by whichever client it was sent. What is of one delivery is not in it."""
    properties = view.properties
    system = pb.SystemProperties(
        keys=properties.get(KEYS, "").split(),
        message_id=properties.get(MESSAGE_ID) or stable_id(topic_id, view.index),
        body_encoding=pb.IDENTITY,
        body_digest=pb.Digest(type=pb.MD5, checksum=digest_of(view.payload)),
        message_type=pb.NORMAL,
        born_timestamp=_time(view.event_ms or view.publish_ms),
        born_host=properties.get(BORN_HOST) or view.producer,
        store_timestamp=_time(view.came_ms),
        store_host=store_host,
        queue_id=queue_id,
        queue_offset=view.index,
    )
    if TAGS in properties:
        system.tag = properties[TAGS]
    if TRACE in properties:
        system.trace_context = properties[TRACE]
    if view.deliver_at_ms:
        system.delivery_timestamp.CopyFrom(_time(view.deliver_at_ms))
        system.message_type = pb.DELAY
    if view.key is not None:
        system.message_group = view.key
        system.message_type = pb.FIFO
    if properties.get(TRANSACTION) == "true":
        system.message_type = pb.TRANSACTION
    own = {name: value for name, value in properties.items() if name not in RESERVED}
    if view.fault:
        own[FAULT] = view.fault
    return pb.Message(topic=topic, user_properties=own, system_properties=system, body=view.payload)


def stable_id(topic_id: int, index: int) -> str:
    """The message id of a message that a Pulsar client has sent: always the same, and never empty.

    >>> stable_id(3, 41)
    '00000000000000030000000000000029'
    """
    return f"{topic_id:016X}{index:016X}"


def digest_of(body: bytes) -> str:
    """The digest of a body as it is sent: MD5."""
    return hashlib.md5(body, usedforsecurity=False).hexdigest().upper()


def _time(time_ms: int) -> Timestamp:
    """The nearest time that the protocol can carry."""
    found = Timestamp()
    found.FromMilliseconds(min(max(time_ms, 0), TIME_MS_MAX))
    return found
