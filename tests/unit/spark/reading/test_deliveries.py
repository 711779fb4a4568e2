"""Messages by the thousand: the same entries as one by one, whatever else comes between."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from stage.runs import Heard

from milepost.spark.reading import deliveries
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import Command
from milepost.wire.replies import reply
from milepost.wire.scanners.encode import MessageEncoder

ENTRY = b"x" * 60


@pytest.fixture(autouse=True)
def _few_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "RECEIVED_MIN", 0)


@pytest.fixture
def heard() -> Iterator[Heard]:
    with Heard() as made:
        yield made


def message(number: int, **more: int) -> bytes:
    return MessageEncoder(3).head(7, number, len(ENTRY), **more) + ENTRY  # type: ignore[arg-type]


def test_many_at_once(heard: Heard) -> None:
    heard.receive(b"".join(message(number) for number in range(300)))
    assert heard.found == [(3, 7, number, ENTRY) for number in range(300)]
    assert heard.blocks == 1


def test_all_that_a_message_may_say(heard: Heard) -> None:
    head = MessageEncoder(300, partition=5).head(2**40, 2**33, len(ENTRY), 2, (), 9)
    heard.receive(head + ENTRY)
    assert (heard.found, heard.blocks) == ([(300, 2**40, 2**33, ENTRY)], 1)


def test_readings_of_one_link_get_their_own(heard: Heard) -> None:
    other = MessageEncoder(4).head(7, 9, len(ENTRY)) + ENTRY
    heard.receive(message(0) + message(1) + other + message(2))
    assert [one[:3] for one in heard.found] == [(3, 7, 0), (3, 7, 1), (4, 7, 9), (3, 7, 2)]
    assert heard.blocks == 3


def test_what_is_no_plain_message_is_read_where_it_stands(heard: Heard) -> None:
    success = reply(pb.CommandSuccess(request_id=4))
    partly_acked = MessageEncoder(3).head(7, 1, len(ENTRY), 0, (28, -1)) + ENTRY
    heard.receive(message(0) + partly_acked + success + message(2))
    first, second, third, last = heard.found
    assert isinstance(third, Command)
    assert [first, second, last] == [(3, 7, number, ENTRY) for number in range(3)]
    assert heard.blocks == 1


def test_a_frame_that_is_not_whole_waits_for_the_rest(heard: Heard) -> None:
    data = message(0) + message(1)
    heard.receive(data[:-1])
    assert heard.found == [(3, 7, 0, ENTRY)]
    heard.receive(data[-1:])
    assert heard.found == [(3, 7, 0, ENTRY), (3, 7, 1, ENTRY)]
    assert heard.protocol.heard


def test_little_is_not_worth_it(monkeypatch: pytest.MonkeyPatch, heard: Heard) -> None:
    monkeypatch.setattr(deliveries, "RECEIVED_MIN", 1 << 20)
    heard.receive(message(0))
    assert (heard.found, heard.blocks) == ([(3, 7, 0, ENTRY)], 0)
