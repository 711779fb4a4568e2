"""The coordinator: the transactions that are open or have ended, their topics, time-outs and outcomes.

            new                 end
    (none) ─────▶  open  ──────────────────▶  committed, aborted
                    │   add topics,               (remembered for a while: a retried end is
                    │   add subscriptions          answered the same way)
                    └──────────────────────▶  aborted, when its time is over

Each worker has a coordinator, whose number is that of its shard. One that is alone has number 0. Of the
transactions of other coordinators that have a part here it keeps a book for each (`guests`), which is a
coordinator that opens none.

It knows no topic, file or clock: times come in, facts come out as bytes. What is added to a transaction is
true at once and answered when the fact is durable. Its end is different: `end_fact` says what would be
journaled, and only `ended` makes it true, when one record of the journal has it together with everything
that the end means to topics and subscriptions.

    >>> coordinator = Coordinator()
    >>> txn, _ = coordinator.new(timeout_ms=60_000, now_ms=5, now_s=0.0, owner=None)
    >>> txn.txn_id, coordinator.find(txn.txn_id) is txn
    (TxnId(most=0, least=1), True)
    >>> coordinator.ended(txn, Outcome.COMMIT); coordinator.outcome_of(TxnId(0, 1)).name
    'COMMIT'
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple, TypeVar

from milepost.broker.transactions.series import Series, SeriesTable, Step
from milepost.errors import (
    CorruptData,
    InvalidTransactionStatus,
    TransactionCoordinatorNotFound,
    TransactionNotFound,
    UnknownFormat,
)
from milepost.positions.names import TopicName
from milepost.positions.transactions import TxnId
from milepost.positions.varints import read_varint, varints, write_varint

T = TypeVar("T")
# Topic and subscription; without a subscription, the topic for messages.
Added = tuple[str, str]

VERSION = 1
# With ends that other workers have to be told.
VERSION_UNTOLD = 2
# With those, and the roles of ended transactions.
VERSION_OWNERS = 3
# By the partitions of this name clients find the coordinators. It is no topic.
COORDINATOR_TOPIC = "persistent://pulsar/system/transaction_coordinator_assign"
# Outcomes that are remembered, so that the retried end of a transaction is answered the same way.
ENDED_MAX = 10_000

_NEW, _TOPICS, _SUBSCRIPTIONS, _END, _NEW_OF_SERIES, _END_TO_TELL, _TOLD, _LET_GO = range(1, 9)


def is_coordinator_topic(name: TopicName | None) -> bool:
    return name is not None and str(name.base) == COORDINATOR_TOPIC


class Outcome(IntEnum):
    """How a transaction ends; the numbers are upstream's."""

    COMMIT = 0
    ABORT = 1


# The members themselves: to look one up in its class costs as much as a call.
COMMIT, ABORT = Outcome.COMMIT, Outcome.ABORT
# By upstream's numbers.
OUTCOMES = (COMMIT, ABORT)


