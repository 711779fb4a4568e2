"""Transactions with topics of several workers: who takes part, who is told of the end, who asks.

    add    ─▶ the topic's worker: "txn_join": it notes the transaction as a guest, durably
           ─▶ the coordinator's own fact ─▶ answer
    end    ─▶ a commit asks each worker with a part: "txn_check": can its topics be opened?
           ─▶ one record of the coordinator's journal: its own part, the outcome, the shards to tell. The
              outcome is decided now
           ─▶ "txn_end" to each of them, again and again until it has carried its part out with one record of
              its own journal ─▶ answer

A worker that is killed anywhere finds in its journal what it has to tell, or what it has been told. A worker
that has guests also asks their coordinator about them now and then ("txn_ask"), for a request to take part
may have come late. A transaction that its coordinator does not know was aborted: it forgets a commit only
when all have carried it out. A process that had the coordinator before does not say so: it has never given
the ids of transactions that its successor opened.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from milepost.broker.topic.transaction_ends import Done, End, when_all
from milepost.broker.transactions.coordinator import Outcome, Transaction
from milepost.broker.workers.link import Answer, Answers, Doc
from milepost.errors import MilepostError, ServiceNotReady, TopicNotFound
from milepost.positions.names import TopicName
from milepost.positions.transactions import TxnId

if TYPE_CHECKING:
    from milepost.broker.broker import Broker
    from milepost.broker.operations.transactions import Transactions
    from milepost.broker.workers.workers import Workers

logger = logging.getLogger(__name__)

# A worker that is started again answers within a second or two; one that hangs is told when it goes on.
TELL_S: Final = 5.0
# Between two attempts to tell a worker: the first, and the longest.
PAUSE_S: Final = 0.05
PAUSE_MAX_S: Final = 1.0
# A client waits for so long at most; the end is decided whatever it is answered.
ANSWER_S: Final = 20.0
# How often a worker asks after guests.
LOOK_S: Final = 10.0
# Transactions in one call.
BATCH: Final = 1000


class SharedTransactions:
    def __init__(self, broker: Broker, service: Transactions, workers: Workers) -> None:
        self._broker = broker
        self._service = service
        self._workers = workers
        self._placement = workers.placement
        self._loop = asyncio.get_running_loop()
        # By the second half of the id: until when a caller waits that others carry the end out.
        self._callers: dict[int, list[tuple[float, Done]]] = {}
        # Shards that are being told, and coordinators that are being asked.
        self._telling: set[int] = set()
        self._asking: set[int] = set()
        self._look_due = 0.0

    # -- placement ---------------------------------------------------------------------------------

    @property
    def coordinators(self) -> int:
        return self._placement.count

    def is_elsewhere(self, name: TopicName) -> bool:
        return not self._placement.has(name)

    def elsewhere(self, txn: Transaction) -> dict[str, int]:
        """The shards of a transaction's topics that other workers have."""
        shards = {
            topic: self._placement.shard_of(TopicName.parse(topic)) for topic in txn.all_topics()
        }
        return {topic: shard for topic, shard in shards.items() if shard != self._placement.own}

    # -- the coordinator's side --------------------------------------------------------------------

    async def join(
        self, txn: Transaction, names: Iterable[TopicName], pairs: Iterable[tuple[TopicName, str]]
    ) -> None:
        """Have other workers take part with topics and subscriptions of theirs."""
        calls: dict[int, Doc] = {}

        def call_of(name: TopicName) -> Doc:
            blank = {"txn": list(txn.txn_id), "owner": txn.owner, "timeout_ms": txn.timeout_ms}
            shard = self._placement.shard_of(name)
            return calls.setdefault(shard, {**blank, "topics": [], "subscriptions": []})

        for name in names:
            call_of(name)["topics"].append(str(name))
        for name, subscription in pairs:
            call_of(name)["subscriptions"].append([str(name), subscription])
        calls.pop(self._placement.own, None)
        await asyncio.gather(
            *(self._workers.ask_owner(shard, "txn_join", call) for shard, call in calls.items())
        )

    async def check(self, end: End) -> None:
        """Raise if a worker cannot open the topics of its part."""
        values = {"txns": [list(txn.txn_id) for txn in end.txns]}
        await asyncio.gather(
            *(self._workers.ask_owner(shard, "txn_check", values) for shard in end.shards)
        )

    def tell(self, end: End) -> None:
        """An end is decided: those that wait for it are answered when all have carried it out."""
        waiting, end.waiting = end.waiting, []
        for done in waiting:
            self.when_told([txn.txn_id for txn in end.txns], done)
        self._wake()

    def when_told(self, txn_ids: Sequence[TxnId], done: Done) -> None:
        """Call `done` when no worker has to be told any more of these, or after a while."""
        coordinator = self._service.coordinator
        leasts = [
            one.least
            for one in txn_ids
            if one.most == coordinator.number and one.least in coordinator.untold
        ]
        heard, until = when_all(len(leasts), done), self._broker.clock.monotonic() + ANSWER_S
        for least in leasts:
            self._callers.setdefault(least, []).append((until, heard))

    def tick(self, now_s: float) -> None:
        """Tell what a process before has left, and ask after guests."""
        self._wake()
        if now_s < self._look_due:
            return
        self._look_due = now_s + LOOK_S
        for number, book in self._service.coordinator.guests.items():
            if book.open and number not in self._asking:
                self._asking.add(number)
                self._broker.spawn(self._ask(number))

    def _wake(self) -> None:
        if self._broker.is_closing:
            return
        untold = self._service.coordinator.untold.values()
        for shard in {shard for one in untold for shard in one.shards} - self._telling:
            self._telling.add(shard)
            self._broker.spawn(self._tell(shard))

    async def _tell(self, shard: int) -> None:
        """Tell a worker of ends until it has carried all of them out."""
        pause_s, untold = PAUSE_S, self._service.coordinator.untold
        try:
            while ends := [
                [least, int(one.outcome)] for least, one in untold.items() if shard in one.shards
            ][:BATCH]:
                if self._broker.is_closing:
                    return
                carried, reason = await self._told(shard, ends)
                for least in carried:
                    self._carried(least, shard)
                if reason:
                    self._give_up_waiting(reason)
                pause_s = PAUSE_S if carried else min(2 * pause_s, PAUSE_MAX_S)
                if len(carried) < len(ends):
                    await asyncio.sleep(pause_s)
        finally:
            self._telling.discard(shard)

    async def _told(self, shard: int, ends: list[list[int]]) -> tuple[list[int], str]:
        """What a worker has carried out, and why it has not carried out the rest."""
        values = {"coordinator": self._service.coordinator.number, "ends": ends}
        try:
            said, _ = await self._workers.link.ask(shard, "txn_end", values, timeout_s=TELL_S)
        except MilepostError as error:
            logger.info("worker %d is not told of %d ends yet: %s", shard, len(ends), error)
            return [], str(error)
        if said["refused"]:
            logger.warning("worker %d: %s", shard, said["refused"])
        return said["carried"], said["refused"]

    def _carried(self, least: int, shard: int) -> None:
        untold = self._service.coordinator.untold.get(least)
        if untold is None:
            return
        untold.shards.discard(shard)
        if not untold.shards:
            self._service.told(least)
            for _, done in self._callers.pop(least, ()):
                self._broker.attempt("transactions", partial(done, None))

    def _give_up_waiting(self, reason: str) -> None:
        """Answer the callers that have waited for long: the end is decided, and not yet seen everywhere."""
        now = self._broker.clock.monotonic()
        for least, callers in list(self._callers.items()):
            self._callers[least] = [one for one in callers if one[0] > now]
            late = [done for until, done in callers if until <= now]
            txn_id = TxnId(self._service.coordinator.number, least)
            error = ServiceNotReady(
                f"the end of {txn_id} is decided and not everywhere yet: {reason}"
            )
            for done in late:
                self._broker.attempt("transactions", partial(done, error))
            if not self._callers[least]:
                del self._callers[least]

    # -- the side of a worker with guests ----------------------------------------------------------

    async def _ask(self, number: int) -> None:
        """Ask a coordinator which of its guests have ended."""
        try:
            book = self._service.coordinator.guests[number]
            values = {"leasts": list(book.open)[:BATCH]}
            said, _ = await self._workers.link.ask(number, "txn_ask", values)
            for least, outcome in said["ended"]:
                txn_id = TxnId(number, least)
                if least in book.open and not book.open[least].is_ending:
                    self._service.end(txn_id, Outcome(outcome), _not_ended(txn_id))
        except MilepostError as error:
            logger.info(
                "coordinator %d does not say which transactions are open: %s", number, error
            )
        finally:
            self._asking.discard(number)

    # -- answering other workers -------------------------------------------------------------------

    @property
    def answers(self) -> dict[str, Answers]:
        return {
            "txn_join": self._answer_join,
            "txn_check": self._answer_check,
            "txn_end": self._answer_end,
            "txn_ask": self._answer_ask,
        }

    async def _answer_join(self, said: Doc, body: bytes) -> Answer:
        service, txn_id = self._service, TxnId(*said["txn"])
        names = [TopicName.parse(text) for text in said["topics"]]
        pairs = [(TopicName.parse(text), name) for text, name in said["subscriptions"]]
        await service.make_usable([*names, *(name for name, _ in pairs)])
        await service.admit(txn_id, timeout_ms=said["timeout_ms"], owner=said["owner"])
        answer: asyncio.Future[MilepostError | None] = self._loop.create_future()
        heard = when_all(bool(names) + bool(pairs), partial(_settle, answer))
        if names:
            service.add_topics(txn_id, names, heard)
        if pairs:
            service.add_subscriptions(txn_id, pairs, heard)
        if (error := await answer) is not None:
            raise error
        return {}, b""

    async def _answer_check(self, said: Doc, body: bytes) -> Answer:
        for txn_id in said["txns"]:
            txn = self._service.coordinator.get(TxnId(*txn_id))
            for name in () if txn is None else txn.all_topics():
                try:
                    await self._broker.topic(TopicName.parse(name), create=False)
                except TopicNotFound:
                    continue  # deleted since it was added
        return {}, b""

    async def _answer_end(self, said: Doc, body: bytes) -> Answer:
        number = said["coordinator"]
        outcomes = await asyncio.gather(
            *(self._end(TxnId(number, least), Outcome(outcome)) for least, outcome in said["ends"])
        )
        carried = [
            least for (least, _), error in zip(said["ends"], outcomes, strict=True) if error is None
        ]
        refused = next((str(error) for error in outcomes if error is not None), "")
        return {"carried": carried, "refused": refused}, b""

    async def _end(self, txn_id: TxnId, outcome: Outcome) -> MilepostError | None:
        """Carry out what a coordinator has decided; the error if that cannot be."""
        coordinator = self._service.coordinator
        if not coordinator.is_open(txn_id):
            before = coordinator.outcome_of(txn_id)
            if before not in (None, outcome):
                return coordinator.contradiction(txn_id, before)
            if before is outcome:
                return None
            # That there is nothing to carry out counts only if this process still has the shard: one that
            # was paused while another took the shard over cannot write that the transaction has ended.
            await self._service.make_ready(txn_id.most)
        answer: asyncio.Future[MilepostError | None] = self._loop.create_future()
        try:
            if not coordinator.is_open(txn_id):
                self._remember(txn_id, outcome, partial(_settle, answer))
                return await answer
            self._service.end(txn_id, outcome, partial(_settle, answer))
        except MilepostError as error:
            return error
        return await answer

    def _remember(self, txn_id: TxnId, outcome: Outcome, done: Done) -> None:
        """A transaction that has no part here has ended; `done` is called when that is durable. A request to
        take part that comes later is refused."""
        book = self._service.coordinator.book(txn_id.most)
        assert book is not None, f"there is no book for {txn_id}"

        def heard(error: MilepostError | None) -> None:
            if error is None and txn_id.least in book.open:  # the request was faster than the disk
                error = ServiceNotReady(f"transaction {txn_id} has a part here since")
            elif error is None:
                book.remember(txn_id.least, outcome)
            done(error)

        fact = book.end_fact(txn_id.least, outcome)
        self._service.fact(book, fact, heard, undo=lambda: None)

    async def _answer_ask(self, said: Doc, body: bytes) -> Answer:
        coordinator, ended = self._service.coordinator, []
        if max(said["leasts"], default=0) > coordinator.last_given:
            # Given by another process: the shard is another broker's by now, and who asked does not know it
            # yet. To call such a transaction aborted would end a part of one that is open.
            raise ServiceNotReady(
                f"this is not the process of coordinator {coordinator.number} any more"
            )
        for least in said["leasts"]:
            txn_id = TxnId(coordinator.number, least)
            if not coordinator.is_open(txn_id):
                outcome = coordinator.outcome_of(txn_id)
                ended.append([least, int(Outcome.ABORT if outcome is None else outcome)])
        return {"ended": ended}, b""


def _settle(answer: asyncio.Future[MilepostError | None], error: MilepostError | None) -> None:
    if not answer.done():
        answer.set_result(error)


def _not_ended(txn_id: TxnId) -> Callable[[MilepostError | None], None]:
    def done(error: MilepostError | None) -> None:
        if error is not None:  # asked again later
            logger.warning("transaction %s cannot be ended here: %s", txn_id, error)

    return done
