"""Where a seek goes, as the wire says it."""

from __future__ import annotations

from typing import Any

import pytest

from milepost.client.messages.inbox import Start
from milepost.client.messages.seek_target import Target, reader_data, seek_data
from milepost.errors import InvalidInput
from milepost.positions import EARLIEST, LATEST, ChunkMessageId, MessageId
from milepost.wire import pulsar_pb2 as pb

CHUNKED = ChunkMessageId(MessageId(3, 2), MessageId(3, 9))


def fields(data: pb.MessageIdData) -> tuple[int, int, int, list[int]]:
    return data.ledgerId, data.entryId, data.batch_index, list(data.ack_set)


@pytest.mark.parametrize(
    ("message_id", "inclusive", "expected"),
    [
        (MessageId(3, 7), True, (3, 7, -1, [])),
        (MessageId(3, 7), False, (3, 8, -1, [])),
        (MessageId(3, 7, batch_index=1, batch_size=4), True, (3, 7, 1, [0b1110])),
        (MessageId(3, 7, batch_index=1, batch_size=4), False, (3, 7, 2, [0b1100])),
        (MessageId(3, 7, batch_index=0, batch_size=4), True, (3, 7, 0, [])),
        (MessageId(3, 7, batch_index=3, batch_size=4), False, (3, 8, -1, [])),
        (MessageId(3, 7, batch_index=1), True, (3, 7, 1, [])),
        (CHUNKED, True, (3, 2, -1, [])),
        (CHUNKED, False, (3, 2, -1, [])),
        (EARLIEST, False, (2**64 - 1, 2**64 - 1, -1, [])),
        (LATEST, True, (2**63 - 1, 2**63 - 1, -1, [])),
    ],
)
def test_a_seek_names_the_first_message_wanted(
    message_id: MessageId, inclusive: bool, expected: Any
) -> None:
    assert fields(seek_data(Start(message_id, inclusive))) == expected


@pytest.mark.parametrize(
    ("message_id", "inclusive", "expected"),
    [
        (MessageId(3, 7, batch_index=1, batch_size=4), False, (3, 7, 1, [])),
        (CHUNKED, True, (3, 2, -1, [])),
        (CHUNKED, False, (3, 9, -1, [])),
    ],
)
def test_a_reader_names_the_entry(message_id: MessageId, inclusive: bool, expected: Any) -> None:
    assert fields(reader_data(Start(message_id, inclusive))) == expected


def test_a_number_is_a_time_unless_it_is_an_index() -> None:
    assert Target.of(17, inclusive=False) == Target(timestamp=17)
    assert Target.of(None, timestamp=17, inclusive=False) == Target(timestamp=17)
    assert Target.of(None, index=17, inclusive=False) == Target(index=17)


@pytest.mark.parametrize(
    "given",
    [
        {"message_id": None},
        {"message_id": 1, "index": 1},
        {"message_id": True},
        {"message_id": "1:2"},
        {"message_id": None, "index": -1},
        {"message_id": None, "index": 1.5},
        {"message_id": None, "timestamp": 2**63},
    ],
)
def test_anything_else_is_refused(given: Any) -> None:
    with pytest.raises(InvalidInput):
        Target.of(given.pop("message_id"), **given, inclusive=False)


@pytest.mark.parametrize("given", [None, "earliest"])
def test_a_refusal_shows_what_would_do(given: Any) -> None:
    with pytest.raises(InvalidInput, match=r"as MessageId\.earliest"):
        Target.of(given, inclusive=False)


@pytest.mark.parametrize(
    ("target", "text"),
    [
        (Target(index=4), "index 4"),
        (Target(timestamp=4), "time 4"),
        (Target(start=Start(MessageId(3, 7), True)), "3:7:-1"),
    ],
)
def test_a_target_reads_well_and_fills_its_field(target: Target, text: str) -> None:
    assert str(target) == text
    command = pb.CommandSeek(consumer_id=1, request_id=1)
    target.fill(command)
    named = [command.HasField(name) for name in ("message_id", "message_publish_time", "index")]
    assert sum(named) == 1


def test_the_ends_hold_nothing_back() -> None:
    assert Target(start=Start(EARLIEST, False)).filter is None
    assert Target(start=Start(LATEST, False)).filter is None
    assert Target(index=3).filter is None
    start = Start(MessageId(3, 7), False)
    assert Target(start=start).filter == start
