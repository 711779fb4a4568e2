"""Batches in the making, and the bytes that they become."""

from __future__ import annotations

from milepost.client.producing.batcher import Batcher
from milepost.client.producing.outgoing import Outgoing, PendingEntry
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.batches import split_batch


def batcher(messages_max: int = 3, size_max: int = 1000, by_key: bool = False) -> Batcher:
    return Batcher(messages_max=messages_max, size_max=size_max, by_key=by_key)


def begin(sequence_id: int) -> PendingEntry:
    return PendingEntry(sequence_id, -1, 0.0)


def fill(made: Batcher, *messages: Outgoing) -> None:
    for message in messages:
        made.add(message, lambda message=message: begin(message.sequence_id))  # type: ignore[misc]


def test_a_batch_is_full_by_count() -> None:
    made = batcher()
    for number in range(3):
        assert not made.is_full
        fill(made, Outgoing(b"x", number))
    assert made.is_full
    (one,) = made.take_all()
    assert (one.entry.count, one.entry.sequence_id, one.entry.highest_sequence_id) == (3, 0, 2)
    assert len(made) == 0
    assert made.take_all() == []


def test_a_batch_is_full_by_size() -> None:
    made = batcher(messages_max=100, size_max=50)
    fill(made, Outgoing(b"x" * 30, 0))
    assert not made.is_full
    assert not made.is_room_for(Outgoing(b"x" * 30, 1))
    fill(made, Outgoing(b"x" * 30, 1))
    assert made.is_full


def test_the_first_message_always_has_room() -> None:
    assert batcher(size_max=10).is_room_for(Outgoing(b"x" * 99, 0))


def test_plain_messages_are_written_as_the_library_writes_them() -> None:
    made = batcher(messages_max=1000)
    messages = [Outgoing(b"p" * size, number) for number, size in enumerate((0, 1, 127, 128, 5000))]
    messages.append(Outgoing(b"q", 2**40))
    fill(made, *messages)
    (one,) = made.take_all()
    parts = split_batch(one.payload(), len(messages))
    for message, part in zip(messages, parts, strict=True):
        assert part.payload == message.payload
        assert part.metadata == pb.SingleMessageMetadata(
            payload_size=len(message.payload), sequence_id=message.sequence_id
        )


def test_every_field_goes_with_its_message() -> None:
    made = batcher()
    fill(made, Outgoing(b"x", 7, {"a": "1"}, "k", b"o", 17, None, None, True))
    (one,) = made.take_all()
    (part,) = split_batch(one.payload(), 1)
    assert part.metadata == pb.SingleMessageMetadata(
        payload_size=1,
        sequence_id=7,
        properties=[pb.KeyValue(key="a", value="1")],
        partition_key="k",
        ordering_key=b"o",
        event_time=17,
        null_value=True,
    )


def test_each_key_has_its_batch() -> None:
    made = batcher(messages_max=100, by_key=True)
    fill(
        made,
        Outgoing(b"1", 0, partition_key="a"),
        Outgoing(b"2", 1, partition_key="b"),
        Outgoing(b"3", 2, partition_key="a"),
        Outgoing(b"4", 3, ordering_key=b"o"),
    )
    batches = made.take_all()
    assert [(one.key, one.ordering_key, one.entry.count) for one in batches] == [
        ("a", None, 2),
        ("b", None, 1),
        (None, b"o", 1),
    ]


def test_a_message_knows_its_place() -> None:
    made = batcher()
    entry = begin(5)
    sent = [made.add(Outgoing(b"x", 5 + number), lambda: entry) for number in range(2)]
    assert [one.sequence_id for one in sent] == [5, 6]
