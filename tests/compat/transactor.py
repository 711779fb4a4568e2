"""A client that writes to two topics in transactions while its broker is killed, and knows what it was told.

Each transaction sends its number to both topics and is committed or aborted. `verdict` compares what a reader
sees in the end: a number is in both topics or in none, as its end was answered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress

from compat.history import History
from compat.load import Worker

import milepost

TOPICS = ("persistent://public/default/first", "persistent://public/default/second")
# What a failed attempt leaves open holds both topics back for so long.
TIMEOUT_S = 20


class Transactor(Worker):
    def __init__(self, url: str, history: History, seed: int) -> None:
        super().__init__("transactor", history, seed)
        self._client = milepost.Client(url, operation_timeout_seconds=30)
        self._producers = [
            self._client.create_producer(topic, producer_name="transactor") for topic in TOPICS
        ]
        self.asked: list[bool | None] = []
        """By number: whether a commit was asked for, or an abort; None: neither."""
        self.answered: dict[int, bool] = {}

    def step(self) -> None:
        generation, number = self.history.generation, len(self.asked)
        self.asked.append(None)
        try:
            txn = self._client.transaction(timeout=TIMEOUT_S)
        except milepost.MilepostError:
            return
        try:
            for producer in self._producers:
                producer.send(b"%d" % number, txn=txn)
            commits = self.asked[number] = self.random.random() < 0.7
            txn.commit() if commits else txn.abort()
        except milepost.MilepostError:
            with suppress(milepost.MilepostError):
                txn.abort()
            return
        self.answered[number] = commits
        self.reach(generation)

    def end(self) -> None:
        self._client.close()

    def verdict(self, first: list[bytes], second: list[bytes], *, once: bool) -> list[str]:
        """What is wrong with what both topics show; `once`: they have deduplication."""
        return judged(self.asked, self.answered, (first, second), once=once)


def judged(
    asked: Sequence[bool | None],
    answered: Mapping[int, bool],
    topics: Sequence[Sequence[bytes]],
    *,
    once: bool,
) -> list[str]:
    counts = [Counter(map(int, values)) for values in topics]
    problems = []
    for number, commits in enumerate(asked):
        seen = {bool(one[number]) for one in counts}
        if len(seen) > 1:
            problems.append(f"transaction {number} is half there")
        if number in answered and seen != {answered[number]}:
            problems.append(f"transaction {number}: answered {answered[number]}, seen {seen}")
        if not commits and True in seen:
            problems.append(f"transaction {number} was never to be committed, and is there")
        if once and max(one[number] for one in counts) > 1:
            problems.append(f"transaction {number} is there more than once")
    return problems
