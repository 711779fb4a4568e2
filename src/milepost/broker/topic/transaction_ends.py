"""The end of transactions on its way: who waits for it, and what it means to each topic.

What an end means to a topic is given to the journal with the end itself (`Part.submit`), and made true when
that is durable (`Part.make_true`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from milepost.broker.subscription import pending_acks
from milepost.broker.transactions.coordinator import ABORT, COMMIT, Outcome, Transaction
from milepost.broker.transactions.topic_transactions import (
    NO_MARKER,
    PendingAcks,
    TopicTransactions,
)
from milepost.cursor.facts import AckFact
from milepost.errors import MilepostError, PersistenceError
from milepost.positions.ranges import IndexRanges
from milepost.positions.transactions import TxnId
from milepost.storage.ledgers.entry import MARKER, NewEntry
from milepost.wire.markers import TXN_ABORT, TXN_COMMIT, transaction_marker

if TYPE_CHECKING:
    from milepost.broker.subscription.subscription import Subscription
    from milepost.broker.topic.topic import Topic
    from milepost.storage.interface import Log, Store

MARKERS = {COMMIT: TXN_COMMIT, ABORT: TXN_ABORT}

Done = Callable[[MilepostError | None], None]


class End:
    """The end of transactions on its way, and the callers that wait for it. Most are of one."""

    __slots__ = ("left_out", "openings", "outcome", "shards", "txns", "waiting")

    def __init__(
        self, txns: list[Transaction], outcome: Outcome, elsewhere: Mapping[str, int]
    ) -> None:
        """`elsewhere`: the shards of topics that other workers have."""
        self.txns = txns
        self.outcome = outcome
        self.waiting: list[Done] = []
        self.openings = 0
        """How often its topics had to be opened."""
        self.left_out: set[str] = set(elsewhere)
        """Topics that it goes on without."""
        self.shards = frozenset(elsewhere.values())
        """Others that have a part of it."""

    @property
    def committed_series(self) -> tuple[str | None, str] | None:
        """The role and the name of the series of which it commits a step; None if it does not."""
        first = self.txns[0]
        if self.outcome is not COMMIT or first.series is None:
            return None
        return first.owner, first.series.name

    def is_of(self, txn_ids: Sequence[TxnId]) -> bool:
        return {txn.txn_id for txn in self.txns} == set(txn_ids)

    def all_topics(self) -> list[str]:
        if len(self.txns) == 1 and not self.left_out:
            return self.txns[0].all_topics()
        return sorted({name for txn in self.txns for name in self.topics_of(txn)})

    def topics_of(self, txn: Transaction) -> list[str]:
        names = txn.all_topics()
        return [name for name in names if name not in self.left_out] if self.left_out else names


class Part:
    """What the ends of one record mean to one topic."""

    __slots__ = (
        "_acks",
        "_markers",
        "_subscriptions",
        "_transactions",
        "_writers",
        "ends",
        "topic",
    )

    def __init__(self, topic: Topic) -> None:
        assert topic.transactions is not None
        self.topic = topic
        self._transactions = topic.transactions
        self.ends: list[tuple[TxnId, Outcome]] = []
        # Subscriptions that one of the transactions has acked on.
        self._subscriptions: set[str] = set()
        # Of the transactions that have written here.
        self._writers: list[tuple[TxnId, Outcome]] = []
        self._markers: dict[TxnId, int] = {}
        # By subscription: what the transactions have acked there, and whether it counts now.
        self._acks: dict[Subscription, list[tuple[PendingAcks, Outcome]]] = {}

    def add(self, txn_id: TxnId, outcome: Outcome, subscriptions: Sequence[str]) -> None:
        """One more that ends. A topic may have a thousand subscriptions: the transaction names those that it
        may have acked on."""
        self.ends.append((txn_id, outcome))
        if subscriptions and self._transactions.has_acked(txn_id):
            self._subscriptions.update(subscriptions)

    def submit(self, store: Store) -> None:
        """Their facts, and their markers where the transactions have written."""
        topic, transactions, markers = self.topic, self._transactions, self._markers
        for end in self.ends:
            if transactions.has_written(end[0]):
                self._writers.append(end)
        if self._writers and topic.log.refusal is None:
            self._mark(self._writers)
        for txn_id, outcome in self.ends:
            fact = transactions.end_fact(txn_id, outcome, markers.get(txn_id, NO_MARKER))
            store.fact_to_come(transactions.state_id, fact, ignore)
        if not self._subscriptions:
            return
        self._find_acks(transactions)
        for part, acks in self._acks.items():
            epoch = part.cursor.epoch
            ranges = [
                one
                for pending, outcome in acks
                if outcome is COMMIT and pending.epoch == epoch
                for one in pending.ranges
            ]
            if ranges and part.journal is not None:
                part.journal.fact_to_come(AckFact(epoch, IndexRanges(ranges)), ignore)

    def _mark(self, writers: Sequence[tuple[TxnId, Outcome]]) -> None:
        topic, now_ms = self.topic, self.topic.now_ms()
        if len(writers) == 1:
            # In fewer steps: where each client has a topic of its own, one transaction ends there.
            ((txn_id, outcome),) = writers
            marker = transaction_marker(MARKERS[outcome], txn_id, now_ms)
            block = topic.log.append_one(marker, 1, now_ms, partial(_let_hear, topic.log), MARKER)
            self._markers[txn_id] = block.last_indexes[0]
            return
        # A plain tuple has the shape of a NewEntry at a quarter of its price.
        entries: list[NewEntry] = [
            (transaction_marker(MARKERS[outcome], txn_id, now_ms), 1, MARKER, b"")  # type: ignore[misc]
            for txn_id, outcome in writers
        ]
        block = topic.log.append(entries, now_ms, ignore)
        for (txn_id, _), index in zip(writers, block.last_indexes, strict=True):
            self._markers[txn_id] = index

    def _find_acks(self, transactions: TopicTransactions) -> None:
        for name in sorted(self._subscriptions):
            subscription = self.topic.subscriptions.get(name)
            for part in () if subscription is None else subscription.parts():
                if part.state_id is None:
                    continue
                if pending := transactions.pending(part.state_id):
                    self._acks[part] = [
                        (pending[txn_id], outcome)
                        for txn_id, outcome in self.ends
                        if txn_id in pending
                    ]

    def make_true(self) -> None:
        transactions, markers = self._transactions, self._markers
        for txn_id, outcome in self.ends:
            transactions.ended(txn_id, outcome, marker=markers.get(txn_id, NO_MARKER))
            if outcome is COMMIT:
                transactions.committed += 1
            else:
                transactions.aborted += 1
        if markers:
            self.topic.chunked.ended(markers)
        for part, acks in self._acks.items():
            pending_acks.end(part, acks)

    def show(self) -> None:
        """Let subscriptions see what has become visible. Acks alone make nothing visible, and there may be
        a thousand subscriptions."""
        if self._writers:
            self.topic.show()


def never_added(txn: Transaction, names: Sequence[str], topics: Mapping[str, Topic]) -> None:
    """The disk has refused that topics were added: the end of the transaction has no part in them."""
    for name in names:
        topic = topics.get(name)
        if topic is not None and topic.transactions is not None:
            topic.transactions.never_wrote(txn.txn_id)


def when_all(count: int, done: Done) -> Done:
    """Call `done` when so many answers are there, with the first error among them; at once for none."""
    failures: list[MilepostError] = []
    missing = count

    def heard(error: MilepostError | None) -> None:
        nonlocal missing
        if error is not None:
            failures.append(error)
        missing -= 1
        if not missing:
            done(failures[0] if failures else None)

    if not count:
        done(None)
    return heard


def _let_hear(log: Log, error: PersistenceError | None) -> None:
    """Let a log know what became of a marker; no caller waits for it."""
    log.hear(error)


def ignore(error: MilepostError | None) -> None:
    """The part behind it in the same record hears the same answer."""
