"""Chooses the consumer of the next entry: Exclusive, Failover, Shared and Key_Shared.

All decisions, no effects.

    Exclusive   one consumer, everything in order
    Failover    several, of which one is active; everything in order to it
    Shared      round robin inside the highest priority level that has room
    Key_Shared  by key; what one consumer holds of a key is done before another gets that key

For a chunked message it is asked once, with the last chunk: the answer is who gets all of it.

A dispatcher never touches the cursor. `choose` may be asked again for the same entry; `delivered`,
`acked` and `released` tell it what became of its choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from milepost.broker.dispatch.active_consumer import choose_active
from milepost.broker.dispatch.consumer import Consumer
from milepost.broker.dispatch.key_shared import KeySharedAssignment
from milepost.broker.dispatch.passed_over import PassedOver
from milepost.errors import ConsumerBusy, InvalidInput
from milepost.positions.ranges import Range
from milepost.storage.ledgers.entry import CHUNK, Entry
from milepost.wire.metadata import entry_metadata, sticky_key

if TYPE_CHECKING:
    from milepost.broker.subscription.subscription import Subscription

EXCLUSIVE, SHARED, FAILOVER, KEY_SHARED = 0, 1, 2, 3
TYPE_NAMES = {
    EXCLUSIVE: "Exclusive",
    SHARED: "Shared",
    FAILOVER: "Failover",
    KEY_SHARED: "Key_Shared",
}


class Dispatcher:
    """What every subscription type answers; the defaults are those of Shared."""

    sub_type: ClassVar[int]
    takes_cumulative: ClassVar[bool] = False
    releases_by_id: ClassVar[bool] = True
    """Does REDELIVER name messages, and are redeliveries counted?"""
    limits_unacked: ClassVar[bool] = True
    delays: ClassVar[bool] = True
    """Does a message wait for the time that it names?"""
    keeps_order: ClassVar[bool] = True
    """Must what is ready first be delivered first, also when it became so while others were read?"""

    def __init__(self, subscription: Subscription) -> None:
        self.subscription = subscription
        self.consumers: list[Consumer] = []
        self.run_max = subscription.limits.round_robin_entries
        """Entries that one consumer may get in one go."""
        self.passed_over = PassedOver()
        """Entries that others need not wait for. Invariant: the cursor has set them aside, or they are
        acked."""

    @property
    def type_name(self) -> str:
        return TYPE_NAMES[self.sub_type]

    def fits(self, sub_type: int, sticky: bool) -> bool:
        return sub_type == self.sub_type

    def add(self, consumer: Consumer) -> None:
        self.consumers.append(consumer)

    def remove(self, consumer: Consumer) -> None:
        self.consumers.remove(consumer)

    def room(self) -> int:
        """Messages that could go out now; 0 when no consumer can take any."""
        return sum(consumer.permits for consumer in self.consumers if consumer.can_take)

    def choose(self, entry: Entry) -> Consumer | None:
        raise NotImplementedError

    def run_consumer(self) -> Consumer | None:
        """The consumer that entries may go to as they are stored, many in one frame; None: they must be
        looked at one by one."""
        return None

    def pass_over(self, entry: Entry) -> bool:
        """No consumer was chosen for the entry: note what it waits for. False: later entries wait too."""
        return False

    def next_called(self, before: int | None) -> Sequence[Range]:
        """Entries that were passed over and can go now, the oldest first, if they begin before an index;
        they are noted no longer."""
        if not self.passed_over:
            return ()
        by_holder = {one.holder: one for one in self.consumers if one.can_take}
        holder = self.passed_over.first_for(by_holder)
        if holder is None or (
            before is not None and self.passed_over.first_index(holder) >= before
        ):
            return ()
        return self.passed_over.take(holder, by_holder[holder].permits)

    def shown_count(self, redelivery_count: int) -> int:
        return redelivery_count

    def delivered(self, consumer: Consumer, entry: Entry, ranges: Sequence[Range]) -> None:
        """These indexes of the entry went to the consumer it was chosen for; with the last chunk of a
        message, those of all its chunks. Not told of entries without flags that went out in a run."""

    def settled(self, ranges: Sequence[Range]) -> None:
        """No consumer has those indexes any more: they were acked or released."""

    def released(self, consumer: Consumer) -> None:
        """The consumer gave everything back."""

    def sought(self) -> None:
        """Nothing is inflight any more."""

    def closed_by_seek(self) -> list[Consumer]:
        """Consumers that must be closed when the cursor is moved under them."""
        return list(self.consumers)


class SingleActive(Dispatcher):
    """Exclusive and Failover: one consumer gets everything, in order."""

    takes_cumulative = True
    releases_by_id = False
    limits_unacked = False
    delays = False

    def __init__(self, subscription: Subscription) -> None:
        super().__init__(subscription)
        self.active: Consumer | None = None
        self.run_max = 1 << 30

    def room(self) -> int:
        active = self.active
        return active.permits if active is not None and active.can_take else 0

    def choose(self, entry: Entry) -> Consumer | None:
        active = self.active
        return active if active is not None and active.can_take else None

    def run_consumer(self) -> Consumer | None:
        active, subscription = self.active, self.subscription
        if active is None or not (active.takes_runs and active.can_take):
            return None
        if subscription.reads_compacted or subscription.handovers:
            return None
        return active if subscription.shows_index(active) else None

    def shown_count(self, redelivery_count: int) -> int:
        return 0  # as upstream: redeliveries are counted on Shared and Key_Shared only

    def closed_by_seek(self) -> list[Consumer]:
        return [self.active] if self.active is not None else []


class Exclusive(SingleActive):
    sub_type = EXCLUSIVE

    def add(self, consumer: Consumer) -> None:
        if self.active is not None:
            raise ConsumerBusy(
                f"Exclusive consumer {self.active.name} is already connected to "
                f"{self.subscription.name}"
            )
        super().add(consumer)
        self.active = consumer

    def remove(self, consumer: Consumer) -> None:
        super().remove(consumer)
        self.active = None


class Failover(SingleActive):
    sub_type = FAILOVER

    def add(self, consumer: Consumer) -> None:
        super().add(consumer)
        before = self.active
        self._elect()
        if self.active is before:  # the others know that; the new consumer does not
            self.subscription.tell_active(consumer, False)

    def remove(self, consumer: Consumer) -> None:
        super().remove(consumer)
        self._elect()

    def _elect(self) -> None:
        partition = self.subscription.topic.name.partition
        chosen = choose_active(self.consumers, partition, str(self.subscription.topic.name))
        if chosen is self.active:
            return
        previous, self.active = self.active, chosen
        if previous is not None and previous in self.consumers:
            # The new one starts where the old one's acks end: what the old one holds is ready.
            self.subscription.release_all(previous)
        for consumer in self.consumers:
            self.subscription.tell_active(consumer, consumer is chosen)


class Shared(Dispatcher):
    sub_type = SHARED
    keeps_order = False

    def __init__(self, subscription: Subscription) -> None:
        super().__init__(subscription)
        self._next = 0

    def choose(self, entry: Entry) -> Consumer | None:
        """The next one with room, of the highest priority (lowest number) that has any."""
        best: Consumer | None = None
        count = len(self.consumers)
        for step in range(count):
            at = (self._next + step) % count
            consumer = self.consumers[at]
            if consumer.can_take and (best is None or consumer.priority < best.priority):
                best, best_at = consumer, at
        if best is not None:
            self._next = (best_at + 1) % count
        return best


class KeyShared(Dispatcher):
    sub_type = KEY_SHARED

    def __init__(self, subscription: Subscription, sticky: bool, in_order: bool) -> None:
        super().__init__(subscription)
        self._sticky = sticky
        self._assignment = KeySharedAssignment(
            sticky=sticky, is_ordered=in_order, ring=subscription.limits.key_ring
        )
        self._by_holder: dict[int, Consumer] = {}
        # The entry looked at last, and its slot: what is delivered was chosen just before.
        self._seen: tuple[Entry | None, int] = None, 0
        self.run_max = 1  # the next entry has a key of its own

    def fits(self, sub_type: int, sticky: bool) -> bool:
        return sub_type == self.sub_type and sticky == self._sticky

    def add(self, consumer: Consumer) -> None:
        self._assignment.join(consumer.holder, consumer.name, consumer.key_ranges)
        self._by_holder[consumer.holder] = consumer
        super().add(consumer)

    def remove(self, consumer: Consumer) -> None:
        super().remove(consumer)
        del self._by_holder[consumer.holder]
        self._assignment.leave(consumer.holder)

    def choose(self, entry: Entry) -> Consumer | None:
        holder = self._assignment.choose(self._slot(entry))
        if holder is None:
            return None
        consumer = self._by_holder[holder]
        return consumer if consumer.can_take else None

    def pass_over(self, entry: Entry) -> bool:
        slot = self._slot(entry)
        owner = self._assignment.owner_of(slot)
        if owner is None or self._assignment.is_draining(slot):
            self.passed_over.wait_for_slot(slot, *_indexes(entry))
        else:
            self.passed_over.wait_for(owner, *_indexes(entry))
        return True  # the next one has another key

    def _slot(self, entry: Entry) -> int:
        seen, slot = self._seen
        if seen is not entry:
            slot = self._assignment.slot_of(sticky_key(entry_metadata(entry.payload)))
            self._seen = entry, slot
        return slot

    def delivered(self, consumer: Consumer, entry: Entry, ranges: Sequence[Range]) -> None:
        slot = self._slot(entry)
        if entry.flags & CHUNK:
            # A whole message, whose key is that of its last chunk.
            for first, end in ranges:
                self._assignment.delivered(consumer.holder, slot, first, end)
            return
        self._assignment.delivered(consumer.holder, slot, *_indexes(entry), ranges)

    def settled(self, ranges: Sequence[Range]) -> None:
        self._freed(self._assignment.settled(ranges))

    def released(self, consumer: Consumer) -> None:
        inflight = self.subscription.cursor.inflight_of(consumer.holder)
        self._freed(self._assignment.released(consumer.holder, inflight))

    def _freed(self, slots: Sequence[int]) -> None:
        for slot in slots:
            owner = self._assignment.owner_of(slot)
            if owner is not None:
                self.passed_over.freed(slot, owner)
        if slots:
            self.subscription.rescan()

    def sought(self) -> None:
        self._assignment.clear()


def _indexes(entry: Entry) -> Range:
    return entry.last_index - entry.count + 1, entry.last_index + 1


def make_dispatcher(
    sub_type: int, subscription: Subscription, *, sticky: bool, in_order: bool
) -> Dispatcher:
    if sub_type == EXCLUSIVE:
        return Exclusive(subscription)
    if sub_type == FAILOVER:
        return Failover(subscription)
    if sub_type == SHARED:
        return Shared(subscription)
    if sub_type == KEY_SHARED:
        return KeyShared(subscription, sticky, in_order)
    raise InvalidInput(f"subscription type {sub_type}; known are {TYPE_NAMES}")
