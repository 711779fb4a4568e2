"""Inspection against counting by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from stage.frames import batch, marker, message
from stage.stage import Stage

from milepost.broker.limits.time_slices import TimeSlices
from milepost.broker.messages import lookup_by_index
from milepost.broker.messages.lookup_by_index import EXPIRED, FoundMessage
from milepost.errors import IndexNotFound, LedgerNotFound
from milepost.positions.ids import Position

MakeStage = Callable[..., Stage]


@pytest.fixture
def stage(make_stage: MakeStage) -> Stage:
    """Entries of 1, 3, 1, 2, 1, 4 messages, two a ledger; the third one is a marker."""
    stage = make_stage(ledger_entries_max=2)
    producer = stage.producer(stage.topic())
    sizes = [1, 3, 0, 2, 1, 4]
    for sequence_id, size in enumerate(sizes):
        frame = marker(sequence_id) if not size else batch(sequence_id, size)
        stage.publish(producer, message(sequence_id) if size == 1 else frame)
    return stage


POSITIONS = [(1, 0), (1, 1), (2, 0), (2, 1), (3, 0), (3, 1)]


def test_every_index_is_found(stage: Stage) -> None:
    topic = stage.topic()
    found = [
        stage.run(lookup_by_index.message_at(topic, index, stage.engine)) for index in range(12)
    ]
    assert [one.position for one in found] == [
        Position(*POSITIONS[number]) for number in (0, 1, 1, 1, 3, 3, 3, 4, 5, 5, 5, 5)
    ]
    assert found[3] == FoundMessage(Position(1, 1), 2, 3)
    for index in (*range(4), *range(5, 12)):
        assert (
            lookup_by_index.index_of(topic, found[index].position, found[index].batch_index)[0]
            == index
        )


def test_below_the_first_it_is_expired(stage: Stage) -> None:
    topic = stage.topic()
    stage.checkpoint()
    stage.store.trim(topic.log, 4)
    assert stage.run(lookup_by_index.message_at(topic, 3, stage.engine)) is EXPIRED
    assert stage.run(lookup_by_index.message_at(topic, 4, stage.engine)).position == (2, 1)
    with pytest.raises(LedgerNotFound, match="1:1"):
        lookup_by_index.index_of(topic, Position(1, 1))


@pytest.mark.parametrize("index", [-1, 12])
def test_what_was_never_there_is_named(stage: Stage, index: int) -> None:
    with pytest.raises(IndexNotFound, match=str(index)):
        stage.run(lookup_by_index.message_at(stage.topic(), index, stage.engine))


def test_entries_are_examined_from_either_end(stage: Stage) -> None:
    def examined(from_earliest: bool, count: int) -> Position:
        slices = TimeSlices(stage.clock)
        found = lookup_by_index.examined(stage.topic(), from_earliest, count, slices, stage.engine)
        return stage.run(found).position

    assert [examined(True, n) for n in (0, 1, 2, 3, 99)] == [POSITIONS[n] for n in (0, 0, 1, 2, 5)]
    assert [examined(False, n) for n in (0, 1, 2, 3, 99)] == [POSITIONS[n] for n in (5, 5, 4, 3, 0)]


def test_an_index_is_one_message_however_it_is_asked_for(stage: Stage) -> None:
    """The wire's id and the found message name the same place, also behind a marker."""
    topic = stage.topic()
    for index in range(12):
        found = stage.run(lookup_by_index.message_at(topic, index, stage.engine))
        message_id = stage.run(lookup_by_index.id_at(topic, index, stage.engine))
        assert (message_id.ledgerId, message_id.entryId) == found.position
        assert (message_id.batch_index, message_id.batch_size) == (
            found.batch_index,
            found.batch_size,
        )


def test_behind_any_number_of_markers_lies_the_message(make_stage: MakeStage) -> None:
    stage = make_stage()
    topic = stage.topic()
    stage.publish(stage.producer(topic), marker(0), marker(1), marker(2), message(3))
    for index in range(4):
        found = stage.run(lookup_by_index.message_at(topic, index, stage.engine))
        assert found.position.entry_id == 3
