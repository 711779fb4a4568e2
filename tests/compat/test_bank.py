"""A bank: coins move between accounts by transactions while the broker and the clients are killed.

Accounts are topics, a coin is a message in one of them that is not acked. A transfer acks it here, sends it
there and writes a line to the book. Three clients transfer at random, each in a process of its own; a
nemesis kills the broker, or a client, every second or so. `MILEPOST_CAMPAIGN=long` does it for
ten minutes.

An auditor reads all topics all the time. A line in the book has its coin in an account, a coin that has moved
has its line: at once, or when the transactions have ended that hold one of the topics back (order is kept
in each topic). No hop of any coin is made twice. At the end every coin is in one account, once, where its
last line says.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from compat.bank_client import ACCOUNTS, BOOK, TRANSACTION_S, coin, open_purse, parsed
from compat.broker_process import BrokerProcess
from crash.conftest import KEY as SUMMARY

import milepost
from milepost.errors import MilepostError, Timeout

LONG = os.environ.get("MILEPOST_CAMPAIGN") == "long"
BANK_S = 600.0 if LONG else 60.0
COINS = 24
CLIENTS = 3
PAUSE_S = (0.4, 2.0)
# Fewer would mean that the bank was closed most of the time.
TRANSFERS_MIN = 30
SETTLE_S = 60.0
# A transaction that a killed client left open ends within its time; a broker may need its time to start.
HELD_BACK_MAX_S = 45.0

# A producer resends what it has no receipt for when the broker is killed: in the same transaction, which
# therefore needs deduplication to hold each message once.
SETTINGS = {"ledger_entries_max": 150, "journal_size_max": 1024 * 1024, "deduplication": True}

Transfer = tuple[int, int]
"""A coin and its hop."""


class Auditor:
    """What readers of all topics have seen, and what contradicts."""

    def __init__(self, url: str) -> None:
        self._client = milepost.Client(url, operation_timeout_seconds=10)
        self._readers = {
            topic: self._client.create_reader(topic, milepost.MessageId.earliest)
            for topic in (BOOK, *ACCOUNTS)
        }
        self.lines: dict[Transfer, int] = {}
        """The account that the book says a coin went to."""
        self.moves: dict[Transfer, int] = {}
        self._places: dict[tuple[str, Transfer], str] = {}
        # Transfers of which one half was seen, and since when.
        self._halves: dict[Transfer, float] = {}
        self.audits = 0

    def close(self) -> None:
        self._client.close()

    def _read(self, topic: str) -> None:
        reader = self._readers[topic]
        while reader.has_message_available():
            message = reader.read_next(10_000)
            data, place = message.data(), str(message.message_id())
            if topic == BOOK:
                number, hop, account = map(int, data.split(b":"))
                seen = self.lines
            else:
                (number, hop), account = parsed(data), ACCOUNTS.index(topic)
                seen = self.moves
            transfer = number, hop
            half = "line" if topic == BOOK else "coin"
            before = self._places.setdefault((half, transfer), place)
            assert before == place, f"coin {number} made hop {hop} twice: {before} and {place}"
            assert seen.setdefault(transfer, account) == account, transfer

    def audit(self) -> None:
        """Look everywhere: what was seen of a transfer has its other half, now or when the transactions
        are gone that hold it back."""
        for topic in (BOOK, *ACCOUNTS):
            self._read(topic)
        now = time.monotonic()
        lines, moves = self.lines.keys(), {one for one in self.moves if one[1]}
        halves = lines ^ moves
        self._halves = {one: self._halves.get(one, now) for one in halves}
        for transfer, since in self._halves.items():
            assert now - since < HELD_BACK_MAX_S, (
                f"{transfer} is half there for {now - since:.0f} s"
            )
        for transfer in lines & moves:
            assert self.lines[transfer] == self.moves[transfer], transfer
        self.audits += 1

    @property
    def is_whole(self) -> bool:
        return not self._halves


class Bank:
    def __init__(self, directory: Path, seed: int) -> None:
        self.draw = random.Random(seed)
        self.broker = BrokerProcess(directory, **SETTINGS)
        self._clients: list[subprocess.Popen[bytes]] = []
        self._log = directory / "clients.log"
        self._hired = 0
        self.kills = {"broker": 0, "client": 0}

    def begin(self) -> None:
        self.broker.start()
        with milepost.Client(self.broker.url) as client:
            for account in ACCOUNTS:
                open_purse(client, account).close()
            client.create_producer(BOOK).close()
            till = client.create_producer(ACCOUNTS[0])
            for number in range(COINS):
                till.send(coin(number, 0))
        for _ in range(CLIENTS):
            self._hire()

    def _hire(self) -> None:
        self._hired += 1
        script = Path(__file__).with_name("bank_client.py")
        with self._log.open("ab") as log:
            command = [sys.executable, str(script), self.broker.url, str(self._hired)]
            self._clients.append(subprocess.Popen(command, stderr=log))

    def kill_one(self) -> None:
        if self.draw.random() < 0.5:
            self.kills["broker"] += 1
            # An operator's SIGTERM finds ends on their way too.
            self.broker.stop() if self.draw.random() < 0.2 else self.broker.kill()
            self.broker.start()
        else:
            self.kills["client"] += 1
            _kill(self._clients.pop(self.draw.randrange(len(self._clients))))
            self._hire()

    def end(self) -> None:
        for client in self._clients:
            assert client.poll() is None, self._log.read_text()[-2000:]
        self.dismiss()

    def dismiss(self) -> None:
        while self._clients:
            _kill(self._clients.pop())


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def audit(auditor: Auditor) -> None:
    """One audit, unless the broker dies in the middle of it."""
    try:
        auditor.audit()
    except (MilepostError, ConnectionError):
        return


@pytest.fixture
def bank(tmp_path: Path) -> Any:
    one = Bank(tmp_path, seed=random.SystemRandom().randrange(10**6))
    yield one
    one.dismiss()
    one.broker.kill()


def test_the_sum_never_changes_and_nothing_is_transferred_twice(
    bank: Bank, record_property: Callable[[str, object], None]
) -> None:
    bank.begin()
    auditor = Auditor(bank.broker.url)
    until = time.monotonic() + BANK_S
    while time.monotonic() < until:
        due = time.monotonic() + bank.draw.uniform(*PAUSE_S)
        while time.monotonic() < due:
            audit(auditor)
        bank.kill_one()
    bank.end()
    # What the clients left open is aborted in time, through one more kill.
    bank.broker.kill()
    bank.broker.start()
    purses = _count_purses(bank.broker.url)
    auditor.close()
    auditor = Auditor(bank.broker.url)
    auditor.audit()
    assert auditor.is_whole
    hops = {number: max(h for n, h in auditor.moves if n == number) for number in range(COINS)}
    assert purses == {number: (hop, auditor.moves[number, hop]) for number, hop in hops.items()}
    assert len(auditor.moves) == COINS + sum(hops.values())  # no hop is missing
    transfers = len(auditor.lines)
    line = (
        f"{transfers} transfers of {COINS} coins in {BANK_S:g} s, {bank.kills['broker']} brokers and "
        f"{bank.kills['client']} clients killed: the sum never changed"
    )
    record_property(SUMMARY, line)
    assert transfers >= TRANSFERS_MIN, line


def _count_purses(url: str) -> dict[int, tuple[int, int]]:
    """By coin: its hop and account. All of them come, each once."""
    found: dict[int, tuple[int, int]] = {}
    with milepost.Client(url) as client:
        purses = [open_purse(client, account) for account in ACCOUNTS]
        until = time.monotonic() + SETTLE_S
        extra_s = TRANSACTION_S + 2.0  # a coin that was there twice would come within this
        while time.monotonic() < until:
            for account, purse in enumerate(purses):
                try:
                    message = purse.receive(200)
                except Timeout:
                    continue
                number, hop = parsed(message.data())
                assert number not in found, (
                    f"coin {number} is there twice: {found[number]}, {account}"
                )
                found[number] = hop, account
            if len(found) == COINS and until > time.monotonic() + extra_s:
                until = time.monotonic() + extra_s
    return found
