"""`milepost peek`: by subscription, and by place."""

from __future__ import annotations

import pytest
from unit.cli.conftest import Line, Screen

TOPIC = "persistent://acme/shop/orders"
T = "/admin/v2/persistent/acme/shop/orders"


def entry(number: int, index: int) -> tuple[dict[str, str], bytes]:
    headers = {
        "x-pulsar-message-id": f"3:{number}",
        "x-pulsar-broker-entry-metadata-index": str(index),
        "x-pulsar-partition-key": "k",
    }
    return headers, b"m%d\n" % number


def at(entry_id: int) -> dict[str, int]:
    return {"ledgerId": 3, "entryId": entry_id}


def end(index: int) -> tuple[object, ...]:
    """What is asked first: no partitions, and which index the last message has."""
    return {"partitions": 0}, at(9), {"index": index - 1}


FIRST = (f"GET {T}/partitions", f"GET {T}/lastMessageId", f"GET {T}/getIndexByMessageId")


def test_by_place(line: Line) -> None:
    answers = (*end(7), at(0), entry(0, 5), at(1), entry(1, 6))
    shown = line("peek", TOPIC, "--from", "idx:5", "-n", "2", answers=answers)
    assert shown == (
        "INDEX  ID      KEY  DATA\n    5  3:0:-1  k    m0\\x0a\n    6  3:1:-1  k    m1\\x0a\n"
    )
    assert [one.partition("?")[0] for one in line.asked[:3]] == list(FIRST)
    assert line.asked[3:] == [
        f"GET {T}/getMessageIdByIndex?index=5",
        f"GET {T}/ledger/3/entry/0",
        f"GET {T}/getMessageIdByIndex?index=6",
        f"GET {T}/ledger/3/entry/1",
    ]


def test_to_the_end(line: Line) -> None:
    line("peek", TOPIC, answers=(*end(1), at(0), entry(0, 0)))
    assert (line.code, len(line.out.splitlines())) == (0, 2)


def test_what_is_not_there_is_not_found(line: Line) -> None:
    line("peek", TOPIC, answers=({"partitions": 0}, 404))
    assert line.code == 5
    line("peek", TOPIC, "--from", "9", answers=(*end(7),))
    assert (line.code, line.out) == (5, "")
    assert "no index 9; the end is 7" in line.err
    line("peek", TOPIC, "-s", "billing", answers=({"partitions": 0}, 404, ["another"]))
    assert line.code == 5
    line("peek", TOPIC, "-s", "billing", answers=({"partitions": 0}, 404, ["billing"]))
    assert line.code == 0


def test_each_partition_by_its_own_numbers(line: Line) -> None:
    answers = (
        {"partitions": 2},
        *(at(9), {"index": 9}, at(9), {"index": 9}, at(8), entry(8, 8), at(9), entry(9, 9)),
        *(at(0), {"index": 0}, at(0), {"index": 0}, at(0), entry(0, 0)),
    )
    shown = line("peek", TOPIC, "--from", "-2", "-o", "csv", answers=answers)
    assert [one.split(",")[:2] for one in shown.splitlines()[1:]] == [
        ["3:8:0", "8"],
        ["3:9:0", "9"],
        ["3:0:1", "0"],
    ]


def test_what_has_expired_begins_with_the_first_that_is_kept(line: Line) -> None:
    answers = (*end(71), {"ledgerId": -1, "entryId": -1}, entry(7, 70))
    assert "70  3:7:-1" in line("peek", TOPIC, "--from", "0", answers=answers)


def test_before_the_end_and_by_time(line: Line) -> None:
    line("peek", TOPIC, "--from", "-2", "-n", "1", answers=(*end(10), *end(10)[1:], at(8)))
    assert f"GET {T}/getMessageIdByIndex?index=8" in line.asked
    timed = (*end(10), *end(10)[1:], at(4), {"index": 4}, at(4))
    line("peek", TOPIC, "--from", "@5", "-n", "1", answers=timed)
    assert f"GET {T}/getMessageIdByIndex?index=4" in line.asked
    line("peek", TOPIC, "--from", "@5", answers=(*end(10), *end(10)[1:], at(10), 404))
    assert (line.code, len(line.out.splitlines())) == (0, 1)


def test_apache_pulsar_shows_an_index_with_the_message(line: Line) -> None:
    line.is_pulsar = True
    last = (at(9), 404, entry(9, 30))
    line("peek", TOPIC, "--from", "-2", "-n", "1", answers=({"partitions": 0}, *last, *last, at(8)))
    assert f"GET {T}/getMessageIdByIndex?index=29" in line.asked
    answers = ({"partitions": 0}, *last, *last, 404, entry(4, 12), at(4))
    line("peek", TOPIC, "--from", "3:4", "-n", "1", answers=answers)
    assert f"GET {T}/getMessageIdByIndex?index=12" in line.asked


def test_a_404_of_milepost_is_no_other_broker(line: Line) -> None:
    line("peek", TOPIC, "--from", "99:7", answers=(*end(10), *end(10)[1:], 404, entry(4, 12)))
    assert line.code == 5
    assert line.asked[-1].startswith(f"GET {T}/getIndexByMessageId?ledgerId=99")