class Transaction:
    """One that is open. Only the coordinator changes it."""

    __slots__ = (
        "company",
        "deadline_s",
        "decided",
        "is_ending",
        "opened_ms",
        "owner",
        "series",
        "spellings",
        "subscriptions",
        "timeout_ms",
        "topics",
        "txn_id",
    )

    def __init__(
        self, txn_id: TxnId, timeout_ms: int, opened_ms: int, deadline_s: float, owner: str | None
    ) -> None:
        self.txn_id = txn_id
        self.timeout_ms = timeout_ms
        self.opened_ms = opened_ms
        """Of the wall clock, for people."""
        self.deadline_s = deadline_s
        """When it is aborted, by a clock that never goes back."""
        self.owner = owner
        """The role that opened it; None where clients are not asked who they are."""
        self.topics: set[str] = set()
        self.subscriptions: set[tuple[str, str]] = set()
        """(topic, subscription)"""
        self.is_ending = False
        """Its end is on its way to the disk: nothing is added to it any more."""
        self.decided: Outcome | None = None
        """The end that may be on the disk, though the disk did not say so, or that waits for its turn: there
        is no other any more, and nothing is added."""
        self.company: tuple[Transaction, ...] = ()
        """Those that end together by what was decided, itself among them."""
        self.series: Series | None = None
        self.spellings: dict[str, str] | None = None
        """How the client writes topics that it does not name in full; forgotten with a restart."""

    def spell(self, topic: str, text: str) -> None:
        """The client calls a topic by another text than its full name."""
        if text != topic:
            if self.spellings is None:
                self.spellings = {}
            self.spellings[topic] = text

    def spelling_of(self, topic: str) -> str:
        return topic if self.spellings is None else self.spellings.get(topic, topic)

    @property
    def is_plain(self) -> bool:
        """May it end by itself, and either way?"""
        return not self.is_ending and self.decided is None and self.series is None

    @property
    def size(self) -> int:
        return len(self.topics) + len(self.subscriptions)

    def subscriptions_by_topic(self) -> dict[str, list[str]]:
        """Their names. To walk through all of them for each topic would take seconds where there are
        thousands of both."""
        found: dict[str, list[str]] = {}
        for topic, name in self.subscriptions:
            found.setdefault(topic, []).append(name)
        return found

    def all_topics(self) -> list[str]:
        if not self.subscriptions:
            return list(self.topics) if len(self.topics) == 1 else sorted(self.topics)
        return sorted(self.topics | {topic for topic, _ in self.subscriptions})


class Untold(NamedTuple):
    """An end that is decided, and that other shards have not all carried out."""

    outcome: Outcome
    shards: set[int]


