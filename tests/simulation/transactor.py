"""A client that publishes and acks in transactions, one at a time, and ends each, also behind a kill."""

from __future__ import annotations

from random import Random
from typing import Any

from stage.talk import ask, error_of

from milepost.positions import TxnId
from milepost.testing.checker import History
from milepost.testing.peer import Loopback
from milepost.wire import pulsar_pb2 as pb
from simulation.consumer import Consumer
from simulation.dials import BROADCAST
from simulation.producer import Producer
from simulation.site import Site

TIMEOUT_MS = 60_000


class Transactor:
    def __init__(self, topics: list[str], subscriptions: list[str], history: History) -> None:
        self.history = history
        self.client: Loopback | None = None
        self.producers = [
            Producer(f"t{number}", topic, history) for number, topic in enumerate(topics)
        ]
        self._subscriptions = [one for one in subscriptions if one != BROADCAST]
        self._named = 0
        self._forget()

    def _forget(self) -> None:
        self.name = ""
        self.txn: TxnId | None = None
        self._opening: int | None = None
        self._adding: set[int] = set()
        self._acks: set[int] = set()
        self._acked_at: list[tuple[Consumer, int]] = []
        self._is_doomed = False
        self._end: tuple[str, int] | None = None
        """How it is to end, and the operation of the history."""
        self._ending: int | None = None

    @property
    def is_idle(self) -> bool:
        return self.txn is None

    def connect(self, site: Site) -> None:
        self.client = site.client(address="transactor:1")
        for producer in self.producers:
            producer.connect(site)

    def lost(self) -> None:
        """The broker is gone."""
        self.client = None
        for producer in self.producers:
            producer.client = None
            self._is_doomed |= bool(producer.unanswered)
            producer.give_up()
        self._ending = None
        self._is_doomed |= bool(self._adding or self._open_acks())
        self._adding.clear()
        if self.txn is None:
            self._forget()

    def step(self, site: Site, random: Random, sequence_id: int, consumers: list[Consumer]) -> None:
        if self.client is None or self.client.is_lost:
            self.connect(site)
        if self.txn is None:
            self._open()
        elif self._end is not None or self._adding:
            self._ask_end()
        elif self._is_doomed:
            self.end("abort")
        elif random.random() < 0.35 and not self._open_acks() and not self._unanswered():
            self.end("commit" if random.random() < 0.6 else "abort")
        elif random.random() < 0.6 or not consumers:
            self._publish(random, sequence_id)
        else:
            consumer = random.choice(consumers)
            if consumer.subscription in self._subscriptions:
                n = consumer.ack(random, (self.name, self.txn))
                if n is not None:
                    self._acked_at.append((consumer, n))

    def _open(self) -> None:
        assert self.client is not None
        if self._opening is None:
            self._opening = ask(self.client, pb.CommandNewTxn(txn_ttl_millis=TIMEOUT_MS))

    def _publish(self, random: Random, sequence_id: int) -> None:
        producer = random.choice(self.producers)
        if producer.is_ready:
            assert self.txn is not None
            producer.send(
                sequence_id,
                batched=random.random() < 0.3,
                txn=self.name,
                txnid_least_bits=self.txn.least,
                txnid_most_bits=self.txn.most,
            )

    def _unanswered(self) -> bool:
        return any(producer.unanswered for producer in self.producers)

    def _open_acks(self) -> bool:
        return any(n in consumer.pending() for consumer, n in self._acked_at)

    def end(self, how: str) -> None:
        """Ask for the end, or once more if the answer is lost."""
        if self._end is None:
            self._end = how, self.history.invoke(how, txn=self.name)
        self._ask_end()

    def _ask_end(self) -> None:
        if self._end is None or self._ending is not None or self.client is None:
            return
        assert self.txn is not None
        action = pb.COMMIT if self._end[0] == "commit" else pb.ABORT
        self._ending = ask(self.client, pb.CommandEndTxn(**_bits(self.txn), txn_action=action))

    def hear(self) -> None:
        for producer in self.producers:
            had = bool(producer.unanswered)
            producer.hear()
            if producer.client is None and self.client is not None:  # it was refused
                self._is_doomed |= had
                producer.give_up()
        if self.client is None:
            return
        for heard in self.client.take():
            request_id = getattr(heard, "request_id", None)
            if request_id is None:
                continue
            if request_id == self._opening:
                self._opened(heard)
            elif request_id in self._adding:
                self._adding.discard(request_id)
                self._is_doomed |= bool(error_of(heard))
            elif request_id == self._ending and self._end is not None:
                self._ended(heard)
        self._is_doomed |= any(n in consumer.refused for consumer, n in self._acked_at)

    def _opened(self, answer: Any) -> None:
        assert self.client is not None
        self._opening = None
        if error_of(answer):
            return
        self._named += 1
        self.name = f"x{self._named}"
        self.txn = TxnId(answer.txnid_most_bits, answer.txnid_least_bits)
        topics = [producer.topic for producer in self.producers]
        self._adding.add(
            ask(self.client, pb.CommandAddPartitionToTxn(**_bits(self.txn), partitions=topics))
        )
        for name in self._subscriptions:
            of = pb.Subscription(topic=topics[0], subscription=name)
            command = pb.CommandAddSubscriptionToTxn(**_bits(self.txn), subscription=[of])
            self._adding.add(ask(self.client, command))

    def _ended(self, answer: Any) -> None:
        self._ending = None
        error = error_of(answer)
        if error in ("PersistenceError", "ServiceNotReady", "TransactionConflict"):
            return  # asked again
        assert self._end is not None
        n = self._end[1]
        self.history.unknown(n) if error else self.history.ok(n)
        self._forget()


def _bits(txn: TxnId) -> dict[str, int]:
    return {"txnid_least_bits": txn.least, "txnid_most_bits": txn.most}