def chunk(number: int, index: int, place: int, of: int = 3) -> tuple[dict[str, str], bytes]:
    headers, _ = entry(number, index)
    more = {
        "x-pulsar-uuid": "u",
        "x-pulsar-chunk-id": f"{place}",
        "x-pulsar-num-chunks-from-msg": f"{of}",
    }
    return headers | more, b"<%d>" % place


def test_a_chunked_message_is_one_message(line: Line) -> None:
    """Also from its middle, and with another message between its chunks."""
    stored = [chunk(0, 0, 0), entry(1, 1), chunk(2, 2, 1), chunk(3, 3, 2)]
    forth = [one for n in range(4) for one in (at(n), stored[n])]
    shown = line("peek", TOPIC, "-o", "csv", answers=(*end(4), *forth))
    assert [one.rpartition(",")[2] for one in shown.splitlines()[1:]] == ["m1\\x0a", "<0><1><2>"]
    middle = [at(2), stored[2], at(1), stored[1], at(0), stored[0], at(3), stored[3]]
    shown = line("peek", TOPIC, "--from", "2", "-o", "csv", answers=(*end(4), *middle))
    assert [one.split(",")[:2] for one in shown.splitlines()[1:]] == [["3:3:-1", "3"]]
    assert shown.rstrip().endswith("<0><1><2>")


def test_by_subscription(line: Line) -> None:
    line("peek", TOPIC, "-s", "billing", "-n", "1", answers=({"partitions": 0}, entry(0, 5)))
    assert line.asked == [
        f"GET {T}/partitions",
        f"GET {T}/subscription/billing/position/1?create=false",
    ]
    line("peek", TOPIC, "-s", "billing", "--from", "0")
    assert line.code == 2


def test_what_is_acked_of_a_batch_is_left_out(line: Line) -> None:
    headers = {
        "x-pulsar-message-id": "3:0",
        "x-pulsar-num-batch-message": "3",
        "x-pulsar-broker-entry-metadata-index": "2",
    }
    batch = (headers, b"".join(b"\0\0\0\2\x18\x01" + data for data in (b"a", b"b", b"c")))
    stats = {"subscriptions": {"billing": {"markDeleteIndex": 1}}}
    shown = line(
        "peek",
        TOPIC,
        "-s",
        "billing",
        "-n",
        "2",
        "-o",
        "csv",
        answers=({"partitions": 0}, batch, stats, 404),
    )
    assert shown.splitlines()[1:] == ["3:0:-1:2,2,,0,c"]


def large(size: int, **headers: str) -> tuple[dict[str, str], bytes]:
    named = {f"x-pulsar-{name.replace('_', '-')}": value for name, value in headers.items()}
    return entry(0, 0)[0] | named, b'{"a": "' + b"x" * size + b'"}'


def test_a_long_payload_is_cut_and_the_rest_is_pointed_to(line: Line, screen: Screen) -> None:
    shown = line("peek", TOPIC, answers=(*end(1), at(0), large(5000)))
    assert len(shown) < 1200
    assert shown.endswith("… (5009 bytes)\n")
    assert line.err == f"payloads are cut; `milepost peek {TOPIC} --json` prints them whole\n"
    shown = screen(60, "peek", TOPIC, answers=(*end(1), at(0), large(100)))
    assert max(map(len, shown.splitlines())) <= 80  # 60, and the colours of the head
    assert "payloads are cut" in line.err
    line("peek", TOPIC, answers=(*end(1), at(0), large(100)))
    assert line.err == ""


def test_programs_get_whole_payloads(line: Line) -> None:
    shown = line("peek", TOPIC, "-o", "json", answers=(*end(1), at(0), large(5000)))
    assert len(shown) > 5000


def test_null_is_not_empty(line: Line) -> None:
    headers, _ = entry(0, 0)
    null = (headers | {"x-pulsar-null-value": "true"}, b"")
    assert line("peek", TOPIC, answers=(*end(1), at(0), null)).endswith("k    (null)\n")


def test_a_value_by_its_schema(line: Line) -> None:
    schema = {"type": "INT32", "data": "", "properties": {}}
    typed = (entry(0, 0)[0] | {"x-pulsar-base64-schema-version": "AAAAAAAAAAI="}, b"\0\0\0\7")
    shown = line("peek", TOPIC, answers=(*end(1), at(0), typed, schema))
    assert shown.split()[-1] == "7"
    assert line.asked[-1] == "GET /admin/v2/schemas/acme/shop/orders/schema/2"
    # What is not of its schema is shown as it is.
    broken = (typed[0], b"text")
    assert line("peek", TOPIC, answers=(*end(1), at(0), broken, 404)).endswith("k    text\n")


def test_where(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = [one for n in range(5) for one in (at(n), entry(n, n))]
    shown = line("peek", TOPIC, "-w", "$~3", "-w", "key=k", answers=(*end(5), *stored))
    assert shown.splitlines()[1:] == []  # m3 and a line's end are no JSON
    monkeypatch.setattr("milepost.cli.messages.peek.LOOKED_AT_MAX", 2)
    line("peek", TOPIC, "-w", "key=other", answers=(*end(5), *stored))
    assert line.err == "looked at 2 messages, up to index 1; go on with --from\n"
    line("peek", TOPIC, "-w", "nonsense")
    assert line.code == 2
