"""GET_LAST_MESSAGE_ID: what `has_message_available` compares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from stage.frames import batch, marker, message
from stage.stage import TOPIC, Stage
from stage.talk import (
    ack_command,
    error_of,
    produce,
    request,
    seek_command,
    subscribe,
    wire_id,
)

from milepost.positions import signed64
from milepost.positions.names import TopicName
from milepost.wire import pulsar_pb2 as pb


def last(stage: Stage, client: Any) -> tuple[tuple[int, ...], tuple[int, int] | None]:
    """The last id with partition and batch index, and the mark-delete position."""
    reply = request(stage, client, pb.CommandGetLastMessageId(consumer_id=0, request_id=0))
    assert isinstance(reply, pb.CommandGetLastMessageIdResponse)
    found = reply.last_message_id
    where = (
        signed64(found.ledgerId),
        signed64(found.entryId),
        found.partition,
        found.batch_index,
    )
    if not reply.HasField("consumer_mark_delete_position"):
        return where, None
    mark = reply.consumer_mark_delete_position
    return where, (signed64(mark.ledgerId), signed64(mark.entryId))


@pytest.fixture
def client(stage: Stage) -> Any:
    client = stage.client()
    produce(stage, client)
    subscribe(stage, client)
    return client


def test_an_empty_topic_has_none(stage: Stage, client: Any) -> None:
    assert last(stage, client) == ((-1, -1, -1, -1), None)


def test_markers_are_passed_over_and_a_batch_has_its_last_index(stage: Stage, client: Any) -> None:
    client.say(message(0), batch(1, 5), marker(2), marker(3))
    stage.turn()
    assert last(stage, client) == ((1, 1, -1, 4), (1, -1))
    client.say(batch(4, 1))
    stage.turn()
    assert last(stage, client)[0] == (1, 4, -1, 0)
    client.say(message(5))
    stage.turn()
    assert last(stage, client)[0] == (1, 5, -1, -1)


def test_only_markers_is_as_good_as_nothing(stage: Stage, client: Any) -> None:
    client.say(marker(0))
    stage.turn()
    assert last(stage, client)[0] == (-1, -1, -1, -1)


def test_the_mark_delete_position_is_that_of_a_whole_entry(stage: Stage, client: Any) -> None:
    """A batch that is acked in part is not done: named, it would make the client say that nothing
    is left."""
    client.say(message(0), batch(1, 3), message(2))
    stage.turn()
    for acked, expected in (
        (wire_id(1, 0), (1, 0)),
        (wire_id(1, 1, ack_set=[0b110]), (1, 0)),
        (wire_id(1, 1, ack_set=[0b100]), (1, 0)),
        (wire_id(1, 1), (1, 1)),
        (wire_id(1, 2), (1, 2)),
    ):
        client.say(ack_command(acked, cumulative=True))
        stage.turn()
        assert last(stage, client)[1] == expected


def test_it_is_current_right_after_a_seek(stage: Stage, client: Any) -> None:
    client.say(*[message(number) for number in range(5)])
    stage.turn()
    client.say(ack_command(wire_id(1, 4), cumulative=True))
    stage.turn()
    assert last(stage, client)[1] == (1, 4)
    client.say(seek_command(wire_id(1, 2), consumer_epoch=1))
    assert last(stage, client)[1] == (1, 1)


def test_it_steps_back_over_a_ledger(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage(ledger_entries_max=2)
    client = stage.client()
    produce(stage, client)
    subscribe(stage, client)
    for number in range(2):
        client.say(message(number))
        stage.turn()
    client.say(batch(2, 3))
    stage.turn()
    client.say(ack_command(wire_id(2, 0, ack_set=[0b100]), cumulative=True))
    stage.turn()
    assert last(stage, client) == ((2, 0, -1, 2), (1, 1))


def test_a_partition_says_its_number(stage: Stage) -> None:
    stage.run(stage.broker.create_partitioned_topic(TopicName.parse(TOPIC), 3))
    client = stage.client()
    produce(stage, client, topic=f"{TOPIC}-partition-2")
    subscribe(stage, client, topic=f"{TOPIC}-partition-2")
    client.say(message(0))
    stage.turn()
    assert last(stage, client)[0] == (1, 0, 2, -1)


def test_a_stranger_is_refused(stage: Stage) -> None:
    reply = request(stage, stage.client(), pb.CommandGetLastMessageId(consumer_id=3, request_id=0))
    assert error_of(reply) == "MetadataError"
