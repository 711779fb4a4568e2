"""Transactions against a small model: random steps of several of them, consumers, seeks and restarts.

The model knows sets alone. Of every message: its transaction, if it has one, and of every index of the
subscription whether it is acked, or pending in which transaction. After each step the broker must show
exactly that: how far consumers see, what is hidden, acked and pending, and which acks are refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from stage.counts import examples
from stage.frames import batch, message
from stage.stage import TOPIC, Stage
from stage.talk import (
    SHARED,
    ack_command,
    error_of,
    produce,
    request,
    subscribe,
    wire_id,
)

from milepost.broker.operations import topic_lifecycle
from milepost.positions import TxnId
from milepost.positions.spans import Span
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import Receipt

SUBSCRIPTION = "s"
TIMEOUT_S = 50
NOWHERE = (-1, -1)
RARELY = st.sampled_from([False, False, False, True])


@dataclass
class Entry:
    """One entry of the log: a message, a batch or a marker."""

    first: int
    count: int
    place: tuple[int, int]
    txn: TxnId | None = None
    is_marker: bool = False


@dataclass
class Model:
    entries: list[Entry] = field(default_factory=list)
    outcomes: dict[TxnId, int | None] = field(default_factory=dict)
    """None while it is open."""
    due_s: dict[TxnId, float] = field(default_factory=dict)
    acked: set[int] = field(default_factory=set)
    pending: dict[int, TxnId] = field(default_factory=dict)

    @property
    def end(self) -> int:
        return sum(entry.count for entry in self.entries)

    @property
    def visible_end(self) -> int:
        held = [e.first for e in self.entries if e.txn and self.outcomes[e.txn] is None]
        return min(held, default=self.end)

    def hidden(self) -> set[int]:
        return {
            index
            for e in self.entries
            for index in range(e.first, e.first + e.count)
            if e.is_marker or (e.txn is not None and self.outcomes[e.txn] == pb.ABORT)
        }

    def finish(self, txn: TxnId, action: int) -> None:
        self.outcomes[txn] = action
        if any(entry.txn == txn for entry in self.entries):
            self.entries.append(Entry(self.end, 1, NOWHERE, is_marker=True))
        for index in [one for one, owner in self.pending.items() if owner == txn]:
            del self.pending[index]
            if action == pb.COMMIT:
                self.acked.add(index)


class Transactions(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.stage = Stage(ledger_entries_max=5)
        self.model = Model()
        self._sequence_id = 0
        self.client: Any = None
        self._connect()
        # Something to ack, and transactions to do it in, from the first step on.
        for count in (1, 3, 1, 3, 1, 1):
            self.send(0, True, count)
        for _ in range(2):
            self.begin()

    def teardown(self) -> None:
        self.stage.close()

    def _connect(self) -> None:
        if self.client is not None:
            self.client.hang_up()
            self.stage.turn()
        self.client = self.stage.client()
        produce(self.stage, self.client)
        earliest = pb.CommandSubscribe.Earliest
        subscribe(self.stage, self.client, SUBSCRIPTION, SHARED, initialPosition=earliest)
        self.client.say(pb.CommandFlow(consumer_id=0, messagePermits=1000))
        self.stage.turn()
        self.client.take()

    def _is_ready(self, entry: Entry) -> bool:
        gone = self.model.acked | self.model.hidden()
        return entry.first < self.model.visible_end and entry.first not in gone

    def _open(self) -> list[TxnId]:
        return [txn for txn, outcome in self.model.outcomes.items() if outcome is None]

    def _some(self, number: int) -> TxnId | None:
        txns = self._open()
        return txns[number % len(txns)] if txns else None

    def _bits(self, txn: TxnId | None) -> dict[str, int]:
        return {} if txn is None else {"txnid_least_bits": txn.least, "txnid_most_bits": txn.most}

    @precondition(lambda self: len(self._open()) < 4)
    @rule()
    def begin(self) -> None:
        ttl_ms = TIMEOUT_S * 1000
        reply = request(self.stage, self.client, pb.CommandNewTxn(txn_ttl_millis=ttl_ms))
        assert not error_of(reply)
        txn = TxnId(reply.txnid_most_bits, reply.txnid_least_bits)
        pair = pb.Subscription(topic=TOPIC, subscription=SUBSCRIPTION)
        for command in (
            pb.CommandAddPartitionToTxn(partitions=[TOPIC], **self._bits(txn)),
            pb.CommandAddSubscriptionToTxn(subscription=[pair], **self._bits(txn)),
        ):
            assert not error_of(request(self.stage, self.client, command))
        self.model.outcomes[txn] = None
        self.model.due_s[txn] = self.stage.clock.monotonic() + TIMEOUT_S

    @rule(number=st.integers(0, 9), is_plain=st.booleans(), count=st.sampled_from([1, 1, 3]))
    def send(self, number: int, is_plain: bool, count: int) -> None:
        txn = None if is_plain else self._some(number)
        self._sequence_id += 1
        make = message(self._sequence_id, **self._bits(txn))
        if count > 1:
            make = batch(self._sequence_id, count, **self._bits(txn))
        self.client.say(make)
        self.stage.turn()
        (receipt,) = [one for one in self.client.take() if isinstance(one, Receipt)]
        place = receipt.ledger_id, receipt.entry_id
        self.model.entries.append(Entry(self.model.end, count, place, txn))

    @precondition(lambda self: any(not entry.is_marker for entry in self.model.entries))
    @rule(which=st.integers(0, 99), number=st.integers(0, 9), is_plain=RARELY, anywhere=RARELY)
    def ack(self, which: int, number: int, is_plain: bool, anywhere: bool) -> None:
        messages = [entry for entry in self.model.entries if not entry.is_marker]
        if not anywhere:
            messages = [one for one in messages if self._is_ready(one)] or messages
        entry = messages[which % len(messages)]
        self._ack(entry, range(entry.count), None if is_plain else self._some(number))

    @precondition(lambda self: any(entry.count > 1 for entry in self.model.entries))
    @rule(which=st.integers(0, 99), at=st.integers(0, 2), number=st.integers(0, 9))
    def ack_one_of_a_batch(self, which: int, at: int, number: int) -> None:
        batches = [entry for entry in self.model.entries if entry.count > 1]
        entry = batches[which % len(batches)]
        words = [((1 << entry.count) - 1) & ~(1 << at)]
        self._ack(entry, range(at, at + 1), self._some(number), ack_set=words)

    def _ack(self, entry: Entry, places: range, txn: TxnId | None, **fields: Any) -> None:
        model = self.model
        indexes = {entry.first + at for at in places}
        target = wire_id(*entry.place, **fields)
        reply = request(self.stage, self.client, ack_command(target, **self._bits(txn)))
        if max(indexes) >= model.visible_end:
            assert error_of(reply), "it is not visible"
            return
        gone = model.acked | model.hidden()
        if txn is None:
            assert not error_of(reply)
            # Of a batch it leaves what its own consumer has acked in a transaction. Where nothing else is
            # left of it, that counts until the broker opens the topic anew, and forgets whose it was.
            cursor = self.stage.topic().subscriptions[SUBSCRIPTION].cursor
            left = indexes - model.pending.keys()
            if left or not all(cursor.is_acked(Span(index, 1)) for index in indexes):
                indexes = left
            model.acked |= indexes
            for index in indexes:
                model.pending.pop(index, None)
        elif indexes <= gone or any(model.pending.get(index, txn) != txn for index in indexes):
            assert error_of(reply) == "TransactionConflict"
        else:
            assert not error_of(reply), reply
            model.pending.update(dict.fromkeys(indexes - gone, txn))

    @precondition(lambda self: self._open())
    @rule(number=st.integers(0, 9), action=st.sampled_from([pb.COMMIT, pb.ABORT]))
    def end(self, number: int, action: Any) -> None:
        txn = self._some(number)
        assert txn is not None
        command = pb.CommandEndTxn(txn_action=action, **self._bits(txn))
        assert not error_of(request(self.stage, self.client, command))
        self.model.finish(txn, action)

    @precondition(lambda self: any(one is not None for one in self.model.outcomes.values()))
    @rule(number=st.integers(0, 99), action=st.sampled_from([pb.COMMIT, pb.ABORT]))
    def end_again(self, number: int, action: Any) -> None:
        ended = [one for one, outcome in self.model.outcomes.items() if outcome is not None]
        txn = ended[number % len(ended)]
        reply = request(
            self.stage,
            self.stage.client(),
            pb.CommandEndTxn(txn_action=action, **self._bits(txn)),
        )
        is_same = self.model.outcomes[txn] == action
        assert error_of(reply) == ("" if is_same else "InvalidTxnStatus")

    @rule(index=st.integers(0, 99))
    def seek(self, index: int) -> None:
        subscription = self.stage.topic().subscriptions[SUBSCRIPTION]
        index = min(index, self.model.visible_end)
        self.stage.seek(subscription, index)
        self.model.acked = set(range(index))
        self.model.pending.clear()
        self._connect()

    @rule()
    def unload(self) -> None:
        self.stage.run(topic_lifecycle.close_topic(self.stage.broker, self.stage.topic()))
        self._connect()

    @rule(checkpoint=st.booleans())
    def restart(self, checkpoint: bool) -> None:
        self.stage = self.stage.restarted(checkpoint=checkpoint)
        self.client = None
        self._connect()

    @rule()
    def checkpoint(self) -> None:
        self.stage.checkpoint()

    @rule(seconds=st.sampled_from([1.0, 1.0, 1.0, 20.0, 49.0]))
    def wait(self, seconds: float) -> None:
        self.stage.tick(seconds)
        now = self.stage.clock.monotonic()
        for txn in self._open():
            if self.model.due_s[txn] <= now:
                self.model.finish(txn, pb.ABORT)

    @invariant()
    def is_what_the_model_says(self) -> None:
        model, topic = self.model, self.stage.topic()
        assert topic.log.end_index == model.end
        assert topic.visible_end == model.visible_end
        hidden = model.hidden()
        assert {index for index in range(model.end) if topic.is_hidden(index)} == hidden
        cursor = topic.subscriptions[SUBSCRIPTION].cursor
        seen = range(model.visible_end)
        is_acked = {index for index in seen if cursor.is_acked(Span(index, 1))}
        assert is_acked == {index for index in seen if index in model.acked | hidden}
        pended = {i for i in seen if cursor.pended_within([(i, i + 1)])}
        assert pended == set(model.pending)


TestTransactions = Transactions.TestCase
TestTransactions.settings = settings(
    max_examples=examples(25),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
