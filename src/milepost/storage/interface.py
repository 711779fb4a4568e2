"""The interface of the storage: what a log, a store, a catalog and an engine offer, and promise.

The broker programs against these. Those for one machine are `ledgers/log.py`, `store.py`,
`catalog/sqlite_catalog.py` and `engine.py`; on a bucket it is `bucket/engine.py`, with the same store.

    Engine ──▶ Store ──▶ Log       one for each topic
          │         └──▶ Journal   one for all
          └──▶ Catalog             changed on a thread of its own

Everything is called on one loop. What may wait for the disk is awaited, or takes a `done` that is called on
the loop when the outcome is known: with None when the fact is on disk, else with the error.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from milepost.storage.catalog.catalog import Catalog, ChangeCatalog
from milepost.storage.ledgers.paging import Disk

if TYPE_CHECKING:
    from milepost.errors import PersistenceError
    from milepost.positions.ids import Position
    from milepost.positions.ranges import Range
    from milepost.storage.bucket.watched import WatchedObjects
    from milepost.storage.catalog.catalog import Snapshot, TopicRow
    from milepost.storage.files import Files
    from milepost.storage.ledgers.entry import Block, Entry, NewEntry
    from milepost.storage.ledgers.heads import HeadsPlan
    from milepost.storage.ledgers.ledger import Ledger, LedgerRow, ReadPlan
    from milepost.storage.ledgers.log import Located
    from milepost.storage.ledgers.loss import Loss
    from milepost.storage.ledgers.not_in_memory import NotInMemory
    from milepost.storage.ledgers.paging import Failure, LoopFiles
    from milepost.storage.ledgers.stored_run import RunLimits, StoredRun
    from milepost.storage.ledgers.stretch import Stretch
    from milepost.storage.recovery import RecoveryReport

__all__ = ["Catalog", "ChangeCatalog", "Disk", "Done", "Engine", "Journal", "Log", "Store"]

T = TypeVar("T")

Done = Callable[["PersistenceError | None"], None]


class Log(Protocol):
    """The entries of one topic. Indexes are dense, and one that a client could see is never given again.

    Looking up and reading raise `NotInMemory` where the answer is on disk only and the step must not wait;
    `Disk.look` brings it and asks again.
    """

    @property
    def name(self) -> str: ...
    @property
    def first_index(self) -> int: ...
    @property
    def end_index(self) -> int:
        """Behind the last durable index."""
        ...

    @property
    def next_index(self) -> int:
        """Behind the last index that is durable or on its way."""
        ...

    @property
    def ledgers(self) -> Sequence[Ledger]:
        """The durable ledgers, oldest first."""
        ...

    @property
    def ledger_ids(self) -> list[int]: ...
    @property
    def entry_count(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def last_timestamp_ms(self) -> int: ...
    def last_position(self) -> Position | None: ...
    def size_from(self, index: int) -> int: ...

    # -- appending -------------------------------------------------------------------------------
    def append(self, items: Sequence[NewEntry], now_ms: int, done: Done) -> Block:
        """Number the entries and journal them as one block: all become durable, or none."""
        ...

    def append_one(
        self, payload: bytes, count: int, now_ms: int, answered: Done, flags: int = 0
    ) -> Block:
        """Append one entry. `answered` has to let the log hear the answer before anything else."""
        ...

    def hear(self, error: PersistenceError | None) -> PersistenceError | None:
        """The journal's answer to what was appended first; what to make of it."""
        ...

    def roll(self, now_ms: int, done: Done) -> None:
        """Begin a new ledger."""
        ...

    def is_full(self, now_ms: int) -> bool: ...
    @property
    def damage(self) -> str | None:
        """Why nothing may be appended: acknowledged data could not be read back."""
        ...

    @property
    def loss(self) -> str | None:
        """Why nothing may be appended: acknowledged messages are gone, and no operator accepted it."""
        ...

    @property
    def refusal(self) -> str | None:
        """Why nothing may be appended, whatever the reason; None if it may."""
        ...

    @property
    def refused_through(self) -> int:
        """Every record up to this sequence that was not answered well is refused."""
        ...

    # -- looking up ------------------------------------------------------------------------------
    def locate(self, index: int) -> Located:
        """The entry that holds an index; `IndexNotFound` if there is none."""
        ...

    def at(self, position: Position) -> Located: ...
    def indexes_at(self, ledger_id: int, entry_id: int) -> tuple[int, int, int]: ...
    def index_from(self, position: Position) -> int:
        """The first index at or behind a position, whether or not an entry is there."""
        ...

    def index_at(self, time_ms: int) -> int: ...
    def entries_from(self, index: int, count_max: int) -> list[Located]: ...
    def stretch(self, index: int, count_max: int) -> Stretch | None: ...
    def ledger_with(self, index: int) -> Ledger:
        """The ledger that holds an index; nothing is read for it."""
        ...

    # -- reading ---------------------------------------------------------------------------------
    def newest(self, index: int, end_index: int, *, entries_max: int, size_max: int) -> list[Entry]:
        """Entries that are in memory because they came last; else none."""
        ...

    def entries_in_memory(self, ranges: Sequence[Range]) -> list[Entry]:
        """The entries that hold ranges which ascend and lie apart, as far as they need no reading; of one
        ledger."""
        ...

    def plan_reads(self, ranges: Sequence[Range], *, size_max: int) -> list[ReadPlan]:
        """Reads of all entries that hold such ranges, up to a size; of one ledger."""
        ...

    def plan_read(
        self, position: Position, *, entries_max: int = ..., size_max: int = ...
    ) -> ReadPlan:
        """What to read; `Engine.read` performs it."""
        ...

    def plan_read_from(
        self, index: int, end_index: int, *, entries_max: int, size_max: int
    ) -> ReadPlan: ...
    def plan_run(self, index: int, end_index: int, limits: RunLimits) -> StoredRun | None: ...
    def plan_heads(self, position: Position, flag: int, count_max: int) -> HeadsPlan: ...
    def bring(self, search: Callable[[Disk], Coroutine[Any, Any, T]]) -> T:
        """The result of a search that reads files: at once, or as `NotInMemory`."""
        ...

    async def prepare(self, disk: Disk) -> None:
        """Bring what appending needs: it cannot wait."""
        ...

    # -- trimming --------------------------------------------------------------------------------
    def trimmable(self, before_index: int) -> list[Ledger]:
        """Ledgers that lie wholly before an index; never the open one."""
        ...

    def trimmed(self, count: int) -> None: ...


