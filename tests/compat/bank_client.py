"""A client of the bank, in a process of its own that may be killed: moves coins between accounts.

Run by test_bank.py as `python bank_client.py <url> <seed>`. Each transfer is one transaction: it acks the
coin in the account that it leaves, sends it to another one, and writes a line to the book. One in eight is
aborted on purpose. Whatever the broker does, the client goes on with a new connection.
"""

from __future__ import annotations

import random
import sys
from contextlib import suppress
from typing import Any

import milepost
from milepost.errors import MilepostError, Timeout

ACCOUNTS = [f"persistent://public/default/account-{number}" for number in range(4)]
BOOK = "persistent://public/default/book"
SUBSCRIPTION = "purse"
# Short: what a killed client leaves open holds its topics back for so long.
TRANSACTION_S = 3
WAIT_MS = 500


def coin(number: int, hop: int) -> bytes:
    return b"%d:%d" % (number, hop)


def parsed(data: bytes) -> tuple[int, int]:
    number, hop = data.split(b":")
    return int(number), int(hop)


def line(number: int, hop: int, account: int) -> bytes:
    return b"%d:%d:%d" % (number, hop, account)


def open_purse(client: Any, account: str, **options: Any) -> Any:
    return client.subscribe(
        account,
        SUBSCRIPTION,
        consumer_type=milepost.ConsumerType.Shared,
        initial_position=milepost.InitialPosition.Earliest,
        negative_ack_redelivery_delay_ms=100,
        **options,
    )


def work(url: str, draw: random.Random) -> None:
    """Transfer until something goes wrong."""
    with milepost.Client(url, operation_timeout_seconds=5) as client:
        purses = [open_purse(client, account, receiver_queue_size=2) for account in ACCOUNTS]
        tills = [client.create_producer(account, batching_enabled=False) for account in ACCOUNTS]
        book = client.create_producer(BOOK, batching_enabled=draw.random() < 0.5)
        while True:
            here = draw.randrange(len(ACCOUNTS))
            try:
                message = purses[here].receive(WAIT_MS)
            except Timeout:
                continue
            there = draw.choice([one for one in range(len(ACCOUNTS)) if one != here])
            number, hop = parsed(message.data())
            txn = client.transaction(timeout=TRANSACTION_S)
            try:
                tills[there].send(coin(number, hop + 1), txn=txn)
                book.send(line(number, hop + 1, there), txn=txn)
                purses[here].acknowledge(message, txn=txn)
                if draw.random() < 1 / 8:
                    txn.abort()
                else:
                    txn.commit()
            except MilepostError:
                with suppress(MilepostError):
                    txn.abort()
                raise


def main() -> None:
    url, seed = sys.argv[1], sys.argv[2]
    draw = random.Random(seed)
    while True:
        # Killed brokers and their clients' time-outs are what the bank is about.
        with suppress(MilepostError):
            work(url, draw)


if __name__ == "__main__":
    main()
