"""Transactions at work: opens them, adds to them, ends them, and aborts those whose time is over.

    new, add  ─▶ a fact of the coordinator ─▶ answer
    end       ─▶ every topic of it is open ─▶ one record of the journal:
                     topic by topic the marker, the end, and the acks of its subscriptions;
                     last the coordinator's own fact
              ─▶ durable: everything of it is visible, or nothing ever will be ─▶ answer

One record, so a crash leaves all of a transaction or nothing. What the record says is made true when it is
durable, and not before: were the disk to refuse it, no part of it may reach the disk with a later fact.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from milepost.broker.subscription import pending_acks
from milepost.broker.transactions.coordinator import Coordinator, Outcome, Transaction
from milepost.broker.transactions.topic_transactions import (
    NO_MARKER,
    PendingAcks,
    TopicTransactions,
)
from milepost.cursor.facts import AckFact
from milepost.errors import (
    CorruptData,
    InvalidInput,
    MilepostError,
    NotAllowed,
    OutcomeUnknown,
    PersistenceError,
    ServiceNotReady,
    SubscriptionNotFound,
    TooManyRequests,
    TopicNotFound,
)
from milepost.positions.names import TopicName
from milepost.positions.ranges import IndexRanges
from milepost.positions.transactions import TxnId
from milepost.storage.catalog.catalog import NO_TOPIC, Snapshot, StateRow
from milepost.storage.interface import Catalog
from milepost.storage.ledgers.entry import MARKER, TXN, Entry, NewEntry
from milepost.wire.markers import TXN_ABORT, TXN_COMMIT, transaction_marker, transaction_of
from milepost.wire.metadata import split_entry

if TYPE_CHECKING:
    from milepost.broker.broker import Broker
    from milepost.broker.subscription.subscription import Subscription
    from milepost.broker.topic.topic import Topic
    from milepost.storage.interface import Engine, Store

logger = logging.getLogger(__name__)

STATE = "transactions"

# By the partitions of this name clients find the coordinators. It is no topic.
COORDINATOR_TOPIC = "persistent://pulsar/system/transaction_coordinator_assign"
COORDINATORS = 1
_MARKERS = {Outcome.COMMIT: TXN_COMMIT, Outcome.ABORT: TXN_ABORT}
# How often an end tries to find all topics open at once, while operators unload them.
_OPENINGS_MAX = 10

Done = Callable[[MilepostError | None], None]


def is_coordinator_topic(name: TopicName | None) -> bool:
    return name is not None and str(name.base) == COORDINATOR_TOPIC


class Transactions:
    """The coordinator with its state in the store."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.coordinator = Coordinator()
        self._state_id: int | None = None
        self._making: asyncio.Future[None] | None = None
        # Ends that are on their way: one that is asked for again waits for the same.
        self._ends: dict[TxnId, _End] = {}

    async def load(self) -> None:
        """Know the transactions of the process before."""
        broker = self._broker

        def find(catalog: Catalog) -> tuple[StateRow, Snapshot] | None:
            for row in catalog.states(NO_TOPIC):
                if row.kind == STATE:
                    return row, catalog.snapshot(row.state_id)
            return None

        found = await broker.engine.catalog(find)
        if found is not None:
            self._open(*found)

    def _open(self, row: StateRow, stored: Snapshot) -> None:
        store, clock = self._broker.store, self._broker.clock
        found = store.open_state(row.state_id, lambda: self.coordinator.snapshot(), stored)
        assert found.data is not None, "a coordinator was made without a snapshot"
        try:
            restored = Coordinator.restore(
                found.data, found.facts, clock.wall_ms(), clock.monotonic()
            )
        except Exception as failure:
            store.put_back_state(row.state_id, found)
            if isinstance(failure, MilepostError):
                raise
            raise CorruptData(f"the transactions cannot be read: {failure}") from failure
        self.coordinator.take_over(restored)
        self._state_id = row.state_id

    # -- opening and adding ------------------------------------------------------------------------

    def check_coordinator(self, number: int) -> None:
        """Is there such a coordinator, and may it be used?"""
        if not self._broker.settings.transaction_coordinator_enabled:
            raise NotAllowed("transactions are switched off: transaction_coordinator_enabled")
        if number != self.coordinator.number:
            raise self.coordinator.unknown(number)

    @property
    def is_ready(self) -> bool:
        """Has the coordinator a state in the store? It is made for the first transaction."""
        return self._state_id is not None

    def new(self, *, timeout_ms: int, owner: str | None, done: Done) -> TxnId:
        """Open a transaction; `done` is called when it is durable."""
        settings = self._broker.settings
        timeout_max = int(settings.transaction_timeout_max_s * 1000)
        if not 0 < timeout_ms <= timeout_max:
            raise InvalidInput(
                f"a transaction with a time-out of {timeout_ms} ms; allowed are 1 to {timeout_max}"
            )
        open_max = settings.max_active_transactions_per_coordinator
        if open_max and len(self.coordinator.open) >= open_max:
            raise TooManyRequests(f"{open_max} transactions are open already")
        clock = self._broker.clock
        txn, fact = self.coordinator.new(
            timeout_ms=timeout_ms, now_ms=clock.wall_ms(), now_s=clock.monotonic(), owner=owner
        )
        self._broker.counters.transactions_opened += 1
        self._fact(fact, done, lambda: self.coordinator.never_opened(txn))
        return txn.txn_id

    def add_topics(self, txn_id: TxnId, names: Sequence[TopicName], done: Done) -> None:
        """Messages may be sent to these topics in the transaction when `done` is called. They are
        ready (`is_usable`)."""
        txn = self.coordinator.find(txn_id)
        self._check_size(txn, len(names))
        added, fact = self.coordinator.add_topics(txn, map(str, names))
        self._fact(fact, done, lambda: txn.topics.difference_update(added))

    def add_subscriptions(
        self, txn_id: TxnId, pairs: Sequence[tuple[TopicName, str]], done: Done
    ) -> None:
        """Messages of these subscriptions may be acked in the transaction when `done` is called."""
        txn = self.coordinator.find(txn_id)
        for name, subscription in pairs:
            topic = self._broker.topics.get(str(name))
            if topic is None or subscription not in topic.subscriptions:
                raise SubscriptionNotFound(f"{name} has no subscription {subscription}")
        self._check_size(txn, len(pairs))
        added, fact = self.coordinator.add_subscriptions(
            txn, [(str(name), subscription) for name, subscription in pairs]
        )
        self._fact(fact, done, lambda: txn.subscriptions.difference_update(added))

    def _check_size(self, txn: Transaction, added: int) -> None:
        parts_max = self._broker.settings.transaction_parts_max
        if len(txn.topics) + len(txn.subscriptions) + added > parts_max:
            raise TooManyRequests(
                f"transaction {txn.txn_id} would have more than {parts_max} topics and subscriptions"
            )

    def is_usable(self, names: Iterable[TopicName]) -> bool:
        """Are these topics open, each with a state for what transactions do to it?"""
        topics = self._broker.topics
        return all(
            (topic := topics.get(str(name))) is not None and topic.transactions is not None
            for name in names
        )

    async def make_usable(self, names: Iterable[TopicName]) -> None:
        """Open topics, and give each a state for what transactions do to it."""
        for name in names:
            if not name.is_persistent:
                raise NotAllowed(f"{name} is not persistent: no transaction can write to it")
            topic = await self._broker.topic(name, create=False)
            if topic.transactions is None:
                await begin(topic, self._broker.engine)

    async def make_ready(self) -> None:
        """Give the coordinator a state in the store."""
        if self._state_id is None:
            if self._making is None:
                self._making = asyncio.ensure_future(self._create_state())
            await asyncio.shield(self._making)

    async def _create_state(self) -> None:
        store = self._broker.store
        begun = Snapshot(store.journal.last_sequence, self.coordinator.snapshot(), [])

        def create(catalog: Catalog) -> StateRow:
            row = catalog.create_state(NO_TOPIC, STATE, "", {})
            catalog.put_snapshot(row.state_id, begun)
            return row

        try:
            row = await self._broker.engine.catalog(create)
        finally:
            self._making = None
        self._open(row, begun)

    def _fact(self, fact: bytes, done: Done, undo: Callable[[], None]) -> None:
        """Journal what is true already. `undo` takes it back where the disk refuses it: a message of
        what was not added durably would belong to no transaction after a crash."""
        assert self._state_id is not None

        def durable(error: PersistenceError | None) -> None:
            if error is not None:
                undo()
            done(error)

        self._broker.store.fact(self._state_id, fact, durable)

    # -- ending ------------------------------------------------------------------------------------

    def end(self, txn_id: TxnId, outcome: Outcome, done: Done) -> None:
        """Commit or abort; `done` is called when that is durable. The same end again is answered the
        same way."""
        before = self.coordinator.outcome_of(txn_id)
        if before is not None:
            if before is not outcome:
                raise self.coordinator.contradiction(txn_id, before)
            done(None)
            return
        end = self._ends.get(txn_id)
        if end is None:
            txn = self.coordinator.find(txn_id)
            if txn.decided not in (None, outcome):
                raise self.coordinator.contradiction(txn_id, txn.decided)
            txn.is_ending = True
            end = self._ends[txn_id] = _End(txn, outcome)
            end.waiting.append(done)
            self._go_on(end)
        elif end.outcome is outcome:
            end.waiting.append(done)
        else:
            raise self.coordinator.contradiction(txn_id, end.outcome)

    def _go_on(self, end: _End) -> None:
        """Submit an end if its topics are open, else open them first."""
        topics: list[Topic] = []
        for name in end.txn.all_topics():
            topic = self._broker.topics.get(name)
            if topic is None:
                self._broker.spawn(self._open_topics(end))
                return
            topics.append(topic)
        self._broker.store.when_unplanned(lambda: self._submit(end, topics))

    async def _open_topics(self, end: _End) -> None:
        """Open the topics of a transaction, then submit its end; those that were deleted meanwhile
        are left out.

        A damaged one cannot be committed to, but must not keep the others from an abort: should it be
        readable again one day, its opening finds the transaction gone, and aborts it there too.
        """
        txn_id, topics = end.txn.txn_id, []
        end.openings += 1
        try:
            if end.openings > _OPENINGS_MAX:
                raise ServiceNotReady(f"the topics of transaction {txn_id} are being unloaded")
            for name in end.txn.all_topics():
                try:
                    topic = await self._broker.topic(TopicName.parse(name), create=False)
                except TopicNotFound:
                    logger.warning("transaction %s ends without %s, which is gone", txn_id, name)
                except CorruptData as error:
                    if end.outcome is Outcome.COMMIT:
                        raise
                    logger.warning("transaction %s is aborted without %s: %s", txn_id, name, error)
                else:
                    topics.append(topic)
        except MilepostError as error:
            self._answer(end, error)
        except BaseException:
            self._answer(end, ServiceNotReady(f"transaction {txn_id} was not ended"))
            raise
        else:
            self._broker.store.when_unplanned(lambda: self._submit(end, topics))

    def _submit(self, end: _End, topics: list[Topic]) -> None:
        """Everything that the end means, as one record; made true when it is durable."""
        if any(topic.is_closed for topic in topics):
            self._broker.spawn(self._open_topics(end))
            return
        txn, outcome = end.txn, end.outcome
        store, parts = self._broker.store, list(_parts(txn, topics))

        def durable(error: MilepostError | None) -> None:
            if error is None:
                self._make_true(txn, outcome, parts)
            self._answer(end, error)

        with store.together():
            for part in parts:
                part.submit(store, txn.txn_id, outcome)
            # Behind the others: it is answered when their answers are known.
            assert self._state_id is not None
            fact = self.coordinator.end_fact(txn, outcome)
            store.fact_to_come(self._state_id, fact, durable)

    def _answer(self, end: _End, error: MilepostError | None) -> None:
        txn = end.txn
        del self._ends[txn.txn_id]
        if error is not None:
            txn.is_ending = False
            if isinstance(error, OutcomeUnknown):
                txn.decided = end.outcome
        for done in end.waiting:
            done(error)

    def _make_true(self, txn: Transaction, outcome: Outcome, parts: list[_Part]) -> None:
        self.coordinator.ended(txn, outcome)
        # It is on the disk: what is wrong with one topic must not keep the others from it.
        attempt = self._broker.attempt
        for part in parts:
            attempt("transactions", partial(part.make_true, txn.txn_id, outcome))
        for part in parts:
            attempt("transactions", part.topic.show)
        counters = self._broker.counters
        if outcome is Outcome.COMMIT:
            counters.transactions_committed += 1
        else:
            counters.transactions_aborted += 1

    def tick(self, now_s: float) -> None:
        """Abort what is overdue, and end what the disk may have half heard of."""
        for txn in self.coordinator.overdue(now_s):
            outcome = Outcome.ABORT if txn.decided is None else txn.decided
            if txn.decided is None:
                self._broker.counters.transactions_timed_out += 1
                logger.info("transaction %s is aborted: its time is over", txn.txn_id)
            self._abort(txn.txn_id, outcome)

    def _abort(self, txn_id: TxnId, outcome: Outcome) -> None:
        def done(error: MilepostError | None) -> None:
            if error is not None:  # the next tick tries again
                logger.warning("transaction %s cannot be ended: %s", txn_id, error)

        self.end(txn_id, outcome, done)


