"""A client of the bank, in a process of its own that may be killed: moves coins between accounts.

Run by test_bank.py as `python bank_client.py <url> <number> <history>`. Each transfer is one transaction: it
acks the coin in the account that it leaves, sends it to another one, and writes a line to the book. One in
eight is aborted on purpose. Whatever the broker does, the client goes on with a new connection. What it does
and is told is in its history when it dies.
"""

from __future__ import annotations

import random
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import milepost
from milepost.errors import MilepostError, Timeout
from milepost.testing.checker import History

ACCOUNTS = [f"persistent://public/default/account-{number}" for number in range(4)]
BOOK = "persistent://public/default/book"
SUBSCRIPTION = "purse"
# Short: what a killed client leaves open holds its topics back for so long.
TRANSACTION_S = 3
WAIT_MS = 500
# More than a client does before it dies: each numbers its operations apart.
OPERATIONS_MAX = 10**9


def coin(number: int, hop: int, transfer: str) -> bytes:
    return b"%d:%d:%s" % (number, hop, transfer.encode())


def parsed(data: bytes) -> tuple[int, int]:
    number, hop, _ = data.split(b":", 2)
    return int(number), int(hop)


def place_of(message_id: Any) -> list[int] | None:
    """None: the broker knew the message already."""
    place = [message_id.ledger_id, message_id.entry_id, message_id.batch_index]
    return None if place[1] < 0 else place


def purse_of(account: str) -> dict[str, str]:
    """The fields of a purse's events."""
    return {"topic": account, "sub": SUBSCRIPTION}


def open_purse(client: Any, account: str, **options: Any) -> Any:
    return client.subscribe(
        account,
        SUBSCRIPTION,
        consumer_type=milepost.ConsumerType.Shared,
        initial_position=milepost.InitialPosition.Earliest,
        negative_ack_redelivery_delay_ms=100,
        **options,
    )


class BankClient:
    def __init__(self, url: str, number: int, history: History) -> None:
        self.url = url
        self.name = f"client-{number}"
        self.history = history
        self.draw = random.Random(number)
        self._transfers = 0

    def work(self) -> None:
        """Transfer until something goes wrong."""
        draw, history = self.draw, self.history
        with milepost.Client(self.url, operation_timeout_seconds=5) as client:
            for account in ACCOUNTS:
                history.note("join", **purse_of(account), by=self.name, mode="queue")
            purses = [open_purse(client, account, receiver_queue_size=2) for account in ACCOUNTS]
            tills = {
                account: client.create_producer(account, batching_enabled=False)
                for account in ACCOUNTS
            }
            tills[BOOK] = client.create_producer(BOOK, batching_enabled=draw.random() < 0.5)
            while True:
                here = draw.randrange(len(ACCOUNTS))
                try:
                    message = purses[here].receive(WAIT_MS)
                except Timeout:
                    continue
                note_received(history, ACCOUNTS[here], message, sub=SUBSCRIPTION, by=self.name)
                there = draw.choice([one for one in ACCOUNTS if one != ACCOUNTS[here]])
                self.transfer(client, tills, purses[here], ACCOUNTS[here], there, message)

    def transfer(
        self, client: Any, tills: dict[str, Any], purse: Any, here: str, there: str, message: Any
    ) -> None:
        history = self.history
        self._transfers += 1
        number, hop = parsed(message.data())
        name = f"{self.name}/{self._transfers}"
        data = coin(number, hop + 1, name)
        txn = client.transaction(timeout=TRANSACTION_S)
        asked = -1
        try:
            for topic in (there, BOOK):
                asked = history.invoke(
                    "publish", topic=topic, message=data.decode(), by=self.name, txn=name
                )
                history.ok(asked, id=place_of(tills[topic].send(data, txn=txn)))
            asked = history.invoke(
                "ack", **purse_of(here), by=self.name, messages=[message.data().decode()], txn=name
            )
            purse.acknowledge(message, txn=txn)
            history.ok(asked)
            commits = self.draw.random() >= 1 / 8
            asked = history.invoke("commit" if commits else "abort", txn=name)
            txn.commit() if commits else txn.abort()
            history.ok(asked)
        except MilepostError:
            history.unknown(asked)
            asked = history.invoke("abort", txn=name)
            with suppress(MilepostError):
                txn.abort()
                history.ok(asked)
            raise


def note_received(history: History, topic: str, message: Any, **fields: str) -> None:
    history.note(
        "receive",
        topic=topic,
        message=message.data().decode(),
        id=place_of(message.message_id()),
        **fields,
    )


def main() -> None:
    number = int(sys.argv[2])
    history = History(Path(sys.argv[3]), first_n=number * OPERATIONS_MAX)
    client = BankClient(sys.argv[1], number, history)
    while True:
        # Killed brokers and their clients' time-outs are what the bank is about.
        with suppress(MilepostError):
            client.work()


if __name__ == "__main__":
    main()
