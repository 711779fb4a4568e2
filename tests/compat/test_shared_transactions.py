"""Transactions with topics of several workers: all of each counts or nothing, whichever worker is killed."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from compat.bank_client import note_received, place_of
from compat.broker_process import BrokerProcess
from stage.counts import campaign_count

import milepost
from milepost.errors import InvalidTransactionStatus, MilepostError, Timeout
from milepost.positions import TxnId
from milepost.testing.checker import History, judge

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
    """In each topic one message before the transaction; in it each is acked, and another is sent. The one
    checker judges what came of it."""

    def __init__(self, client: milepost.Client, topics: list[str]) -> None:
        self.client = client
        self.topics = topics
        self.history = History()
        self.history.note("start")
        self.producers = {topic: client.create_producer(topic) for topic in topics}
        for topic in topics:
            self._send(topic, "before")
        self.consumers = {topic: self._subscribed(topic, "early") for topic in topics}
        self.txn = client.transaction(timeout=60)
        for topic, consumer in self.consumers.items():
            message = self.received(topic)
            asked = self.history.invoke(
                "ack", **self._group(topic, "early"), messages=["before"], txn="x"
            )
            consumer.acknowledge(message, txn=self.txn)
            self.history.ok(asked)
        for topic in topics:
            self._send(topic, "inside", txn=self.txn)

    def _group(self, topic: str, by: str) -> dict[str, str]:
        return {"topic": topic, "sub": "s", "by": by}

    def _send(self, topic: str, name: str, **within: Any) -> None:
        fields = {"txn": "x"} if within else {}
        asked = self.history.invoke("publish", topic=topic, message=name, by="producer", **fields)
        message_id = self.producers[topic].send(name.encode(), **within)
        self.history.ok(asked, id=place_of(message_id))

    def _subscribed(self, topic: str, by: str) -> Any:
        self.history.note("join", **self._group(topic, by), mode="queue")
        return self.client.subscribe(topic, "s", initial_position=milepost.InitialPosition.Earliest)

    def received(self, topic: str, by: str = "early", patience_ms: int = PATIENCE_MS) -> Any:
        message = self.consumers[topic].receive(patience_ms)
        note_received(self.history, topic, message, sub="s", by=by)
        return message

    def end(self, op: str) -> None:
        asked = self.history.invoke(op, txn="x")
        try:
            getattr(self.txn, op)()
        except MilepostError:
            self.history.unknown(asked)
            raise
        self.history.ok(asked)

    def try_to_commit(self) -> None:
        with suppress(MilepostError):
            self.end("commit")

    def judge(self) -> None:
        """What is there, and what consumers get that come anew."""
        for topic in self.topics:
            self.consumers[topic].close()
            self._send(topic, "last")
            self._scan(topic)
        for topic in self.topics:
            self.consumers[topic] = self._subscribed(topic, "late")
            while self.received(topic, "late").data() != b"last":
                pass
            self.consumers[topic].close()
            self.history.note("drained", topic=topic, sub="s")
        assert not judge(self.history.lines()).anomalies, "".join(self.history.lines())

    def _scan(self, topic: str) -> None:
        """Up to the last message: it is seen when the transaction has ended."""
        reader = self.client.create_reader(topic, milepost.MessageId.earliest)
        self.history.note("scan", topic=topic)
        name = ""
        while name != "last":
            message = reader.read_next(PATIENCE_MS)
            name = message.data().decode()
            self.history.note(
                "stored", topic=topic, message=name, id=place_of(message.message_id())
            )
        self.history.note("scanned", topic=topic)
        reader.close()


def test_nothing_of_it_counts_before_its_end(
    broker: BrokerProcess, client: milepost.Client
) -> None:
    scene = Scene(client, topics_of(broker, "open"))
    for topic in scene.topics:
        with pytest.raises(Timeout):
            scene.received(topic, patience_ms=100)
    scene.end("commit")
    for topic in scene.topics:
        scene.received(topic)
    scene.judge()


def test_an_abort_takes_all_of_it_back(broker: BrokerProcess, client: milepost.Client) -> None:
    scene = Scene(client, topics_of(broker, "aborted"))
    scene.end("abort")
    scene.judge()


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


@pytest.mark.parametrize("end", ["commit", "abort"])
@pytest.mark.parametrize("victim", [_coordinator, _participant], ids=["coordinator", "participant"])
def test_a_worker_is_killed_before_the_end(
    broker: BrokerProcess,
    client: milepost.Client,
    victim: Callable[[Scene], int],
    end: str,
) -> None:
    scene = Scene(client, topics_of(broker, f"before-{victim.__name__}-{end}"))
    number = victim(scene)
    scene.history.note("kill")
    killed = broker.kill_worker(number)
    scene.history.note("start")
    broker.await_worker(number, killed)
    scene.end(end)
    scene.judge()


def test_everything_is_killed_at_the_moment_of_the_end(tmp_path: Path) -> None:
    """By some milliseconds earlier or later: all of it is there afterwards, or nothing is."""
    with BrokerProcess(tmp_path, workers=WORKERS, deduplication=True) as broker:
        draw = Random(os.getpid())
        for round_number in range(ROUNDS):
            with milepost.Client(broker.url, operation_timeout_seconds=60) as client:
                scene = Scene(client, topics_of(broker, f"moment-{round_number}"))
                asking = threading.Thread(target=scene.try_to_commit)
                asking.start()
                time.sleep(draw.uniform(0, 0.02))  # sleep: another moment each time
                scene.history.note("kill")
                broker.kill()
                scene.history.note("start")
                broker.start()
                asking.join(90)
                assert not asking.is_alive()
                scene.judge()
        assert not broker.complaints()
