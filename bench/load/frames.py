"""What the load generator sends, encoded before the clock runs."""

from __future__ import annotations

import time

from milepost.wire import pulsar_pb2 as pb
from milepost.wire.batches import SingleMessage, join_batch
from milepost.wire.scanners.encode import send_frame


def unbatched(
    count: int, payload_size: int, *, first_producer: int = 0, producers: int = 1
) -> list[bytes]:
    """SENDs of one message each, by several producers in turn."""
    payload = bytes(payload_size)
    metadata = pb.MessageMetadata(producer_name="load-0", sequence_id=0, publish_time=_now_ms())
    frames = []
    for number in range(count):
        sequence_id, producer = divmod(number, producers)
        metadata.sequence_id = sequence_id
        frame = send_frame(
            first_producer + producer, sequence_id, metadata.SerializeToString(), payload
        )
        frames.append(b"".join(frame))
    return frames


def batched(count: int, payload_size: int, batch_size: int) -> list[bytes]:
    """SENDs of `batch_size` messages each, `count` in all."""
    payload = bytes(payload_size)
    single = SingleMessage(pb.SingleMessageMetadata(payload_size=payload_size), payload)
    batch = join_batch([single] * batch_size)
    metadata = pb.MessageMetadata(
        producer_name="load-0",
        sequence_id=0,
        publish_time=_now_ms(),
        num_messages_in_batch=batch_size,
        uncompressed_size=len(batch),
    )
    frames = []
    for sequence_id in range(0, count, batch_size):
        metadata.sequence_id = sequence_id
        head, body = send_frame(
            0, sequence_id, metadata.SerializeToString(), batch, num_messages=batch_size
        )
        frames.append(head + body)
    return frames


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