class Journal(Protocol):
    """Every durable fact goes here first; one sync for all that wait. Facts keep the order they came in."""

    @property
    def last_sequence(self) -> int:
        """The number of the last record that was submitted."""
        ...

    @property
    def is_failing(self) -> bool: ...
    @property
    def commits(self) -> int: ...
    @property
    def commits_on_loop(self) -> int:
        """Commits that the loop made by itself, because the disk was quick."""
        ...


class Store(Protocol):
    """Logs and states of one data directory. A state is durable by its snapshot and the facts behind it."""

    @property
    def journal(self) -> Journal: ...
    @property
    def files(self) -> Files: ...
    def log(self, topic: TopicRow, rows: Sequence[LedgerRow] | None = None) -> Log:
        """The log of a topic; always the same object while the store is open."""
        ...

    def is_known_short(self, ledger: Ledger) -> bool: ...
    def lost(self, topic_id: int, loss: Loss) -> None:
        """The catalog remembers a loss that was found while the broker ran."""
        ...

    def log_to_delete(self, topic: TopicRow, rows: Sequence[LedgerRow]) -> Log:
        """The log of a topic that is to be deleted, though it may not be one that can be opened."""
        ...

    def open_state(
        self, state_id: int, take_snapshot: Callable[[], bytes], stored: Snapshot | None = None
    ) -> Snapshot:
        """What is known of a state. From now on `take_snapshot` is asked for it by checkpoints."""
        ...

    def fact(self, state_id: int, fact: bytes, done: Done) -> int:
        """Journal what happened to an open state. The first fact behind a refused one takes the whole
        state with it."""
        ...

    def gather(self, state_id: int, fact: bytes, done: Done) -> None:
        """The same of a fact that may share a record with its neighbours; `submit_gathered` must follow."""
        ...

    def submit_gathered(self) -> None: ...
    def fact_to_come(self, state_id: int, fact: bytes, done: Done) -> int:
        """The same of a fact that becomes true of its state when `done` is called, and not before."""
        ...

    def keep_state(self, state_id: int, done: Done) -> int:
        """Journal all of an open state as it is now."""
        ...

    def together(self) -> AbstractContextManager[None]:
        """What is given inside becomes one record: after a crash all of it is true, or nothing."""
        ...

    def barrier(self, done: Done) -> None:
        """`done` is called when everything submitted so far is on disk."""
        ...

    def when_unplanned(self, step: Callable[[], None]) -> None:
        """Take a step, but not while a checkpoint is being planned."""
        ...

    def is_unfounded(self, state_id: int) -> bool:
        """May a state hold what the journal refused, in memory and nowhere else?"""
        ...

    def mark_dirty(self, state_id: int) -> None:
        """The next checkpoint takes a snapshot of the state."""
        ...

    def close_state(self, state_id: int) -> None: ...
    def put_back_state(self, state_id: int, found: Snapshot) -> None:
        """Its owner could not read it: it stays as it was found."""
        ...

    def forget_state(self, state_id: int) -> None:
        """The catalog has deleted it."""
        ...

    @property
    def checkpoints(self) -> int:
        """How many were recorded. What was read from the catalog before one may be old."""
        ...

    @property
    def unstored_size(self) -> int:
        """Bytes in memory that wait for a checkpoint."""
        ...

    @property
    def losses(self) -> Mapping[int, Sequence[Loss]]:
        """By topic: what is gone of its ledgers, and no operator has accepted yet."""
        ...

    def damages(self) -> dict[int, str]: ...
    @property
    def damaged_states(self) -> Mapping[int, str]:
        """States that cannot be opened because the journal has lost a fact of theirs, and which."""
        ...

    def accept_damage(self, stored: Mapping[int, Snapshot]) -> None:
        """Let these go on from where they were before that; durable with the next checkpoint."""
        ...

    @property
    def report(self) -> RecoveryReport:
        """What the start found in the journal."""
        ...


