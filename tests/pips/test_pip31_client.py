"""PIP-31, transactions: what clients in processes of their own see of a transaction, over sockets.

The rows are those of `docs/transactions.md` that need a real broker; the others are in `test_pip31.py`.
"""

from __future__ import annotations

import csv
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pulsar
import pytest
from client.harness import any_broker
from compat.broker_process import BrokerProcess
from compat.transaction_scenes import SCENES, Scene
from stage.official_table import official_table

import milepost

TOPIC = "seen"


class Stand(NamedTuple):
    """A broker with a topic for each scene, and clients of both kinds."""

    broker: BrokerProcess
    client: milepost.Client
    official: pulsar.Client
    scenes: dict[str, Scene]


@pytest.fixture(scope="module", params=["", "after kill -9 and a restart"])
def stand(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stand]:
    with BrokerProcess(tmp_path_factory.mktemp("stand")) as broker:
        logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        client, official = milepost.Client(broker.url), pulsar.Client(broker.url, logger=logger)
        try:
            scenes = {name: Scene(client, name) for name in SCENES}
            if request.param:
                broker.restart()
            yield Stand(broker, client, official, scenes)
        finally:
            official.close()
            client.close()


def _consumed(stand: Stand, scene: Scene) -> list[bytes]:
    consumer = stand.official.subscribe(
        scene.topic, "new", initial_position=pulsar.InitialPosition.Earliest
    )
    found = [consumer.receive(timeout_millis=10_000).data() for _ in scene.committed]
    with pytest.raises(pulsar.Timeout):
        consumer.receive(timeout_millis=200)
    consumer.unsubscribe()
    return found


def _read(stand: Stand, scene: Scene) -> list[bytes]:
    reader = stand.official.create_reader(scene.topic, pulsar.MessageId.earliest)
    found = []
    while reader.has_message_available():
        found.append(reader.read_next(timeout_millis=10_000).data())
    reader.close()
    return found


def _table(stand: Stand, scene: Scene) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    view = stand.client.create_table_view(scene.topic)
    view.for_each(found.__setitem__)
    view.close()
    return found


def _peeked(stand: Stand, scene: Scene) -> list[bytes]:
    command = [sys.executable, "-m", "milepost.cli.main"]
    command += ["--admin-url", f"http://127.0.0.1:{stand.broker.http_port}"]
    command += ["peek", scene.topic, "--from", "index:0", "-n", "100", "-o", "csv"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not scene.committed and done.returncode:
        return []  # it says that there is nothing
    assert not done.returncode, done.stderr
    return [one["data"].encode() for one in csv.DictReader(done.stdout.splitlines())]


class Row(NamedTuple):
    name: str
    seen: Callable[[Stand, Scene], Any]
    expected: Callable[[Scene], Any]


def _all(scene: Scene) -> list[bytes]:
    return scene.committed


ROWS = (
    Row("consumer of the official client", _consumed, _all),
    Row("reader of the official client", _read, _all),
    Row(
        "table view of the official client",
        lambda stand, scene: official_table(stand.broker.url, scene.topic),
        lambda scene: scene.by_key,
    ),
    Row(
        "table view of Milepost's client",
        _table,
        lambda scene: scene.by_key,
    ),
    Row("`milepost peek`", _peeked, _all),
)


@pytest.mark.parametrize("column", SCENES)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_only_committed_messages_are_seen(stand: Stand, row: Row, column: str) -> None:
    scene = stand.scenes[column]
    assert row.seen(stand, scene) == row.expected(scene)


@pytest.mark.parametrize("commits", [True, False], ids=["committed", "aborted"])
def test_the_official_client_sees_committed_messages_only(commits: bool) -> None:
    with any_broker() as running:
        client, official = milepost.Client(running.url), pulsar.Client(running.url)
        try:
            producer = client.create_producer(TOPIC)
            consumer = official.subscribe(TOPIC, "s", consumer_type=pulsar.ConsumerType.Shared)
            reader = official.create_reader(TOPIC, pulsar.MessageId.earliest)
            producer.send(b"before")
            txn = client.transaction(timeout=60)
            producer.send(b"inside", txn=txn)
            producer.send(b"behind")
            assert consumer.receive(timeout_millis=10_000).data() == b"before"
            assert reader.read_next(timeout_millis=10_000).data() == b"before"
            assert not reader.has_message_available()
            with pytest.raises(pulsar.Timeout):
                consumer.receive(timeout_millis=300)
            txn.commit() if commits else txn.abort()
            for expected in [b"inside", b"behind"] if commits else [b"behind"]:
                assert consumer.receive(timeout_millis=10_000).data() == expected
                assert reader.read_next(timeout_millis=10_000).data() == expected
            assert not reader.has_message_available()
        finally:
            official.close()
            client.close()