class Coordinator:
    def __init__(self, number: int = 0) -> None:
        self.number = number
        """The first half of every id that it gives."""
        self.guests: dict[int, Coordinator] = {}
        """By number: what is open here of other coordinators."""
        self.untold: dict[int, Untold] = {}
        """By the second half of the id: ends that other shards have to be told."""
        self.open: dict[int, Transaction] = {}
        """By the second half of the id, oldest first."""
        self._next = 1
        # By the second half of the id, oldest first.
        self._ended: dict[int, Outcome] = {}
        # Of those the roles, where clients are asked who they are.
        self._owners: dict[int, str] = {}
        self.series = SeriesTable()

    # -- asking ------------------------------------------------------------------------------------

    def book(self, number: int) -> Coordinator | None:
        """What is known of the transactions of a coordinator: of itself, or of guests."""
        return self if number == self.number else self.guests.get(number)

    def get(self, txn_id: TxnId) -> Transaction | None:
        """The transaction if it is open, though its end may be on its way."""
        most, least = txn_id
        book = self if most == self.number else self.guests.get(most)
        return None if book is None else book.open.get(least)

    def find(self, txn_id: TxnId) -> Transaction:
        """The open transaction, to add something to it; or the error that says what became of it."""
        most, least = txn_id
        book = self if most == self.number else self.guests.get(most)
        txn = None if book is None else book.open.get(least)
        if txn is None:
            outcome = self.outcome_of(txn_id)
            if outcome is not None:
                raise self.contradiction(txn_id, outcome)
            raise TransactionNotFound(f"transaction {txn_id} is not open")
        if txn.is_ending or txn.decided is not None:
            raise InvalidTransactionStatus(f"transaction {txn_id} is ending")
        return txn

    def find_to_end(self, txn_id: TxnId, outcome: Outcome) -> Transaction:
        """The open transaction, to end it like this; or the error that says why it cannot."""
        txn = self.get(txn_id)
        if txn is None or txn.is_ending or txn.decided is None:
            return self.find(txn_id)
        if txn.decided is not outcome:
            raise self.contradiction(txn_id, txn.decided)
        return txn

    @property
    def last_given(self) -> int:
        """The second half of the last id that was given; 0 before the first."""
        return self._next - 1

    def is_open(self, txn_id: TxnId) -> bool:
        """Is it open, though its end may be on its way?"""
        return self.get(txn_id) is not None

    def owned(self, txn_id: TxnId, role: str | None) -> Transaction:
        """The open transaction of a role: another role's is not there for it."""
        txn = self.get(txn_id)
        if txn is not None and txn.owner == role and not txn.is_ending and txn.decided is None:
            return txn
        self.check_owner(txn_id, role)
        return self.find(txn_id)

    def check_owner(self, txn_id: TxnId, role: str | None) -> None:
        """Raise if it is, or was, another role's: what became of it is told to its own role alone."""
        most, least = txn_id
        book = self if most == self.number else self.guests.get(most)
        if book is None:
            return
        txn = book.open.get(least)
        owner = book._owners.get(least, role) if txn is None else txn.owner
        if owner != role:
            raise TransactionNotFound(f"transaction {txn_id} is not this client's")

    def check_send(self, txn_id: TxnId, topic: str, role: str | None) -> None:
        """May a role store a message of the transaction in a topic?"""
        if topic not in self.owned(txn_id, role).topics:
            raise InvalidTransactionStatus(
                f"{topic} was not added to transaction {txn_id} before a message was sent, "
                "or was deleted and made again since"
            )

    def check_ack(self, txn_id: TxnId, topic: str, subscription: str, role: str | None) -> None:
        """May a role ack something in the transaction?"""
        if (topic, subscription) not in self.owned(txn_id, role).subscriptions:
            raise InvalidTransactionStatus(
                f"subscription {subscription} of {topic} was not added to transaction {txn_id} "
                "before an ack was sent, or was deleted and made again since"
            )

    def outcome_of(self, txn_id: TxnId) -> Outcome | None:
        """How it has ended, as far as is remembered; None if it has not, or never was."""
        book = self.book(txn_id.most)
        if book is None:
            return None
        untold = book.untold.get(txn_id.least)
        return book._ended.get(txn_id.least) if untold is None else untold.outcome

    @staticmethod
    def contradiction(txn_id: TxnId, decided: Outcome) -> InvalidTransactionStatus:
        """The error for the other end."""
        return InvalidTransactionStatus(f"transaction {txn_id} has ended: {_WORDS[decided]}")

    def unknown(self, number: int) -> TransactionCoordinatorNotFound:
        """The error for another coordinator."""
        return TransactionCoordinatorNotFound(
            f"there is no transaction coordinator {number} here; {self.number} is the only one"
        )

    def overdue(self, now_s: float) -> list[Transaction]:
        return [txn for txn in self.open.values() if txn.deadline_s <= now_s and not txn.is_ending]

    def parts_of(self, txn: Transaction) -> int:
        """Topics and subscriptions of a transaction, and of those that may end with it."""
        if txn.series is None:
            return txn.size
        return self.series.parts_of_run(txn.owner or "", txn.series)

    def earlier_runs(self, owner: str | None, series: Series) -> list[Transaction]:
        """What earlier runs of a series have open, without what is ending."""
        found = self.series.of_earlier_runs(owner or "", series)
        return [txn for least in found if not (txn := self.open[least]).is_ending]

    def of_series(self, owner: str | None, series: Series) -> list[Transaction]:
        """The same for all its runs."""
        found = self.series.of_run(owner or "", series)
        own = [txn for least in found if not (txn := self.open[least]).is_ending]
        return self.earlier_runs(owner, series) + own

    # -- what is true at once: the fact follows ----------------------------------------------------

    def new(
        self,
        *,
        timeout_ms: int,
        now_ms: int,
        now_s: float,
        owner: str | None,
        series: Series | None = None,
    ) -> tuple[Transaction, bytes]:
        """`series` was checked."""
        txn = self._admit(self._next, timeout_ms, now_ms, now_s + timeout_ms / 1000, owner)
        if series is None:
            return txn, _new_fact(_NEW, txn)
        self._join(txn, series)
        fact = bytearray(_new_fact(_NEW_OF_SERIES, txn))
        _write_texts(fact, _series_texts(txn))
        return txn, bytes(fact)

    def admit(
        self, least: int, *, timeout_ms: int, now_ms: int, now_s: float, owner: str | None
    ) -> tuple[Transaction, bytes]:
        """Of a book of guests: a transaction of the other coordinator has a part here."""
        txn = self._admit(least, timeout_ms, now_ms, now_s + timeout_ms / 1000, owner)
        return txn, _new_fact(_NEW, txn)

    def never_opened(self, txn: Transaction) -> None:
        """The disk has refused that it was opened, and no client knows of it."""
        self._leave(txn.txn_id.least)

    def add_topics(self, txn: Transaction, topics: list[str]) -> bytes:
        """It has these too, which it had not yet; the fact of it."""
        self._change(txn, txn.topics.update, topics)
        if len(topics) == 1:  # as nearly always
            data = topics[0].encode()
            return bytes(varints(_TOPICS, txn.txn_id.least, 1, len(data))) + data
        fact = varints(_TOPICS, txn.txn_id.least)
        _write_texts(fact, topics)
        return bytes(fact)

    def add_subscriptions(self, txn: Transaction, subscriptions: list[tuple[str, str]]) -> bytes:
        """The same for subscriptions."""
        fact = varints(_SUBSCRIPTIONS, txn.txn_id.least)
        _write_texts(fact, [text for pair in subscriptions for text in pair])
        self._change(txn, txn.subscriptions.update, subscriptions)
        return bytes(fact)

    def take_topics(self, txn: Transaction, topics: Iterable[str]) -> None:
        """The disk has refused that these were added."""
        self._change(txn, txn.topics.difference_update, topics)

    def take_subscriptions(
        self, txn: Transaction, subscriptions: Iterable[tuple[str, str]]
    ) -> None:
        """The same for subscriptions."""
        self._change(txn, txn.subscriptions.difference_update, subscriptions)

    def let_go(self, names: Sequence[Added]) -> bytes:
        """What had these names is gone, and others will have them: it is in no open transaction any more. The
        fact of it, empty if it was in none."""
        topics = {topic for topic, name in names if not name}
        pairs = {one for one in names if one[1]}
        found = [
            txn
            for txn in self.open.values()
            if not (topics.isdisjoint(txn.topics) and pairs.isdisjoint(txn.subscriptions))
        ]
        for txn in found:
            self.take_topics(txn, topics)
            self.take_subscriptions(txn, pairs)
        if not found:
            return b""
        fact = varints(_LET_GO)
        _write_texts(fact, [text for pair in names for text in pair])
        return bytes(fact)

    def _change(
        self, txn: Transaction, change: Callable[[Iterable[T]], None], parts: Iterable[T]
    ) -> None:
        """Add topics or subscriptions to a transaction, or take some away."""
        if txn.series is None or not self.is_open(txn.txn_id):
            change(parts)
            return
        before = txn.size
        change(parts)
        self.series.changed(txn.owner or "", txn.series, txn.size - before)

    # -- what is true when its fact is durable -----------------------------------------------------

    @staticmethod
    def end_fact(least: int, outcome: Outcome, shards: Collection[int] = ()) -> bytes:
        """The fact of its end. `shards`: others that have to be told of it."""
        fact = varints(_END_TO_TELL if shards else _END, least, outcome)
        if shards:
            _write_numbers(fact, shards)
        return bytes(fact)

    def ended(self, txn: Transaction, outcome: Outcome, shards: Collection[int] = ()) -> None:
        self._end(txn.txn_id.least, outcome)
        if shards:
            self.untold[txn.txn_id.least] = Untold(outcome, set(shards))

    def told(self, least: int) -> bytes:
        """All shards have carried an end out; the fact of it."""
        del self.untold[least]
        return bytes(varints(_TOLD, least))

    def remember(self, least: int, outcome: Outcome) -> None:
        """One that has no part here has ended; a request to take part that comes late is refused."""
        self._end(least, outcome)

    # -- the durable state -------------------------------------------------------------------------

    def take_over(self, other: Coordinator) -> None:
        """Know what another one knows, in place of everything."""
        self.open, self._next, self._ended = other.open, other._next, other._ended
        self.series, self.untold, self._owners = other.series, other.untold, other._owners

    def snapshot(self) -> bytes:
        out = bytearray()
        version = VERSION_OWNERS if self._owners else VERSION_UNTOLD if self.untold else VERSION
        for number in (version, self._next, len(self.open)):
            write_varint(out, number)
        for least, txn in self.open.items():
            write_varint(out, least)
            out += _of_transaction(txn)
            _write_texts(out, sorted(txn.topics))
            _write_texts(out, [text for pair in sorted(txn.subscriptions) for text in pair])
            _write_texts(out, _series_texts(txn))
        write_varint(out, len(self._ended))
        for least, outcome in self._ended.items():
            write_varint(out, least)
            write_varint(out, outcome)
        write_varint(out, len(self.series.last))
        for key, step in self.series:
            _write_texts(out, list(key))
            write_varint(out, step.number)
            write_varint(out, step.when_ms)
        if version != VERSION:
            write_varint(out, len(self.untold))
        for least, untold in self.untold.items():
            write_varint(out, least)
            write_varint(out, untold.outcome)
            _write_numbers(out, untold.shards)
        if version == VERSION_OWNERS:
            ended_of: dict[str, list[int]] = {}
            for least, owner in self._owners.items():
                ended_of.setdefault(owner, []).append(least)
            write_varint(out, len(ended_of))
            for owner, numbers in ended_of.items():
                _write_text(out, owner)
                _write_numbers(out, numbers)
        return bytes(out)

    @classmethod
    def restore(
        cls, data: bytes, facts: Iterable[bytes], now_ms: int, now_s: float, number: int = 0
    ) -> Coordinator:
        """As a snapshot and the facts behind it say. A transaction is given what was left of its time:
        never more than all of it, should the wall clock have gone back meanwhile."""
        coordinator, read = cls(number), _Reader(data)
        if (version := read.number()) not in (VERSION, VERSION_UNTOLD, VERSION_OWNERS):
            raise UnknownFormat(
                f"a coordinator of version {version}; this release knows {VERSION} to {VERSION_OWNERS}"
            )
        following = read.number()
        for _ in range(read.number()):
            txn = coordinator._read_transaction(read, now_ms, now_s)
            txn.topics.update(read.texts())
            txn.subscriptions.update(_pairs(read.texts()))
            coordinator._read_series(read, txn)
        for _ in range(read.number()):
            least = read.number()
            coordinator._ended[least] = Outcome(read.number())
        for _ in range(read.number()):
            owner, name = read.texts()
            coordinator.series.remember((owner, name), Step(read.number(), read.number()))
        for _ in range(read.number() if version != VERSION else 0):
            least = read.number()
            coordinator.untold[least] = Untold(Outcome(read.number()), set(read.numbers()))
        for _ in range(read.number() if version == VERSION_OWNERS else 0):
            owner = read.text()
            coordinator._owners.update(dict.fromkeys(read.numbers(), owner))
        read.end()
        coordinator._next = max(coordinator._next, following)
        for fact in facts:
            coordinator._replay(fact, now_ms, now_s)
        return coordinator

    def _replay(self, fact: bytes, now_ms: int, now_s: float) -> None:
        read = _Reader(fact)
        kind = read.number()
        if kind in (_NEW, _NEW_OF_SERIES):
            opened = self._read_transaction(read, now_ms, now_s)
            if kind == _NEW_OF_SERIES:
                self._read_series(read, opened)
        elif kind in (_TOPICS, _SUBSCRIPTIONS):
            txn, texts = self.open.get(read.number()), read.texts()
            if txn is not None and kind == _TOPICS:
                self._change(txn, txn.topics.update, texts)
            elif txn is not None:
                self._change(txn, txn.subscriptions.update, _pairs(texts))
        elif kind == _END:
            least = read.number()
            self._end(least, Outcome(read.number()))
        elif kind == _END_TO_TELL:
            least, outcome = read.number(), Outcome(read.number())
            self._end(least, outcome)
            self.untold[least] = Untold(outcome, set(read.numbers()))
        elif kind == _TOLD:
            self.untold.pop(read.number(), None)
        elif kind == _LET_GO:
            self.let_go(list(_pairs(read.texts())))
        else:
            raise UnknownFormat(f"a fact of a coordinator of unknown kind {kind}")
        read.end()

    def _read_transaction(self, read: _Reader, now_ms: int, now_s: float) -> Transaction:
        least, timeout_ms, opened_ms, owner = (
            read.number(),
            read.number(),
            read.number(),
            read.text(),
        )
        left_ms = min(max(opened_ms + timeout_ms - now_ms, 0), timeout_ms)
        return self._admit(least, timeout_ms, opened_ms, now_s + left_ms / 1000, owner or None)

    def _read_series(self, read: _Reader, txn: Transaction) -> None:
        texts = read.texts()
        if texts:
            name, run, step = texts
            self._join(txn, Series(name, run, int(step) if step else None))

    def _join(self, txn: Transaction, series: Series) -> None:
        txn.series = series
        self.series.opened(txn.owner or "", series, txn.txn_id.least, txn.size)

    def _leave(self, least: int, outcome: Outcome | None = None) -> Transaction | None:
        """It is not open any more; what it was."""
        txn = self.open.pop(least, None)
        if txn is not None and txn.series is not None:
            when_ms = txn.opened_ms if outcome is COMMIT else None
            self.series.ended(txn.owner or "", txn.series, least, when_ms, txn.size)
        return txn

    def _admit(
        self, least: int, timeout_ms: int, opened_ms: int, deadline_s: float, owner: str | None
    ) -> Transaction:
        txn = Transaction(TxnId(self.number, least), timeout_ms, opened_ms, deadline_s, owner)
        self.open[least] = txn
        if least >= self._next:
            self._next = least + 1
        return txn

    def _end(self, least: int, outcome: Outcome) -> None:
        txn = self._leave(least, outcome)
        self._ended[least] = outcome
        if txn is not None and txn.owner is not None:
            self._owners[least] = txn.owner
        if len(self._ended) > ENDED_MAX:
            forgotten = next(iter(self._ended))
            del self._ended[forgotten]
            self._owners.pop(forgotten, None)


