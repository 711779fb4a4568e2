"""The examples of docs/spark.md and docs/pipelines/*.md, run as they stand but for addresses, directories and
how long something is watched. A block that is new on one of these pages is run, or fails here."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pulsar
import pytest
from compat.broker_process import BrokerProcess
from pulsar.schema import AvroSchema, Long, Record, String
from pyspark.sql import SparkSession
from tidy.snippets import blocks

from milepost.admin import Admin, Missing
from milepost.cli import pipeline
from milepost.cli.exits import Exit
from milepost.cli.main import run
from milepost.spark.pipelines.lake.lake import Lake
from spark.conftest import MESSAGE_SIZE_MAX, values_of

ROOT = Path(__file__).parents[2]
PAGE = "docs/spark.md"
PIPELINES = ("archive.md", "replay.md", "verify.md", "progress.md")
MINUTE_MS = 60_000
PATIENCE_S = 600


class Order(Record):  # type: ignore[misc]
    id = Long()
    item = String()


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker as `milepost serve` is: what a reader of the pages has."""
    folder = tmp_path_factory.mktemp("usual")
    with BrokerProcess(folder, max_message_size=MESSAGE_SIZE_MAX) as process:
        yield process


@pytest.fixture
def messages(usual: BrokerProcess) -> Iterator[pulsar.Client]:
    client = pulsar.Client(usual.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    yield client
    client.close()


def examples(broker: BrokerProcess, scratch: Path) -> list[str]:
    """The programs of the page that a test of this file runs, for this broker."""
    url, http = json.dumps(broker.url), json.dumps(f"http://127.0.0.1:{broker.http_port}")
    return [
        one.text.replace('"pulsar://localhost:6650"', url)
        .replace('.format("milepost")', f'.format("milepost").option("serviceUrl", {url})')
        .replace('"http://localhost:8080"', http)
        .replace('"checkpoints/', f'"{scratch}/')
        for one in blocks(PAGE, (ROOT / PAGE).read_text("utf-8"))
        if one.kind == "python" and one.test == "tests/spark/test_page.py"
    ]


def test_examples_run(
    spark: SparkSession, usual: BrokerProcess, messages: pulsar.Client, tmp_path: Path
) -> None:
    events, orders = (f"persistent://public/default/{name}" for name in ("events", "orders"))
    with Admin(f"http://127.0.0.1:{usual.http_port}") as admin, suppress(Missing):
        admin.delete_topic(events, force=True)  # the commands of the pages use it too
    producer = messages.create_producer(events)
    for number, minute in enumerate((0, 0, 10)):
        producer.send(b"%d" % number, partition_key="k", event_timestamp=(minute + 1) * MINUTE_MS)
    typed = messages.create_producer(orders, schema=AvroSchema(Order))
    typed.send(Order(id=1, item="screws"))

    before = {one.id for one in spark.streams.active}
    names: dict[str, Any] = {"spark": spark}
    read, by_schema, copied, totals, routed, written = examples(usual, tmp_path)
    for example in (read, by_schema, copied, totals, routed):
        exec(example, names)  # our own page
    assert names["events"].count() == 3
    assert [tuple(row) for row in names["orders"].collect()] == [(0, 1, "screws")]
    for query in spark.streams.active:
        if query.id not in before:
            try:
                query.processAllAvailable()
            finally:
                query.stop()
    assert values_of(usual.url, "persistent://public/default/copies") == [b"0", b"1", b"2"]
    # The window of the first two is over when the third has come.
    assert values_of(usual.url, "persistent://public/default/totals") == [b"2"]

    for topic in ("invoices", "audit"):
        assert values_of(usual.url, f"persistent://public/default/{topic}") == [b"0", b"1", b"2"]

    exec(written, names)
    consumer = messages.subscribe(
        orders,
        "s",
        schema=AvroSchema(Order),
        initial_position=pulsar.InitialPosition.Earliest,
    )
    found = [consumer.receive(30_000).value() for _ in range(2)]
    assert [(one.id, one.item) for one in found] == [(1, "screws"), (1, "nails")]


def commands() -> list[list[str]]:
    """The commands of the pages about pipelines, in an order in which each has what it needs."""
    pages = [PAGE, *(f"docs/pipelines/{name}" for name in PIPELINES)]
    found = [
        shlex.split(line, comments=True)
        for page in pages
        for one in blocks(page, (ROOT / page).read_text("utf-8"))
        if one.kind == "sh" and one.test == "tests/spark/test_page.py"
        for line in one.text.splitlines()
    ]
    assert {tuple(words[:2]) for words in found} == {("milepost", "pipeline")}
    return [words[2:] for words in found]


def test_commands_run(
    spark: SparkSession,
    usual: BrokerProcess,
    messages: pulsar.Client,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(pipeline, "start_spark", lambda master: spark)
    monkeypatch.setenv("MILEPOST_ADMIN_URL", f"http://127.0.0.1:{usual.http_port}")
    monkeypatch.chdir(tmp_path)
    producer = messages.create_producer("events")
    messages.subscribe("events", "s")
    for number in range(20):
        producer.send(b"%d" % number)
    for words in commands():
        if "--follow" in words:
            follow(words, tmp_path / words[2], producer)
            continue
        quick = ["1" if word == "10m" else word for word in words]
        assert run(["pipeline", *quick]) == Exit.OK, f"{words}: {capsys.readouterr().err}"


def follow(words: list[str], lake: Path, producer: pulsar.Producer) -> None:
    """The command that goes on until it is told to stop, with one message more."""
    end = sum(Lake.load(lake).end.values())
    producer.send(b"followed")
    command = [
        sys.executable,
        "-m",
        "milepost.cli.main",
        "pipeline",
        *words,
        "--master",
        "local[1]",
    ]
    with subprocess.Popen(command, cwd=lake.parent, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        deadline = time.monotonic() + PATIENCE_S
        while sum(Lake.load(lake).end.values()) == end:
            assert time.monotonic() < deadline
            time.sleep(0.1)  # sleep: between two looks at another process's files
        running.send_signal(signal.SIGTERM)
        assert running.wait(PATIENCE_S) == 0
