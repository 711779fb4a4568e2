"""Places as people write them."""

from __future__ import annotations

import pytest
from unit.admin.conftest import Played
from unit.cli.conftest import Face

from milepost.cli.progress.places import Kind, Place, parse_place, position_of
from milepost.errors import InvalidInput
from milepost.positions import EARLIEST, LATEST, MessageId


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("earliest", Place(Kind.EARLIEST)),
        ("beginning", Place(Kind.EARLIEST)),
        ("latest", Place(Kind.LATEST)),
        ("end", Place(Kind.LATEST)),
        ("120", Place(Kind.INDEX, 120)),
        ("idx:120", Place(Kind.INDEX, 120)),
        ("index:120", Place(Kind.INDEX, 120)),
        ("-10", Place(Kind.INDEX, -10, is_from_end=True)),
        ("index:-0", Place(Kind.INDEX, 0, is_from_end=True)),
        ("id:14:30", Place(Kind.ID, 0, MessageId(14, 30))),
        ("id:(3,7,-1,2)", Place(Kind.ID, 0, MessageId(3, 7, -1, 2))),
        ("time:00:10", Place(Kind.TIME, 600_000)),
        ("time:-10m", Place(Kind.TIME, 400_000)),
        ("time:1700000000000", Place(Kind.TIME, 1700000000000)),
        ("3:7", Place(Kind.ID, 0, MessageId(3, 7))),
        ("3:7:1:2", Place(Kind.ID, 0, MessageId(3, 7, 1, 2))),
        ("(3,7,-1,2)", Place(Kind.ID, 0, MessageId(3, 7, -1, 2))),
        ("-10m", Place(Kind.TIME, 400_000)),
        ("@17", Place(Kind.TIME, 17)),
        ("2026-11-15T14:00:00Z", Place(Kind.TIME, 1794751200000)),
    ],
)
def test_every_form(text: str, place: Place) -> None:
    assert parse_place(text, now_ms=1_000_000) == place


@pytest.mark.parametrize(
    "text",
    [
        "",
        "soon",
        "idx:",
        "idx:x",
        "3:x",
        "1e3",
        "3:7:1:2:3",
        "(3,7)",
        "14:30",
        "9:05:59",
        "1700000000000",
        "id:5",
        "index:3:7",
        "time:soon",
        "time:25:00",
        "index:9999999999999999999",
        "@9999999999999999999",
        "time:",
    ],
)
def test_what_is_no_place(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_place(text, now_ms=0)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("earliest", {"position": "earliest"}),
        ("latest", {"position": "latest"}),
        ("7", {"index": 7}),
        ("@17", {"time_ms": 17}),
        ("3:7", {"message_id": MessageId(3, 7)}),
    ],
)
def test_as_targets_of_a_reset(text: str, target: dict[str, object]) -> None:
    assert parse_place(text).as_target() == target
    assert Place(Kind.BY, -5).as_target() == {"by": -5}


def test_a_time_of_day_is_the_last_one() -> None:
    day = 86_400_000
    now = 20_000 * day + 3_600_000
    assert parse_place("time:00:30", now_ms=now).number == 20_000 * day + 1_800_000
    assert parse_place("time:01:30", now_ms=now).number == 19_999 * day + 5_400_000


def test_an_option_for_ids_takes_no_time() -> None:
    assert parse_place("14:30", is_id=True) == Place(Kind.ID, 0, MessageId(14, 30))


def test_as_text() -> None:
    assert [str(parse_place(text)) for text in ("end", "7", "3:7", "@5")] == [
        "latest",
        "index 7",
        "id 3:7:-1",
        "time 5",
    ]


def test_as_ids() -> None:
    found = {"ledgerId": 3, "entryId": 7, "partitionIndex": -1, "batchIndex": 2}
    transport = Played(found, found)
    admin = Face(transport)
    assert position_of(admin, "t", "earliest") == EARLIEST
    assert position_of(admin, "t", "latest") == LATEST
    assert position_of(admin, "t", "3:7") == MessageId(3, 7)
    assert transport.asked == []
    assert position_of(admin, "t", "idx:5") == MessageId(3, 7, -1, 2)
    assert position_of(admin, "t", "@5") == MessageId(3, 7, -1, 2)
    assert [one.target.rpartition("/")[2] for one in transport.asked] == [
        "getMessageIdByIndex?index=5&precise=true",
        "5",
    ]