class Engine(Disk, Protocol):
    """A store with its threads. What it returns from is durable, also if the caller is cancelled."""

    @property
    def store(self) -> Store: ...
    @property
    def catalog(self) -> ChangeCatalog:
        """Runs a change in a transaction of the catalog."""
        ...

    def before_commit(self, work: Callable[[], None]) -> None:
        """Call `work`, which submits something, at the end of this turn of the loop."""
        ...

    async def flush(self) -> None:
        """Return when everything submitted so far is durable."""
        ...

    async def read(self, plan: ReadPlan) -> list[Entry]:
        """Perform a read; at once if the bytes are in memory."""
        ...

    @property
    def loop_files(self) -> LoopFiles:
        """The files as the loop sees them: what is not in memory is `NotInMemory` while it is strict."""
        ...

    async def bring_each(self, missing: Sequence[NotInMemory]) -> list[Failure | None]:
        """Bring what several steps lacked, together; of each step why that cannot be read, or None."""
        ...

    async def trim(self, log: Log, before_index: int) -> int:
        """Drop ledgers that lie wholly before an index; returns how many."""
        ...

    async def delete_topic(
        self,
        topic: TopicRow,
        log: Log,
        beside: Callable[[Catalog], None] = lambda catalog: None,
        then: Callable[[], None] = lambda: None,
    ) -> None:
        """Delete a topic with its ledgers and states. `beside` changes the catalog with it; `then` is called
        when that is durable, also if the caller is gone."""
        ...

    async def delete_topics(
        self,
        topics: Sequence[tuple[TopicRow, Log]],
        beside: Callable[[Catalog], None] = lambda catalog: None,
        then: Callable[[], None] = lambda: None,
    ) -> None:
        """The same of several: all are gone or none, whatever ends this process."""
        ...

    async def accept_loss(self, topic_id: int) -> list[Loss]:
        """Let a topic go on without what it has lost; what that is."""
        ...

    async def checkpoint(self) -> None:
        """Move what the journal holds into ledgers and catalog."""
        ...

    @property
    def checkpoint_failure(self) -> str | None: ...
    @property
    def checkpoint_failures(self) -> int: ...
    @property
    def failure(self) -> str | None:
        """Why the storage cannot go on in this process; None while it can."""
        ...

    def watch(
        self,
        on_error: Callable[[str, BaseException], None] | None = None,
        on_fatal: Callable[[str], None] | None = None,
        on_checkpoint: Callable[[], None] | None = None,
        on_lapse: Callable[[], None] | None = None,
    ) -> None:
        """Tell of errors that no code foresaw, of each checkpoint (memory held for it is free), and when
        clients may not be served any more."""
        ...

    @property
    def may_serve(self) -> bool:
        """May clients be served? Not while another broker may have taken the storage over."""
        ...

    async def prove_claim(self) -> None:
        """Return if no other broker has taken the storage over by now; `Fenced` if one has."""
        ...

    @property
    def idle_s(self) -> float:
        """Seconds since the last write that keeps the right to serve; 0 where none is needed."""
        ...

    @property
    def epoch(self) -> int:
        """The number of the claim on a bucket or shard, which grows with each owner; 0 without one."""
        ...

    @property
    def bucket(self) -> WatchedObjects | None:
        """How the bucket does, if the storage is on one."""
        ...

    def answer_within(self, around: Callable[[Callable[[], None]], None]) -> None:
        """Let `around` be called with what answers a commit; it does that, and more if it likes."""
        ...

    async def close(self) -> None: ...
