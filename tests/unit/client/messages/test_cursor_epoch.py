"""What a client knows of its cursor's epoch, by what it was told."""

from __future__ import annotations

from milepost.client.messages.cursor_epoch import CursorEpoch
from milepost.wire import pulsar_pb2 as pb


def success(epoch: int | None = None) -> pb.CommandSuccess:
    return pb.CommandSuccess(request_id=1, cursor_epoch=epoch)


def told(epoch: int | None = None) -> pb.CommandSeek:
    return pb.CommandSeek(consumer_id=0, request_id=1, cursor_epoch=epoch)


def test_the_first_answer_says_it() -> None:
    epoch = CursorEpoch()
    assert epoch.known is None
    epoch.subscribed(success(3))
    assert epoch.known == 3


def test_a_move_that_was_missed_is_known_when_it_is_told() -> None:
    """Not when SUBSCRIBE is answered: the connection may break before it is told."""
    epoch = CursorEpoch()
    epoch.subscribed(success(3))
    epoch.subscribed(success(5))
    assert epoch.known == 3
    epoch.moved(told(5))
    assert epoch.known == 5


def test_it_only_grows_by_being_told() -> None:
    epoch = CursorEpoch()
    epoch.subscribed(success(3))
    epoch.moved(success(4))
    epoch.moved(told(3))
    assert epoch.known == 4


def test_another_cursor_begins_anew() -> None:
    epoch = CursorEpoch()
    epoch.subscribed(success(3))
    epoch.subscribed(success(0))
    assert epoch.known == 0


def test_a_broker_that_says_nothing() -> None:
    epoch = CursorEpoch()
    epoch.subscribed(success())
    epoch.moved(success())
    epoch.moved(told(4))
    assert epoch.known is None
