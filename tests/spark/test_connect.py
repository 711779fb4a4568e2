"""Spark Connect: a thin client and a server, which finds the source by the name of its package."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from stage.ports import free_port

import milepost
from spark.cluster import SMALL_JVM, SPARK_HOME, TESTS, environment, wait_until
from spark.conftest import JAVA_VERSION_MIN, java_version, values_of

MAIN = "org.apache.spark.sql.connect.service.SparkConnectServer"
PATIENCE_S = 600


def with_modules() -> dict[str, str]:
    path = os.pathsep.join([str(Path(milepost.__file__).parent.parent), str(TESTS)])
    return environment(PYTHONPATH=path, PYSPARK_PYTHON=sys.executable)


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if java_version() < JAVA_VERSION_MIN:
        pytest.skip("Spark needs Java 17 or newer")
    pytest.importorskip("grpc_status", reason="Spark Connect needs pyspark[connect]")
    pytest.importorskip("zstandard", reason="Spark Connect needs pyspark[connect]")
    port = free_port()
    directory = tmp_path_factory.mktemp("connect")
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": SMALL_JVM,
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.ui.enabled": "false",
    }
    command = [str(SPARK_HOME / "bin" / "spark-submit"), "--class", MAIN, "--master", "local[2]"]
    command += [part for pair in settings.items() for part in ("--conf", "=".join(pair))]
    log = directory / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "spark-internal"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=directory,
            env=with_modules(),
            start_new_session=True,
        )
    try:
        wait_until(lambda: answers(port) or process.poll() is not None, "a server")
        assert process.poll() is None, log.read_text()[-2000:]
        yield f"sc://127.0.0.1:{port}"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_source_sink_and_pipelines_work_over_connect(
    server: str, publisher: Any, broker: Any, topic: str, tmp_path: Path
) -> None:
    publisher.batches(25, of=10)
    publisher.singles(5)
    publisher.chunked(150_000)
    settings = {
        "remote": server,
        "service_url": broker.url,
        "topic": topic,
        "target": f"{topic}-copy",
        "checkpoint": str(tmp_path / "checkpoint"),
        "lakes": str(tmp_path / "lakes"),
    }
    done = subprocess.run(
        [sys.executable, "-m", "spark.connected", json.dumps(settings)],
        capture_output=True,
        text=True,
        env=with_modules(),
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, re.sub(r"(?m)^\s+at .*\n", "", done.stderr)[-3000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert "over Spark Connect" in said.pop("follow")
    assert said == {
        "by_name": 31,
        "filtered": [value.decode() for value in publisher.values[28:]],
        "ended": True,
        "lakes": [{"archived": 31, "merged": True, "problems": [], "table": 31}] * 2,
    }
    assert sorted(values_of(broker.url, f"{topic}-copy")) == sorted(publisher.values)