class _End:
    """The end of a transaction on its way, and the callers that wait for it."""

    __slots__ = ("openings", "outcome", "txn", "waiting")

    def __init__(self, txn: Transaction, outcome: Outcome) -> None:
        self.txn = txn
        self.outcome = outcome
        self.waiting: list[Done] = []
        self.openings = 0
        """How often its topics had to be opened."""


class _Part:
    """What the end of a transaction means to one topic."""

    def __init__(self, topic: Topic, transactions: TopicTransactions, txn_id: TxnId) -> None:
        self.topic = topic
        self._transactions = transactions
        self._marker = NO_MARKER
        self._pending: list[tuple[Subscription, PendingAcks]] = []
        for subscription in topic.subscriptions.values():
            for part in subscription.parts():
                if part.state_id is not None:
                    acks = transactions.pending_of(txn_id, part.state_id)
                    if acks is not None:
                        self._pending.append((part, acks))

    def submit(self, store: Store, txn_id: TxnId, outcome: Outcome) -> None:
        """Its facts, and its marker where the transaction has written."""
        topic, transactions = self.topic, self._transactions
        if transactions.has_written(txn_id) and topic.log.refusal is None:
            now_ms = topic.now_ms()
            marker = transaction_marker(_MARKERS[outcome], txn_id, now_ms)
            block = topic.log.append([NewEntry(marker, 1, MARKER)], now_ms, _ignore)
            self._marker = block.last_indexes[0]
        fact = transactions.end_fact(txn_id, outcome, self._marker)
        store.fact_to_come(transactions.state_id, fact, _ignore)
        if outcome is Outcome.COMMIT:
            for part, acks in self._pending:
                epoch = part.cursor.epoch
                if part.journal is not None and acks.epoch == epoch:
                    acked = AckFact(epoch, IndexRanges(acks.ranges))
                    part.journal.fact_to_come(acked, _ignore)

    def make_true(self, txn_id: TxnId, outcome: Outcome) -> None:
        self._transactions.ended(txn_id, outcome, marker=self._marker)
        for part, acks in self._pending:
            pending_acks.end(part, acks, commit=outcome is Outcome.COMMIT)


