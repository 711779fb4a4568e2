"""A data directory of every release is opened by the code as it is now, and says what it said then.

`frozen/` has one directory a release, written by that release and never again (`directory.py`). A change
that cannot read one of them is not a change of the format: it is a loss.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from compat.broker_process import BrokerProcess

import milepost
from release.directory import FROZEN, NAMESPACE, SETTINGS, describe

VERSIONS = sorted(path.name.removesuffix(".tar.gz") for path in FROZEN.glob("*.tar.gz"))


def thaw(version: str, folder: Path) -> Path:
    with tarfile.open(FROZEN / f"{version}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder


def test_every_release_left_its_directory() -> None:
    assert "0.1.0" in VERSIONS


@pytest.mark.parametrize("version", VERSIONS)
def test_an_old_directory_says_what_it_said(version: str, tmp_path: Path) -> None:
    said = json.loads((FROZEN / f"{version}.json").read_text("utf-8"))
    now = describe(thaw(version, tmp_path))
    for topic, known in said["topics"].items():
        assert now["topics"][topic] == known, topic
    assert now == said


@pytest.mark.parametrize("version", VERSIONS)
def test_an_old_directory_is_intact_and_left_as_it_was(version: str, tmp_path: Path) -> None:
    thaw(version, tmp_path)
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "lock"]
    before = {path: path.read_bytes() for path in files}
    done = subprocess.run(
        [sys.executable, "-m", "milepost.cli.main", "verify", str(tmp_path / "data")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize("version", VERSIONS)
def test_an_old_directory_is_written_on(version: str, tmp_path: Path) -> None:
    """New messages continue the old numbers, and survive a kill beside what was there."""
    thaw(version, tmp_path)
    topic = f"persistent://{NAMESPACE}/batched"
    with BrokerProcess(tmp_path, **SETTINGS) as broker:
        with milepost.Client(broker.url) as client, client.create_producer(topic) as producer:
            producer.send(b"newer")
        broker.restart()
        with milepost.Client(broker.url) as client:
            consumer = client.subscribe(topic, "holes", consumer_type=milepost.ConsumerType.Shared)
            came = [consumer.receive(10_000) for _ in range(43)]
            assert came[-1].data() == b"newer"
            assert [message.index() for message in came] == [
                index for index in range(51) if index not in (0, 3, 4, 17, 20, 21, 22, 49)
            ]
