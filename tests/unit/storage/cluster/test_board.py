"""The board: which brokers are there, whatever the brokers that look do themselves."""

from __future__ import annotations

import json

import pytest

from milepost.storage.cluster.board import DEAD_S, FORGET_S, Board
from milepost.storage.cluster.notice import Notice, Seat

ONE = Notice("one", "h", "m", 1, 1, 9, "pulsar://h:1", "", "http://h:2", False, {})


def look(board: Board, now: float, *notices: Notice) -> set[str]:
    board.saw({one.broker: one for one in notices}, now)
    return set(board.living())


def beat(notice: Notice) -> Notice:
    return notice._replace(beat=notice.beat + 1)


def test_a_notice_comes_back_and_other_bytes_are_none() -> None:
    notice = ONE._replace(shards={3: None, 4: Seat(7, "h", 1, -1, 2)}, shunned=(5,))
    assert Notice.decode(notice.encode()) == notice
    assert notice.epoch_of(4) == 7
    assert notice.epoch_of(3) == notice.epoch_of(5) == 0
    for data in (b"", b"7", b"{}", b'{"format": 2}', b'{"format": 1, "shards": {}}', b"[" * 99999):
        assert Notice.decode(data) is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("broker", 7),
        ("broker", ["one"]),
        ("host", None),
        ("beat", "1"),
        ("hail_port", "9"),
        ("hail_port", 65536),
        ("hail_port", True),
        ("hail_port", -1),
        ("hail_port", 0),
        ("host", "127.0.0.1\0"),
        ("http_url", 1),
        ("http_url", "http://[x"),
        ("http_url", "http://\ud800"),
        ("is_leaving", "no"),
        ("shards", [1]),
        ("shards", {"x": None}),
        ("shards", {"-1": None}),
        ("shards", {"1": [1, "h", 1, -1]}),
        ("shards", {"1": ["1", "h", 1, -1, 2]}),
        ("shards", {"1": [1, "h", 1, -1, 99999]}),
        ("shards", {"1": [1, "h", 1, -1, -1]}),
        ("shards", {"1": [1, "h\0", 1, -1, 2]}),
        ("shunned", 1),
        ("shunned", ["x"]),
        ("loads", {"1": float("nan")}),
        ("loads", {"1": float("inf")}),
        ("loads", {"1": 10**400}),
        ("loads", {"1": "x"}),
        ("loads", [1]),
        ("listeners", None),
        ("listeners", "\ud800"),
    ],
)
def test_a_notice_with_a_wrong_value_is_none(field: str, value: object) -> None:
    """What is decided by it, or connected to, would end the agents of all brokers."""
    doc = json.loads(ONE.encode())
    assert Notice.decode(json.dumps(doc).encode()) == ONE
    assert Notice.decode(json.dumps({**doc, field: value}).encode()) is None


def test_a_broker_is_dead_when_its_notice_stops_changing() -> None:
    board = Board()
    assert look(board, 0.0, ONE) == {"one"}
    for second in range(1, int(DEAD_S)):
        assert look(board, second, ONE) == {"one"}
    assert look(board, DEAD_S, ONE) == set()
    assert look(board, DEAD_S + 1, beat(ONE)) == {"one"}
    assert look(board, DEAD_S + 2) == set()


def test_a_notice_that_cannot_be_read_is_of_a_broker_that_is_there_while_it_changes() -> None:
    board = Board()
    for second in range(20):
        board.saw({}, second, {"new": b"%d" % second})
        assert board.unread() == ["new"]
        assert board.living() == {}
    for second in range(20, 20 + int(FORGET_S) + 10):
        board.saw({}, second, {"new": b"19"})
        assert board.unread() == (["new"] if second < 19 + DEAD_S else [])
    assert board.forgotten() == [], "a release that can read it deletes it"


def test_a_broker_that_slept_itself_takes_nobody_for_dead() -> None:
    board = Board()
    look(board, 0.0, ONE)
    assert look(board, 100.0, ONE) == {"one"}
    assert look(board, 101.0, beat(ONE)) == {"one"}


def test_a_refused_connection_is_a_death_until_the_notice_changes() -> None:
    board = Board()
    look(board, 0.0, ONE)
    board.refused("one")
    board.refused("unknown")
    assert set(board.living()) == set()
    assert look(board, 1.0, ONE) == set()
    assert look(board, 2.0, beat(ONE)) == {"one"}


def test_a_broker_that_survives_refusals_is_there_as_long_as_its_notice_changes() -> None:
    """It is at an address where it is not reached. Its shards were claimed again with each refusal."""
    board, now = Board(), ONE
    look(board, 0.0, now)
    for second in (1.0, 2.0):
        assert board.refused("one")
        assert set(board.living()) == set()
        now = beat(now)
        assert look(board, second, now) == {"one"}
    assert not board.refused("one")
    assert set(board.living()) == {"one"}
    for second in range(3, 3 + int(DEAD_S)):
        look(board, second, now)
    assert set(board.living()) == set()
    look(board, 9.0, beat(now))
    board.reached("one")
    assert board.refused("one")


def test_a_notice_is_forgotten_long_after_its_broker() -> None:
    board = Board()
    look(board, 0.0, ONE)
    for second in range(1, int(FORGET_S)):
        look(board, second, ONE)
        assert board.forgotten() == []
    look(board, FORGET_S, ONE)
    assert board.forgotten() == ["board/one"]
