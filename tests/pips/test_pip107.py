"""PIP-107: the chunk message id. One test a sentence that promises something of the broker.

The client's are in test_pip107_client.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from stage.frames import chunk, message
from stage.heard import deliveries, got
from stage.stage import Stage
from stage.talk import (
    EXCLUSIVE,
    SHARED,
    ack_command,
    error_of,
    flow,
    produce,
    request,
    seek_command,
    subscribe,
    wire_id,
)

from milepost.positions.ids import Position
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.chunks import ChunkAssembler, Whole
from milepost.wire.events import Receipt
from milepost.wire.metadata import chunk_info, split_entry

MakeStage = Callable[..., Stage]

CHUNKED = [chunk(0, number, 3) for number in range(3)]


def opened(stage: Stage, sub_type: Any = EXCLUSIVE) -> Any:
    """A chunked message at 1:0 to 1:2 and another message at 1:3, all of it with a consumer."""
    client = stage.client()
    produce(stage, client)
    subscribe(stage, client, sub_type=sub_type, permits=100)
    client.say(*CHUNKED, message(1))
    stage.turn()
    assert got(client) == ["0/0", "0/1", "0/2", "1"]
    client.take()
    return client


def sought(stage: Stage, client: Any, target: pb.MessageIdData, **fields: Any) -> list[str]:
    """What comes after a seek, to a client that subscribes again when it is closed."""
    assert error_of(request(stage, client, seek_command(target, **fields))) == ""
    client.take()
    if 0 in client.session.consumers:
        flow(stage, client, 100)
    else:
        subscribe(stage, client, permits=100)
    return got(client)


@pytest.mark.parametrize("entry_id", [0, 1, 2])
def test_a_seek_to_any_chunk_of_a_message_begins_with_its_first(
    stage: Stage, entry_id: int
) -> None:
    """ "For example, when we use this message-id to seek, it will cause the consumer to consume from the
    position of the last chunk, and the consumer will mistakenly think that the previous chunks are lost
    and choose to skip the current message." """
    client = opened(stage)
    assert sought(stage, client, wire_id(1, entry_id)) == ["0/0", "0/1", "0/2", "1"]


def test_an_inclusive_seek_does_not_skip_the_message(stage: Stage) -> None:
    """ "If we use the inclusive seek, the consumer may skip the first message, which brings the wrong
    behavior."

    As the proposal's example: the message put together again has the id that was sought.
    """
    client = opened(stage)
    assert error_of(request(stage, client, seek_command(wire_id(1, 2)))) == ""
    client.take()
    subscribe(stage, client, permits=100)
    assembler = ChunkAssembler()
    whole = []
    for delivery in deliveries(client):
        parts = split_entry(delivery.entry)
        position = Position(delivery.ledger_id, delivery.entry_id)
        info = chunk_info(parts.metadata)
        if info is None:
            whole.append((parts.payload, (position,)))
        elif isinstance(made := assembler.add(info, position, parts.payload, now_ms=0), Whole):
            whole.append((made.payload, made.positions))
    assert whole == [(b"0/00/10/2", ((1, 0), (1, 1), (1, 2))), (b"1", ((1, 3),))]


def test_receipts_name_every_chunk_in_order(stage: Stage) -> None:
    """ "When the Producer and the consumer are processing the chunk Message, the chunk message-id is
    returned to the user."

    The client makes it of the first and the last receipt, which share their sequence id.
    """
    client = stage.client()
    produce(stage, client)
    client.say(*CHUNKED)
    stage.turn()
    receipts = client.take_all(Receipt)
    assert [(one.sequence_id, one.ledger_id, one.entry_id) for one in receipts] == [
        (0, 1, 0),
        (0, 1, 1),
        (0, 1, 2),
    ]


