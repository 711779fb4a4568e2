"""Acks in groups: merged, by entry, by id, cumulative."""

from __future__ import annotations

import pytest

from milepost.client.messages.acks import IDS_MAX, AckGroup, cumulative_data, data_of
from milepost.client.messages.message import DeliveredEntry
from milepost.errors import InvalidMessageId
from milepost.positions import AckSet, ChunkMessageId, MessageId, Position
from milepost.wire import pulsar_pb2 as pb

Shown = tuple[int, int, tuple[int, ...]]


def shown(group: AckGroup) -> list[Shown]:
    return [
        (one.ledgerId, one.entryId, tuple(one.ack_set)) for ids in group.individual() for one in ids
    ]


def delivered(
    entry_id: int, size: int = 0, pending: int = 0, chunks: tuple[Position, ...] = ()
) -> DeliveredEntry:
    return DeliveredEntry(
        None,
        "t",
        1,
        entry_id,
        -1,
        pb.MessageMetadata(),
        batch_size=size,
        pending=pending,
        last_index=None,
        redelivery_count=0,
        epoch=0,
        chunks=chunks,
    )


def test_what_the_broker_left_out_is_not_acked_with_the_rest() -> None:
    """It may be acked in a transaction that is aborted later: taken for acked it would be lost."""
    group = AckGroup(0)
    entry = delivered(5, size=5, pending=0b11100)
    entry.hidden = 0b00011
    entry.pending = 0b10000
    group.add(entry)
    assert shown(group) == [(1, 5, (0b10011,))]
    entry.pending = 0
    assert shown(group) == [(1, 5, (0b00011,))]


def test_an_entry_says_what_is_left_of_it_when_the_group_is_sent() -> None:
    group = AckGroup(0)
    entry = delivered(5, size=3, pending=0b110)
    group.add(entry)
    group.add(entry)
    assert shown(group) == [(1, 5, (0b110,))]
    entry.pending = 0
    assert shown(group) == [(1, 5, ())]


def test_a_chunked_message_is_all_its_chunks_and_nothing_between() -> None:
    group = AckGroup(0)
    group.add(delivered(7, chunks=(Position(1, 3), Position(1, 5), Position(1, 7))))
    assert shown(group) == [(1, 3, ()), (1, 5, ()), (1, 7, ())]


def test_ids_of_one_batch_are_one_id() -> None:
    group = AckGroup(0)
    group.add_id(MessageId(1, 2, batch_index=0, batch_size=3))
    group.add_id(MessageId(1, 2, batch_index=2, batch_size=3))
    assert shown(group) == [(1, 2, (0b010,))]
    group.add_id(MessageId(1, 2, batch_index=1, batch_size=3))
    assert shown(group) == [(1, 2, ())]


def test_an_entry_acked_whole_by_id_stays_so() -> None:
    group = AckGroup(0)
    group.add_id(MessageId(1, 2))
    group.add_id(MessageId(1, 2, batch_index=1, batch_size=3))
    assert shown(group) == [(1, 2, ())]


def test_a_chunk_id_names_both_ends() -> None:
    group = AckGroup(0)
    group.add_id(ChunkMessageId(MessageId(1, 2), MessageId(1, 6)))
    (ids,) = group.individual()
    assert ids[0].first_chunk_message_id.entryId == 2
    assert shown(group) == [(1, 6, ()), (1, 2, ())]


def test_a_batch_of_unknown_size_cannot_be_acked_by_id() -> None:
    with pytest.raises(InvalidMessageId, match="unknown size"):
        AckGroup(0).add_id(MessageId(1, 2, batch_index=1))


def test_a_group_is_cut_into_commands() -> None:
    group = AckGroup(0)
    for number in range(IDS_MAX + 1):
        group.add_position(Position(1, number))
    assert [len(ids) for ids in group.individual()] == [IDS_MAX, 1]
    assert len(group) == IDS_MAX + 1


def test_the_furthest_cumulative_ack_stays() -> None:
    group = AckGroup(0)
    near, inside, far = (
        data_of(1, 4),
        data_of(1, 5, AckSet(0b100, 3)),
        data_of(1, 5),
    )
    group.add_cumulative(inside)
    group.add_cumulative(near)
    assert group.cumulative == inside
    group.add_cumulative(far)
    group.add_cumulative(inside)
    assert group.cumulative == far


@pytest.mark.parametrize(
    ("message_id", "by_index", "expected"),
    [
        (MessageId(1, 4), True, (1, 4, ())),
        (MessageId(1, 4, batch_index=0, batch_size=3), True, (1, 4, (0b110,))),
        (MessageId(1, 4, batch_index=2, batch_size=3), True, (1, 4, ())),
        (MessageId(1, 4, batch_index=0, batch_size=3), False, (1, 3, ())),
        (MessageId(1, 0, batch_index=0, batch_size=3), False, (1, 2**64 - 1, ())),
    ],
)
def test_a_cumulative_ack_says_what_is_left(
    message_id: MessageId, by_index: bool, expected: Shown
) -> None:
    data = cumulative_data(message_id, batch_index_ack=by_index)
    assert (data.ledgerId, data.entryId, tuple(data.ack_set)) == expected


def test_an_empty_group_is_nothing() -> None:
    group = AckGroup(3)
    assert not group
    assert shown(group) == []
    group.add_cumulative(data_of(1, 1))
    assert group


def test_ids_are_named_for_errors() -> None:
    group = AckGroup(0)
    group.add_id(MessageId(1, 2, batch_index=1, batch_size=3))
    group.add_id(MessageId(4, 5))
    assert group.ids == [MessageId(1, 2, batch_index=1), MessageId(4, 5)]
