"""`milepost explain`: ids in every form, and where they lie."""

from __future__ import annotations

import json

import pytest
from unit.cli.admin.test_topic_subscriptions import outcome
from unit.cli.conftest import Line

from milepost.positions import ChunkMessageId, MessageId

TOPIC = "persistent://acme/shop/orders"


def explained(line: Line, *words: str, answers: tuple[object, ...] = ()) -> dict[str, object]:
    rows = json.loads(line("explain", *words, "-o", "json", answers=answers))
    return {row["what"]: row["value"] for row in rows}


@pytest.mark.parametrize("text", ["3:7:-1:2", "(3,7,-1,2)", "hex:080310072002", "base64:CAMQByAC"])
def test_one_message_of_a_batch_in_every_form(line: Line, text: str) -> None:
    found = explained(line, text)
    assert found == {
        "kind": "one message of a batch",
        "ledger": 3,
        "entry": 7,
        "partition": "none",
        "batch index": 2,
        "Java prints": "3:7:-1:2",
        "C++ prints": "(3,7,-1,2)",
        "bytes": "080310072002",
    }


def test_a_chunked_message(line: Line) -> None:
    chunked = ChunkMessageId(MessageId(7, 9, 3), MessageId(7, 12, 3))
    found = explained(line, f"hex:{chunked.serialize().hex()}")
    assert (found["first chunk"], found["last chunk"]) == ("7:9:3", "7:12:3")


def test_ends(line: Line) -> None:
    assert explained(line, "-1:-1")["stands for"] == "earliest"
    assert explained(line, "idx:7") == {"index": 7}


@pytest.mark.parametrize("text", ["hex:zz", "hex:00", "base64:?", "x"])
def test_what_is_nothing(line: Line, text: str) -> None:
    line("explain", text)
    assert (line.code, line.err.count("\n")) == (2, 1)


def test_a_topic_in_front_of_the_place_is_told(line: Line) -> None:
    line("explain", "orders", "7")
    assert line.err.startswith("milepost: the place comes first: `milepost explain 7 orders` ")
    line("explain", "orders", "others")
    assert "'orders' is no place" in line.err


def test_where_it_lies(line: Line) -> None:
    answers = (
        {"ledgerId": 3, "entryId": 9},
        {"index": 199},
        {"ledgerId": 3, "entryId": 7, "batchIndex": 2, "batchSize": 5},
        ["billing"],
        outcome(was=100),
    )
    found = explained(line, "idx:40", TOPIC, answers=answers)
    assert found["id"] == "3:7:-1:2"
    assert found["in its batch"] == "3 of 5"
    assert found["lies"] == "160 before the end"
    assert found["subscription billing"] == "acked: the first not acked is 100"


def test_behind_the_end(line: Line) -> None:
    answers = ({"ledgerId": 3, "entryId": 9}, {"index": 199}, [])
    found = explained(line, "idx:205", TOPIC, answers=answers)
    assert found["lies"] == "5 behind the end: no message has this index yet"
