"""Sends all chunks of a message to the consumer that was chosen for it, without a break.

A consumer is chosen for a whole message, at its last chunk. From then on every chunk is inflight with that
consumer, and what is left to be done is to read the chunks and send them, the first one first. Nothing but
the consumer itself can stop that: not its permits, not the limits of unacked messages, not a rate. They
decide whether a message may begin; what has begun is finished, because half a message is of no use and a
client that waits for the other half gives up after a minute. A batch is treated the same way.

    begin       permits and limits are looked at; all chunks inflight with the owner
    each chunk  one permit, which the client gives back for every chunk but the last; may go below zero
    cut short   the consumer left, sought, gave everything back, or a transaction that acked the message
                meanwhile is aborted: the message is ready again, whole
    called off  it was acked, skipped or expired before the first chunk went out: it is not sent

A consumer gets nothing else while a handover to it goes on, so it has one at most.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from milepost.broker.dispatch.chunk_gate import ChunkedMessage
from milepost.positions.ranges import IndexRanges, Range

if TYPE_CHECKING:
    from milepost.broker.dispatch.consumer import Consumer

# Small chunks cost as much as small messages: then others have a turn.
CHUNKS_AT_ONCE: Final = 64


class Handover:
    """One message on its way to its owner."""

    __slots__ = ("_at", "consumer", "indexes", "message", "restarts")

    def __init__(self, message: ChunkedMessage, consumer: Consumer, *, restarts: bool) -> None:
        self.message = message
        self.consumer = consumer
        self.indexes = tuple(message.indexes)
        self.restarts = restarts
        """The client may have a part of it from before, and has to be told to drop it."""
        self._at = 0

    def __repr__(self) -> str:
        return f"<Handover to {self.consumer.name}: {self._at} of {len(self.indexes)} chunks>"

    @property
    def next_index(self) -> int:
        """The chunk that is to be sent next."""
        return self.indexes[self._at]

    @property
    def is_first(self) -> bool:
        """Nothing was sent yet."""
        return self._at == 0

    @property
    def is_done(self) -> bool:
        return self._at == len(self.indexes)

    @property
    def can_go(self) -> bool:
        """Can the owner be sent anything now? Not while it does not read, nor while deliveries to it
        wait for the disk."""
        return self.consumer.peer.is_writable and self.consumer.held is None

    def demand(self) -> Range:
        """The chunks to be read next: some of those that lie side by side."""
        at, indexes = self._at + 1, self.indexes
        last_at = min(self._at + CHUNKS_AT_ONCE, len(indexes))
        while at < last_at and indexes[at] == indexes[at - 1] + 1:
            at += 1
        return indexes[self._at], indexes[at - 1] + 1

    def sent(self) -> None:
        self._at += 1


class Handovers:
    """The handovers of a subscription, by the index of the chunk that is next."""

    __slots__ = ("_by_index",)

    # Invariant: each is under its `next_index`, and is its consumer's `handover`.
    _by_index: dict[int, Handover]

    def __init__(self) -> None:
        self._by_index = {}

    def __len__(self) -> int:
        return len(self._by_index)

    def begin(self, handover: Handover) -> None:
        assert handover.consumer.handover is None, handover.consumer
        handover.consumer.handover = handover
        self._by_index[handover.next_index] = handover

    def at(self, index: int) -> Handover | None:
        """The one that waits for the chunk with this index."""
        return self._by_index.get(index)

    def demand(self) -> Range | None:
        """Chunks that could be sent at once if they were read; None if there are none."""
        for handover in self._by_index.values():
            if handover.can_go:
                return handover.demand()
        return None

    def sent(self, handover: Handover) -> None:
        """The next chunk of a message went out."""
        del self._by_index[handover.next_index]
        handover.sent()
        if handover.is_done:
            handover.consumer.handover = None
        else:
            self._by_index[handover.next_index] = handover

    def not_begun(self) -> list[Handover]:
        """Those of which no chunk was sent yet."""
        return [one for one in self._by_index.values() if one.is_first]

    def within(self, ranges: IndexRanges) -> list[Handover]:
        """Those of messages that have their last chunk in a set."""
        return [one for one in self._by_index.values() if one.indexes[-1] in ranges]

    def drop(self, handover: Handover) -> None:
        """It is cut short."""
        self._by_index.pop(handover.next_index, None)
        handover.consumer.handover = None

    def clear(self) -> None:
        """Nothing is inflight any more."""
        for handover in list(self._by_index.values()):
            self.drop(handover)

    def next_indexes(self) -> Iterable[int]:
        """What has to stay readable."""
        return self._by_index.keys()
