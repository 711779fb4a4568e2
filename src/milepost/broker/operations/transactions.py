"""Transactions at work: opens them, adds to them, ends them, and aborts those whose time is over.

    new, add  ─▶ a fact of the coordinator ─▶ answer
    end       ─▶ every topic of it is open ─▶ one record of the journal, for all ends of this turn:
                     topic by topic the markers, the ends, and the acks of its subscriptions;
                     last the coordinator's own facts
              ─▶ durable: everything of it is visible, or nothing ever will be ─▶ answer

One record, so a crash leaves all of a transaction or nothing. What the record says is made true when it is
durable, and not before: were the disk to refuse it, no part of it may reach the disk with a later fact.

Where topics of a transaction are in shards of other workers, that record is the decision, and the others are
told until they have carried it out (`broker/workers/shared_transactions.py`); then it is answered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from milepost.broker.metrics.histogram import TRANSACTION_TIMES_MS, Histogram
from milepost.broker.metrics.rates import PERIOD_S
from milepost.broker.operations.unasked_ends import UnaskedEnds
from milepost.broker.topic.namesakes import Namesakes
from milepost.broker.topic.transaction_ends import Done, End, Part, ignore, never_added, when_all
from milepost.broker.transactions.coordinator import (
    COMMIT,
    Coordinator,
    Outcome,
    Transaction,
)
from milepost.broker.transactions.series import Series, check_names
from milepost.broker.transactions.topic_transactions import TopicTransactions
from milepost.broker.workers.shared_transactions import SharedTransactions
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
from milepost.positions.transactions import TxnId
from milepost.storage.catalog.catalog import NO_TOPIC, Snapshot, StateRow
from milepost.storage.interface import Catalog
from milepost.storage.ledgers.entry import TXN, Entry
from milepost.wire.markers import transaction_of
from milepost.wire.metadata import split_entry

if TYPE_CHECKING:
    from milepost.broker.broker import Broker
    from milepost.broker.topic.topic import Topic
    from milepost.storage.interface import Engine, Store

logger = logging.getLogger(__name__)

STATE = "transactions"

# How often an end tries to find all topics open at once, while operators unload them.
_OPENINGS_MAX = 10


class Transactions:
    """The coordinator with its state in the store."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._loop = asyncio.get_running_loop()
        workers = broker.workers
        self.coordinator = Coordinator(0 if workers is None else workers.number)
        self.shared = None if workers is None else SharedTransactions(broker, self, workers)
        """What is asked of other workers, and answered to them."""
        # By the number of the coordinator: the own one, and those whose transactions have a part here.
        self._state_ids: dict[int, int] = {}
        self._making: dict[int, asyncio.Future[None]] = {}
        # Ends that are on their way: one that is asked for again waits for the same.
        self._ends: dict[TxnId, End] = {}
        # Of these the commits of series, by role and name: of each series one at a time.
        self._committing: dict[tuple[str | None, str], End] = {}
        # Those of them that were asked for in this turn, and are not submitted yet.
        self._gathered: list[End] = []
        # The loop will submit them, if no session did.
        self._is_scheduled = False
        self.is_due = False
        """Has anything been asked for that is not submitted yet?"""
        self.times = Histogram(TRANSACTION_TIMES_MS)
        """From opened to ended."""
        self._roll_due = 0.0
        self._unasked = UnaskedEnds(broker, self)
        self.namesakes = Namesakes(broker.store, self._books)
        self.recovered_ms = (0, 0)
        """When it began to read what the process before left, and when it had."""

    async def load(self) -> None:
        """Know the transactions of the process before."""
        broker = self._broker
        began_ms = broker.clock.wall_ms()

        def find(catalog: Catalog) -> list[tuple[StateRow, Snapshot]]:
            return [
                (row, catalog.snapshot(row.state_id))
                for row in catalog.states(NO_TOPIC)
                if row.kind == STATE
            ]

        for row, stored in await broker.engine.catalog(find):
            self._open(row, stored)
        self.recovered_ms = (began_ms, broker.clock.wall_ms())

    def _open(self, row: StateRow, stored: Snapshot) -> None:
        store, clock = self._broker.store, self._broker.clock
        number = int(row.name) if row.name else self.coordinator.number
        book = self._book(number)
        found = store.open_state(row.state_id, book.snapshot, stored)
        assert found.data is not None, "a coordinator was made without a snapshot"
        try:
            restored = Coordinator.restore(
                found.data, found.facts, clock.wall_ms(), clock.monotonic(), number
            )
        except Exception as failure:
            store.put_back_state(row.state_id, found)
            if isinstance(failure, MilepostError):
                raise
            raise CorruptData(f"the transactions cannot be read: {failure}") from failure
        book.take_over(restored)
        self._state_ids[number] = row.state_id

    def _book(self, number: int) -> Coordinator:
        """What is known here of a coordinator's transactions."""
        coordinator = self.coordinator
        if number == coordinator.number:
            return coordinator
        book = coordinator.book(number)
        if book is None:
            book = self.coordinator.guests[number] = Coordinator(number)
        return book

    def _books(self) -> Iterator[tuple[int, Coordinator]]:
        """All that have a state in the store, with its id."""
        for number, state_id in self._state_ids.items():
            yield state_id, self._book(number)

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
        return self.coordinator.number in self._state_ids

    @property
    def coordinators(self) -> int:
        """How many there are."""
        return 1 if self.shared is None else self.shared.coordinators

    def new(
        self, *, timeout_ms: int, owner: str | None, done: Done, series: Series | None = None
    ) -> TxnId:
        """Open a transaction; `done` is called when it is durable. What earlier runs of its series have
        open is aborted: their worker is gone."""
        settings = self._broker.settings
        timeout_max = int(settings.transaction_timeout_max_s * 1000)
        if not 0 < timeout_ms <= timeout_max:
            raise InvalidInput(
                f"a transaction with a time-out of {timeout_ms} ms; allowed are 1 to {timeout_max}"
            )
        open_max = settings.max_active_transactions_per_coordinator
        if open_max and len(self.coordinator.open) >= open_max:
            self._broker.counters.transactions_refused += 1
            raise TooManyRequests(f"{open_max} transactions are open already")
        clock = self._broker.clock
        now_ms = clock.wall_ms()
        if series is not None:
            self.coordinator.series.check(owner or "", series, now_ms)
        txn, fact = self.coordinator.new(
            timeout_ms=timeout_ms,
            now_ms=now_ms,
            now_s=clock.monotonic(),
            owner=owner,
            series=series,
        )
        self._broker.counters.transactions_opened += 1
        self.fact(self.coordinator, fact, done, lambda: self.coordinator.never_opened(txn))
        if series is not None:
            self._unasked.abort(self.coordinator.earlier_runs(owner, series))
        return txn.txn_id

    def add_topics(self, txn_id: TxnId, names: Sequence[TopicName], done: Done) -> Transaction:
        """Messages may be sent to these topics in the transaction when `done` is called. They are
        ready (`is_usable`)."""
        txn = self.coordinator.find(txn_id)
        if len(names) == 1:  # as nearly always
            text = names[0].text
            added = [] if text in txn.topics else [text]
        else:
            added = sorted({name.text for name in names} - txn.topics)
        self._check_size(txn, len(added))
        book = self._book(txn_id.most)
        fact = book.add_topics(txn, added)

        def undo() -> None:
            book.take_topics(txn, added)
            never_added(txn, added, self._broker.topics)

        self.fact(book, fact, done, undo)
        return txn

    def add_subscriptions(
        self, txn_id: TxnId, pairs: Sequence[tuple[TopicName, str]], done: Done
    ) -> Transaction:
        """Messages of these subscriptions may be acked in the transaction when `done` is called."""
        txn = self.coordinator.find(txn_id)
        for name, subscription in pairs:
            if self._is_elsewhere(name):
                continue  # its worker has it, or has refused
            topic = self._broker.topics.get(str(name))
            if topic is None or subscription not in topic.subscriptions:
                raise SubscriptionNotFound(f"{name} has no subscription {subscription}")
        asked = {(name.text, subscription) for name, subscription in pairs}
        added = sorted(asked - txn.subscriptions)
        self._check_size(txn, len(added))
        book = self._book(txn_id.most)
        fact = book.add_subscriptions(txn, added)
        self.fact(book, fact, done, lambda: book.take_subscriptions(txn, added))
        return txn

    async def admit(self, txn_id: TxnId, *, timeout_ms: int, owner: str | None) -> None:
        """A transaction of another coordinator has a part here."""
        book = self._book(txn_id.most)
        await self.make_ready(txn_id.most)
        if txn_id.least in book.open:
            return
        if (outcome := book.outcome_of(txn_id)) is not None:
            raise book.contradiction(txn_id, outcome)  # the request comes late
        clock = self._broker.clock
        txn, fact = book.admit(
            txn_id.least,
            timeout_ms=timeout_ms,
            now_ms=clock.wall_ms(),
            now_s=clock.monotonic(),
            owner=owner,
        )
        self.fact(book, fact, ignore, lambda: book.never_opened(txn))

    def _is_elsewhere(self, name: TopicName) -> bool:
        """Has another worker this topic?"""
        return self.shared is not None and self.shared.is_elsewhere(name)

    def _check_size(self, txn: Transaction, added: int) -> None:
        parts_max = self._broker.settings.transaction_parts_max
        size = txn.size if txn.series is None else self.coordinator.parts_of(txn)
        if size + added > parts_max:
            raise TooManyRequests(
                f"transaction {txn.txn_id}, with those that end with it, would have more than {parts_max} "
                "topics and subscriptions"
            )

    def is_usable(self, names: Iterable[TopicName]) -> bool:
        """Are these topics open, each with a state for what transactions do to it? Never those of other
        workers: they have to be asked."""
        topics = self._broker.topics
        for name in names:
            topic = topics.get(name.text)
            if topic is None or topic.transactions is None:
                return False
        return True

    async def make_ready_for(
        self, txn_id: TxnId, names: Iterable[TopicName], pairs: Iterable[tuple[TopicName, str]] = ()
    ) -> None:
        """Let topics, and subscriptions of topics, be ready for a transaction, wherever they are."""
        names, pairs = list(names), list(pairs)
        everything = [*names, *(name for name, _ in pairs)]
        await self.make_usable(name for name in everything if not self._is_elsewhere(name))
        if self.shared is not None:
            await self.shared.join(self.coordinator.find(txn_id), names, pairs)

    async def make_usable(self, names: Iterable[TopicName]) -> None:
        """Open topics, and give each a state for what transactions do to it. Official clients do not ask
        again for a part of a transaction: topics that are being unloaded are waited for."""
        names = list(names)
        for _ in range(_OPENINGS_MAX):
            for name in names:
                if not name.is_persistent:
                    raise NotAllowed(f"{name} is not persistent: no transaction can write to it")
                topic = await self._open_unless_busy(name)
                if topic is None or topic.transactions is not None:
                    continue
                try:
                    await begin(topic, self._broker)
                except ServiceNotReady:
                    if not topic.is_closed:
                        raise
            if self.is_usable(names):
                return
        raise ServiceNotReady("topics of the transaction are being unloaded")

    async def _open_unless_busy(self, name: TopicName) -> Topic | None:
        """The open topic; None: it was being unloaded until now, and may be opened again."""
        is_busy = name.text in self._broker.opening
        try:
            return await self._broker.topic(name, create=False)
        except ServiceNotReady:
            if not is_busy or self._broker.is_closing:
                raise
            return None

    async def make_ready(self, number: int | None = None) -> None:
        """Give the coordinator, or what is known here of another one, a state in the store."""
        number = self.coordinator.number if number is None else number
        if number not in self._state_ids:
            if number not in self._making:
                self._making[number] = asyncio.ensure_future(self._create_state(number))
            await asyncio.shield(self._making[number])

    async def _create_state(self, number: int) -> None:
        store = self._broker.store
        name = "" if number == self.coordinator.number else str(number)
        begun = Snapshot(store.journal.last_sequence, self._book(number).snapshot(), [])

        def create(catalog: Catalog) -> StateRow:
            row = catalog.create_state(NO_TOPIC, STATE, name, {})
            catalog.put_snapshot(row.state_id, begun)
            return row

        try:
            row = await self._broker.engine.catalog(create)
        finally:
            del self._making[number]
        self._open(row, begun)

    def fact(self, book: Coordinator, fact: bytes, done: Done, undo: Callable[[], None]) -> None:
        """Journal what is true already. `undo` takes it back where the disk refuses it: a message of
        what was not added durably would belong to no transaction after a crash."""

        def durable(error: PersistenceError | None) -> None:
            if error is not None:
                undo()
            done(error)

        broker = self._broker
        broker.counters.transaction_facts += 1
        broker.store.gather(self._state_ids[book.number], fact, durable)
        if not self.is_due:
            self._schedule()

    # -- ending ------------------------------------------------------------------------------------

    def ending_as(self, txn_id: TxnId) -> Outcome | None:
        """How one will have ended whose end is on its way."""
        end = self._ends.get(txn_id)
        return None if end is None else end.outcome

    def end(self, txn_id: TxnId, outcome: Outcome, done: Done, also: Sequence[TxnId] = ()) -> None:
        """Commit or abort; `done` is called when that is durable. The same end again is answered the
        same way. `also`: further transactions that end with it, as one step."""
        if self.shared is None and not also:
            txn = self.coordinator.get(txn_id)
            if txn is not None and txn.is_plain:  # as nearly all are
                txn.is_ending = True
                end = self._ends[txn_id] = End([txn], outcome, {})
                end.waiting.append(done)
                self._gather(end)
                return
        txn_ids = self._still_open((txn_id, *also), outcome)
        if not txn_ids:
            if self.shared is None:
                done(None)
            else:  # others may not know yet
                self.shared.when_told((txn_id, *also), done)
            return
        begun = self._ends.get(txn_ids[0])
        if begun is None:
            end = self._begin_end(txn_ids, outcome)
            end.waiting.append(done)
            if end.shards and outcome is Outcome.COMMIT:
                self._broker.spawn(self._ask_others(end))
            else:
                self._gather(end)
        elif begun.outcome is outcome and (not also or begun.is_of(txn_ids)):
            begun.waiting.append(done)
        else:
            raise self.coordinator.contradiction(txn_ids[0], begun.outcome)

    def end_run(self, owner: str | None, series: Series, done: Done) -> None:
        """Abort what a run of a series has open; `done` is called when all that is durable. The run opens
        no more: a worker that was not waited for must not hold topics back. What it is committing is left
        alone."""
        check_names(series)
        self.coordinator.series.end_run(owner or "", series)
        ends: list[End] = []
        left: list[Transaction] = []
        for least in self.coordinator.series.of_run(owner or "", series):
            txn = self.coordinator.open[least]
            end = self._ends.get(txn.txn_id)
            if end is None and txn.decided is not Outcome.COMMIT:
                left.append(txn)
            elif end is not None and end.outcome is Outcome.ABORT and end not in ends:
                ends.append(end)
        heard = when_all(len(ends) + len(left), done)
        for end in ends:
            end.waiting.append(heard)
        self._unasked.abort(left, heard)

    def _still_open(self, txn_ids: Sequence[TxnId], outcome: Outcome) -> list[TxnId]:
        """Those that have not ended like this already."""
        left = []
        ended: TxnId | None = None
        for txn_id in dict.fromkeys(txn_ids):
            before = self.coordinator.outcome_of(txn_id)
            if before is None:
                left.append(txn_id)
            elif before is outcome:
                ended = txn_id
            else:
                raise self.coordinator.contradiction(txn_id, before)
        if left and ended is not None and outcome is Outcome.COMMIT:
            # Without the others: so they were never to be one step with these.
            raise self.coordinator.contradiction(ended, outcome)
        return left

    def _begin_end(self, txn_ids: Sequence[TxnId], outcome: Outcome) -> End:
        txns: dict[TxnId, Transaction] = {}
        for txn_id in txn_ids:
            txn = self.coordinator.find_to_end(txn_id, outcome)
            txns |= {one.txn_id: one for one in (txn, *txn.company)}
        elsewhere: dict[str, int] = {}
        if self.shared is not None:
            for txn in txns.values():
                elsewhere |= self.shared.elsewhere(txn)
        end = End(list(txns.values()), outcome, elsewhere)
        if outcome is Outcome.COMMIT:
            self._check_commit(end)
        for txn in end.txns:
            txn.is_ending = True
            self._ends[txn.txn_id] = end
        if (key := end.committed_series) is not None:
            self._committing[key] = end
        return end

    def _check_commit(self, end: End) -> None:
        """May these be committed as one step?"""
        first, *others = end.txns
        if others:
            for one in others:
                if (one.series, one.owner) != (first.series, first.owner):
                    raise InvalidInput(
                        f"transactions {first.txn_id} and {one.txn_id} cannot be one step: they are of "
                        "different series"
                    )
            size = sum(txn.size for txn in end.txns)
            parts_max = self._broker.settings.transaction_parts_max
            if size > parts_max:
                raise TooManyRequests(
                    f"transactions with {size} topics and subscriptions cannot be one step: {parts_max} "
                    "are allowed"
                )
        series = first.series
        if series is None or first.decided is not None:
            return
        self.coordinator.series.check_step(first.owner or "", series)
        if end.committed_series in self._committing:
            raise ServiceNotReady(f"another step of series {series.name} is being committed")
        for txn in self.coordinator.of_series(first.owner, series):
            if txn.decided is COMMIT and txn not in end.txns:
                self._unasked.end([txn])
                raise ServiceNotReady(f"another step of series {series.name} may be committed")

    async def _ask_others(self, end: End) -> None:
        """A commit needs every topic, also those of other workers: behind the decision none may refuse."""
        assert self.shared is not None, "there are no others"
        try:
            await self.shared.check(end)
        except MilepostError as error:
            self._answer(end, error)
        except BaseException:
            self._answer(end, ServiceNotReady(f"transaction {end.txns[0].txn_id} was not ended"))
            raise
        else:
            self._gather(end)

    def _gather(self, end: End) -> None:
        """Let an end wait for others of the same turn: they share what they cost."""
        self._gathered.append(end)
        if not self.is_due:
            self._schedule()

    def _schedule(self) -> None:
        """Submit what was asked for before the next turn."""
        self.is_due = True
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._run_scheduled)

    def _run_scheduled(self) -> None:
        self._is_scheduled = False
        if self.is_due:
            self.submit_gathered()

    def submit_gathered(self) -> None:
        """Submit the facts and ends that were asked for in this turn. A session that has read all that came
        calls it, and the loop does before the next turn: so they are part of the same commit as what was
        asked for with them."""
        self.is_due = False
        self._broker.store.submit_gathered()
        if self._gathered:
            ends, self._gathered = self._gathered, []
            self._broker.store.when_unplanned(partial(self._submit, ends))

    async def _open_topics(self, end: End) -> None:
        """Open the topics of a transaction, then submit its end; those that were deleted meanwhile
        are left out.

        A damaged one cannot be committed to, but must not keep the others from an abort: should it be
        readable again one day, its opening finds the transaction gone, and aborts it there too.
        """
        txn_id = end.txns[0].txn_id
        end.openings += 1
        try:
            if end.openings > _OPENINGS_MAX:
                raise ServiceNotReady(f"the topics of transaction {txn_id} are being unloaded")
            for name in end.all_topics():
                try:
                    await self._open_unless_busy(TopicName.parse(name))
                except TopicNotFound:
                    logger.warning("transaction %s ends without %s, which is gone", txn_id, name)
                    end.left_out.add(name)
                except CorruptData as error:
                    if end.outcome is Outcome.COMMIT:
                        raise
                    logger.warning("transaction %s is aborted without %s: %s", txn_id, name, error)
                    end.left_out.add(name)
        except MilepostError as error:
            self._answer(end, error)
        except BaseException:
            self._answer(end, ServiceNotReady(f"transaction {txn_id} was not ended"))
            raise
        else:
            self._gather(end)

    def _submit(self, asked: Sequence[End]) -> None:
        """Write all ends as one record, and apply them when it is durable. An end whose topics are
        not open yet waits until they are."""
        ends, parts = self._parts(asked)
        if not ends:
            return
        store, shared = self._broker.store, self.shared

        def durable(error: MilepostError | None) -> None:
            if error is None:
                self._make_true(ends, parts)
            for end in ends:
                if error is None and end.shards and shared is not None:
                    shared.tell(end)  # the callers wait for it
                try:  # the others are answered all the same
                    self._answer(end, error)
                except Exception as failure:
                    self._broker.unexpected("transactions", failure)
            if error is None:
                for end in ends:
                    if end.outcome is COMMIT and end.txns[0].series is not None:
                        self._end_losers(end.txns[0])

        with store.together():
            for part in parts:
                part.submit(store)
            # Behind the others: it is answered when their answers are known.
            last = ends[-1].txns[-1]
            for end in ends:
                for txn in end.txns:
                    most, least = txn.txn_id
                    fact = Coordinator.end_fact(least, end.outcome, end.shards)
                    heard = durable if txn is last else ignore
                    store.fact_to_come(self._state_ids[most], fact, heard)

    def _parts(self, asked: Sequence[End]) -> tuple[list[End], list[Part]]:
        """The ends whose topics are open, and what they mean topic by topic; the others are helped on."""
        topics, departures = self._broker.topics, self.namesakes.departures
        ends: list[End] = []
        parts: dict[str, Part] = {}
        for end in asked:
            names = end.all_topics()
            is_open = True
            for name in names:
                topic = topics.get(name)
                if topic is None or topic.is_closed:
                    is_open = False
            if not is_open:
                self._broker.spawn(self._open_topics(end))
                continue
            if departures and any(topics[name] in departures for name in names):
                self._broker.spawn(self._after_departures(end))
                continue
            ends.append(end)
            for txn in end.txns:
                named = txn.subscriptions_by_topic() if txn.subscriptions else {}
                for name in names if len(end.txns) == 1 else end.topics_of(txn):
                    part = parts.get(name)
                    if part is None:
                        if topics[name].transactions is None:
                            continue  # deleted and made again: nothing of them is in it
                        part = parts[name] = Part(topics[name])
                    part.add(txn.txn_id, end.outcome, named.get(name, ()))
        return ends, list(parts.values())

    async def _after_departures(self, end: End) -> None:
        """Go on with an end when it is known which subscriptions there are. One whose deletion the
        catalog refuses is there again, and what the transaction has acked on it ends with it."""
        try:
            for name in end.all_topics():
                if (topic := self._broker.topics.get(name)) is not None:
                    await self.namesakes.settle(topic)
        except BaseException:
            txn_id = end.txns[0].txn_id
            self._answer(end, ServiceNotReady(f"transaction {txn_id} was not ended"))
            raise
        self._gather(end)

    def _answer(self, end: End, error: MilepostError | None) -> None:
        if (key := end.committed_series) is not None and self._committing.get(key) is end:
            del self._committing[key]
        for txn in end.txns:
            del self._ends[txn.txn_id]
            if error is not None:
                txn.is_ending = False
                if isinstance(error, OutcomeUnknown):
                    txn.decided, txn.company = end.outcome, tuple(end.txns)
        for done in end.waiting:
            done(error)

    def _make_true(self, ends: Sequence[End], parts: Sequence[Part]) -> None:
        broker = self._broker
        counters, now_ms = broker.counters, broker.clock.wall_ms()
        took_ms: list[float] = []
        for end in ends:
            txns = end.txns
            for txn in txns:
                self._book(txn.txn_id.most).ended(txn, end.outcome, end.shards)
                took_ms.append(max(now_ms - txn.opened_ms, 0))
            if txns[0].txn_id.most != self.coordinator.number:
                continue  # its own coordinator counts it
            if end.outcome is COMMIT:
                counters.transactions_committed += len(txns)
            else:
                counters.transactions_aborted += len(txns)
        counters.transaction_facts += len(took_ms)
        self.times.add_all(took_ms)
        # It is on the disk: what is wrong with one topic must not keep the others from it.
        for part in parts:
            broker.attempt("transactions", part.make_true)
        for part in parts:
            if part.topic.subscriptions:
                broker.attempt("transactions", part.show)

    def _end_losers(self, winner: Transaction) -> None:
        """What a series has open of a step that is committed is of workers that were not waited for."""
        series = winner.series
        if series is None:
            return
        if series.step is None:  # else the number of the step refuses workers that come late
            self.coordinator.series.end_run(winner.owner or "", series)
        losers: list[Transaction] = []
        for txn in self.coordinator.of_series(winner.owner, series):
            assert txn.series is not None
            if series.step is None or (txn.series.step or 0) <= series.step:
                losers.append(txn)
        self._unasked.abort(losers)

    def tick(self, now_s: float) -> None:
        """Abort what is overdue, and end what the disk may have half heard of."""
        if now_s >= self._roll_due:
            self._roll_due = now_s + PERIOD_S
            self.times.roll()
        if self.shared is not None:
            self.shared.tick(now_s)
        self._unasked.end(self.coordinator.overdue(now_s))

    def told(self, least: int) -> None:
        """All other workers have carried out an end. Should that not reach the disk, they are told again."""
        fact, state_id = self.coordinator.told(least), self._state_ids[self.coordinator.number]
        self._broker.counters.transaction_facts += 1
        self._broker.store.fact(state_id, fact, ignore)


# -- the state of a topic ----------------------------------------------------------------------------


async def begin(topic: Topic, broker: Broker) -> None:
    """Give a topic a state for what transactions do to it; for ever from now on. A transaction that has a
    topic of this name already was told of another one, which was deleted."""
    engine, text = broker.engine, topic.name.text
    await broker.transactions.namesakes.let_go(
        [(text, ""), *((text, one) for one in topic.subscriptions)]
    )
    topic.check_open()
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
