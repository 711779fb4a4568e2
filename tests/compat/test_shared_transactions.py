"""Transactions with topics of several workers: all of each counts or nothing, whichever worker is killed."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from compat.broker_process import BrokerProcess
from stage.counts import campaign_count

import milepost
from milepost.errors import InvalidTransactionStatus, MilepostError, Timeout
from milepost.positions import TxnId

WORKERS = 3
ROUNDS = campaign_count("MILEPOST_SHARED_ROUNDS", 2, 40)
PATIENCE_MS = 20_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {"workers": WORKERS, "deduplication": True}
    with BrokerProcess(tmp_path_factory.mktemp("workers"), **settings) as process:
        yield process
        assert not process.complaints()


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[milepost.Client]:
    with milepost.Client(broker.url, operation_timeout_seconds=60) as made:
        yield made


def topics_of(broker: BrokerProcess, stem: str) -> list[str]:
    """A topic of each worker."""
    found: dict[int, str] = {}
    number = 0
    while len(found) < WORKERS:
        name = f"persistent://public/default/{stem}-{number}"
        found.setdefault(broker.worker_of(name), name)
        number += 1
    return [found[worker] for worker in range(WORKERS)]


class Scene:
    """In each topic one message before the transaction; in it each is acked, and another is sent."""

    def __init__(self, client: milepost.Client, topics: list[str]) -> None:
        self.client = client
        self.topics = topics
        self.producers = [client.create_producer(topic) for topic in topics]
        for producer in self.producers:
            producer.send(b"before")
        self.consumers = [self.subscribed(topic) for topic in topics]
        self.txn = client.transaction(timeout=60)
        for consumer in self.consumers:
            message = consumer.receive(PATIENCE_MS)
            assert message.data() == b"before"
            consumer.acknowledge(message, txn=self.txn)
        for producer in self.producers:
            producer.send(b"inside", txn=self.txn)

    def subscribed(self, topic: str) -> Any:
        return self.client.subscribe(topic, "s", initial_position=milepost.InitialPosition.Earliest)

    def left(self) -> list[list[bytes]]:
        """What consumers that come anew get, topic by topic."""
        for consumer in self.consumers:
            consumer.close()
        found = []
        for topic, producer in zip(self.topics, self.producers, strict=True):
            producer.send(b"last")
            consumer = self.subscribed(topic)
            got: list[bytes] = []
            while not got or got[-1] != b"last":
                got.append(consumer.receive(PATIENCE_MS).data())
            consumer.close()
            found.append(got)
        return found


COMMITTED = [[b"inside", b"last"]] * WORKERS
ABORTED = [[b"before", b"last"]] * WORKERS


def test_nothing_of_it_counts_before_its_end(
    broker: BrokerProcess, client: milepost.Client
) -> None:
    scene = Scene(client, topics_of(broker, "open"))
    for consumer in scene.consumers:
        with pytest.raises(Timeout):
            consumer.receive(100)
    scene.txn.commit()
    for consumer in scene.consumers:
        assert consumer.receive(PATIENCE_MS).data() == b"inside"
    assert scene.left() == COMMITTED


def test_an_abort_takes_all_of_it_back(broker: BrokerProcess, client: milepost.Client) -> None:
    scene = Scene(client, topics_of(broker, "aborted"))
    scene.txn.abort()
    assert scene.left() == ABORTED


def test_each_worker_has_a_coordinator(broker: BrokerProcess, client: milepost.Client) -> None:
    status, rows = broker.rest("GET", "/admin/v3/transactions/coordinators")
    assert status == 200
    urls = [f"pulsar://127.0.0.1:{port}" for port in broker.worker_ports]
    assert [(row["id"], row["brokerServiceUrl"]) for row in rows] == list(enumerate(urls))
    opened = [client.transaction(timeout=60) for _ in range(WORKERS)]
    assert sorted(_id_of(txn).most for txn in opened) == list(range(WORKERS))
    for txn in opened:
        number, least = _id_of(txn)
        path = f"/admin/v3/transactions/transactionMetadata/{number}/{least}"
        assert broker.rest("GET", path)[0] == 200
        stats = broker.rest(
            "GET", f"/admin/v3/transactions/coordinatorStats?coordinatorId={number}"
        )
        assert stats[1]["ongoingTxnSize"] == 1
        assert (
            broker.rest("POST", f"/admin/v3/transactions/abortTransaction/{number}/{least}")[0]
            == 204
        )
        with pytest.raises(InvalidTransactionStatus):
            txn.commit()
    everywhere = broker.rest("GET", "/admin/v3/transactions/coordinatorStats")[1]
    assert {number: row["ongoingTxnSize"] for number, row in everywhere.items()} == {
        str(number): 0 for number in range(WORKERS)
    }


def _id_of(txn: Any) -> TxnId:
    return TxnId(*txn.id)


def _coordinator(scene: Scene) -> int:
    return _id_of(scene.txn).most


def _participant(scene: Scene) -> int:
    return (_coordinator(scene) + 1) % WORKERS


@pytest.mark.parametrize("commits", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize("victim", [_coordinator, _participant], ids=["coordinator", "participant"])
def test_a_worker_is_killed_before_the_end(
    broker: BrokerProcess,
    client: milepost.Client,
    victim: Callable[[Scene], int],
    commits: bool,
) -> None:
    scene = Scene(client, topics_of(broker, f"before-{victim.__name__}-{commits}"))
    number = victim(scene)
    broker.await_worker(number, broker.kill_worker(number))
    scene.txn.commit() if commits else scene.txn.abort()
    assert scene.left() == (COMMITTED if commits else ABORTED)


def test_everything_is_killed_at_the_moment_of_the_end(tmp_path: Path) -> None:
    """By some milliseconds earlier or later: all of it is there afterwards, or nothing is."""
    with BrokerProcess(tmp_path, workers=WORKERS, deduplication=True) as broker:
        draw = Random(os.getpid())
        for round_number in range(ROUNDS):
            with milepost.Client(broker.url, operation_timeout_seconds=60) as client:
                scene = Scene(client, topics_of(broker, f"moment-{round_number}"))
                ended: list[BaseException | None] = []
                asking = threading.Thread(target=_commit, args=(scene, ended))
                asking.start()
                time.sleep(draw.uniform(0, 0.02))  # sleep: another moment each time
                broker.kill()
                broker.start()
                asking.join(90)
                assert not asking.is_alive()
                left = scene.left()
            assert left in (COMMITTED, ABORTED), left
            assert left == COMMITTED or ended != [None]
        assert not broker.complaints()


def _commit(scene: Scene, ended: list[BaseException | None]) -> None:
    try:
        scene.txn.commit()
    except MilepostError as error:
        ended.append(error)
    else:
        ended.append(None)
