"""Publishes messages that come one by one, each to another topic, and answers many of them together.

A connection that publishes to a thousand topics brings one message for each of them in a read. What a
publication does once for a hundred messages of one topic would be done for each of those. So what they have
in common is done once: a read looks at the clocks once, and what a commit has made durable is counted, and
answered in one piece, once a connection.

    SENDs of one read ─▶ publish: numbered, each in the log of its topic ─▶ journal
                                                                              └▶ Topic.on_durable: visible
                                             answer: counted, receipts out ◀──────┘

Only plain messages to topics that judge none are published like this; all others are publications
(`receipts.py`). Both wait in one queue of their producer, which keeps the order of its receipts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from milepost.broker.metrics.histogram import ENTRY_SIZES, WRITE_TIMES_MS
from milepost.broker.topic.receipts import Awaited, send_answered
from milepost.errors import MilepostError, PersistenceError
from milepost.storage.ledgers.entry import HEADER_SIZE
from milepost.wire import replies
from milepost.wire.events import PLAIN, Send
from milepost.wire.scanners.encode import send_receipt

if TYPE_CHECKING:
    from milepost.broker.metrics.counters import Counters
    from milepost.broker.peer import Peer
    from milepost.broker.topic.producer import Producer


class Single(Awaited):
    """One plain send, on its way to the journal or to its receipt."""

    __slots__ = ("_singles", "began", "highest_sequence_id", "refusal", "sequence_id")

    def __init__(self, producer: Producer, send: Send, began: float, singles: Singles) -> None:
        self.producer = producer
        # The entry is in the block: what waits for the disk is in memory once.
        self.sequence_id, self.highest_sequence_id, self.count, _, _, _ = send
        self.began = began
        """When the read began that brought it, in seconds."""
        self._singles = singles
        self.block = None
        self.is_answered = False
        self.refusal: bytes | None = None
        """The frame that says why it is not stored."""

    def __len__(self) -> int:
        return 1

    def durable(self, error: PersistenceError | None) -> None:
        # The log hears it here: one call in place of three for each message.
        topic = self.producer.topic
        topic.on_durable(self, topic.log.hear(error))

    def visible(self) -> None:
        self._singles.durable(self)

    def refuse(self, error: MilepostError, sends: Sequence[Send] = ()) -> None:
        producer_id, code = self.producer.producer_id, error.wire_code
        self.refusal = replies.send_error(producer_id, self.sequence_id, code, str(error))

    def send_receipts(self) -> None:
        peer = self.producer.peer
        peer.settled(1)
        if not self.producer.is_closed:
            peer.write((self.receipt(),))

    def receipt(self) -> bytes:
        """The frame that answers it."""
        if self.refusal is not None:
            return self.refusal
        assert self.block is not None
        return send_receipt(
            self.producer.producer_id,
            self.sequence_id,
            self.block.ledger_id,
            self.block.first_entry_id,
            self.highest_sequence_id,
        )


class Singles:
    """The sends of one connection that come one by one."""

    __slots__ = ("_counters", "_durable", "_now_ms", "_now_s", "_peer", "_read_at")

    def __init__(
        self, peer: Peer, counters: Counters, now_ms: Callable[[], int], now_s: Callable[[], float]
    ) -> None:
        self._peer = peer
        self._counters = counters
        self._now_ms, self._now_s = now_ms, now_s
        # The time of the read; None until one of its sends has asked for it.
        self._read_at: tuple[int, float] | None = None
        # Those that are visible and not answered yet. Invariant: unless it is empty, `answer` is to come.
        self._durable: list[Single] = []

    def read_begins(self) -> None:
        """What is published from now on came with another read."""
        self._read_at = None

    def publish(self, producer: Producer, sends: Sequence[Send]) -> bool:
        """Number one plain send and give it to the journal. False: it is not that, or its topic has
        something to judge or to limit."""
        topic = producer.topic
        send = sends[0]
        if (
            len(sends) > 1
            or send.traits is not PLAIN
            or topic.dedup is not None
            or topic.throttle is not None
            or topic.group_throttle is not None
            or topic.policies.judges_sends
            or producer.must_resend
        ):
            return False
        if self._read_at is None:
            self._read_at = self._now_ms(), self._now_s()
        now_ms, now_s = self._read_at
        single = Single(producer, send, now_s, self)
        producer.pending.append(single)
        try:
            single.block = topic.log.append_one(send.entry, send.count, now_ms, single.durable)
        except MilepostError as error:  # damaged, deleted, or more than a ledger can number
            topic.refuse_all(single, sends, error)
        return True

    def durable(self, single: Single) -> None:
        """It is visible: have it answered."""
        is_first = not self._durable
        self._durable.append(single)
        if self._peer.has_consumers:
            # One connection may get both: as upstream, the receipt ahead of the message.
            self.answer()
        elif is_first:
            # Messages go out first: a consumer waits for them, while the producer only hears of its success.
            single.producer.topic.afterwards(self.answer)

    def answer(self) -> None:
        """Count what is durable and visible, and send its receipts in one piece."""
        singles, self._durable = self._durable, []
        peer, now_s = self._peer, self._now_s()
        failure: Exception | None = None
        receipts: list[bytes] = []
        settled = bytes_in = messages_in = 0
        # What neighbours have in common is reckoned once.
        began, size_bytes, took_ms, time_place, size_place = -1.0, -1, 0.0, 0, 0
        for single in singles:
            try:
                producer, block, count = single.producer, single.block, single.count
                assert block is not None
                topic = producer.topic
                if single.began != began:
                    began = single.began
                    took_ms = (now_s - began) * 1000
                    time_place = bisect_left(WRITE_TIMES_MS, took_ms)
                if block.sizes[0] != size_bytes + HEADER_SIZE:
                    size_bytes = block.sizes[0] - HEADER_SIZE
                    size_place = bisect_left(ENTRY_SIZES, size_bytes)
                topic.messages_in += count
                topic.bytes_in += size_bytes
                topic.entries_in += 1
                topic.published_ms = block.timestamp_ms
                producer.messages_in += count
                producer.bytes_in += size_bytes
                times, sizes = topic.write_times, topic.entry_sizes
                times.running[time_place] += 1
                times.running_total += took_ms
                sizes.running[size_place] += 1
                sizes.running_total += size_bytes
                messages_in += count
                bytes_in += size_bytes
                pending = producer.pending
                if pending[0] is not single:  # it is behind a publication
                    if receipts:
                        peer.write((b"".join(receipts),))
                        receipts.clear()
                    single.answered()
                    continue
                pending.popleft()
                settled += 1
                if not producer.is_closed:
                    receipts.append(single.receipt())
                if pending and pending[0].is_answered:
                    peer.write((b"".join(receipts),))
                    receipts.clear()
                    send_answered(producer)
            except Exception as error:  # of one of them: the others are answered
                failure = failure or error
        counters = self._counters
        counters.entries_in += len(singles)
        counters.messages_in += messages_in
        counters.bytes_in += bytes_in
        peer.settled(settled)
        if receipts:
            peer.write((b"".join(receipts),))
        if failure is not None:
            raise failure
