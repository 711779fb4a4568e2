"""Positions and messages: what is asked, and how answers are read."""

from __future__ import annotations

import pytest
from unit.admin.conftest import Played

from milepost.admin import messages
from milepost.admin.errors import BadAnswer, Missing
from milepost.admin.face import SyncFace
from milepost.positions import MessageId

TOPIC = "persistent://a/b/c"
ID = {"ledgerId": 3, "entryId": 7, "partitionIndex": -1}


def entry(number: int) -> tuple[dict[str, str], bytes]:
    return {"x-pulsar-message-id": f"3:{number}"}, b"m%d" % number


def test_an_index_becomes_an_id() -> None:
    transport = Played(ID)
    found = SyncFace(transport).run(messages.get_message_id_by_index(TOPIC, 12345))
    assert found == MessageId(3, 7)
    assert transport.asked[0].target == (
        "/admin/v2/persistent/a/b/c/getMessageIdByIndex?index=12345"
    )


def test_precisely() -> None:
    transport = Played({**ID, "batchIndex": 2, "batchSize": 5})
    found = SyncFace(transport).run(messages.get_message_id_by_index(TOPIC, 1, precise=True))
    assert (found.batch_index, found.batch_size) == (2, 5)
    assert transport.asked[0].target.endswith("?index=1&precise=true")


def test_an_id_becomes_an_index() -> None:
    transport = Played({"index": 12, "entryFirstIndex": 10, "entryLastIndex": 14}, {"index": "x"})
    asked = messages.get_index_by_message_id(TOPIC, MessageId(3, 7, -1, 2))
    assert SyncFace(transport).run(asked) == 12
    assert transport.asked[0].target == (
        "/admin/v2/persistent/a/b/c/getIndexByMessageId?ledgerId=3&entryId=7&batchIndex=2"
    )
    with pytest.raises(BadAnswer, match="without a whole number index"):
        SyncFace(transport).run(messages.get_index_by_message_id(TOPIC, MessageId(3, 7)))


def test_times_ends_and_sizes() -> None:
    face = SyncFace(Played(ID, ID, b"4096"))
    assert face.run(messages.get_message_id_by_timestamp(TOPIC, 1700)) == MessageId(3, 7)
    assert face.run(messages.get_last_message_id(TOPIC)) == MessageId(3, 7)
    assert face.run(messages.get_backlog_size(TOPIC)) == 4096


@pytest.mark.parametrize(
    "answer", [b"<html>", [], {"ledgerId": 3}, {"ledgerId": "x", "entryId": 1}]
)
def test_an_answer_that_is_no_id(answer: object) -> None:
    with pytest.raises(BadAnswer, match=r"the answer is not .* \(200, GET /admin/v2/"):
        SyncFace(Played(answer)).run(messages.get_last_message_id(TOPIC))


def test_peeking_asks_entry_by_entry_until_there_are_enough() -> None:
    transport = Played(entry(0), entry(1), entry(2))
    found = SyncFace(transport).run(messages.peek_messages(TOPIC, "s", 2))
    assert [one.data for one in found] == [b"m0", b"m1"]
    assert [one.path.rpartition("/")[2] for one in transport.asked] == ["1", "2"]


def test_peeking_ends_with_the_backlog() -> None:
    found = SyncFace(Played(entry(0), 404)).run(messages.peek_messages(TOPIC, "s", 5))
    assert len(found) == 1
    assert SyncFace(Played(404, ["s"])).run(messages.peek_messages(TOPIC, "s")) == []


def test_peeking_at_what_is_not_there() -> None:
    with pytest.raises(Missing):
        SyncFace(Played(404, ["another"])).run(messages.peek_messages(TOPIC, "s"))


def test_one_entry() -> None:
    face = SyncFace(Played(({}, b"x"), entry(9)))
    (by_id,) = face.run(messages.get_message_by_id(TOPIC, 3, 7))
    assert (by_id.message_id, by_id.data) == (MessageId(3, 7), b"x")
    (examined,) = face.run(messages.examine_message(TOPIC, "earliest", 2))
    assert examined.message_id == MessageId(3, 9)
