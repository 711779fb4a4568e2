"""Messages cut, and what each part says of itself."""

from __future__ import annotations

import pytest

from milepost.client.producing.chunker import chunk_count, chunks, describe_chunk, room_for_payload
from milepost.errors import MessageTooBig
from milepost.wire import pulsar_pb2 as pb


@pytest.mark.parametrize(
    ("size", "sizes"), [(0, [0]), (1, [1]), (10, [10]), (11, [10, 1]), (30, [10, 10, 10])]
)
def test_parts_are_as_large_as_allowed(size: int, sizes: list[int]) -> None:
    payload = bytes(range(size))
    parts = list(chunks(payload, 10))
    assert [len(part) for _, part in parts] == sizes
    assert [chunk_id for chunk_id, _ in parts] == list(range(len(sizes)))
    assert b"".join(part for _, part in parts) == payload
    assert chunk_count(size, 10) == len(sizes)


def test_a_chunk_says_what_it_is() -> None:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=7, publish_time=0)
    describe_chunk(metadata, 1, 3, 25)
    assert (metadata.uuid, metadata.chunk_id) == ("p-7", 1)
    assert (metadata.num_chunks_from_msg, metadata.total_chunk_msg_size) == (3, 25)


def test_metadata_takes_room_and_may_take_it_all() -> None:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=7, publish_time=0)
    assert room_for_payload(metadata, 100) == 100 - metadata.ByteSize()
    with pytest.raises(MessageTooBig, match="of metadata"):
        room_for_payload(metadata, metadata.ByteSize())
