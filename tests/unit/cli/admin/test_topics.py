"""`milepost topics` as `pulsar-admin topics`: each line, and what it asks of the broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from unit.cli.conftest import Line

TOPIC = "persistent://acme/shop/orders"
T = "/admin/v2/persistent/acme/shop/orders"
STATS = "getPreciseBacklog=false&subscriptionBacklogSize=true&getEarliestTimeInBacklog=false"

ROWS: list[tuple[str, str, Any]] = [
    (f"create {TOPIC}", f"PUT {T}", {}),
    (f"create {TOPIC} -m a=b --metadata c=d", f"PUT {T}", {"a": "b", "c": "d"}),
    (f"create-partitioned-topic {TOPIC} -p 4", f"PUT {T}/partitions", 4),
    (f"create-partitioned-topic --partitions 4 {TOPIC}", f"PUT {T}/partitions", 4),
    (f"create-missed-partitions {TOPIC}", f"POST {T}/createMissedPartitions", None),
    (
        f"update-partitioned-topic {TOPIC} -p 8 -ulo -f",
        f"POST {T}/partitions?updateLocalTopicOnly=true&force=true",
        8,
    ),
    (f"delete {TOPIC} -f -d", f"DELETE {T}?force=true", None),
    (f"delete-partitioned-topic {TOPIC}", f"DELETE {T}/partitions?force=false", None),
    (f"truncate {TOPIC}", f"DELETE {T}/truncate", None),
    (f"unload {TOPIC}", f"PUT {T}/unload", None),
    (f"trim-topic {TOPIC}", f"POST {T}/trim", None),
    (f"stats {TOPIC} -gpb -sbs -etb", f"GET {T}/stats?{STATS.replace('false', 'true')}", None),
    (
        f"partitioned-stats {TOPIC} --per-partition",
        f"GET {T}/partitioned-stats?perPartition=true&{STATS}",
        None,
    ),
    (f"stats-internal {TOPIC} -m", f"GET {T}/internalStats?metadata=true", None),
    (f"partitioned-stats-internal {TOPIC}", f"GET {T}/partitioned-internalStats", None),
    (f"info-internal {TOPIC}", f"GET {T}/internal-info", None),
    (f"get-properties {TOPIC}", f"GET {T}/properties", None),
    (f"update-properties {TOPIC} -p a=b", f"PUT {T}/properties", {"a": "b"}),
    (f"remove-properties {TOPIC} -k a", f"DELETE {T}/properties?key=a", None),
    (f"compact {TOPIC}", f"PUT {T}/compaction", None),
    (f"get-partitioned-topic-metadata {TOPIC}", f"GET {T}/partitions", None),
]


@pytest.mark.parametrize(("words", "request_line", "body"), ROWS, ids=[row[0][:40] for row in ROWS])
def test_a_line_asks_this(line: Line, words: str, request_line: str, body: Any) -> None:
    line("topics", *words.split(), answers=({}, {}))
    assert (line.code, line.err) == (0, "")
    looks = [f"GET {T}/partitions"] if words.startswith("update-part") else []
    assert line.asked == [*looks, request_line]
    assert line.body == body


def test_list(line: Line) -> None:
    shown = line("topics", "list", "acme/shop", answers=(["persistent://acme/shop/a"], []))
    assert shown == "persistent://acme/shop/a\n"
    line("topics", "list", "acme/shop", "-td", "non_persistent", answers=([],))
    assert line.asked == ["GET /admin/v2/non-persistent/acme/shop"]
    line("topics", "list-partitioned-topics", "acme/shop", answers=([TOPIC], []))
    assert line.out == f"{TOPIC}\n"


def test_lookups(line: Line) -> None:
    assert (
        line("topics", "lookup", TOPIC, answers=({"brokerUrl": "pulsar://h:1"},))
        == "pulsar://h:1\n"
    )
    answers = ({"partitions": 2}, {"brokerUrl": "u"}, {"brokerUrl": "u"})
    assert line("topics", "partitioned-lookup", TOPIC, answers=answers) == (
        f"{TOPIC}-partition-0    u\n{TOPIC}-partition-1    u\n"
    )
    assert line("topics", "partitioned-lookup", TOPIC, "-s", answers=answers) == (
        f"u    [{TOPIC}-partition-0, {TOPIC}-partition-1]\n"
    )
    assert line("topics", "bundle-range", TOPIC, answers=(b"0x00_0xff",)) == "0x00_0xff\n"


def test_terminate(line: Line) -> None:
    last = {"ledgerId": 5, "entryId": 9, "partitionIndex": -1}
    assert line("topics", "terminate", TOPIC, answers=(last,)) == (
        "Topic successfully terminated at 5:9:-1\n"
    )
    assert line("topics", "partitioned-terminate", TOPIC, answers=({"0": last},)) == (
        f"Topic {TOPIC}-partition-0 successfully terminated at 5:9:-1\n"
    )
    line("topics", "partitioned-terminate", TOPIC, answers=(405, {}))
    assert line.code == 2  # a topic without partitions
    line("topics", "partitioned-terminate", TOPIC, answers=(405, 404))
    assert line.code == 5


@pytest.mark.parametrize(
    ("status", "shown", "code"),
    [
        ("NOT_RUN", f"Compaction has not been run for {TOPIC} since broker startup\n", 0),
        ("SUCCESS", "Compaction was a success\n", 0),
        ("ERROR", "", 8),
    ],
)
def test_compaction_status(line: Line, status: str, shown: str, code: int) -> None:
    answers = ({"status": status, "lastError": "disk"},)
    assert line("topics", "compaction-status", TOPIC, answers=answers) == shown
    assert line.code == code


def test_many_are_deleted_by_expression_or_file(line: Line, tmp_path: Path) -> None:
    names = [f"{TOPIC}-1", f"{TOPIC}-2", "persistent://acme/shop/else"]
    line("topics", "delete", f"{TOPIC}-.*", "-r", answers=(names, []))
    assert line.asked[2:] == [f"DELETE {T}-1?force=false", f"DELETE {T}-2?force=false"]
    file = tmp_path / "topics"
    file.write_text(f"{TOPIC}-1\n\n{TOPIC}-2\n", "utf-8")
    line("topics", "delete", str(file), "--from-file", answers=(412, {}))
    assert line.asked == [f"DELETE {T}-1?force=false", f"DELETE {T}-2?force=false"]
    assert line.code == 6
    assert line.err.splitlines()[-1] == "milepost: 1 of 2 topics were not deleted"
    line("topics", "delete", "x", "-r", "--from-file")
    assert line.code == 2


def test_what_is_lost_is_named(line: Line) -> None:
    lost = {"ledgerId": 7, "firstIndex": 3, "endIndex": 5, "reason": "cut", "foundMs": 1}
    for words, asked in (([], f"POST {T}/acceptLoss"), (["--dry-run"], f"GET {T}/losses")):
        shown = line("topics", "accept-loss", TOPIC, *words, answers=([lost],))
        assert line.asked == [asked]
        assert shown.split()[6:] == ["7", "3", "5", "cut"]


def test_a_topic_that_deduplicates_from_its_first_message(line: Line) -> None:
    line("topics", "create", TOPIC, "--deduplication", answers=({}, {}))
    assert line.asked == [f"PUT {T}", f"POST {T}/deduplicationEnabled"]
    assert line.body is True
    line(
        "topics", "create-partitioned-topic", TOPIC, "-p", "2", "--deduplication", answers=({}, {})
    )
    assert line.asked[-1] == f"POST {T}/deduplicationEnabled"
