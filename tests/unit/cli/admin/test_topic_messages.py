"""Messages as pulsar-admin prints them, and ids by index, time and end."""

from __future__ import annotations

import json

from unit.cli.conftest import Line

from milepost.cli.admin.topic_messages import dump_lines

TOPIC = "persistent://acme/shop/orders"
T = "/admin/v2/persistent/acme/shop/orders"
ID = {"ledgerId": 3, "entryId": 7, "partitionIndex": -1}
HEADERS = {
    "x-pulsar-message-id": "3:7",
    "x-pulsar-publish-time": "1700",
    "x-pulsar-broker-entry-metadata-index": "41",
    "x-pulsar-property": '{"a": "b"}',
}
SHOWN = """\
Message ID: 3:7
Publish time: 1700
Event time: 0
Broker entry metadata index: 41
Properties:
a    b
         +-------------------------------------------------+
         |  0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f |
+--------+-------------------------------------------------+----------------+
|00000000| 68 69                                           |hi              |
+--------+-------------------------------------------------+----------------+
"""


def test_the_line_of_the_proposal_word_for_word(line: Line) -> None:
    words = "topics get-message-id-by-index --index 12345 persistent://tenant/ns/topic"
    assert line(*words.split(), answers=(ID,)) == "3:7:-1\n"
    assert line.asked == [
        "GET /admin/v2/persistent/tenant/ns/topic/getMessageIdByIndex?index=12345"
    ]
    precise = {**ID, "batchIndex": 2, "batchSize": 5}
    assert line(*words.split(), "--precise", answers=(precise,)) == "3:7:-1:2\n"
    assert json.loads(line(*words.split(), "-o", "json", answers=(ID,)))["entryId"] == 7


def test_the_way_back(line: Line) -> None:
    words = ("topics", "get-index-by-message-id", TOPIC, "-m", "3:7:-1:2")
    assert line(*words, answers=({"index": 12},)) == "12\n"
    assert line.asked == [f"GET {T}/getIndexByMessageId?ledgerId=3&entryId=7&batchIndex=2"]


def test_ids_by_time_and_end(line: Line) -> None:
    shown = line("topics", "get-message-id", TOPIC, "-d", "2021-06-28T16:53:08Z", answers=(ID,))
    assert line.asked == [f"GET {T}/messageid/1624899188000"]
    assert json.loads(shown) == {**ID, "batchIndex": -1, "batchSize": 0}
    assert json.loads(line("topics", "last-message-id", TOPIC, answers=(ID,)))["ledgerId"] == 3
    assert line("topics", "get-backlog-size", TOPIC, "-m", "3:7", answers=(b"99",)) == "99\n"


def test_peek(line: Line) -> None:
    words = ("topics", "peek-messages", TOPIC, "-s", "billing", "-n", "2")
    shown = line(*words, answers=((HEADERS, b"hi"), (HEADERS, b"hi")))
    assert shown == f"{SHOWN}{'-' * 73}\n\n{SHOWN}"
    assert line.asked[1] == f"GET {T}/subscription/billing/position/2?create=false"


def test_markers_are_shown_on_request(line: Line) -> None:
    marker = ({**HEADERS, "x-pulsar-marker-type": "10"}, b"")
    words = ("topics", "peek-messages", TOPIC, "-s", "billing")
    assert line(*words, answers=(marker,)) == ""
    assert "Marker Type: 10" in line(*words, "-ssm", answers=(marker,))


def test_other_forms(line: Line) -> None:
    words = ("topics", "peek-messages", TOPIC, "-s", "billing")
    (one,) = json.loads(line(*words, "-o", "json", answers=((HEADERS, b"hi"),)))
    assert (one["id"], one["index"], one["data"]) == ("3:7:-1", 41, "hi")
    (one,) = json.loads(line(*words, "-o", "json", answers=((HEADERS, b"\xff"),)))
    assert one["data_base64"] == "/w=="
    assert line(*words, "-o", "csv", answers=((HEADERS, b"\xff,"),)) == (
        'id,index,key,publish_time,data\n3:7:-1,41,,1700,"\\xff,"\n'
    )


def test_one_entry(line: Line) -> None:
    shown = line(
        "topics", "get-message-by-id", TOPIC, "-l", "3", "-e", "7", answers=((HEADERS, b"hi"),)
    )
    assert shown == SHOWN
    assert line.asked == [f"GET {T}/ledger/3/entry/7"]
    line(
        "topics",
        "examine-messages",
        TOPIC,
        "-i",
        "earliest",
        "-m",
        "2",
        answers=((HEADERS, b"hi"),),
    )
    assert line.asked == [f"GET {T}/examinemessage?initialPosition=earliest&messagePosition=2"]


def test_a_dump_shows_what_can_be_shown() -> None:
    lines = list(dump_lines(bytes(range(0x1E, 0x30))))
    assert lines[3].endswith("|.. !\"#$%&'()*+,-|")
    assert lines[4].startswith("|00000010| 2e 2f ")
    assert {len(one) for one in lines[2:]} == {77}
