"""Any interleaving of publish, flow, ack, redeliver, seek, join and leave, with reads and the journal held
back: what the clients hear, judged by a twin that knows only what they said and heard.

The twin knows no cursor. It keeps, for every index, whether it is certainly acked, who was given it, and
whether an ack of it would be one from before a seek. It asserts of every frame that it may appear, and at
the end that a last consumer gets exactly what is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stage.acksets import pending_runs
from stage.counts import examples
from stage.frames import batch, marker, message
from stage.stage import Stage

from milepost.broker.dispatch.consumer import Consumer
from milepost.broker.dispatch.dispatchers import EXCLUSIVE, FAILOVER, KEY_SHARED, SHARED
from milepost.broker.subscription.subscription import Subscription
from milepost.errors import ConsumerBusy
from milepost.positions.ackset import AckSet
from milepost.testing.peer import RecordingPeer
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.events import Delivery, WireId

CONSUMERS_MAX = 3
ALWAYS = ["publish", "flow", "flow"]
SOMETIMES = [
    "ack",
    "ack_part",
    "cumulative",
    "late_ack",
    "redeliver",
    "redeliver_all",
    "seek",
    "seek_in_place",
    "join",
    "leave",
    "hold_reads",
    "release_read",
    "hold_journal",
    "release_journal",
    "checkpoint",
    "restart",
]


@st.composite
def runs(draw: st.DrawFn) -> list[tuple[str, int, int]]:
    """Steps of a few kinds: a few kinds meet each other more often than all of them do."""
    chosen = draw(st.lists(st.sampled_from(SOMETIMES), min_size=3, max_size=8, unique=True))
    step = st.tuples(st.sampled_from([*ALWAYS, *chosen]), st.integers(0, 11), st.integers(1, 6))
    return draw(st.lists(step, min_size=8, max_size=40))


# Something is there, on disk and nowhere else, and somebody wants some of it.
BEGINNING = [
    ("join", 0, 1),
    ("publish", 0, 1),
    ("publish", 1, 4),
    ("publish", 2, 1),
    ("publish", 4, 1),
    ("checkpoint", 0, 1),
    ("flow", 0, 3),
]


class Twin:
    """What the clients know."""

    def __init__(self, ordered: bool) -> None:
        self.ordered = ordered
        self.entries: dict[tuple[int, int], tuple[int, int]] = {}
        """Position → first index, count."""
        self.end = 0
        self.acked: set[int] = set()
        """Certainly."""
        self.unsure: set[int] = set()
        """Acked or not: the ack may have been one from before a seek, or of a delivery held back."""
        self.holder: dict[int, Consumer] = {}
        self.seen: set[int] = set()
        """Was ever given to anybody."""
        self.stale: set[int] = set()
        """Seen, or acked, before the last seek and not given to anybody since."""
        self.forgotten: set[int] = set()
        """Given to somebody before a restart: which of them were is not kept for certain."""
        self.permits: dict[Consumer, int] = {}
        self.markers: set[int] = set()
        """Given to nobody, ever."""

    def indexes(self, position: tuple[int, int], pending: AckSet | None = None) -> set[int]:
        first, count = self.entries[position]
        runs = [(first, first + count)] if pending is None else pending_runs(pending, first)
        return {index for low, high in runs for index in range(low, high)}

    def gave(self, consumer: Consumer, delivery: Delivery, *, twice: bool) -> None:
        """A consumer's client hears a message. `twice`: it asked for it again before it came."""
        position = (delivery.ledger_id, delivery.entry_id)
        count = self.entries[position][1]
        pending = AckSet.from_message_words(delivery.ack_set, count)
        shown = self.indexes(position, pending)
        assert not shown & self.acked, f"{sorted(shown & self.acked)} were acked"
        for index in shown:
            holder = self.holder.get(index)
            assert holder is None or (twice and holder is consumer), f"{index} is with {holder}"
        if self.ordered and not twice:
            settled = self.acked | self.unsure | set(self.holder) | self.markers
            before = set(range(min(shown))) - settled
            assert not before, f"{sorted(before)} come before {min(shown)}"
        assert self.permits[consumer] > 0, f"{consumer} had no permits"
        self.permits[consumer] -= len(shown)
        self.holder.update(dict.fromkeys(shown, consumer))
        self.seen |= shown
        self.stale -= shown

    def ack(self, indexes: set[int], *, certain: bool) -> None:
        """`certain`: nothing is delivered and held back, so that it is known what is stale."""
        for index in indexes - self.acked:
            if index not in self.stale and index not in self.forgotten:
                self._settle({index})
            elif not certain or index in self.forgotten:
                self.unsure.add(index)

    def ack_up_to(self, end: int, *, certain: bool) -> None:
        last = end - 1
        if last in self.acked or last not in self.stale | self.forgotten:
            self._settle(set(range(end)))
        elif not certain or last in self.forgotten:
            self.unsure |= set(range(end)) - self.acked

    def _settle(self, indexes: set[int]) -> None:
        self.acked |= indexes
        self.unsure -= indexes
        for index in indexes:
            self.holder.pop(index, None)

    def release(self, consumer: Consumer, indexes: set[int] | None = None) -> None:
        for index, holder in list(self.holder.items()):
            if holder is consumer and (indexes is None or index in indexes):
                del self.holder[index]

    def sought(self, index: int) -> None:
        known = self.seen | self.acked
        self.acked = set(range(index))
        self.stale = {one for one in known if one >= index}
        self.unsure = set()
        self.holder.clear()

    def restarted(self) -> None:
        self.forgotten |= set(self.holder) | (self.seen - self.acked - self.stale)
        self.holder.clear()
        self.permits.clear()


