"""A bank: coins move between accounts by transactions while the broker and the clients are killed.

Accounts are topics, a coin is a message in one of them that is not acked. A transfer acks it here, sends it
there and writes a line to the book. Three clients transfer at random, each in a process of its own; a
nemesis kills the broker, or a client, every second or so. `make campaign` does it for ten minutes.

An auditor reads all topics all the time. Everything that clients and auditor did, were told and saw becomes
one history, which `milepost.testing.checker` judges: no transfer is half there, seen too early or seen though
it was aborted; no coin is spent twice; none comes again, and none is lost. At the end every coin is in one
account.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from compat.bank_client import (
    ACCOUNTS,
    BOOK,
    SUBSCRIPTION,
    TRANSACTION_S,
    coin,
    note_received,
    open_purse,
    parsed,
    place_of,
    purse_of,
)
from compat.broker_process import BrokerProcess
from stage.counts import campaign_count
from stage.summaries import KEY as SUMMARY
from stage.tests_on import TESTS_ON, WORKERS

import milepost
from milepost.errors import MilepostError, Timeout
from milepost.testing.checker import History, judge_file, merged

BANK_S = campaign_count("MILEPOST_BANK_SECONDS", 60, 600)
COINS = 24
CLIENTS = 3
PAUSE_S = (0.4, 2.0)
# Fewer would mean that the bank was closed most of the time.
TRANSFERS_MIN = (10 if TESTS_ON == WORKERS else 30) * min(BANK_S, 60) // 60
SETTLE_S = 60.0

# A producer resends what it has no receipt for when the broker is killed: in the same transaction, which
# therefore needs deduplication to hold each message once.
SETTINGS = {"ledger_entries_max": 150, "journal_size_max": 1024 * 1024, "deduplication": True}


class Auditor:
    """Readers of all topics, whose sights are in the history."""

    def __init__(self, url: str, history: History) -> None:
        self._history = history
        self._client = milepost.Client(url, operation_timeout_seconds=10)
        self.transfers: set[str] = set()
        """Those that were seen, each once however often it was read."""
        self._readers = {
            topic: self._client.create_reader(topic, milepost.MessageId.earliest)
            for topic in (BOOK, *ACCOUNTS)
        }

    def close(self) -> None:
        self._client.close()

    def _unread(self, topic: str) -> Iterator[Any]:
        reader = self._readers[topic]
        while reader.has_message_available():
            yield reader.read_next(10_000)

    def audit(self) -> None:
        """Look everywhere, unless the broker dies in the middle of it."""
        with suppress(MilepostError, ConnectionError):
            for topic in (BOOK, *ACCOUNTS):
                for message in self._unread(topic):
                    note_received(self._history, topic, message)
                    if topic == BOOK:
                        self.transfers.add(message.data().decode())

    def scan(self) -> int:
        """Everything that there is in the end; returns the lines in the book."""
        counts = {}
        for topic in (BOOK, *ACCOUNTS):
            self._history.note("scan", topic=topic)
            counts[topic] = 0
            for message in self._unread(topic):
                name, place = message.data().decode(), place_of(message.message_id())
                self._history.note("stored", topic=topic, message=name, id=place)
                counts[topic] += 1
            self._history.note("scanned", topic=topic)
        return counts[BOOK]


class Bank:
    def __init__(self, directory: Path, seed: int) -> None:
        self.draw = random.Random(seed)
        self.broker = BrokerProcess(directory, **SETTINGS)
        self._clients: list[subprocess.Popen[bytes]] = []
        self._directory = directory
        self._log = directory / "clients.log"
        self.history = History(directory / "bank.jsonl")
        self._hired = 0
        self.kills = {"broker": 0, "client": 0}

    def begin(self) -> None:
        self.start()
        with milepost.Client(self.broker.url) as client:
            for account in ACCOUNTS:
                open_purse(client, account).close()
            client.create_producer(BOOK).close()
            till = client.create_producer(ACCOUNTS[0])
            for number in range(COINS):
                data = coin(number, 0, "mint")
                asked = self.history.invoke(
                    "publish", topic=ACCOUNTS[0], message=data.decode(), by="mint"
                )
                self.history.ok(asked, id=place_of(till.send(data)))
        for _ in range(CLIENTS):
            self._hire()

    def _hire(self) -> None:
        self._hired += 1
        script = Path(__file__).with_name("bank_client.py")
        with self._log.open("ab") as log:
            command = [sys.executable, str(script), self.broker.url, str(self._hired)]
            command.append(str(self._directory / f"client-{self._hired}.jsonl"))
            self._clients.append(subprocess.Popen(command, stderr=log))

    def start(self) -> None:
        self.history.note("start")
        self.broker.start()

    def end_broker(self, end: Callable[[], object]) -> None:
        self.history.note("kill")
        end()

    def kill_one(self) -> None:
        if self.draw.random() < 0.5:
            self.kills["broker"] += 1
            # An operator's SIGTERM finds ends on their way too.
            self.end_broker(self.broker.stop if self.draw.random() < 0.2 else self.broker.kill)
            self.start()
        else:
            self.kills["client"] += 1
            _kill(self._clients.pop(self.draw.randrange(len(self._clients))))
            self._hire()

    def end(self) -> None:
        for client in self._clients:
            assert client.poll() is None, self._log.read_text()[-2000:]
        self.dismiss()

    def whole_history(self) -> Path:
        """What the bank and all its clients saw, in one."""
        self.history.close()
        clients = self._directory.glob("client-*.jsonl")
        merged([self._directory / "bank.jsonl", *clients], self._directory / "history.jsonl")
        return self._directory / "history.jsonl"

    def dismiss(self) -> None:
        while self._clients:
            _kill(self._clients.pop())


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


@pytest.fixture
def bank(tmp_path: Path) -> Any:
    one = Bank(tmp_path, seed=random.SystemRandom().randrange(10**6))
    yield one
    one.dismiss()
    one.broker.kill()
    one.history.close()


def test_the_sum_never_changes_and_nothing_is_transferred_twice(
    bank: Bank, record_property: Callable[[str, object], None]
) -> None:
    bank.begin()
    auditor = Auditor(bank.broker.url, bank.history)
    until = time.monotonic() + BANK_S
    # On a busy machine little happens in that time: then there is more.
    while time.monotonic() < until or len(auditor.transfers) < TRANSFERS_MIN:
        due = time.monotonic() + bank.draw.uniform(*PAUSE_S)
        while time.monotonic() < due:
            auditor.audit()
        bank.kill_one()
    bank.end()
    # What the clients left open is aborted in time, through one more kill.
    bank.end_broker(bank.broker.kill)
    bank.start()
    left = _count_purses(bank.broker.url, bank.history)
    auditor.close()
    auditor = Auditor(bank.broker.url, bank.history)
    transfers = auditor.scan()
    for account in ACCOUNTS:
        bank.history.note("drained", **purse_of(account))
    path = bank.whole_history()
    verdict = judge_file(path)
    line = (
        f"{transfers} transfers of {COINS} coins in {BANK_S:g} s, {bank.kills['broker']} brokers and "
        f"{bank.kills['client']} clients killed: {verdict.found.total()} anomalies in "
        f"{verdict.events.total()} events"
    )
    record_property(SUMMARY, line)
    assert not verdict.anomalies, "\n".join(verdict.report(path))
    assert sorted(left) == list(range(COINS))
    assert transfers >= TRANSFERS_MIN, line


def _count_purses(url: str, history: History) -> list[int]:
    """The coins that come, in whatever purse."""
    found: list[int] = []
    with milepost.Client(url) as client:
        for account in ACCOUNTS:
            history.note("join", **purse_of(account), by="teller", mode="queue")
        purses = {account: open_purse(client, account) for account in ACCOUNTS}
        until = time.monotonic() + SETTLE_S
        extra_s = TRANSACTION_S + 2.0  # a coin that was there twice would come within this
        while time.monotonic() < until:
            for account, purse in purses.items():
                try:
                    message = purse.receive(200)
                except Timeout:
                    continue
                note_received(history, account, message, sub=SUBSCRIPTION, by="teller")
                found.append(parsed(message.data())[0])
            if len(found) == COINS and until > time.monotonic() + extra_s:
                until = time.monotonic() + extra_s
    return found
