"""Progress from samples: every number against a plain count over the same samples."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any

import pulsar
from pyspark.sql import SparkSession

from milepost.admin import Admin
from milepost.spark.pipelines.progress import reduce
from milepost.spark.pipelines.report.history import RESETS, SAMPLES, record, write
from milepost.spark.pipelines.report.report import write_report

Row = dict[str, Any]
TOPIC = "persistent://public/default/t"
# Of a line, at most: fewer than there are moments.
POINTS = 12


def series(random: Random, topic: str, partition: int, name: str, member: str) -> list[Row]:
    """Samples of one subscription that lives: messages come, go out, are acked; resets, restarts."""
    rows: list[Row] = []
    end, acked, out, epoch = random.randrange(5), 0, 0, 0
    for n in range(random.randrange(3, 25)):
        end += random.randrange(6)
        out = min(end, out + random.randrange(6)) if random.random() < 0.9 else 0
        acked += random.randint(0, max(min(out, end) - acked, 0))
        if random.random() < 0.1:
            epoch, acked, out = epoch + 1, random.randint(0, end), out
        hole = random.randrange(4) if random.random() < 0.4 else None
        row = dict.fromkeys(SAMPLES.names, 0) | {
            "at_ms": 1_000_000 + 1000 * n + random.randrange(900),
            "topic": topic,
            "partition": partition,
            "subscription": name,
            "member": member,
            "end": end,
            "mark_delete_index": acked - 1,
            "backlog": end - acked,
            "inflight": random.randint(0, end - acked),
            "behind_ms": random.randrange(5000),
            "holes": 0 if hole is None else 1,
            "messages_out": out,
            "epoch": epoch,
            "verdict": random.choice(["SLOW", "CONSUMING"]),
            "hole_index": hole,
            "hole_age_ms": None if hole is None else random.randrange(9000),
            "hole_holder": None if hole is None else random.choice(["a", "b", ""]),
            "hole_deliveries": None if hole is None else random.randrange(1, 3),
        }
        rows.append(row)
    return rows


def eras_of(rows: list[Row]) -> list[tuple[list[Row], bool]]:
    found: list[tuple[list[Row], bool]] = []
    for n, row in enumerate(rows):
        before = rows[n - 1] if n else None
        moved = before is not None and before["epoch"] != row["epoch"]
        falls = before is not None and (
            row["end"] < before["end"] or row["messages_out"] < before["messages_out"]
        )
        if before is None or moved or falls:
            found.append(([], moved))
        found[-1][0].append(row)
    return found


def latencies_of(rows: list[Row]) -> list[tuple[int, bool]]:
    """Of every single message: its k-th arrival is the first sample with so many, and so is its ack."""
    found = []
    for era, is_fresh in eras_of(rows):
        first = era[0]
        came = [row["end"] - first["end"] + first["backlog"] for row in era]
        done = [row["end"] - row["backlog"] - first["end"] + first["backlog"] for row in era]
        for k in range(1, max(done) + 1):
            arrival = next(n for n, count in enumerate(came) if count >= k)
            ack = next(n for n, count in enumerate(done) if count >= k)
            ms = era[ack]["at_ms"] - era[arrival]["at_ms"]
            found.append((ms, arrival > 0 or is_fresh))
    return found


def inflight_ages_of(rows: list[Row]) -> dict[int, int]:
    found = {}
    for era, _ in eras_of(rows):
        for n, row in enumerate(era):
            age = 0
            if row["inflight"]:
                behind = row["messages_out"] - row["inflight"]
                since = next((m for m in range(n + 1) if era[m]["messages_out"] > behind), n)
                age = row["at_ms"] - era[since]["at_ms"]
            names = ("hole_index", "hole_holder", "hole_deliveries")
            since = n
            while since and all(era[since - 1][name] == row[name] for name in names):
                since -= 1
            if row["hole_index"] is not None and row["hole_holder"]:
                age = max(age, row["at_ms"] - era[since]["at_ms"])
            found[row["at_ms"]] = age
    return found


def test_every_number_is_that_of_a_plain_count(spark: SparkSession, tmp_path: Path) -> None:
    random = Random(8)
    all_series = [
        series(random, TOPIC, -1, "a", ""),
        series(random, TOPIC, -1, "b", "member"),
        series(random, f"{TOPIC}-p-partition-0", 0, "a", ""),
        series(random, f"{TOPIC}-p-partition-1", 1, "a", ""),
        # Looks like a partition, and is none.
        series(random, f"{TOPIC}-partition-3", -1, "a", ""),
    ]
    # A group's partitions are looked at together.
    for one, other in zip(all_series[2], all_series[3], strict=False):
        other["at_ms"] = one["at_ms"]
    rows = [row for one in all_series for row in one]
    random.shuffle(rows)
    # In several files, and a line that is there twice.
    write(tmp_path / "samples", SAMPLES, rows[:20])
    write(tmp_path / "samples", SAMPLES, rows[20:])
    write(tmp_path / "samples", SAMPLES, rows[:1])
    reset = dict.fromkeys(RESETS.names, 1) | {
        "topic": TOPIC, "subscription": "a", "by": "ann", "asked": "index 0",
    }  # fmt: skip
    write(tmp_path / "resets", RESETS, [reset])
    write(tmp_path / "resets", RESETS, [reset])
    tables = reduce(spark, tmp_path, points_max=POINTS)
    assert (tables.first_ms, tables.last_ms) == (
        min(row["at_ms"] for row in rows),
        max(row["at_ms"] for row in rows),
    )
    assert tables.samples == len({row["at_ms"] for row in rows})
    assert tables.resets == [reset]

    groups = defaultdict(list)
    for one in all_series:
        topic = f"{TOPIC}-p" if one[0]["partition"] >= 0 else one[0]["topic"]
        groups[(topic, one[0]["subscription"], one[0]["member"])].append(one)
    for key, members in groups.items():
        check_group(tables, key, members)
    assert len(tables.groups) == len(groups)
    check_holes(tables.holes, all_series)


def of(row: Row) -> tuple[str, str, str]:
    return row["topic"], row["subscription"], row["member"]


def check_group(tables: Any, key: tuple[str, str, str], members: list[list[Row]]) -> None:
    rows = [row for one in members for row in one]
    moments = sorted({row["at_ms"] for row in rows})
    ages = [inflight_ages_of(one) for one in members]
    at_once = {}
    for at in moments:
        here = [one for one in rows if one["at_ms"] == at]
        at_once[at] = {
            name: sum(one[name] for one in here) for name in ("backlog", "inflight", "holes")
        }
        at_once[at]["behind_ms"] = max(one["behind_ms"] for one in here)
        at_once[at]["inflight_ms"] = max(one.get(at, 0) for one in ages)
    # Of moments that share a point the highest values are shown.
    width = -(-(tables.last_ms - tables.first_ms + 1) // POINTS)
    points = defaultdict(list)
    for at in moments:
        points[(at - tables.first_ms) // width].append(at)
    timeline = [row for row in tables.timeline if of(row) == key]
    assert [row["at_ms"] for row in timeline] == [max(ats) for ats in points.values()]
    for row, ats in zip(timeline, points.values(), strict=True):
        for name in ("backlog", "inflight", "holes", "behind_ms", "inflight_ms"):
            assert row[name] == max(at_once[at][name] for at in ats), (key, ats, name)

    (group,) = [row for row in tables.groups if of(row) == key]
    last = [row for row in rows if row["at_ms"] == moments[-1]]
    assert group["samples"] == len(moments)
    assert group["partitions"] == len(members)
    assert group["backlog_max"] == max(one["backlog"] for one in at_once.values())
    assert group["inflight_max_ms"] == max(one["inflight_ms"] for one in at_once.values())
    assert group["backlog_last"] == sum(row["backlog"] for row in last)
    assert group["behind_max_ms"] == max(row["behind_ms"] for row in rows)
    assert group["verdict"] in {row["verdict"] for row in last}

    all_ = [one for each in members for one in latencies_of(each)]
    timed = sorted(ms for ms, is_timed in all_ if is_timed)
    found = [row for row in tables.latency if of(row) == key]
    if not timed:
        assert found == []
        return
    (latency,) = found
    assert latency["acked"] == len(timed)
    assert latency["untimed"] == len(all_) - len(timed)
    assert math.isclose(latency["mean_ms"], sum(timed) / len(timed))
    assert latency["max_ms"] == timed[-1]
    for percent in (50, 95, 99):
        assert latency[f"p{percent}_ms"] == timed[-(-len(timed) * percent // 100) - 1]


def check_holes(found: list[Row], all_series: list[list[Row]]) -> None:
    wanted = {}
    for one in all_series:
        for row in one:
            if row["hole_index"] is not None:
                key = (row["topic"], row["subscription"], row["epoch"], row["hole_index"])
                wanted.setdefault(key, []).append((row, row["at_ms"] == one[-1]["at_ms"]))
    assert len(found) == len(wanted)
    assert [row["age_ms"] for row in found] == sorted(
        (max(row["hole_age_ms"] for row, _ in rows) for rows in wanted.values()), reverse=True
    )
    assert sorted(row["is_open"] for row in found) == sorted(
        any(is_last for _, is_last in rows) for rows in wanted.values()
    )
    assert sum(row["deliveries"] for row in found) == sum(
        max(row["hole_deliveries"] for row, _ in rows) for rows in wanted.values()
    )


def test_a_broker_is_watched_and_a_page_written(
    spark: SparkSession, broker: Any, client: pulsar.Client, topic: str, tmp_path: Path
) -> None:
    consumer = client.subscribe(
        topic,
        "watched",
        consumer_type=pulsar.ConsumerType.Shared,
        initial_position=pulsar.InitialPosition.Earliest,
    )
    producer = client.create_producer(topic)
    looks = 0

    def ask() -> Any:
        """A message more before every look; one is never acked."""
        nonlocal looks
        looks += 1
        producer.send(b"x")
        message = consumer.receive(30_000)
        if looks != 2:
            consumer.acknowledge(message)
        return admin.get_progress(topic, subscription="watched")

    with Admin(f"http://127.0.0.1:{broker.http_port}") as admin:
        done = record(ask, tmp_path, for_s=1.5, every_s=0.1, resets_of=admin.get_resets)
        lines = admin.get_progress(topic, subscription="watched")
    consumer.close()
    producer.close()
    assert done.subscriptions == 1
    tables = reduce(spark, tmp_path)
    (group,) = tables.groups
    assert (group["topic"], group["subscription"], group["samples"]) == (
        topic,
        "watched",
        done.samples,
    )
    assert group["published"] == done.samples - 1
    if done.samples > 3:  # a machine that is slow enough sees nothing but the beginning
        assert group["inflight_max"] >= 1
    assert lines[0]["messages_out"] == done.samples
    page, *others = write_report(tables, tmp_path / "report")
    assert "watched" in page.read_text("utf-8")
    assert all(path.stat().st_size for path in others if path.suffix == ".png")
    json.dumps(tables.groups)