class Race:
    def __init__(self, sub_type: int) -> None:
        self.sub_type = sub_type
        self.twin = Twin(ordered=sub_type in (EXCLUSIVE, FAILOVER))
        self.stage = Stage(tail_size=0)
        self.consumers: list[Consumer] = []
        self.everyone: list[Consumer] = []
        self.asked_again: set[Consumer] = set()
        """Consumers that asked for messages again while some were held back."""
        self.published = 0
        self._open()

    def _open(self) -> None:
        self.topic = self.stage.topic()
        self.subscription: Subscription = self.stage.subscription(self.topic)
        self.producer = self.stage.producer(self.topic)

    # -- steps -------------------------------------------------------------------------------------

    def step(self, verb: str, pick: int, amount: int) -> None:
        getattr(self, verb)(pick, amount)
        self.stage.turn()
        self.listen()
        self.check()

    def publish(self, pick: int, amount: int) -> None:
        if self.stage.engine.holds_journal:
            return  # where it will lie is not known until it is durable
        kind, key = ("message", "batch", "marker", "message")[pick % 4], f"k{pick % 3}"
        frame = (
            batch(self.published, amount, partition_key=key)
            if kind == "batch"
            else marker(self.published)
            if kind == "marker"
            else message(self.published, partition_key=key)
        )
        self.stage.publish(self.producer, frame)
        self.published += 1
        for receipt in self.producer.peer.take():
            position = (receipt.ledger_id, receipt.entry_id)
            with self.stage.engine.here():
                first, end, _ = self.topic.lookup(*position)
            self.twin.entries[position] = (first, end - first)
            self.twin.end = end
            if kind == "marker":
                self.twin.markers.add(first)

    def flow(self, pick: int, amount: int) -> None:
        for consumer in self._one(pick):
            self.twin.permits[consumer] += amount
            self.subscription.flow(consumer, amount)

    def ack(self, pick: int, amount: int) -> None:
        for consumer, position in self._held(pick, amount):
            self.twin.ack(self.twin.indexes(position), certain=self._certain)
            self._ack(consumer, WireId(*position))

    def ack_part(self, pick: int, amount: int) -> None:
        for consumer, position in self._held(pick, amount):
            first, count = self.twin.entries[position]
            pending = AckSet(pick * 5 + amount, count)
            if not pending.is_empty:
                acked = {
                    index for low, high in pending.acked_runs(first) for index in range(low, high)
                }
                self.twin.ack(acked, certain=self._certain)
                self._ack(consumer, WireId(*position, ack_set=tuple(pending.to_ack_words())))

    def cumulative(self, pick: int, amount: int) -> None:
        if self.twin.ordered:
            for consumer, position in self._held(pick, amount):
                first, count = self.twin.entries[position]
                self.twin.ack_up_to(first + count, certain=self._certain)
                self._ack(consumer, WireId(*position), cumulative=True)

    def late_ack(self, pick: int, amount: int) -> None:
        """Of anything that was ever given to anybody, by whoever is there."""
        seen = sorted(p for p in self.twin.entries if self.twin.indexes(p) <= self.twin.seen)
        for consumer in self._one(pick):
            if seen:
                position = seen[(pick * 7 + amount) % len(seen)]
                self.twin.ack(self.twin.indexes(position), certain=self._certain)
                self._ack(consumer, WireId(*position))

    def redeliver(self, pick: int, amount: int) -> None:
        for consumer, position in self._held(pick, amount):
            self._note_again(consumer)
            named = None if self.twin.ordered else self.twin.indexes(position)
            self.twin.release(consumer, named)
            self.subscription.redeliver(consumer, [WireId(*position)], -1)

    def redeliver_all(self, pick: int, amount: int) -> None:
        for consumer in self._one(pick):
            self._note_again(consumer)
            self.twin.release(consumer)
            self.subscription.redeliver(consumer, [], -1)

    def seek(self, pick: int, amount: int) -> None:
        index = self._target(pick)
        for consumer in self.subscription.seek(index, lambda error: None):
            self.stage.broker.tell_closed(consumer)
        self._moved(index)

    def seek_in_place(self, pick: int, amount: int) -> None:
        index = self._target(pick)
        for consumer in self._one(pick):
            epoch = consumer.epoch + amount
            for other in self.subscription.seek_in_place(
                consumer, index, epoch, lambda error: None
            ):
                self.stage.broker.tell_closed(other)
            self.twin.permits[consumer] = 0
            self._moved(index)

    def join(self, pick: int, amount: int) -> None:
        if len(self.consumers) < CONSUMERS_MAX:
            with suppress(ConsumerBusy):
                consumer = self.stage.consumer(
                    self.subscription, self.sub_type, name=f"c{len(self.everyone)}", epoch=0
                )
                self.twin.permits[consumer] = 0
                self.consumers.append(consumer)
                self.everyone.append(consumer)
            self._active_changed()

    def leave(self, pick: int, amount: int) -> None:
        for consumer in self._one(pick):
            self.subscription.remove_consumer(consumer)
            self.consumers.remove(consumer)
            self.twin.release(consumer)
            self._active_changed()

    def hold_reads(self, pick: int, amount: int) -> None:
        self.stage.engine.holds_reads = True

    def release_read(self, pick: int, amount: int) -> None:
        if pick % 3:
            self.stage.engine.release_read()
        else:
            self.stage.engine.holds_reads = False

    def hold_journal(self, pick: int, amount: int) -> None:
        self.stage.engine.holds_journal = True

    def release_journal(self, pick: int, amount: int) -> None:
        self.stage.engine.holds_journal = False

    def checkpoint(self, pick: int, amount: int) -> None:
        if not self.stage.engine.holds_journal:
            self.stage.checkpoint()

    def restart(self, pick: int, amount: int) -> None:
        if not self.stage.engine.holds_journal:
            self.listen()
            self.stage = self.stage.restarted()
            self.twin.restarted()
            self.consumers.clear()
            self.everyone.clear()
            self._open()

    # -- judging -----------------------------------------------------------------------------------

    def listen(self) -> None:
        """Judge every frame that came."""
        for consumer in self.everyone:
            peer = consumer.peer
            assert isinstance(peer, RecordingPeer)
            for heard in peer.take():
                if isinstance(heard, pb.CommandCloseConsumer):
                    self.consumers.remove(consumer)
                    self.twin.permits.pop(consumer)
                    continue
                assert consumer in self.consumers, f"{heard} after the end of {consumer}"
                if isinstance(heard, pb.CommandActiveConsumerChange):
                    assert self.sub_type == FAILOVER, heard
                    continue
                assert heard.consumer_epoch == consumer.epoch, (heard, consumer.epoch)
                self.twin.gave(consumer, heard, twice=consumer in self.asked_again)
            if consumer.held is None:
                self.asked_again.discard(consumer)

    def check(self) -> None:
        cursor = self.subscription.cursor
        held = self.stage.engine.holds_journal or self.stage.engine.reads_held
        for consumer in self.consumers:
            if not held and consumer not in self.asked_again:
                assert consumer.permits == self.twin.permits[consumer], consumer
        assert self.twin.acked - self.twin.markers <= self._acked(), "an ack was lost"
        if not held and self.sub_type != KEY_SHARED and self.subscription.dispatcher is not None:
            stalled = self.subscription.dispatcher.room() > 0 and cursor.next_ready(0)
            assert not stalled, f"{cursor.next_ready(0)} are ready, and there is room"

    def finish(self) -> None:
        """Everything that was held back comes, everybody leaves, and a last consumer gets the rest."""
        self.stage.engine.holds_reads = self.stage.engine.holds_journal = False
        self.stage.turn()
        self.listen()
        for consumer in list(self.consumers):
            self.leave(self.consumers.index(consumer), 0)
        self.listen()
        self.sub_type = EXCLUSIVE
        self.twin.ordered = True
        self.join(0, 0)
        (last,) = self.consumers
        self.twin.permits[last] = 10_000
        self.stage.flow(last, 10_000)
        self.listen()
        given = {index for index, holder in self.twin.holder.items() if holder is last}
        everything = set(range(self.twin.end))
        left = everything - self.twin.acked - self.twin.markers
        assert left - given <= self.twin.unsure, f"{left - given} never came"
        self.stage.close()

    # -- helpers -----------------------------------------------------------------------------------

    @property
    def _certain(self) -> bool:
        return all(consumer.held is None for consumer in self.everyone)

    def _acked(self) -> set[int]:
        backlog = self.subscription.cursor.backlog_ranges()
        return {index for index in range(self.twin.end) if index not in backlog}

    def _one(self, pick: int) -> Iterator[Consumer]:
        if self.consumers:
            yield self.consumers[pick % len(self.consumers)]

    def _held(self, pick: int, amount: int) -> Iterator[tuple[Consumer, tuple[int, int]]]:
        """A consumer, and an entry of which it holds something."""
        for consumer in self._one(pick):
            held = sorted(
                position
                for position in self.twin.entries
                if any(self.twin.holder.get(i) is consumer for i in self.twin.indexes(position))
            )
            if held:
                yield consumer, held[(pick + amount) % len(held)]

    def _ack(self, consumer: Consumer, message_id: WireId, *, cumulative: bool = False) -> None:
        self.stage.ack(consumer, message_id, cumulative=cumulative)

    def _target(self, pick: int) -> int:
        return min(pick, self.twin.end)

    def _moved(self, index: int) -> None:
        self.twin.sought(index)
        self.asked_again.clear()
        self._active_changed()

    def _note_again(self, consumer: Consumer) -> None:
        if consumer.held is not None:
            self.asked_again.add(consumer)

    def _active_changed(self) -> None:
        """On Failover another consumer may be active now: what the one before held is ready."""
        dispatcher: Any = self.subscription.dispatcher
        if self.sub_type == FAILOVER and dispatcher is not None:
            for consumer in self.consumers:
                if consumer is not dispatcher.active:
                    if consumer.held is not None:
                        self.asked_again.add(consumer)
                    self.twin.release(consumer)


@pytest.mark.parametrize(
    "sub_type",
    [EXCLUSIVE, SHARED, FAILOVER, KEY_SHARED],
    ids=["exclusive", "shared", "failover", "key"],
)
@settings(max_examples=examples(75))
@given(steps=runs())
def test_only_frames_that_may_appear_do(sub_type: int, steps: list[tuple[str, int, int]]) -> None:
    race = Race(sub_type)
    try:
        for verb, pick, amount in [*BEGINNING, *steps]:
            race.step(verb, pick, amount)
        race.finish()
    finally:
        race.stage.close()