_WORDS = {Outcome.COMMIT: "it was committed", Outcome.ABORT: "it was aborted"}


def _new_fact(kind: int, txn: Transaction) -> bytes:
    return bytes(varints(kind, txn.txn_id.least)) + _of_transaction(txn)


def _of_transaction(txn: Transaction) -> bytes:
    return _times_and_owner(txn.timeout_ms, txn.opened_ms, txn.owner or "")


@lru_cache(maxsize=4)
def _times_and_owner(timeout_ms: int, opened_ms: int, owner: str) -> bytes:
    """Many transactions of a client are opened in one millisecond."""
    data = owner.encode()
    return bytes(varints(timeout_ms, opened_ms, len(data)) + data)


def _series_texts(txn: Transaction) -> list[str]:
    series = txn.series
    if series is None:
        return []
    return [series.name, series.run, "" if series.step is None else str(series.step)]


def _write_texts(out: bytearray, texts: list[str]) -> None:
    write_varint(out, len(texts))
    for text in texts:
        _write_text(out, text)


def _write_numbers(out: bytearray, numbers: Collection[int]) -> None:
    write_varint(out, len(numbers))
    for number in sorted(numbers):
        write_varint(out, number)


def _write_text(out: bytearray, text: str) -> None:
    data = text.encode()
    write_varint(out, len(data))
    out += data


def _pairs(texts: list[str]) -> Iterator[tuple[str, str]]:
    return zip(texts[::2], texts[1::2], strict=True)


class _Reader:
    """Numbers and texts, one after the other; `CorruptData` where there are none."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self) -> int:
        number, self._at = read_varint(self._data, self._at)
        return number

    def text(self) -> str:
        size = self.number()
        data = self._data[self._at : self._at + size]
        if len(data) != size:
            raise CorruptData(f"a text of {size} bytes at byte {self._at} of {len(self._data)}")
        self._at += size
        return data.decode()

    def numbers(self) -> list[int]:
        return [self.number() for _ in range(self.number())]

    def texts(self) -> list[str]:
        return [self.text() for _ in range(self.number())]

    def end(self) -> None:
        if self._at != len(self._data):
            raise CorruptData(
                f"{len(self._data) - self._at} bytes behind the last of a coordinator"
            )
