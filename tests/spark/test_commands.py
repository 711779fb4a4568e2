"""`milepost pipeline`, as a person runs it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from milepost.cli import pipeline
from milepost.cli.exits import Exit
from milepost.cli.main import run
from milepost.spark.pipelines.lake.lake import Lake

PATIENCE_S = 600


def test_archive_until_told_to_stop(
    spark: SparkSession, broker: Any, publisher: Any, topic: str, tmp_path: Path
) -> None:
    # The session is there for its check of Java only: the command has one of its own.
    publisher.batches(12, of=5)
    command = [
        sys.executable,
        "-m",
        "milepost.cli.main",
        "pipeline",
        "archive",
        topic,
        str(tmp_path),
    ]
    command += ["--follow", "--url", broker.url, "--master", "local[1]", "-o", "json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        try:
            deadline = time.monotonic() + PATIENCE_S
            while Lake.load(tmp_path).end.get(topic) != 12 and running.poll() is None:
                assert time.monotonic() < deadline
                time.sleep(0.1)  # sleep: between two looks at another process's files
            running.send_signal(signal.SIGTERM)
            said, complaint = running.communicate(timeout=PATIENCE_S)
        finally:
            running.kill()
    assert (running.returncode, complaint) == (0, "")
    (summary,) = json.loads(said)
    assert (summary["messages"], summary["end"]) == (12, 12)


@pytest.fixture
def here(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands take the session of the tests, which saves each a start of Spark."""
    monkeypatch.setattr(pipeline, "start_spark", lambda master: spark)


@pytest.mark.usefixtures("here")
def test_each_says_what_it_did(
    broker: Any,
    publisher: Any,
    topic: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    where = [
        "--url",
        broker.url,
        "--admin-url",
        f"http://127.0.0.1:{broker.http_port}",
        "-o",
        "json",
    ]

    def said(*args: str, code: Exit = Exit.OK) -> tuple[dict[str, Any], str]:
        assert run(["pipeline", *args, *where]) == code
        out, complaint = capsys.readouterr()
        return json.loads(out)[0], complaint

    publisher.batches(12, of=5)
    lake, history = str(tmp_path / "lake"), str(tmp_path / "history")
    done, _ = said(
        "archive", topic, lake, "--step", "7", "--format", "delta", "--subscription", "a"
    )
    assert (done["steps"], done["messages"], done["end"]) == (2, 12, 12)
    done, _ = said("verify", lake)
    assert (done["messages"], done["problems"]) == (12, 0)
    done, _ = said("replay", lake, f"{topic}-copy")
    assert (done["messages"], done["sent"]) == (12, 12)
    done, _ = said("verify", lake, "--copy", f"{topic}-copy")
    assert (done["messages"], done["problems"]) == (12, 0)

    done, _ = said("progress", history, "--record", "1", "--every", "0.2", "-t", topic, "-g", "a")
    assert (done["groups"], done["report"]) == (1, f"{history}/report/progress.html")
    assert done["samples"] >= 1
    assert Path(done["report"]).read_text("utf-8").startswith("<!DOCTYPE html>")

    damaged = next(Path(lake, "data").iterdir())
    damaged.write_bytes(b"no parquet")
    done, complaint = said("verify", lake, code=Exit.DATA)
    assert done["problems"] >= 1
    assert "cannot be read" in complaint
    assert damaged.name in complaint


@pytest.mark.usefixtures("here")
def test_what_cannot_be_is_told(
    broker: Any, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["pipeline", "progress", str(tmp_path)]) == Exit.NOT_FOUND
    assert "has no samples" in capsys.readouterr().err
    assert run(["pipeline", "progress", str(tmp_path), "-t", "a", "-n", "b/c"]) == Exit.USAGE
    lake = str(tmp_path / "lake")
    assert run(["pipeline", "archive", topic, lake, "--url", broker.url]) == Exit.NOT_FOUND
    assert topic in capsys.readouterr().err


@pytest.mark.usefixtures("here")
def test_a_broker_that_does_not_answer_is_told_before_spark_is_started(
    broker: Any,
    publisher: Any,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Spark would be started for nothing, and its source tries for a minute."""
    publisher.singles(3)
    lake = str(tmp_path / "lake")
    assert run(["pipeline", "archive", topic, lake, "--url", broker.url]) == 0
    capsys.readouterr()

    def started(master: str) -> None:
        raise AssertionError(f"a session of {master}")

    monkeypatch.setattr(pipeline, "start_spark", started)
    tls = broker.url.replace("pulsar://", "pulsar+ssl://")
    for command in (["archive", topic, lake], ["verify", lake], ["replay", lake, f"{topic}-copy"]):
        assert run(["pipeline", *command, "--url", tls]) == Exit.CONNECT
        assert f"no broker answers at {tls}" in capsys.readouterr().err
    nothere = ["pipeline", "archive", f"{topic}-nothere", lake, "--url", broker.url]
    assert run(nothere) == Exit.NOT_FOUND


@pytest.mark.usefixtures("here")
def test_the_http_port_alone_says_where_the_broker_is(
    broker: Any,
    publisher: Any,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nothing listens on the usual ports: a pipeline that went there would not succeed."""
    monkeypatch.setenv("MILEPOST_CONTEXTS", str(tmp_path / "contexts.json"))
    monkeypatch.setenv("MILEPOST_ADMIN_URL", f"http://127.0.0.1:{broker.http_port}")
    publisher.batches(12, of=5)
    lake = str(tmp_path / "lake")
    assert run(["pipeline", "archive", topic, lake, "-o", "json"]) == 0
    (done,) = json.loads(capsys.readouterr().out)
    assert done["messages"] == 12
    assert run(["pipeline", "verify", lake]) == 0


def test_a_lake_that_is_not_there_is_not_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (["verify", "nothing"], ["replay", "nothing", "copy"]):
        name, *rest = command
        assert run(["pipeline", name, str(tmp_path / rest[0]), *rest[1:]]) == Exit.NOT_FOUND
        assert "nothing was archived there" in capsys.readouterr().err
