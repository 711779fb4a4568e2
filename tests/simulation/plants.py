"""Bugs to plant: one change of one function each. The seeds must find every one of them.

The text that is right must stand in the function exactly once, so that a list that is out of date says so.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import textwrap
from typing import NamedTuple

import pytest


class Bug(NamedTuple):
    name: str
    where: str
    """Module, and function in it; `milepost.` goes before."""
    right: str
    wrong: str

    def planted(self) -> tuple[object, str, str]:
        """The owner of the function, its name, and its source with the bug."""
        module_name, _, path = self.where.partition(":")
        module = importlib.import_module(f"milepost.{module_name}")
        owner, *_ = [module, *(getattr(module, part) for part in path.split(".")[:-1])][::-1]
        name = path.rpartition(".")[2]
        source = _source(owner, name)
        found = source.count(self.right)
        assert found == 1, f"{self.name}: {self.right!r} stands {found} times in {self.where}"
        return owner, name, source.replace(self.right, self.wrong)

    def plant(self, patch: pytest.MonkeyPatch) -> None:
        module = importlib.import_module(f"milepost.{self.where.partition(':')[0]}")
        owner, name, source = self.planted()
        function = inspect.getattr_static(owner, name)
        names: dict[str, object] = {}
        code = compile("from __future__ import annotations\n" + source, self.where, "exec")
        exec(code, module.__dict__, names)
        patch.setattr(owner, name, names[name])
        for other in [one for key, one in sys.modules.items() if key.startswith("milepost.")]:
            if other.__dict__.get(name) is function:  # imported by its name
                patch.setattr(other, name, names[name])


def _source(owner: object, name: str) -> str:
    function = inspect.getattr_static(owner, name)
    return textwrap.dedent(inspect.getsource(getattr(function, "fget", None) or function))


_SUB, _CURSOR = "broker.subscription.subscription:Subscription.", "cursor.cursor:Cursor."
_IDS = "broker.messages.ids_to_indexes:"
_ACKS = "broker.subscription.ack_journal:AckJournal."
_TOPIC = "broker.topic.topic:Topic."
_SINGLES = "broker.topic.singles:Singles."
_TXN = "broker.transactions.topic_transactions:TopicTransactions."
_PART = "broker.topic.transaction_ends:Part."

BUGS = (
    # What is answered, and when.
    Bug("acks answered before the disk", _ACKS + "when_durable",
        "if self.noted or self._noted_sets or self._waiting or self.is_behind:", "if False:"),
    Bug("an ack is answered ahead of the reset it relies on", _ACKS + "fact",
        "self._waiting += 1", "self._waiting += 0"),
    Bug("acks that the disk refused are answered", _ACKS + "flush",
        "            answer(error)", "            answer(None)"),
    Bug("acks of one turn but the last are lost", _ACKS + "note",
        "self.noted += ranges", "self.noted = [*ranges]"),
    Bug("receipts before the disk", _TOPIC + "publish",
        "block = self.log.append(items, self.now_ms(), publication.durable)",
        "block = self.log.append(items, self.now_ms(), lambda error: None); publication.durable(None)"),
    Bug("receipts of single messages before the disk", _SINGLES + "publish",
        "single.block = topic.log.append_one(send.entry, send.count, now_ms, single.durable)",
        "single.block = topic.log.append_one(send.entry, send.count, now_ms, lambda error: None);"
        " single.durable(None)"),
    Bug("what the disk refused has a receipt", _TOPIC + "on_durable",
        "if error is not None:", "if False:"),
    Bug("a seek answered before the disk", _SUB + "_move",
        "self.journal.fact(fact, self.seeks.begin(done))",
        "self.journal.fact(fact, lambda error: None); done(None)"),
    # Acks and what they mean.
    Bug("a bit of a batch is off by one", _IDS + "acked_ranges",
        "return pending.acked_runs(first)", "return pending.acked_runs(max(first - 1, 0))"),
    Bug("an ack of a part acks the batch", _IDS + "acked_ranges",
        "return pending.acked_runs(first)", "return [(first, end)]"),
    Bug("a cumulative ack of a part acks the batch", _IDS + "acked_end",
        "end = end if pending is None else first + pending", "pass"),
    Bug("a cumulative ack leaves its own message", _IDS + "acked_end",
        "    return end if meant", "    end -= not words\n    return end if meant"),
    Bug("a late ack is applied", _CURSOR + "ack",
        "if stale.count:", "if False:"),
    Bug("a released message is gone", _CURSOR + "_return",
        "self._ready.add_all(released)", "pass"),
    Bug("what a lost consumer held is gone", _SUB + "release_all",
        "self.cursor.release_holder(consumer.holder, count=False)",
        "self.cursor.ack(list(self.cursor.inflight_of(consumer.holder)))"),
    # Seeks and resets.
    Bug("a reset without an epoch", _CURSOR + "seek",
        "fact = SeekFact(self.epoch + 1, index, stale)", "fact = SeekFact(self.epoch, index, stale)"),
    Bug("a reset forgets what is stale", _CURSOR + "seek",
        "fact = SeekFact(self.epoch + 1, index, stale)",
        "fact = SeekFact(self.epoch + 1, index, IndexRanges())"),
    Bug("a seek into a batch goes to its beginning", _IDS + "start_index",
        "return first + batch_index", "return first"),
    Bug("a seek goes one too far", _SUB + "_move",
        "min(max(index, self.cursor.first), self.cursor.end)",
        "min(max(index + 1, self.cursor.first), self.cursor.end)"),
    Bug("a reset of a group moves one member", "broker.subscription.broadcast:BroadcastGroup.seek",
        "member.seek(index, one_done)",
        "member.seek(index if member is next(iter(self.members.values())) else self.cursor.first, one_done)"),
    # Deliveries.
    Bug("a delivery is not noted behind a seek", "broker.subscription.held_deliveries:HeldDeliveries.send",
        "if journal is not None and (went.stale or journal.is_behind):", "if False:"),
    Bug("a key goes to any consumer", "broker.dispatch.dispatchers:KeyShared.choose",
        "holder = self._assignment.choose(self._slot(entry))",
        "holder = [*self._by_holder][entry.last_index % len(self._by_holder)]"),
    Bug("two consumers believe to be active", "broker.dispatch.dispatchers:Failover._elect",
        "self.subscription.tell_active(consumer, consumer is chosen)",
        "self.subscription.tell_active(consumer, consumer in (chosen, previous))"),
    Bug("acked messages of a batch are shown again", _CURSOR + "ready_set",
        "return AckSet(self._ready.bits(first, end), span.count)", "return None"),
    Bug("what comes last stays where it is", _SUB + "extend",
        "self.cursor.extend(end_index)", "self.cursor.extend(max(end_index - 1, self.cursor.end))"),
    # What a restart finds.
    Bug("acks are not read again", _CURSOR + "replay",
        "self._settle(first, end, NO_HOLDER, {})", "pass"),
    Bug("seeks are not read again", _CURSOR + "replay",
        "if fact.epoch > self.epoch:\n            self.extend", "if False:\n            self.extend"),
    Bug("sequence ids of the snapshot are forgotten", "broker.topic.dedup:Dedup.restore",
        "for _ in range(count):\n        at = dedup._read_producer(body, at, now)\n    if at != len(body):",
        "if False:"),
    Bug("sequence ids of the journal are not read", "broker.topic.dedup:Dedup.replay",
        "self.persisted(producer, sequence_id, highest_sequence_id, chunk)", "pass"),
    Bug("a resent message counts as new", "broker.topic.dedup:Dedup.judge",
        "if sequence_id <= state.pushed or state.must_resend:", "if state.must_resend:"),
    Bug("retention looks at the fastest subscription", "broker.operations.topic_lifecycle:trimmable_index",
        "return min([topic.visible_end, *needed])",
        "return min(topic.visible_end, max(needed, default=topic.visible_end))"),
    # Transactions.
    Bug("a message of an open transaction is seen", _TXN + "visible_end",
        "return min(ranges.first, end_index)", "return end_index"),
    Bug("an aborted transaction shows its messages", _TXN + "ended",
        "if messages is not None and outcome is ABORT:", "if False:"),
    Bug("the acks of a commit are not on disk", _PART + "submit",
        "if ranges and part.journal is not None:", "if False:"),
    Bug("a commit is an abort", _PART + "make_true",
        "transactions.ended(txn_id, outcome,", "transactions.ended(txn_id, Outcome.ABORT,"),
    # Lookups and numbers.
    Bug("a lookup finds the entry, not the message", "broker.messages.lookup_by_index:_found",
        "index - located.span.first_index", "0"),
    Bug("a lookup finds the next message", "broker.messages.lookup_by_index:user_message_at",
        "located = log.locate(index)", "located = log.locate(min(index + 1, topic.visible_end - 1))"),
    Bug("an index below zero is found", "broker.messages.lookup_by_index:user_message_at",
        "if index < 0:", "index = max(index, 0)\n    if not topic.visible_end:"),
    Bug("what is in flight is counted twice", _CURSOR + "counts",
        "ready = self._ready.count", "ready = self._inflight.count + self._ready.count"),
    Bug("acked messages are counted as ready", _CURSOR + "counts",
        "return Counts(", "return (lambda *of: Counts(of[0] + of[3], *of[1:3], 0))("),
)  # fmt: skip