def test_the_last_chunk_stands_for_the_message(stage: Stage) -> None:
    """ "In order to achieve better compatibility with the original business logic, the chunk message-id
    need to be consistent with the original behavior."

    The id of the last chunk is where the message is: the last one of the topic, and what is acked.
    """
    client = stage.client()
    produce(stage, client)
    subscribe(stage, client, permits=100)
    client.say(*CHUNKED)
    stage.turn()
    last = request(stage, client, pb.CommandGetLastMessageId(consumer_id=0, request_id=0))
    assert (last.last_message_id.ledgerId, last.last_message_id.entryId) == (1, 2)
    assert last.last_message_id.batch_index == -1
    acked = request(stage, client, ack_command(wire_id(1, 2), cumulative=True))
    assert error_of(acked) == ""
    assert stage.topic().subscriptions["s"].cursor.mark_delete_index == 2


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("sub_type", [EXCLUSIVE, SHARED])
def test_an_ack_of_a_deserialised_id_covers_all_chunks(
    stage: Stage, restart: bool, sub_type: Any
) -> None:
    """ "In order to make the chunkMessaegId serializable and deserializable, we need to change the proto
    definition of MessageIdData."

    What comes back from bytes knows the first and the last chunk, not those between.
    """
    opened(stage, sub_type).hang_up()
    if restart:
        stage = stage.restarted()
    client = stage.client()
    subscribe(stage, client, sub_type=sub_type)
    named = wire_id(1, 2, first_chunk_message_id=wire_id(1, 0))
    assert error_of(request(stage, client, ack_command(named))) == ""
    flow(stage, client, 100)
    assert got(client) == ["1"]


def test_a_seek_may_carry_both_ids(stage: Stage) -> None:
    """ "Add the first_chunk_message_id optional field to the MessageIdData in proto file" """
    field = pb.MessageIdData.DESCRIPTOR.fields_by_name["first_chunk_message_id"]
    assert field.number == 7
    assert field.message_type is pb.MessageIdData.DESCRIPTOR
    client = opened(stage)
    target = wire_id(1, 2, first_chunk_message_id=wire_id(1, 0))
    assert sought(stage, client, target) == ["0/0", "0/1", "0/2", "1"]


def test_the_problem_does_not_exist_for_old_ids_either(stage: Stage) -> None:
    """ "In this case, the problem of seeking chunk messages mentioned above will still exist."

    Not here: the broker knows where the message begins, also after a restart.
    """
    opened(stage)
    stage = stage.restarted()
    client = stage.client()
    subscribe(stage, client)
    assert sought(stage, client, wire_id(1, 2)) == ["0/0", "0/1", "0/2", "1"]


def test_only_the_seek_of_a_chunked_message_is_different(stage: Stage) -> None:
    """ "In this PIP, the expected impact for the original user will only occur when seeking the chunk
    message." """
    client = opened(stage)
    client.say(message(2))
    stage.turn()
    assert sought(stage, client, wire_id(1, 3)) == ["1", "2"]
    assert sought(stage, client, wire_id(1, 4)) == ["2"]


def test_entries_of_others_between_the_chunks_are_their_own(stage: Stage) -> None:
    """The message's chunks, not the range between them, are what its id covers: an ack or a seek of
    them must not touch what lies between."""
    client = stage.client()
    produce(stage, client)
    subscribe(stage, client, permits=100)
    client.say(chunk(0, 0, 2), message(1), chunk(0, 1, 2))
    stage.turn()
    assert got(client) == ["1", "0/0", "0/1"]
    client.say(ack_command(wire_id(1, 2)))
    stage.turn()
    cursor = stage.topic().subscriptions["s"].cursor
    assert cursor.ack_holes(9) == [(1, 2)]


def test_a_negative_ack_brings_the_whole_message_back(stage: Stage) -> None:
    """Trap 10: official clients name the last chunk; without the others it is nothing."""
    client = opened(stage, SHARED)
    client.say(
        pb.CommandRedeliverUnacknowledgedMessages(consumer_id=0, message_ids=[wire_id(1, 2)])
    )
    stage.turn()
    assert [(one.entry_id, one.redelivery_count) for one in deliveries(client)] == [
        (0, 1),
        (1, 1),
        (2, 1),
    ]
