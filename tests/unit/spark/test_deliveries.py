"""Messages by the thousand: the same events as one by one, whatever else comes between."""

from __future__ import annotations

import pytest

from milepost.spark import deliveries
from milepost.spark.deliveries import TaskProtocol
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.encode import MessageEncoder
from milepost.wire.events import Command, Delivery
from milepost.wire.replies import connected, reply

ENTRY = b"x" * 60


@pytest.fixture(autouse=True)
def _few_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "RECEIVED_MIN", 0)


def ready() -> TaskProtocol:
    protocol = TaskProtocol()
    protocol.connect(pb.CommandConnect(client_version="t", protocol_version=21))
    protocol.receive(connected("s", 21, 5 << 20, pb.FeatureFlags()))
    return protocol


def message(number: int, **more: int) -> bytes:
    return MessageEncoder(3).head(7, number, len(ENTRY), **more) + ENTRY  # type: ignore[arg-type]


def test_many_at_once() -> None:
    found = ready().receive(b"".join(message(number) for number in range(300)))
    assert found == [Delivery(3, 7, number, -1, 0, (), -1, ENTRY) for number in range(300)]


def test_all_that_a_message_may_say() -> None:
    head = MessageEncoder(300, partition=5).head(2**40, 2**33, len(ENTRY), 2, (), 9)
    (found,) = ready().receive(head + ENTRY)
    assert found == Delivery(300, 2**40, 2**33, 5, 2, (), 9, ENTRY)


def test_what_is_no_plain_message_is_read_where_it_stands() -> None:
    success = reply(pb.CommandSuccess(request_id=4))
    partly_acked = MessageEncoder(3).head(7, 1, len(ENTRY), 0, (28, -1)) + ENTRY
    protocol = ready()
    found = protocol.receive(message(0) + partly_acked + success + message(2))
    assert [one[2] for one in found if isinstance(one, Delivery)] == [0, 1, 2]
    assert isinstance(found[2], Command)
    assert found[1] == Delivery(3, 7, 1, -1, 0, (28, -1), -1, ENTRY)


def test_a_frame_that_is_not_whole_waits_for_the_rest() -> None:
    protocol, data = ready(), message(0) + message(1)
    assert protocol.receive(data[:-1]) == [Delivery(3, 7, 0, -1, 0, (), -1, ENTRY)]
    assert protocol.receive(data[-1:]) == [Delivery(3, 7, 1, -1, 0, (), -1, ENTRY)]
    assert protocol.heard


def test_little_is_not_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "RECEIVED_MIN", 1 << 20)
    protocol = ready()
    assert protocol._take_run(message(0), []) == 0
    assert len(protocol.receive(message(0))) == 1
