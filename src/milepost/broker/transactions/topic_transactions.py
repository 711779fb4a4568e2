"""What transactions have written to one topic, and acked on its subscriptions.

Messages of an open transaction are in the log, and nothing from the first of them on is visible
(`visible_end`), the messages of other producers included: that is how upstream keeps order. When the
transaction ends its messages are visible, or *hidden* for ever if it was aborted; its markers are always
hidden, and so are delayed messages that were recalled. Subscriptions pass over what is hidden, and count it
as acked.

What a transaction acks is pending: with no consumer, and not acked, until it ends. Pending acks belong to
the epoch of the cursor in which they were made: a seek makes them meaningless, as it does acks on their way.

Which entries belong to which transaction the entries say themselves. So only ends and pending acks are
facts, and opening a topic looks through the entries behind the last snapshot (`scanned_end`).

    >>> topic = TopicTransactions()
    >>> topic.wrote(TxnId(0, 1), 4, 6); topic.visible_end(10)
    4
    >>> topic.ended(TxnId(0, 1), Outcome.ABORT, marker=10); topic.visible_end(11), list(topic.hidden)
    (11, [(4, 6), (10, 11)])
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from milepost.broker.transactions.coordinator import ABORT, Outcome
from milepost.errors import CorruptData, UnknownFormat
from milepost.positions.ranges import IndexRanges, Range
from milepost.positions.transactions import TxnId
from milepost.positions.varints import read_varint, varints, write_varint

VERSION = 1
NO_MARKER = -1

_PEND, _END, _HIDE = 1, 2, 3


class PendingAcks(NamedTuple):
    """What one transaction has acked on one cursor."""

    epoch: int
    """Of the cursor."""
    ranges: IndexRanges


class TopicTransactions:
    def __init__(self) -> None:
        self.state_id = -1
        """Of the topic's state in the store."""
        self.hidden = IndexRanges()
        """Messages of aborted transactions, markers, and messages that were recalled."""
        self.scanned_end = 0
        """Up to here every entry was asked for its transaction."""
        self.committed = 0
        self.aborted = 0
        """Transactions that ended here, since the topic was opened."""
        # Messages of open transactions. Invariant: the first that came in is the first in the log.
        self._messages: dict[TxnId, IndexRanges] = {}
        # Transactions of which a message is stored, or on its way.
        self._writers: set[TxnId] = set()
        # By the state of the cursor; and the cursors of each transaction that has acked.
        self._pending: dict[int, dict[TxnId, PendingAcks]] = {}
        self._ackers: dict[TxnId, set[int]] = {}

    # -- asking ------------------------------------------------------------------------------------

    def visible_end(self, end_index: int) -> int:
        """Behind the last index that consumers may see of a log that ends there."""
        for ranges in self._messages.values():
            assert ranges.first is not None
            return min(ranges.first, end_index)
        return end_index

    def holds_back(self) -> TxnId | None:
        """The transaction whose first message is the first that is not visible."""
        return next(iter(self._messages), None)

    def has_written(self, txn_id: TxnId) -> bool:
        """Is a message of it stored, or on its way?"""
        return txn_id in self._writers

    def open_messages(self) -> Iterator[tuple[TxnId, IndexRanges]]:
        yield from self._messages.items()

    def messages_of(self, txn_id: TxnId) -> IndexRanges | None:
        """What an open transaction has written."""
        return self._messages.get(txn_id)

    def known(self) -> set[TxnId]:
        """All that have not ended here."""
        return set(self._messages).union(self._ackers)

    @property
    def has_open(self) -> bool:
        """Has a transaction that is open written anything here, or acked?"""
        return bool(self._writers or self._messages or self._pending)

    def has_acked(self, txn_id: TxnId) -> bool:
        """Are acks of it pending?"""
        return txn_id in self._ackers

    def pending(self, state_id: int) -> dict[TxnId, PendingAcks]:
        """What transactions have acked on a cursor."""
        return self._pending.get(state_id, {})

    def pending_of(self, txn_id: TxnId, state_id: int, epoch: int) -> IndexRanges | None:
        """What a transaction has acked on a cursor in an epoch; what it has before a seek is forgotten."""
        acks = self._pending.get(state_id, {}).get(txn_id)
        return acks.ranges if acks is not None and acks.epoch == epoch else None

    # -- messages ----------------------------------------------------------------------------------

    def writes(self, txn_id: TxnId) -> None:
        """A message of a transaction is on its way to the log."""
        self._writers.add(txn_id)

    def never_wrote(self, txn_id: TxnId) -> None:
        """The disk has refused that the topic was added to a transaction, and with that everything that was
        sent behind it. Its end may have no part here, and would not forget it."""
        if txn_id not in self._messages:
            self._writers.discard(txn_id)

    def wrote(self, txn_id: TxnId, first: int, end: int) -> None:
        """Messages of an open transaction are in the log."""
        self._writers.add(txn_id)
        ranges = self._messages.get(txn_id)
        if ranges is None:
            ranges = self._messages[txn_id] = IndexRanges()
        ranges.add(first, end)

    # -- acks --------------------------------------------------------------------------------------

    def pend(self, txn_id: TxnId, state_id: int, epoch: int, ranges: Sequence[Range]) -> bytes:
        """A transaction acks; the fact of it."""
        self._pend(txn_id, state_id, epoch, ranges)
        head = (_PEND, *txn_id, state_id, epoch)
        if len(ranges) == 1:  # most are: the same bytes, without a set made for them
            ((first, end),) = ranges
            return bytes(varints(*head, first, 2 * (end - first)))
        return bytes(varints(*head)) + IndexRanges(ranges).to_bytes()

    def _pend(self, txn_id: TxnId, state_id: int, epoch: int, ranges: Iterable[Range]) -> None:
        of_cursor = self._pending.setdefault(state_id, {})
        before = of_cursor.get(txn_id)
        if before is None or before.epoch != epoch:
            before = of_cursor[txn_id] = PendingAcks(epoch, IndexRanges())
            self._ackers.setdefault(txn_id, set()).add(state_id)
        for piece in ranges:
            before.ranges.add(*piece)

    def unpend(self, txn_id: TxnId, state_id: int, refused: PendingAcks) -> None:
        """The disk has refused what a transaction acked: it never was."""
        of_cursor = self._pending.get(state_id, {})
        acks = of_cursor.get(txn_id)
        if acks is None or acks.epoch != refused.epoch:
            return
        acks.ranges.discard_all(refused.ranges)
        if not acks.ranges:
            self._forget_acks(txn_id, state_id)
            self._ackers[txn_id].discard(state_id)
            if not self._ackers[txn_id]:
                del self._ackers[txn_id]

    def _forget_acks(self, txn_id: TxnId, state_id: int) -> None:
        of_cursor = self._pending[state_id]
        del of_cursor[txn_id]
        if not of_cursor:
            del self._pending[state_id]

    # -- ends --------------------------------------------------------------------------------------

    def end_fact(self, txn_id: TxnId, outcome: Outcome, marker: int) -> bytes:
        """What is journaled; `ended` makes it true."""
        return bytes(varints(_END, *txn_id, outcome, marker + 1))

    def ended(self, txn_id: TxnId, outcome: Outcome, *, marker: int = NO_MARKER) -> None:
        """A transaction has ended: its messages are visible or hidden, its acks pending no more."""
        self._writers.discard(txn_id)
        messages = self._messages.pop(txn_id, None)
        if messages is not None and outcome is ABORT:
            self.hidden.add_all(messages)
        if marker != NO_MARKER:
            self.hidden.add(marker, marker + 1)
        if self._ackers:
            for state_id in self._ackers.pop(txn_id, ()):
                self._forget_acks(txn_id, state_id)

    # -- recalls -----------------------------------------------------------------------------------

    def hide(self, first: int, end: int) -> bytes:
        """Messages of no transaction are recalled; the fact of it."""
        self.hidden.add(first, end)
        return bytes(varints(_HIDE, first, end))

    def trim(self, first_index: int) -> None:
        """What is gone need not be remembered; the messages of an open transaction hold back no more."""
        self.hidden.discard(0, first_index)
        for txn_id, ranges in list(self._messages.items()):
            ranges.discard(0, first_index)
            if not ranges:
                del self._messages[txn_id]
        # One that lost its first messages may be behind one that came later.
        self._messages = dict(sorted(self._messages.items(), key=lambda one: one[1].first or 0))

    # -- the durable state -------------------------------------------------------------------------

    def snapshot(self, scanned_end: int, unread: Sequence[bytes] = ()) -> bytes:
        """`scanned_end`: where the log ends that it speaks of. `unread`: facts that do not count yet,
        because the entries before them are still being looked through."""
        out = bytearray()
        for number in (VERSION, scanned_end):
            write_varint(out, number)
        _write_bytes(out, self.hidden.to_bytes())
        write_varint(out, len(self._messages))
        for txn_id, ranges in self._messages.items():
            write_varint(out, txn_id.most)
            write_varint(out, txn_id.least)
            _write_bytes(out, ranges.to_bytes())
        pending = [
            (state_id, txn_id, *acks)
            for state_id, of_cursor in self._pending.items()
            for txn_id, acks in of_cursor.items()
        ]
        write_varint(out, len(pending))
        for state_id, txn_id, epoch, ranges in pending:
            for number in (state_id, *txn_id, epoch):
                write_varint(out, number)
            _write_bytes(out, ranges.to_bytes())
        write_varint(out, len(unread))
        for fact in unread:
            _write_bytes(out, fact)
        return bytes(out)

    @classmethod
    def restore(cls, data: bytes) -> tuple[TopicTransactions, list[bytes]]:
        """From a snapshot, and facts to be replayed when the entries up to them were looked through."""
        topic, at = cls(), 0

        def number() -> int:
            nonlocal at
            found, at = read_varint(data, at)
            return found

        def sized() -> bytes:
            nonlocal at
            size = number()
            if size > len(data) - at:
                raise CorruptData(f"{size} bytes at byte {at} of {len(data)}")
            at += size
            return data[at - size : at]

        if (version := number()) != VERSION:
            raise UnknownFormat(
                f"transactions of a topic, version {version}; this release knows {VERSION}"
            )
        topic.scanned_end = number()
        topic.hidden = IndexRanges.from_bytes(sized())
        for _ in range(number()):
            txn_id = TxnId(number(), number())
            topic._messages[txn_id] = IndexRanges.from_bytes(sized())
            topic._writers.add(txn_id)
        for _ in range(number()):
            state_id, txn_id, epoch = number(), TxnId(number(), number()), number()
            topic._pend(txn_id, state_id, epoch, IndexRanges.from_bytes(sized()))
        unread = [sized() for _ in range(number())]
        if at != len(data):
            raise CorruptData(f"{len(data) - at} bytes behind the transactions of a topic")
        return topic, unread

    def replay(self, fact: bytes) -> None:
        """Make a journaled fact true again; every entry before it has been looked at."""
        kind, at = read_varint(fact, 0)
        if kind == _HIDE:
            first, at = read_varint(fact, at)
            end, at = read_varint(fact, at)
            self.hidden.add(first, end)
            return
        most, at = read_varint(fact, at)
        least, at = read_varint(fact, at)
        txn_id = TxnId(most, least)
        if kind == _PEND:
            state_id, at = read_varint(fact, at)
            epoch, at = read_varint(fact, at)
            self._pend(txn_id, state_id, epoch, IndexRanges.from_bytes(fact[at:]))
        elif kind == _END:
            outcome, at = read_varint(fact, at)
            marker, at = read_varint(fact, at)
            self.ended(txn_id, Outcome(outcome), marker=marker - 1)
        else:
            raise UnknownFormat(f"a fact of a topic's transactions of unknown kind {kind}")


def _write_bytes(out: bytearray, data: bytes) -> None:
    write_varint(out, len(data))
    out += data
