"""The log of one topic: appends, reads, rolls and trims its ledgers, and gives out indexes.

The next index is not a counter: it is where the last block that went to the journal ends, and when the
journal refuses that block, where the last durable one ends. An index that no client could see is
given again; one that a client could see never is. Positions are not given again at all: behind a
refused block a new ledger begins.

    append ──▶ journal ──▶ durable: admitted to its ledger, visible, `done(None)`
                      └──▶ refused: everything staged is dropped, `done(error)`

`append` decides and returns at once; `done` is called on the loop when the journal has answered.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

from milepost.errors import (
    CorruptData,
    IndexNotFound,
    LedgerNotFound,
    NotAllowed,
    OutcomeUnknown,
    PersistenceError,
    TopicNotFound,
)
from milepost.positions.ids import Position
from milepost.positions.ranges import Range
from milepost.positions.spans import Span
from milepost.storage.files import Files
from milepost.storage.header import HEADER_SIZE
from milepost.storage.journal.queue import Done
from milepost.storage.journal.records import ENTRIES, LEDGER, LEDGER_BODY
from milepost.storage.ledgers.entry import Block, Entry, NewEntry
from milepost.storage.ledgers.heads import HeadsPlan
from milepost.storage.ledgers.ledger import Ledger, LedgerRow, ReadPlan
from milepost.storage.ledgers.mileposts import OFFSET_MAX, RELATIVE_INDEX_MAX, RELATIVE_TIME_MAX
from milepost.storage.ledgers.paging import Disk, Here, at_once, must_bring
from milepost.storage.ledgers.stored_run import RunLimits, StoredRun
from milepost.storage.ledgers.stretch import Stretch

T = TypeVar("T")

logger = logging.getLogger(__name__)

READ_SIZE_DEFAULT = 1024 * 1024
READ_ENTRIES_DEFAULT = 4096


class RollPolicy(NamedTuple):
    """When a ledger is full: whichever comes first."""

    size_bytes_max: int = 256 * 1024 * 1024
    entries_max: int = 500_000
    age_ms_max: int = 4 * 3600 * 1000


class Located(NamedTuple):
    """An entry found by index, time or position; nothing of its payload was read."""

    position: Position
    span: Span
    timestamp_ms: int
    flags: int


class LogOwner(Protocol):
    """What a log needs of the store that owns it."""

    files: Files
    roll_policy: RollPolicy

    @property
    def refused_through(self) -> int:
        """Every record up to this sequence that was not answered well will be refused."""
        ...

    def submit(self, kind: int, owner: int, body: Sequence[bytes], done: Done) -> int: ...

    def next_ledger_id(self) -> int: ...

    def touched(self, ledger: Ledger) -> None:
        """The ledger holds something that no checkpoint has seen."""
        ...


class Log:
    """The ledgers of one topic, in order, and what is on its way to them."""

    def __init__(self, topic_id: int, name: str, ledgers: list[Ledger], owner: LogOwner) -> None:
        self.topic_id = topic_id
        self.name = name
        self._owner = owner
        # Durable ledgers in order. Invariant: each begins at the index where the one before ends;
        # all but the last are sealed.
        self._ledgers = ledgers
        self._first_indexes = [ledger.first_index for ledger in ledgers]
        # Blocks and ledgers that the journal has not answered for, in order, with their sequence.
        self._staged: deque[tuple[int, Block | Ledger]] = deque()
        # The ledger of the last staged block, be it durable itself or staged before it, and where
        # in its file that block will end.
        self._staged_ledger: Ledger | None = None
        self._staged_end = 0
        # Behind a refused block the open ledger takes nothing more: its next entries were lost
        # before a client saw them, and no position is given twice.
        self._must_roll = False
        self.damage: str | None = None
        """Why nothing may be appended: acknowledged data could not be read back. Needs repair."""
        self.loss: str | None = None
        """Why nothing may be appended: acknowledged messages are gone, which the catalog remembers
        until an operator accepts it."""
        self.stall: str | None = None
        """Why nothing may be appended for now: a ledger cannot be written. The journal has it all."""
        self.is_deleted = False
        """It takes nothing more: what came behind its tombstone would be taken for damage."""

    def __repr__(self) -> str:
        return f"<Log {self.name}: [{self.first_index}, {self.end_index})>"

    # -- where it begins and ends ------------------------------------------------------------------

    @property
    def first_index(self) -> int:
        return self._first_indexes[0] if self._first_indexes else 0

    @property
    def end_index(self) -> int:
        """Behind the last visible message."""
        return self._ledgers[-1].end_index if self._ledgers else 0

    @property
    def next_index(self) -> int:
        """What the next message will be numbered, counting what is on its way to the journal."""
        return self._staged[-1][1].end_index if self._staged else self.end_index

    @property
    def refused_through(self) -> int:
        """Rises with every failure of the journal; what is appended behind it is not refused by it."""
        return self._owner.refused_through

    @property
    def ledgers(self) -> Sequence[Ledger]:
        return self._ledgers

    @property
    def ledger_ids(self) -> list[int]:
        """Of all its ledgers, also of those that are on their way to the journal."""
        staged = [item.ledger_id for _, item in self._staged if isinstance(item, Ledger)]
        return [ledger.ledger_id for ledger in self._ledgers] + staged

    @property
    def size_bytes(self) -> int:
        return sum(ledger.size_bytes for ledger in self._ledgers)

    def size_from(self, index: int) -> int:
        """Bytes of the entries from the one on that holds an index; 0 at the end."""
        index = max(index, self.first_index)
        if index >= self.end_index:
            return 0
        at = bisect_right(self._first_indexes, index) - 1
        ledger, files = self._ledgers[at], self._owner.files
        if index == ledger.first_index:
            return sum(one.size_bytes - HEADER_SIZE for one in self._ledgers[at:])
        size = ledger.size_bytes - ledger.offset_of(ledger.entry_with(index, files), files)
        return size + sum(one.size_bytes - HEADER_SIZE for one in self._ledgers[at + 1 :])

    @property
    def entry_count(self) -> int:
        return sum(ledger.entries for ledger in self._ledgers)

    @property
    def last_timestamp_ms(self) -> int:
        return self._ledgers[-1].last_time_ms if self._ledgers else 0

    def last_position(self) -> Position | None:
        """The newest visible entry; None in a log that holds nothing."""
        for ledger in reversed(self._ledgers):
            if ledger.entries:
                return Position(ledger.ledger_id, ledger.entries - 1)
        return None

    # -- appending ---------------------------------------------------------------------------------

    def append(self, items: Sequence[NewEntry], now_ms: int, done: Done) -> Block:
        """Number the items and send them to the journal as one block.

        Returns the block, whose positions and indexes become visible when `done(None)` is called.
        Times never go back inside a log, whatever the clock does: look-up by time bisects them.
        A block that no ledger can hold is refused before anything is staged.
        """
        return self._append(items, now_ms, partial(self._answered, done))

    def _append(self, items: Sequence[NewEntry], now_ms: int, answered: Done) -> Block:
        """The same; `answered` has to let the log `hear` the journal's answer."""
        if self.damage or self.loss or self.stall:
            raise CorruptData(f"{self.name} takes no messages: {self.refusal}")
        if self.is_deleted:
            raise TopicNotFound(f"{self.name} is deleted")
        assert items, f"{self.name}: a block of nothing"  # no recovery could read it
        staged = self._staged
        if staged:
            self._drop_refused()
        ledger, entry_id, index, last_time_ms = self._open_end(now_ms)
        time_ms = now_ms if now_ms > last_time_ms else last_time_ms
        if time_ms - ledger.first_time_ms > RELATIVE_TIME_MAX:
            time_ms = ledger.first_time_ms + RELATIVE_TIME_MAX
        block = Block.encode(ledger.ledger_id, entry_id, index, time_ms, items)
        data = block.data
        end = self._staged_end if staged and ledger is self._staged_ledger else ledger.size_bytes
        if not _fits(block, ledger.first_index, end):
            if not _fits(block, index, HEADER_SIZE):
                raise NotAllowed(
                    f"{self.name}: {block.end_index - index} messages of {len(block.data)} bytes in "
                    f"one go; a ledger holds {RELATIVE_INDEX_MAX + 1} of {OFFSET_MAX}"
                )
            # It does not fit behind what the ledger has: it begins the next one.
            ledger, entry_id, index, time_ms = self._begin_ledger(now_ms, None)
            block = Block.encode(ledger.ledger_id, entry_id, index, time_ms, items)
            data, end = block.data, ledger.size_bytes
        sequence = self._owner.submit(ENTRIES, ledger.ledger_id, (data,), answered)
        self._staged_ledger, self._staged_end = ledger, end + len(data)
        staged.append((sequence, block))
        return block

    def append_one(
        self, payload: bytes, count: int, now_ms: int, answered: Done, flags: int = 0
    ) -> Block:
        """Append one entry, in fewer steps where nothing is unusual. `answered` gets the journal's
        answer, and has to let the log `hear` it before anything else."""
        ledgers = self._ledgers
        if (
            self._staged
            or not ledgers
            or self._must_roll
            or self.is_deleted
            or self.damage
            or self.loss
            or self.stall
        ):
            return self._append([NewEntry(payload, count, flags)], now_ms, answered)
        ledger = ledgers[-1]
        entry_id, index, end = ledger.entries, ledger.end_index, ledger.size_bytes
        ledger_id, time_ms = ledger.ledger_id, ledger.last_time_ms
        if now_ms > time_ms:
            time_ms = now_ms
        if (
            ledger.sealed
            or self._is_full(ledger, entry_id, end, index, now_ms)
            or time_ms - ledger.first_time_ms > RELATIVE_TIME_MAX
        ):
            return self._append([NewEntry(payload, count, flags)], now_ms, answered)
        block = Block.of_one(ledger_id, entry_id, index, time_ms, payload, count, flags)
        if not _fits(block, ledger.first_index, end):
            return self._append([NewEntry(payload, count, flags)], now_ms, answered)
        data = block.data
        sequence = self._owner.submit(ENTRIES, ledger_id, (data,), answered)
        self._staged_ledger, self._staged_end = ledger, end + len(data)
        self._staged.append((sequence, block))
        return block

    def roll(self, now_ms: int, done: Done) -> None:
        """Begin a new ledger, so that everything before it can be trimmed."""
        if self.is_deleted:
            raise TopicNotFound(f"{self.name} is deleted")
        if self.refusal is not None:
            raise CorruptData(f"{self.name} begins no ledger: {self.refusal}")
        self._drop_refused()
        self._begin_ledger(now_ms, done)

    @property
    def refusal(self) -> str | None:
        """Why the log takes no messages; None if it does."""
        return self.damage or self.loss or self.stall

    def accept_loss(self) -> None:
        """What was lost is accepted: go on behind it, in a new ledger."""
        self.loss = None
        self._must_roll = bool(self._ledgers)

    def _open_end(self, now_ms: int) -> tuple[Ledger, int, int, int]:
        """Ledger, entry id, first index and earliest time of the next block; begins a ledger where
        one is due."""
        if self._staged:
            last = self._staged[-1][1]
            if isinstance(last, Ledger):
                return last, 0, last.first_index, last.first_time_ms
            ledger = self._staged_ledger
            assert ledger is not None
            end_id, end_index = last.first_entry_id + last.entry_count, last.end_index
            if self._is_full(ledger, end_id, self._staged_end, end_index, now_ms):
                return self._begin_ledger(now_ms, None)
            return ledger, end_id, end_index, last.timestamp_ms
        if not self._ledgers or self._must_roll:
            return self._begin_ledger(now_ms, None)
        ledger = self._ledgers[-1]
        end_id, end_index = ledger.entries, ledger.end_index
        if ledger.sealed or self._is_full(ledger, end_id, ledger.size_bytes, end_index, now_ms):
            return self._begin_ledger(now_ms, None)
        return ledger, end_id, end_index, ledger.last_time_ms

    def is_full(self, now_ms: int) -> bool:
        """Would the next block begin a new ledger? An old one need not wait for it."""
        if self._staged or not self._ledgers or self._ledgers[-1].sealed or self.refusal:
            return False
        last = self._ledgers[-1]
        return self._is_full(last, last.entries, last.size_bytes, last.end_index, now_ms)

    def _is_full(self, ledger: Ledger, entries: int, end: int, end_index: int, now_ms: int) -> bool:
        """May a ledger with so many entries, that ends there, take no more?"""
        size_bytes_max, entries_max, age_ms_max = self._owner.roll_policy
        return entries > 0 and (
            entries >= entries_max
            or end >= size_bytes_max
            or end >= OFFSET_MAX // 2
            # Batches of a million messages fill the mileposts sooner than entries do.
            or end_index - ledger.first_index > RELATIVE_INDEX_MAX // 2
            or now_ms - ledger.first_time_ms >= age_ms_max
        )

    def _begin_ledger(self, now_ms: int, done: Done | None) -> tuple[Ledger, int, int, int]:
        time_ms = max(now_ms, self._last_time_ms())
        ledger_id = self._owner.next_ledger_id()
        ledger = Ledger(LedgerRow(ledger_id, self.topic_id, self.next_index, time_ms))
        body = LEDGER_BODY.pack(self.topic_id, ledger.first_index, time_ms)
        sequence = self._owner.submit(LEDGER, ledger_id, (body,), partial(self._answered, done))
        self._staged.append((sequence, ledger))
        return ledger, 0, ledger.first_index, time_ms

    def _last_time_ms(self) -> int:
        """No block may be older, counting what is on its way to the journal."""
        if not self._staged:
            return self.last_timestamp_ms
        last = self._staged[-1][1]
        return last.timestamp_ms if isinstance(last, Block) else last.first_time_ms

    def _answered(self, done: Done | None, error: PersistenceError | None) -> None:
        """The journal's answer to one staged block or ledger: the log hears it first, then the caller."""
        error = self.hear(error)
        if done is not None:
            done(error)

    def hear(self, error: PersistenceError | None) -> PersistenceError | None:
        """Admit the first staged block or ledger, or drop what was refused; what to tell the caller."""
        if error is not None:
            self._drop_refused()
            self._must_roll = True
        else:
            _, staged = self._staged.popleft()
            try:
                if isinstance(staged, Block):
                    ledger = self._ledgers[-1]
                    ledger.admit(staged, self._owner.files)
                    self._owner.touched(ledger)
                else:
                    self.admit_ledger(staged)
            except Exception as failure:
                # It is in the journal and not in the log: one more block would get its numbers.
                self.damage = (
                    self.damage or f"{staged!r:.80} is durable and not admitted: {failure}"
                )
                logger.exception("%s takes no messages: %s", self.name, self.damage)
                error = OutcomeUnknown(f"{self.name}: {failure}")
                error.__cause__ = failure
        return error

    def _drop_refused(self) -> None:
        """What was numbered behind a loss is refused with it, and has no numbers any more from the
        moment the loss is known: its answer may be still to come."""
        staged, refused_through = self._staged, self._owner.refused_through
        while staged and staged[0][0] <= refused_through:
            staged.popleft()
            self._must_roll = True

    def admit(self, block: Block) -> None:
        """The block is durable: its entries are part of the log."""
        ledger = self._ledgers[-1]
        ledger.admit(block, self._owner.files)
        self._owner.touched(ledger)

    def admit_ledger(self, ledger: Ledger) -> None:
        """The ledger's beginning is durable: the one before it is sealed."""
        if self._ledgers:
            assert ledger.first_index == self.end_index, (ledger, self.end_index)
            if not self._ledgers[-1].sealed:
                self._ledgers[-1].sealed = True
                self._owner.touched(self._ledgers[-1])
        self._ledgers.append(ledger)
        self._first_indexes.append(ledger.first_index)
        self._must_roll = False
        self._owner.touched(ledger)

    # -- looking up --------------------------------------------------------------------------------

    def locate(self, index: int) -> Located:
        """The entry that holds an index."""
        if not self.first_index <= index < self.end_index:
            raise IndexNotFound(
                f"{self.name}: index {index} is not in [{self.first_index}, {self.end_index})"
            )
        ledger = self._ledgers[bisect_right(self._first_indexes, index) - 1]
        return self._located(ledger, ledger.entry_with(index, self._owner.files))

    def at(self, position: Position) -> Located:
        """The entry at a position."""
        ledger = self._ledger(position.ledger_id)
        if ledger is None or not 0 <= position.entry_id < ledger.entries:
            raise LedgerNotFound(f"{self.name} holds no entry {position}")
        return self._located(ledger, position.entry_id)

    def indexes_at(self, ledger_id: int, entry_id: int) -> tuple[int, int, int]:
        """First index, end index and flags of an entry: what an ack needs, as fast as it goes."""
        ledgers = self._ledgers
        ledger = ledgers[-1] if ledgers else None
        if ledger is None or ledger.ledger_id != ledger_id:
            ledger = self._ledger(ledger_id)
        if ledger is None or not 0 <= entry_id < ledger.entries:
            raise LedgerNotFound(f"{self.name} holds no entry {ledger_id}:{entry_id}")
        return ledger.indexes(entry_id, self._owner.files)

    def index_from(self, position: Position) -> int:
        """The first index at or behind a position, whether or not an entry is there.

        Positions before the log answer its first index, those behind it its end index: a seek to
        a trimmed or future position goes to the nearest place that exists.
        """
        at = bisect_left(self._ledgers, position.ledger_id, key=lambda ledger: ledger.ledger_id)
        if at == len(self._ledgers):
            return self.end_index
        ledger = self._ledgers[at]
        if ledger.ledger_id != position.ledger_id or position.entry_id < 0:
            return ledger.first_index
        if position.entry_id >= ledger.entries:
            return ledger.end_index
        return ledger.span(position.entry_id, self._owner.files).first_index

    def index_at(self, time_ms: int) -> int:
        """The first index that came not before a time; the end index if all came before it."""
        for ledger in self._ledgers[self._ledger_since(time_ms) :]:
            relative = max(time_ms - ledger.first_time_ms, 0)
            entry_id = ledger.mileposts(self._owner.files).first_entry_from(relative)
            if entry_id < ledger.entries:
                return ledger.span(entry_id, self._owner.files).first_index
        return self.end_index

    def entries_from(self, index: int, count_max: int) -> list[Located]:
        """Up to `count_max` consecutive entries, the first of them holding `index`; none at the end.

        They are of one ledger, so fewer may come than there are: ask again behind the last.
        """
        if index >= self.end_index:
            return []
        first = self.locate(index)
        ledger = self._ledger(first.position.ledger_id)
        assert ledger is not None
        entry_id = first.position.entry_id
        end_id = min(entry_id + count_max, ledger.entries)
        rows = ledger.mileposts(self._owner.files).rows(entry_id, end_id)
        found = [first]
        base, since, ledger_id = ledger.first_index, ledger.first_time_ms, ledger.ledger_id
        before = rows[0].last_index
        for row in rows[1:]:
            entry_id += 1
            span = Span(base + before + 1, row.last_index - before)
            found.append(
                Located(Position(ledger_id, entry_id), span, since + row.time_ms, row.flags)
            )
            before = row.last_index
        return found

    def stretch(self, index: int, count_max: int) -> Stretch | None:
        """The same as columns, which cost less than objects; None at the end. What was trimmed is passed
        over."""
        index = max(index, self.first_index)
        if index >= self.end_index:
            return None
        ledger = self._ledgers[bisect_right(self._first_indexes, index) - 1]
        return ledger.stretch(index, count_max, self._owner.files)

    def ledger_with(self, index: int) -> Ledger:
        """The ledger that holds an index, or ends there as the last; reads nothing."""
        return self._ledgers[max(bisect_right(self._first_indexes, index) - 1, 0)]

    def _ledger_since(self, time_ms: int) -> int:
        return bisect_left(self._ledgers, time_ms, key=lambda ledger: ledger.last_time_ms)

    def _ledger(self, ledger_id: int) -> Ledger | None:
        at = bisect_left(self._ledgers, ledger_id, key=lambda ledger: ledger.ledger_id)
        if at < len(self._ledgers) and self._ledgers[at].ledger_id == ledger_id:
            return self._ledgers[at]
        return None

    def _located(self, ledger: Ledger, entry_id: int) -> Located:
        files = self._owner.files
        row = ledger.mileposts(files).row(entry_id)
        return Located(
            Position(ledger.ledger_id, entry_id),
            ledger.span(entry_id, files),
            ledger.first_time_ms + row.time_ms,
            row.flags,
        )

    # -- reading -----------------------------------------------------------------------------------

    def entries_in_memory(self, ranges: Sequence[Range]) -> list[Entry]:
        """As of a ledger, the one that holds the first of them: ask again behind the last."""
        if not ranges or not self.first_index <= ranges[0][0] < self.end_index:
            return []
        ledger = self._ledgers[bisect_right(self._first_indexes, ranges[0][0]) - 1]
        return ledger.entries_in_memory(ranges, self._owner.files)

    def plan_reads(self, ranges: Sequence[Range], *, size_max: int) -> list[ReadPlan]:
        """The same of what has to be read."""
        if not ranges or not self.first_index <= ranges[0][0] < self.end_index:
            return []
        ledger = self._ledgers[bisect_right(self._first_indexes, ranges[0][0]) - 1]
        return ledger.plan_reads(ranges, size_max, self._owner.files)

    def plan_read(
        self,
        position: Position,
        *,
        entries_max: int = READ_ENTRIES_DEFAULT,
        size_max: int = READ_SIZE_DEFAULT,
    ) -> ReadPlan:
        """Consecutive entries of one ledger from a position on; at least one, however large."""
        ledger = self._ledger(position.ledger_id)
        if ledger is None or not 0 <= position.entry_id < ledger.entries:
            raise LedgerNotFound(f"{self.name} holds no entry {position}")
        end_id = min(position.entry_id + entries_max, ledger.entries)
        return ledger.plan_read(position.entry_id, end_id, size_max, self._owner.files)

    def newest(self, index: int, end_index: int, *, entries_max: int, size_max: int) -> list[Entry]:
        """What was admitted last, if it is what `[index, end_index)` asks for; else nothing."""
        if not self._ledgers or end_index < self._ledgers[-1].end_index:
            return []
        return self._ledgers[-1].newest(index, entries_max=entries_max, size_max=size_max)

    def plan_read_from(
        self, index: int, end_index: int, *, entries_max: int, size_max: int
    ) -> ReadPlan:
        """The same by index: from the entry that holds `index` to the one that holds the message
        before `end_index`, or less."""
        if not self.first_index <= index < self.end_index:
            raise IndexNotFound(
                f"{self.name}: index {index} is not in [{self.first_index}, {self.end_index})"
            )
        files = self._owner.files
        ledger = self._ledgers[bisect_right(self._first_indexes, index) - 1]
        entry_id = ledger.entry_with(index, files)
        end_id = ledger.entries
        if end_index < ledger.end_index:
            end_id = ledger.entry_with(end_index - 1, files) + 1
        end_id = min(end_id, entry_id + entries_max)
        return ledger.plan_read(entry_id, end_id, size_max, files)

    def plan_run(self, index: int, end_index: int, limits: RunLimits) -> StoredRun | None:
        """As `Ledger.plan_run`; None too if the log does not hold the index."""
        if not self.first_index <= index < self.end_index:
            return None
        ledger = self._ledgers[bisect_right(self._first_indexes, index) - 1]
        return ledger.plan_run(index, end_index, limits, self._owner.files)

    def bring(self, search: Callable[[Disk], Coroutine[Any, Any, T]]) -> T:
        """The result of a search that reads its files: at once, or as `NotInMemory` where the caller of
        the step awaits it."""
        must_bring(self._owner.files, search)
        return at_once(search(self.here))

    @property
    def here(self) -> Here:
        """Its files, read at once."""
        return Here(self._owner.files)

    async def prepare(self, disk: Disk) -> None:
        """Bring what appending needs: it cannot wait."""
        if self._ledgers:
            await disk.look(lambda: self._ledgers[-1].mileposts(self._owner.files))

    def plan_heads(self, position: Position, flag: int, count_max: int) -> HeadsPlan:
        """The heads of the entry at a position and of those shortly before it, in its ledger, that
        have a flag."""
        ledger = self._ledger(position.ledger_id)
        if ledger is None or not 0 <= position.entry_id < ledger.entries:
            raise LedgerNotFound(f"{self.name} holds no entry {position}")
        files = self._owner.files
        first = max(position.entry_id - count_max, 0)
        _, flags = ledger.mileposts(files).columns(first, position.entry_id + 1)
        wanted = [entry_id for entry_id, one in enumerate(flags, first) if one & flag]
        if not flags[-1] & flag:
            wanted.append(position.entry_id)
        return ledger.plan_heads(wanted, files)

    def read(self, position: Position, **limits: int) -> list[Entry]:
        """Plan and perform in one: for tools and tests, where blocking is fine."""
        return self.plan_read(position, **limits).perform(self._owner.files)

    # -- trimming ----------------------------------------------------------------------------------

    def trimmable(self, before_index: int) -> list[Ledger]:
        """Ledgers that lie wholly before an index. The open one stays: it knows the end."""
        at = 0
        while at < len(self._ledgers) - 1 and self._ledgers[at].end_index <= before_index:
            at += 1
        return self._ledgers[:at]

    def trimmed(self, count: int) -> None:
        """The catalog has forgotten the first `count` ledgers; so does the log."""
        for ledger in self._ledgers[:count]:
            ledger.is_gone = True
        del self._ledgers[:count]
        del self._first_indexes[:count]


def _fits(block: Block, first_index: int, end: int) -> bool:
    """Can a ledger that begins with this index, and ends at this byte, number the block's entries?"""
    return (
        block.last_indexes[-1] - first_index <= RELATIVE_INDEX_MAX
        and end + len(block.data) <= OFFSET_MAX
    )