def _parts(txn: Transaction, topics: list[Topic]) -> Iterator[_Part]:
    for topic in topics:
        if topic.transactions is not None:
            yield _Part(topic, topic.transactions, txn.txn_id)


def _ignore(error: PersistenceError | None) -> None:
    """The part behind it in the same record hears the same answer."""


# -- the state of a topic ----------------------------------------------------------------------------


async def begin(topic: Topic, engine: Engine) -> None:
    """Give a topic a state for what transactions do to it; for ever from now on."""
    begun = Snapshot(
        engine.store.journal.last_sequence,
        TopicTransactions().snapshot(topic.log.end_index),
        [],
    )

    def create(catalog: Catalog) -> tuple[StateRow, Snapshot]:
        for row in catalog.states(topic.row.topic_id):
            if row.kind == STATE:  # another client was first
                return row, catalog.snapshot(row.state_id)
        row = catalog.create_state(topic.row.topic_id, STATE, "", {})
        catalog.put_snapshot(row.state_id, begun)
        return row, begun

    row, stored = await engine.catalog(create)
    topic.check_open()  # else the next opening finds the state there
    if topic.transactions is not None:
        return
    # Nothing may suspend from here on: another client wants the same, or an operator closes the topic.
    transactions = TopicTransactions()  # no transaction has written to it yet
    engine.store.open_state(
        row.state_id, lambda: transactions.snapshot(topic.log.end_index), stored
    )
    _attach(topic, transactions, row, engine.store)


