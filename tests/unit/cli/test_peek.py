"""`milepost peek`: by subscription, and by place."""

from __future__ import annotations

from unit.cli.conftest import Line

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


def test_by_place(line: Line) -> None:
    shown = line(
        "peek",
        TOPIC,
        "--from",
        "idx:5",
        "-n",
        "2",
        answers=(at(0), entry(0, 5), at(1), entry(1, 6)),
    )
    assert shown == (
        "INDEX  ID      KEY  DATA\n    5  3:0:-1  k    m0\\x0a\n    6  3:1:-1  k    m1\\x0a\n"
    )
    assert line.asked == [
        f"GET {T}/getMessageIdByIndex?index=5",
        f"GET {T}/ledger/3/entry/0",
        f"GET {T}/getMessageIdByIndex?index=6",
        f"GET {T}/ledger/3/entry/1",
    ]


def test_to_the_end(line: Line) -> None:
    line("peek", TOPIC, answers=(at(0), entry(0, 0), 404))
    assert (line.code, len(line.out.splitlines())) == (0, 2)


def test_what_has_expired_begins_with_the_first_that_is_kept(line: Line) -> None:
    answers = ({"ledgerId": -1, "entryId": -1}, entry(7, 70), entry(7, 70), 404)
    assert "70  3:7:-1" in line("peek", TOPIC, "--from", "0", answers=answers)


def test_before_the_end_and_by_time(line: Line) -> None:
    line("peek", TOPIC, "--from", "-2", answers=(at(9), {"index": 9}, 404))
    assert line.asked[-1] == f"GET {T}/getMessageIdByIndex?index=8"
    line("peek", TOPIC, "--from", "@5", answers=(at(9), {"index": 9}, at(4), {"index": 4}, 404))
    assert line.asked[-1] == f"GET {T}/getMessageIdByIndex?index=4"
    line("peek", TOPIC, "--from", "@5", answers=(at(9), {"index": 9}, at(10), 404, 404))
    assert line.asked[-1] == f"GET {T}/getMessageIdByIndex?index=10"


def test_apache_pulsar_shows_an_index_with_the_message(line: Line) -> None:
    line("peek", TOPIC, "--from", "-2", answers=(at(9), 404, entry(9, 30), 404))
    assert line.asked[-1] == f"GET {T}/getMessageIdByIndex?index=29"
    line("peek", TOPIC, "--from", "3:4", answers=(at(9), 404, entry(9, 30), 404, entry(4, 12), 404))
    assert line.asked[-1] == f"GET {T}/getMessageIdByIndex?index=12"


def test_by_subscription(line: Line) -> None:
    line("peek", TOPIC, "-s", "billing", "-n", "1", answers=(entry(0, 5),))
    assert line.asked == [f"GET {T}/subscription/billing/position/1"]
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
        "peek", TOPIC, "-s", "billing", "-n", "2", "-o", "csv", answers=(batch, stats, batch, 404)
    )
    assert shown.splitlines()[1:] == ["3:0:-1:2,2,,0,c"]
