"""Frames that may not go out before a fact is on disk.

After a seek, the first delivery of a message that had been with a consumer before is a fact of its own
(`Delivered.stale`), and leaves when that fact is on disk: or a crash would make the ack of it look like
one from before the seek. Until it is out the client cannot mean it: an ack that names it was sent for the
older delivery, and a command that wants it again has not seen it. Frames behind one that waits wait with
it, since a client gets its messages in order.

    >>> held = Held(); held.add([b"frame"], Delivered(3, ((4, 7),), ((4, 6),)), permits=3)
    >>> held.permits, held.again, held.indexes
    (3, IndexRanges([(4, 6)]), IndexRanges([(4, 7)]))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from milepost.broker.peer import Buffer
from milepost.broker.subscription.ack_journal import AckJournal
from milepost.cursor.cursor import Cursor
from milepost.cursor.facts import DeliveryFact
from milepost.cursor.outcomes import Delivered
from milepost.errors import PersistenceError
from milepost.positions.ranges import IndexRanges, Range

if TYPE_CHECKING:
    from milepost.broker.dispatch.consumer import Consumer


class Held:
    """Deliveries to one consumer that wait for a fact to be on disk."""

    __slots__ = ("again", "buffers", "indexes", "permits")

    def __init__(self) -> None:
        self.buffers: list[Buffer] = []
        self.permits = 0
        """What they took, and the consumer gets back if they do not leave."""
        self.indexes = IndexRanges()
        """The messages in them."""
        self.again = IndexRanges()
        """Of them, what was stale until this delivery. Invariant: inside `indexes`."""

    def add(self, buffers: Iterable[Buffer], went: Delivered, permits: int) -> None:
        self.buffers += buffers
        self.permits += permits
        for first, end in went.ranges:
            self.indexes.add(first, end)
        for first, end in went.stale:
            self.again.add(first, end)


class HeldDeliveries:
    def __init__(
        self, cursor: Cursor, journal: AckJournal | None, let_out: Callable[[], None]
    ) -> None:
        """`journal` None: nothing is durable, so nothing waits. `let_out` is called when what waited
        for a consumer is on its way to it."""
        self._cursor = cursor
        self._journal = journal
        self._on_let_out = let_out
        self.holding: dict[Consumer, Held] = {}
        """The consumers whose deliveries wait; mostly none.  Invariant: what `Consumer.held` has."""

    def send(
        self, consumer: Consumer, buffers: Sequence[Buffer], went: Delivered, permits: int
    ) -> None:
        """Frames out, in order, at once or when a fact says that the delivery happened. A delivery
        behind a fact that was refused needs one too: what was refused may have been of the same
        indexes, and it takes the whole state with it. `permits`: what the frames took. A chunked
        message has none yet; they are made when nothing waits for its owner any more."""
        journal = self._journal
        if journal is not None and (went.stale or journal.is_behind):
            if consumer.held is None:
                consumer.held = self.holding[consumer] = Held()
            consumer.held.add(buffers, went, permits)
            consumer.holds += 1
            epoch = self._cursor.epoch

            def durable(error: PersistenceError | None) -> None:
                consumer.holds -= 1
                if error is not None:
                    consumer.peer.fail(f"a delivery could not be journaled: {error}")
                elif not consumer.holds and epoch == self._cursor.epoch:
                    self._let_out(consumer)

            journal.fact(DeliveryFact(epoch, IndexRanges(went.ranges)), durable)
        elif consumer.held is not None:
            consumer.held.add(buffers, went, permits)
        elif buffers:
            consumer.peer.write(buffers)

    def _let_out(self, consumer: Consumer) -> None:
        held, consumer.held = self.holding.pop(consumer, None), None
        if held is not None and not consumer.is_closed:
            consumer.peer.write(held.buffers)
            self._on_let_out()

    def recall(self, consumer: Consumer) -> None:
        """What waits to be sent to a consumer will not be: its permits are its own again, and what
        was stale is. What comes after must still wait for the facts that are under way."""
        held, consumer.held = self.holding.pop(consumer, None), None
        if held is not None:
            consumer.permits += held.permits
            self._cursor.withdraw(held.again, consumer.holder)
            if consumer.holds and not consumer.is_closed:
                consumer.held = self.holding[consumer] = Held()

    def sought(self) -> None:
        """A new epoch began: what waits is of an older one, and goes nowhere."""
        for consumer, held in self.holding.items():
            consumer.permits += held.permits
            consumer.held = None
        self.holding.clear()

    def acked(self, ranges: Sequence[Range]) -> Sequence[Range]:
        """What is left of the ranges of an ack without what its sender cannot have got yet."""
        for held in self.holding.values():
            if held.again.count:
                ranges = [gap for first, end in ranges for gap in held.again.gaps(first, end)]
        return ranges
