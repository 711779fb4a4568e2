"""Acks, seeks, redeliveries and deliveries of one subscription, on its cursor.

Acked ids become indexes first (`messages/ids_to_indexes.py`). The cursor decides; this file journals what
must be durable, then answers.

    flow ─▶ demand ─▶ (read) ─▶ offer: cursor.deliver, frames out
    ack  ─▶ cursor.ack ─▶ journal, merged with all acks of this turn of the loop ─▶ answer
    seek ─▶ cursor.seek, epoch + 1 ─▶ journal ─▶ answer, deliveries; who knows no epochs is closed first

Nothing here suspends. Reading entries, which may, is read_loop.py's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from milepost.broker.dispatch import chunk_acks, hidden_messages
from milepost.broker.dispatch.chunk_gate import ChunkedMessage, ChunkGate
from milepost.broker.dispatch.chunk_handover import CHUNKS_AT_ONCE, Handover, Handovers
from milepost.broker.dispatch.chunk_restart import needs_restart, restart_frame
from milepost.broker.dispatch.consumer import NO_EPOCH, PERMITS_MAX, Consumer
from milepost.broker.dispatch.dispatchers import Dispatcher, make_dispatcher
from milepost.broker.dispatch.frames import entry_frame, run_frames, uniform_run
from milepost.broker.dispatch.unshown import Unshown
from milepost.broker.limits.subscription_limits import NO_LIMIT, SubscriptionLimits
from milepost.broker.limits.token_bucket import Throttle
from milepost.broker.messages import compacted, ids_to_indexes
from milepost.broker.messages.ids_to_indexes import Named
from milepost.broker.metrics import subscription_counts
from milepost.broker.metrics.rates import Rates
from milepost.broker.metrics.samples import Samples
from milepost.broker.metrics.subscription_counts import SubscriptionCounts
from milepost.broker.peer import Buffer
from milepost.broker.subscription import delayed, notices
from milepost.broker.subscription.ack_journal import AckJournal, Done
from milepost.broker.subscription.held_deliveries import HeldDeliveries
from milepost.broker.subscription.host import Host
from milepost.broker.subscription.pending_seeks import PendingSeeks
from milepost.broker.subscription.reset_history import ResetHistory
from milepost.cursor.cursor import Cursor
from milepost.cursor.outcomes import Acked, Delivered
from milepost.errors import ConsumerBusy, CorruptData, MilepostError, NotFound, StaleEpoch
from milepost.positions.ranges import IndexRanges, Range, joined
from milepost.positions.spans import Span
from milepost.storage.ledgers.entry import CHUNK, DELAYED, MARKER, Entry
from milepost.wire.events import Ack, WireId

if TYPE_CHECKING:
    from milepost.broker.topic.topic import Topic
    from milepost.storage.interface import Store

# Entries that are dealt with one by one in one go, and for how long. Then others have a turn.
SINGLES_MAX = 64
SINGLES_S = 0.0005

# Chunks that are met in one go and have to wait for others. Then the read loop rests.
HELD_MAX = 16

# Keys of its document in the catalog.
_REPLICATED, _IDLE_MS = "replicated", "idle_ms"


class Subscription:
    def __init__(
        self,
        topic: Topic,
        name: str,
        cursor: Cursor,
        *,
        host: Host,
        limits: SubscriptionLimits,
        state_id: int | None,
        journal: Store | None,
        properties: dict[str, str] | None = None,
        resets: ResetHistory | None = None,
    ) -> None:
        """`state_id` None: not durable, gone with its last consumer."""
        self.topic = topic
        self.name = name
        self.cursor = cursor
        self.host = host
        self.read_loop = host.read_loop(self)
        self.delay_timer = host.delay_timer(self)
        self.limits = limits
        self.state_id = state_id
        self.properties = properties or {}
        self.resets = resets or ResetHistory()
        self.is_replicated = False
        """Whether an operator asked that other clusters know of it; only stored."""
        self.idle_ms: int | None = None
        """For how long no consumer has used it, as far as was seen and stored; None while one does."""
        self.journal: AckJournal | None = None
        """What makes its progress durable; None for a reader's."""
        if journal is not None and state_id is not None:
            schedule = partial(host.before_commit, self.flush_acks)
            self.journal = AckJournal(journal, state_id, schedule)
        self.gate = ChunkGate(cursor)
        """Which chunks may go."""
        self.handovers = Handovers()
        """Chunked messages that are being sent."""
        self.dispatcher: Dispatcher | None = None
        """How messages are shared out; None while there never was a consumer."""
        self.consumers: list[Consumer] = []
        self.own_throttle: Throttle | None = None
        self.throttles: Sequence[Throttle] = ()
        """How fast messages may go out: its own and its topic's. Empty: as fast as they can."""

        # Where to look for ready indexes. Nothing below can go to a consumer just now.
        self._scan_index = 0
        # Messages that are asked for in one go: few while entries have to be dealt with one by one.
        self._demand_max = NO_LIMIT
        # Of what the cursor has set aside, at most so many are damaged, and wait for no consumer.
        self._damaged_count = 0
        self.seeks = PendingSeeks()
        """Those on their way to the disk. While there is one, no message goes out."""
        self.is_blocked, self.reads_compacted = False, False
        """Its consumer asked for the last message of each key only."""
        self.unacked = 0
        """Messages that its consumers hold. Invariant: the sum of theirs, and what is inflight."""
        self._held = HeldDeliveries(cursor, self.journal, self.read_loop.wake)
        self.unshown = Unshown(cursor)
        """What acks of its consumers do not speak for."""
        self.counts, self.rates, self.samples = SubscriptionCounts(), Rates(), Samples()

    def __repr__(self) -> str:
        return f"<Subscription {self.name} of {self.topic.name}: {self.cursor.counts()}>"

    @property
    def is_durable(self) -> bool:
        return self.state_id is not None

    # -- the catalog's document --------------------------------------------------------------------

    def doc(self) -> dict[str, Any]:
        """What the catalog keeps of it beside the cursor."""
        doc: dict[str, Any] = {"properties": self.properties, "resets": self.resets.to_doc()}
        if self.is_replicated:
            doc[_REPLICATED] = True
        if self.idle_ms is not None:
            doc[_IDLE_MS] = self.idle_ms
        return doc

    def recall(self, doc: Mapping[str, Any]) -> None:
        """Take from a document what was not given when it was made."""
        self.is_replicated = bool(doc.get(_REPLICATED, False))
        self.idle_ms = doc.get(_IDLE_MS)

    # -- its cursors: one, or one a member of a broadcast group -----------------------------------

    def parts(self) -> Sequence[Subscription]:
        """Itself, and the members of a group: all that have a cursor."""
        return (self,)

    @property
    def owner(self) -> Subscription:
        """The subscription whose resets it obeys: a member obeys its group's."""
        return self

    @property
    def position(self) -> int:
        """The first index that is not acked, of a group by any member; the end if all are."""
        return self.cursor.mark_delete_index + 1

    def cursors(self) -> Sequence[Cursor]:
        """The cursors that a reset moves."""
        return (self.cursor,)

    def label_of(self, consumer: Consumer) -> str:
        """What the history of resets calls a consumer."""
        return consumer.name

    def waiting_labels(self) -> list[str]:
        """The consumers that have to obey a reset that comes now."""
        return [consumer.name for consumer in self.consumers]

    # -- consumers ---------------------------------------------------------------------------------

    def add_consumer(
        self, consumer: Consumer, sub_type: int, sticky: bool = False, in_order: bool = True
    ) -> None:
        """Let a consumer in, or say why not. The first one decides how messages are shared out."""
        if self.dispatcher is None or not self.consumers:
            self.dispatcher = make_dispatcher(sub_type, self, sticky=sticky, in_order=in_order)
            delayed.obey(self)
        elif not self.dispatcher.fits(sub_type, sticky):
            raise ConsumerBusy(
                f"subscription {self.name} of {self.topic.name} is {self.dispatcher.type_name} "
                "while its consumers are connected"
            )
        self.dispatcher.add(consumer)
        self.consumers.append(consumer)
        self._call_all_back()

    def remove_consumer(self, consumer: Consumer) -> None:
        """A consumer leaves: what it holds is ready again."""
        if consumer.is_closed:
            return
        consumer.is_closed = True
        self.consumers.remove(consumer)
        assert self.dispatcher is not None
        self.release_all(consumer)
        self.unshown.left(consumer.holder)
        self.dispatcher.remove(consumer)
        self.unblock()
        self._call_all_back()

    def release_all(self, consumer: Consumer) -> None:
        """What the consumer holds is ready again, though it stays."""
        self._recall(consumer)
        self.cursor.release_holder(consumer.holder, count=False)
        self.unacked -= consumer.unacked
        consumer.unacked = 0

    def _recall(self, consumer: Consumer) -> None:
        """What is on its way to a consumer, and not out yet, is not sent."""
        self._held.recall(consumer)
        if consumer.handover is not None:
            self.handovers.drop(consumer.handover)

    def tell_active(self, consumer: Consumer, is_active: bool) -> None:
        """Tell a Failover consumer whether it is the active one, behind the SUCCESS of its SUBSCRIBE."""
        self.host.soon(partial(notices.tell_active, consumer, is_active))

    def rescan(self) -> None:
        """Something changed that may let an entry go: look from the front again. What was passed over
        is not looked at again for that; the dispatcher says when it may go."""
        self._scan_index = 0
        self.read_loop.wake()

    def _call_all_back(self) -> None:
        """Consumers came or left: who waits for whom is decided anew."""
        if self.dispatcher is not None:
            self.dispatcher.passed_over.clear()
        self._damaged_count = 0
        self.cursor.call_all_back()
        self.rescan()

    # -- dispatch ----------------------------------------------------------------------------------

    def flow(self, consumer: Consumer, permits: int) -> None:
        """PIP-194 stage 1: a flow gives credit and nothing else; it never moves the cursor."""
        consumer.permits = min(consumer.permits + permits, PERMITS_MAX)
        self.counts.flowed_ms = consumer.flowed_ms = self.topic.now_ms()
        self.rescan()

    def demand(self) -> Range | None:
        """The indexes that could be delivered now, `[first, end)`. None: nothing."""
        if self.dispatcher is None:
            return None
        if self.handovers and (chunks := self.handovers.demand()) is not None:
            return chunks
        if self.is_blocked:
            return None
        room = self.dispatcher.room()
        if self.throttles and room > 0:
            room = min(room, *(throttle.room for throttle in self.throttles))
            if room <= 0:
                self.read_loop.wake_after(max(throttle.wait_s for throttle in self.throttles))
        if room <= 0:
            return None
        if self.reads_compacted:
            compacted.skip(self)
        ready = self._next_ready(min(room, self._demand_max))
        if ready is None or not self.cursor.aside_count:
            return ready
        return self._within_look_ahead(ready)

    def _next_ready(self, limit: int) -> Range | None:
        """The next indexes that can go, at most so many: those that were passed over and can go now are
        among them."""
        cursor = self.cursor
        ready = cursor.next_ready(self._scan_index, limit)
        while self.dispatcher is not None and cursor.aside_count:
            called = self.dispatcher.next_called(None if ready is None else ready[0])
            if not called:
                break
            if sum([cursor.call_back(first, end) for first, end in called]):
                ready = cursor.next_ready(self._scan_index, limit)
        return ready

    @property
    def wanted_index(self) -> int:
        """The first index whose entry has yet to be sent to a consumer; the end if none has."""
        ready = self.cursor.first_ready
        return min([self.cursor.end if ready is None else ready, *self.handovers.next_indexes()])

    def offer(self, entries: Sequence[Entry], epoch: int, *, at_once: bool = False) -> bool:
        """Give entries that were read to the consumers that may have them. True: that took long enough,
        and it is the turn of others now.

        PIP-194 stage 2: entries read under an older epoch of the cursor are dropped here. So are
        those that something came before while they were read: a message that was released, say, or a
        consumer that has room again. `at_once`: nothing can have, nothing happened since the demand.
        """
        if epoch != self.cursor.epoch or self.dispatcher is None:
            subscription_counts.stale_delivery(self, len(entries))
            return False
        if self.reads_compacted:
            compacted.skip_within(self, entries)
        at, count = self._hand_over(entries), len(entries)
        if at == count:
            return at >= CHUNKS_AT_ONCE
        if not at_once and self.dispatcher.keeps_order and self._comes_first(entries[at]):
            return False
        singles = held = 0
        now_s = self.topic.now_s
        until = now_s() + SINGLES_S
        while at < count and not self.is_blocked:
            if singles == SINGLES_MAX or held == HELD_MAX or (singles and now_s() >= until):
                break
            entry = entries[at]
            singles += 1
            if entry.flags & MARKER:
                self.pass_over([(entry.last_index - entry.count + 1, entry.last_index + 1)])
                at += 1
                continue
            if entry.flags & DELAYED and (aside := delayed.put_aside(self, entries, at)):
                at += aside
                continue
            if entry.flags & CHUNK:
                if not at_once and self._comes_first(entry):
                    return False  # the gate meets chunks in order, and an earlier one can go
                at_once = True
                met = self.gate.meet(entry)
                self.pass_over(joined(met.given_up))
                if met.looks_again:
                    self.rescan()
                    return False
                message = met.message
                if message is None and not met.is_entry:
                    held += 1
                    at += 1
                    continue
            else:
                message = None
            consumer = self.dispatcher.choose(entry)
            if consumer is None:
                if not self.dispatcher.pass_over(entry):
                    return False
                self.cursor.set_aside(entry.last_index - entry.count + 1, entry.last_index + 1)
                at += 1
                continue
            if message is None:
                dealt = self._deliver(consumer, entries, at)
                at += dealt
                singles -= dealt > 1
            else:
                self._begin(consumer, message, entry)
                at += 1
        is_enough = singles == SINGLES_MAX or held == HELD_MAX or (singles > 0 and now_s() >= until)
        if is_enough and held:
            self.read_loop.rest()
        self._demand_max = SINGLES_MAX if is_enough else NO_LIMIT
        return is_enough

    def _comes_first(self, entry: Entry) -> bool:
        """Is there anything ready before this entry that has its turn?"""
        ready = self._next_ready(1)
        return ready is not None and ready[0] < entry.last_index - entry.count + 1

    def _deliver(self, consumer: Consumer, entries: Sequence[Entry], at: int) -> int:
        """Send entries to one consumer; returns how many were dealt with."""
        assert self.dispatcher is not None
        run, redelivery_count = uniform_run(
            self.cursor,
            entries,
            at,
            room=self._room_of(consumer),
            entries_max=self.dispatcher.run_max,
        )
        if run:
            self._deliver_run(consumer, run, redelivery_count)
            return len(run)
        self._deliver_one(consumer, entries[at])
        return 1

    def _deliver_run(self, consumer: Consumer, run: Sequence[Entry], redelivery_count: int) -> None:
        """One step of the cursor, however many entries it is."""
        assert self.dispatcher is not None
        first_index = run[0].last_index - run[0].count + 1
        went = self.cursor.deliver(first_index, run[-1].last_index + 1, consumer.holder)
        frames = run_frames(
            consumer,
            run,
            self.dispatcher.shown_count(redelivery_count),
            shows_index=self.shows_index(consumer),
        )
        if redelivery_count:
            subscription_counts.redelivered(consumer, went.count)
        size = sum([len(entry.payload) for entry in run])
        self.delivered(consumer, went, frames, len(run), size)

    def _deliver_one(self, consumer: Consumer, entry: Entry) -> None:
        """Send what of an entry is ready, if anything is."""
        assert self.dispatcher is not None
        cursor = self.cursor
        span = Span(entry.last_index - entry.count + 1, entry.count)
        shown = None if span.count == 1 else cursor.ready_set(span)
        went = cursor.deliver(span.first_index, span.end_index, consumer.holder)
        if not went.count:
            return  # acked, or delivered to another consumer, since it was read
        redelivery_count = cursor.redelivery_count(span)
        frames = entry_frame(
            consumer,
            entry,
            shown,
            self.dispatcher.shown_count(redelivery_count),
            shows_index=self.shows_index(consumer),
        )
        if redelivery_count:
            subscription_counts.redelivered(consumer, went.count)
        self.dispatcher.delivered(consumer, entry, went.ranges)
        if shown is not None and self.unshown.in_use:
            self.unshown.shown_in_part(span, went.ranges, consumer.holder)
        self.delivered(consumer, went, frames, 1, len(entry.payload))

    def _begin(self, consumer: Consumer, message: ChunkedMessage, last: Entry) -> None:
        """Make a consumer the owner of a whole chunked message, of which `last` is the last chunk."""
        assert self.dispatcher is not None
        restarts = needs_restart(consumer, message.indexes[0])
        if not self.gate.begin(message):
            self.pass_over(joined(self.gate.end(message)))
            return
        ranges = message.ranges
        stale: list[Range] = []
        for first, end in ranges:
            stale += self.cursor.deliver(first, end, consumer.holder).stale
        self.handovers.begin(Handover(message, consumer, restarts=restarts))
        self.dispatcher.delivered(consumer, last, ranges)
        self._took(consumer, Delivered(len(message.indexes), ranges, stale))
        self.read_loop.wake()  # to send its chunks, which may be the entries that were just read

    def _took(
        self, consumer: Consumer, went: Delivered, buffers: Sequence[Buffer] = (), permits: int = 0
    ) -> None:
        """A consumer owns messages now, whatever becomes of their frames, which took so many permits."""
        if self.unshown.in_use:
            self.unshown.shown(went.ranges, consumer.holder)
        consumer.unacked += went.count
        self.unacked += went.count
        self._block(consumer)
        self._held.send(consumer, buffers, went, permits)

    def _hand_over(self, entries: Sequence[Entry]) -> int:
        """Send chunks to those that own them; how many of the entries are dealt with. They were read
        for that, and lie in front of everything else."""
        if not self.handovers:
            return 0
        for at, entry in enumerate(entries):
            handover = self.handovers.at(entry.last_index)
            if handover is None:
                return at
            if handover.can_go:
                self._send_chunk(handover, entry)
        return len(entries)

    def _send_chunk(self, handover: Handover, entry: Entry) -> None:
        assert self.dispatcher is not None
        consumer = handover.consumer
        frames: list[Buffer] = []
        if handover.is_first and handover.restarts:
            frames += restart_frame(consumer, entry)
            consumer.permits -= 1
        redelivery_count = self.cursor.redelivery_count(Span(entry.last_index, 1))
        frames += entry_frame(
            consumer,
            entry,
            None,
            self.dispatcher.shown_count(redelivery_count),
            shows_index=self.shows_index(consumer),
        )
        if redelivery_count:
            subscription_counts.redelivered(consumer, 1)
        self.handovers.sent(handover)
        consumer.permits -= 1
        self._count_sent(consumer, 1, len(entry.payload), 1)
        consumer.peer.write(frames)
        if handover.is_done:
            self.rescan()  # its consumer can take other entries again

    def shows_index(self, consumer: Consumer) -> bool:
        return consumer.peer.wants_broker_entry and self.limits.expose_broker_entry

    def delivered(
        self, consumer: Consumer, went: Delivered, buffers: list[Buffer], entries: int, size: int
    ) -> None:
        """Account for a delivery and let its frames out."""
        # Permits are debited by what the client will really see (PIP-54).
        consumer.permits -= went.count
        self._count_sent(consumer, went.count, size, entries)
        self._took(consumer, went, buffers, went.count)

    def _count_sent(self, consumer: Consumer, messages: int, size: int, entries: int) -> None:
        subscription_counts.delivered(consumer, entries=entries, messages=messages, size=size)
        for throttle in self.throttles:
            throttle.took(messages, size)

    def pass_over(self, ranges: Sequence[Range]) -> None:
        """Ack what no consumer is to get: a marker, a chunk of no message, what an operator skips."""
        if ranges:
            # Also what came before a seek: no client says this.
            acked = self.cursor.skip_ranges(ranges)
            self.note_acked(acked)
            self.counts.messages_acked -= acked.count

    def skip(self, end_index: int) -> int:
        """Ack everything below an index, also what consumers hold: it expired, or an operator skipped it.
        Returns how many messages were not acked before."""
        acked = self.cursor.skip(min(end_index, self.cursor.end))
        self.note_acked(acked)
        self.counts.messages_acked -= acked.count
        return acked.count

    def pass_over_unreadable(self, first: int, index: int, error: Exception) -> None:
        """The entry with this last index cannot be read, from `first` on: it stays unacked.

        One that is damaged is set aside until consumers come or leave: there may be very many, and a
        flow must not try them all again. What the disk gives an error for may be read the next time."""
        if not isinstance(error, NotFound):  # else it was trimmed meanwhile
            self.gate.cannot_read(index)
        ready = self.cursor.next_ready(self._scan_index, 1)
        if ready is None or ready[0] >= first:  # else it came during the read, and goes first
            self._scan_index = max(self._scan_index, index + 1)
        if (handover := self.handovers.at(index)) is not None:
            chunk_acks.cut_short(self, handover)
        if isinstance(error, CorruptData):
            self.topic.unreadable.add(first, index + 1)
            self._damaged_count += self.cursor.set_aside(first, index + 1)

    # -- limits ------------------------------------------------------------------------------------

    def _room_of(self, consumer: Consumer) -> int:
        """Messages that a consumer may be given."""
        assert self.dispatcher is not None
        if not self.dispatcher.limits_unacked:
            return consumer.permits
        return min(
            consumer.permits,
            self.limits.unacked_per_consumer - consumer.unacked,
            self.limits.unacked_per_subscription - self.unacked,
        )

    def _within_look_ahead(self, ready: Range) -> Range | None:
        """The part of the next ready indexes that may be looked at: none behind too many passed over."""
        cursor = self.cursor
        if cursor.aside_count - self._damaged_count < self.limits.look_ahead(len(self.consumers)):
            return ready
        first, end = ready
        return (first, min(end, cursor.aside_end)) if first < cursor.aside_end else None

    def _block(self, consumer: Consumer) -> None:
        """Stop the consumer, or all, if they hold as many unacked messages as they may."""
        if self.dispatcher is None or not self.dispatcher.limits_unacked:
            return
        if consumer.unacked >= self.limits.unacked_per_consumer:
            consumer.is_blocked = True
        if self.unacked >= self.limits.unacked_per_subscription:
            self.is_blocked = True

    def unblock(self) -> None:
        """Let those go on that were stopped, when half of their limit is free again."""
        limits = self.limits
        for consumer in self.consumers:
            if consumer.is_blocked and consumer.unacked <= limits.unacked_per_consumer // 2:
                consumer.is_blocked = False
                self.rescan()
        if self.is_blocked and self.unacked <= limits.unacked_per_subscription // 2:
            self.is_blocked = False
            self.rescan()

    def use_limits(self, limits: SubscriptionLimits) -> None:
        """Other limits hold from now on: who is blocked is decided anew."""
        if limits == self.limits:
            return
        self.limits = limits
        self.is_blocked = False
        for consumer in self.consumers:
            consumer.is_blocked = False
            self._block(consumer)
        self.rescan()

    # -- acknowledgement ---------------------------------------------------------------------------

    def ack(
        self, consumer: Consumer, ack: Ack, done: Callable[[MilepostError | None], None]
    ) -> None:
        """Obey an ACK; `done` is called when all of it is durable, or with what was wrong with it."""
        failure: MilepostError | None = None
        holder = consumer.holder
        if consumer.owes_echo is not None:
            pass  # the client sent it before it knew that the cursor was moved
        elif ack.is_cumulative:
            dispatcher = self.dispatcher
            if dispatcher is not None and dispatcher.takes_cumulative and len(ack.ids) == 1:
                try:
                    end = chunk_acks.acked_end(self, ack.ids[0], holder)
                    if not self._held.holding or self._held.acked([(end - 1, end)]):
                        self.note_acked(chunk_acks.ack_up_to(self, end, holder))
                except MilepostError as error:
                    failure = error
        else:
            by_index, end = self.limits.batch_index_ack, self.cursor.end
            meant = self.unshown.meant_by(holder, ack) if self.unshown.in_use else None
            ranges, failure = ids_to_indexes.acked(
                self.topic, ack, batch_index_ack=by_index, end_index=end, meant=meant
            )
            if out := self._held.acked(ranges) if self._held.holding else ranges:
                self.note_acked(self.cursor.ack(out, holder))
        if failure is not None or self.journal is None:
            done(failure)
        else:
            self.journal.when_durable(done)

    def meant(self, ranges: Sequence[Range]) -> Sequence[Range]:
        """What of these a client can mean: not what it has not been sent yet since a seek."""
        return self._held.acked(ranges)

    def note_acked(self, acked: Acked) -> None:
        """Account for an ack and remember what of it must become durable."""
        subscription_counts.counted(self, acked)
        if acked.taken:
            self.let_go(acked)
        if acked.ranges:
            if self.unshown.in_use:
                self.unshown.settled(acked.ranges)
            if self.journal is not None:
                self.journal.note(acked.ranges)
            else:
                subscription_counts.progressed(self, acked.ranges)
            if given_up := self.gate.settled(acked.ranges):
                self.pass_over(joined(given_up))
            for rest in chunk_acks.call_off(self) if self.handovers else ():
                self.note_acked(rest)
                self.counts.messages_acked -= rest.count
                self.rescan()  # its owner has room again
            if self.topic.is_terminated:
                self.read_loop.wake()  # the read loop tells consumers when nothing is left

    def let_go(self, acked: Acked) -> None:
        """Consumers do not hold these messages any more."""
        taken = acked.taken
        if not taken:
            return
        is_blocked = self.is_blocked
        for consumer in self.consumers:
            removed = taken.get(consumer.holder)
            if removed:
                self.unacked -= removed
                consumer.unacked -= removed
                consumer.messages_acked += removed
                is_blocked = is_blocked or consumer.is_blocked
        if self.dispatcher is not None:
            self.dispatcher.settled(acked.ranges)
        if is_blocked:
            self.unblock()

    def flush_acks(self) -> None:
        """Send the acks of this turn of the loop to the journal."""
        if self.journal is not None:
            if noted := self.journal.noted:
                subscription_counts.progressed(self, noted)
            self.journal.flush(self.cursor.epoch)

    # -- release -----------------------------------------------------------------------------------

    def redeliver(
        self, consumer: Consumer, ids: Sequence[WireId], epoch: int, named: Named = None
    ) -> None:
        """REDELIVER_UNACKNOWLEDGED_MESSAGES: by id, or everything that the consumer holds."""
        assert self.dispatcher is not None
        if epoch != NO_EPOCH:
            consumer.epoch = max(consumer.epoch, epoch)
        if ids and self.dispatcher.releases_by_id:
            # What another consumer has by now stays there, and so does its key.
            entries = ids_to_indexes.released_ranges(self.topic, ids, named)
            asked = chunk_acks.whole_messages(self, entries, consumer, named)
            held = self.cursor.inflight_within(consumer.holder, IndexRanges(asked))
            if consumer.held is not None:
                # On their way: the consumer does not have them yet and cannot give them back.
                held.discard_all(held & consumer.held.indexes)
            ranges = list(held)
            self.cursor.release(ranges, consumer.holder, count=True)
            self.dispatcher.settled(ranges)
        else:
            self._recall(consumer)
            self.cursor.release_holder(consumer.holder, count=self.dispatcher.releases_by_id)
            self.dispatcher.released(consumer)
        self.unacked -= consumer.unacked
        consumer.unacked = self.cursor.inflight_count_of(consumer.holder)
        self.unacked += consumer.unacked
        self.unblock()
        self.rescan()

    # -- seek --------------------------------------------------------------------------------------

    def seek(
        self, index: int, done: Done, *, by: Consumer | None = None, everyone: bool = False
    ) -> list[Consumer]:
        """Move the cursor; `done` is called when that is durable. Returns whom to close.

        The consumers returned know nothing of epochs: they are closed and come back at the target,
        as upstream does; with `everyone`, standbys too, which may hold messages from when they were
        active. They have left already. Those that follow in place have been told, and `by`, who
        asked for it, knows.
        """
        self._move(index, done)
        self._held.sought()
        self.unshown.sought()
        self.handovers.clear()
        for consumer in self.consumers:
            consumer.unacked = 0
            consumer.is_blocked = False
        self.unacked = self._damaged_count = 0
        self.gate.clear()
        if self.dispatcher is not None:
            self.dispatcher.passed_over.clear()
            self.dispatcher.sought()
        closed: list[Consumer] = []
        touched = [] if self.dispatcher is None else self.dispatcher.closed_by_seek()
        for consumer in list(self.consumers):
            if consumer is by:
                continue
            if consumer.follows:
                self.tell_moved(consumer)
            elif everyone or consumer in touched:
                closed.append(consumer)
                self.remove_consumer(consumer)
        self.is_blocked = False
        self.seeks.after(self.rescan)
        return closed

    def _move(self, index: int, done: Done) -> None:
        """The cursor alone; who shares it is for `seek` to see to."""
        self.flush_acks()  # acks of the old epoch stand before the seek in the journal
        fact = self.cursor.seek(min(max(index, self.cursor.first), self.cursor.end))
        self.pass_over_hidden(self.cursor.first)
        self.samples.restart()
        if self.journal is None:
            done(None)
        else:
            self.journal.fact(fact, self.seeks.begin(done))

    def tell_moved(self, consumer: Consumer) -> None:
        """The cursor was moved under a consumer that follows in place, or while it was away."""
        consumer.epoch += 1
        consumer.owes_echo = consumer.epoch
        notices.tell_sought(consumer)

    def seek_in_place(
        self, consumer: Consumer, index: int, epoch: int, done: Done
    ) -> list[Consumer]:
        """PIP-194: a seek that carries an epoch. The consumer stays.

        "The epoch only can bigger than the old epoch in server."
        """
        if epoch <= consumer.epoch:
            raise StaleEpoch(
                f"consumer {consumer.name} sought with epoch {epoch}, it is at {consumer.epoch}"
            )
        consumer.epoch = epoch
        consumer.owes_echo = None
        closed = self.seek(index, done, by=consumer)
        # The client dropped its queue; both sides count permits from its next FLOW on.
        consumer.permits = 0
        return closed

    # -- the log's side ----------------------------------------------------------------------------

    def keep_up(self) -> None:
        """Know how far the log is; it does."""

    def extend(self, end_index: int) -> None:
        """New entries are visible."""
        before = self.cursor.end
        self.cursor.extend(end_index)
        if self.topic.transactions is not None:
            self.counts.hidden += self.topic.transactions.hidden.count_within(before, end_index)
            self.pass_over_hidden(before)
        if self.consumers:
            self.read_loop.wake()

    def pass_over_hidden(self, first_index: int) -> None:
        """Messages of aborted transactions, and markers, are no part of the backlog."""
        transactions = self.topic.transactions
        if transactions is not None and transactions.hidden:
            hidden_messages.pass_over(self, transactions.hidden, first_index)

    def trim(self, first_index: int) -> None:
        # What was never visible belongs to an open transaction, and is gone with it.
        self.cursor.extend(max(first_index, self.cursor.end))
        self.note_acked(self.cursor.trim(first_index))