async def restore(
    topic: Topic, row: StateRow, stored: Snapshot, engine: Engine, coordinator: Coordinator
) -> None:
    """What transactions have done to a topic: a snapshot, the entries since, then the facts.

    A transaction that is not open any more was aborted while the topic could not be opened.
    """
    store, log = engine.store, topic.log
    cell: list[Callable[[], bytes]] = []
    found = store.open_state(row.state_id, lambda: cell[0](), stored)
    assert found.data is not None, f"transactions of {topic.name} were made without a snapshot"
    try:
        transactions, unread = TopicTransactions.restore(found.data)
        unread += found.facts
        cell.append(lambda: transactions.snapshot(transactions.scanned_end, unread))
        index = max(transactions.scanned_end, log.first_index)
        while index < log.end_index:
            plan = await engine.look(
                lambda at=index: log.plan_read(log.locate(at).position)  # type: ignore[misc]
            )
            for entry in await engine.read(plan):
                _note_entry(transactions, entry)
                index = transactions.scanned_end = entry.last_index + 1
        for fact in unread:
            transactions.replay(fact)
    except BaseException as failure:
        store.put_back_state(row.state_id, found)
        if isinstance(failure, MilepostError) or not isinstance(failure, Exception):
            raise
        raise CorruptData(
            f"the transactions of {topic.name} cannot be read: {failure}"
        ) from failure
    transactions.trim(log.first_index)
    for txn_id in transactions.known():
        if not coordinator.is_open(txn_id):
            logger.warning("%s: transaction %s is not open, so it is aborted", topic.name, txn_id)
            transactions.ended(txn_id, Outcome.ABORT)
    cell[0] = lambda: transactions.snapshot(log.end_index)
    _attach(topic, transactions, row, store)


def _attach(topic: Topic, transactions: TopicTransactions, row: StateRow, store: Store) -> None:
    transactions.state_id = row.state_id
    topic.transactions = transactions
    store.mark_dirty(row.state_id)


def _note_entry(transactions: TopicTransactions, entry: Entry) -> None:
    if entry.flags & TXN:
        txn_id = transaction_of(split_entry(bytes(entry.payload)).metadata)
        assert txn_id is not None, f"entry {entry.position} has no transaction"
        span = entry.span
        transactions.wrote(txn_id, span.first_index, span.end_index)


def pend_again(topic: Topic) -> None:
    """What open transactions have acked is with no consumer, as it was before the restart."""
    transactions = topic.transactions
    assert transactions is not None
    for subscription in topic.subscriptions.values():
        for part in subscription.parts():
            if part.state_id is None:
                continue
            for acks in transactions.pending(part.state_id).values():
                if acks.epoch == part.cursor.epoch:
                    part.cursor.pend(list(part.cursor.backlog_ranges() & acks.ranges))
