"""A client that writes to two topics in transactions while its broker is killed, and notes what it was told.

Each transaction sends its number to both topics and is committed or aborted.
"""

from __future__ import annotations

from contextlib import suppress

from compat.history import LoadHistory
from compat.load import Worker

import milepost

# In shards of their own where there are two workers.
TOPICS = ("persistent://public/default/first", "persistent://public/default/third")
# What a failed attempt leaves open holds both topics back for so long.
TIMEOUT_S = 20


class Transactor(Worker):
    def __init__(self, url: str, history: LoadHistory, seed: int, *, deduplicated: bool) -> None:
        super().__init__("transactor", history, seed)
        self._client = milepost.Client(url, operation_timeout_seconds=30)
        self._producers = [
            self._client.create_producer(topic, producer_name="transactor") for topic in TOPICS
        ]
        for topic in TOPICS:
            history.declare(topic, deduplicated=deduplicated)
        self._number = 0

    def step(self) -> None:
        generation, history = self.history.generation, self.history
        name, self._number = str(self._number), self._number + 1
        try:
            txn = self._client.transaction(timeout=TIMEOUT_S)
        except milepost.MilepostError:
            return
        asked = -1
        try:
            for topic, producer in zip(TOPICS, self._producers, strict=True):
                asked = history.invoke("publish", topic=topic, message=name, by=self.name, txn=name)
                sent = producer.send(name.encode(), txn=txn)
                place = sent.ledger_id, sent.entry_id, sent.batch_index
                history.ok(asked, id=None if place[1] < 0 else place)
            if self.random.random() < 0.7:
                asked = history.invoke("commit", txn=name)
                txn.commit()
            else:
                asked = history.invoke("abort", txn=name)
                txn.abort()
            history.ok(asked)
        except milepost.MilepostError:
            history.unknown(asked)
            with suppress(milepost.MilepostError):
                txn.abort()
            return
        self.reach(generation)

    def end(self) -> None:
        self._client.close()
