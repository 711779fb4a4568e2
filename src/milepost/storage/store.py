"""One data directory: its journal, logs, states and checkpoints.

It is plain steps on the broker's loop; whatever blocks is a job to be performed elsewhere, then told
back (`engine.py` does that for real, tests call `pump` and `checkpoint`). A *state* is anything
durable that is not entries: the broker gives facts about it, as bytes, and a snapshot when asked. The
store knows neither cursors nor sequence ids.

    store = Store.open(RealFiles("data"), SqliteCatalog(Path("data/catalog.sqlite")), SystemClock())
    topic = store.catalog.create_topic("persistent://public/default/a", {})
    log = store.log(topic)
    log.append([NewEntry(b"hello")], now_ms, done=lambda error: ...)
    store.pump()
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import cast

from milepost.clock import Clock
from milepost.errors import CorruptData, PersistenceError
from milepost.storage.catalog.catalog import Catalog, Snapshot, TopicRow
from milepost.storage.checkpoint import Checkpoint
from milepost.storage.files import Files
from milepost.storage.journal.journal import FOLDER as JOURNAL_FOLDER
from milepost.storage.journal.journal import Journal
from milepost.storage.journal.queue import Done, JournalQueue
from milepost.storage.journal.records import FACT, FACTS, STATE, STEP, Part, encode_parts
from milepost.storage.journal.runway import AHEAD_DEFAULT, PIECE_SIZE
from milepost.storage.ledgers.ledger import FOLDER as LEDGER_FOLDER
from milepost.storage.ledgers.ledger import Flush, Ledger, LedgerRow, ledger_path, mileposts_path
from milepost.storage.ledgers.log import Log, RollPolicy
from milepost.storage.ledgers.loss import Loss, Shortage
from milepost.storage.ledgers.tail import TAIL_SIZE_DEFAULT, TailCache
from milepost.storage.recovery import Recovered, RecoveryReport, recover

# A restart replays at most about this much; a checkpoint is due when the journal has grown by it.
JOURNAL_SIZE_DEFAULT = 64 * 1024 * 1024

TakeSnapshot = Callable[[], bytes]

# Skips the argument handling of a named tuple's constructor, which is half of its time.
_new_part = cast("Callable[[type[Part], tuple[int, int, bytes]], Part]", tuple.__new__)

logger = logging.getLogger(__name__)


class Store:
    """An open data directory. One owner, one loop."""

    def __init__(
        self,
        files: Files,
        catalog: Catalog,
        clock: Clock,
        *,
        roll_policy: RollPolicy = RollPolicy(),  # noqa: B008
        journal_size_max: int = JOURNAL_SIZE_DEFAULT,
        tail_size_max: int = TAIL_SIZE_DEFAULT,
        journal_ahead: int = AHEAD_DEFAULT,
        journal_piece: int = PIECE_SIZE,
        begin_journal: Callable[[Recovered], JournalQueue] | None = None,
        salvage: bool = False,
        first_ledger_id: int = 1,
    ) -> None:
        """Open the directory and recover; blocks until everything promised is there again.

        `begin_journal` makes a journal that is not in files of the directory. `first_ledger_id` is the
        lowest number that a new ledger may have.
        """
        self.files = files
        self.catalog = catalog
        self.clock = clock
        self.roll_policy = roll_policy
        self.journal_size_max = journal_size_max
        self._incarnation = catalog.meta().incarnation
        self._tail = TailCache(tail_size_max)
        self._logs: dict[int, Log] = {}
        # Topics whose log could not be opened when the journal was replayed, and why.
        self._damaged_topics: dict[int, str] = {}
        self._dirty_ledgers: dict[int, Ledger] = {}
        # States: who can snapshot them, which changed since the last checkpoint, and those that
        # changed and were closed before it.
        self._open_states: dict[int, TakeSnapshot] = {}
        self._dirty_states: set[int] = set()
        self._parked: dict[int, Snapshot] = {}
        # What damaged states were before the fact that is lost, where the journal has more than the catalog.
        self._before_damage: dict[int, Snapshot] = {}
        # States whose snapshot a checkpoint is storing just now: the catalog has an older one.
        self._storing: set[int] = set()
        # States that may hold facts which the journal refused, and the last refusal seen.
        self._unfounded: set[int] = set()
        self._refused_through = -1
        # Facts that will be one record. Invariant: nothing is submitted before they are.
        self._gathered: list[tuple[int, bytes, Done]] = []
        # What is to become one record, and who waits for it; None: each part is its own.
        self._together: list[tuple[Part, Done]] | None = None
        # Ledgers that the last checkpoint could not write.
        self._held: set[int] = set()
        self._checkpointing = False
        # The journal is being rolled for a checkpoint; and steps that wait until that is planned.
        self._is_planning = False
        self._after_planning: list[Callable[[], None]] = []
        self._rolled_size = 0  # what the checkpoint under way is storing
        self.checkpoints = 0
        """How many were recorded since the directory was opened."""

        files.make_folder(JOURNAL_FOLDER)
        files.make_folder(LEDGER_FOLDER)
        files.sync_dir("")
        self.losses: dict[int, list[Loss]] = catalog.losses()
        """By topic: what is gone of its ledgers, and no operator has accepted yet."""
        self._find_shortages()
        found = recover(files, catalog, self._recovered_log, salvage=salvage)
        self.report: RecoveryReport = found.report
        self._next_ledger_id = max(found.next_ledger_id, first_ledger_id)
        self.damaged_states = found.damaged_states
        self._damaged_topics = found.damaged_topics
        self._adopt_facts(found)
        self._remember_losses(found)
        self.journal: JournalQueue
        if begin_journal is not None:
            self.journal = begin_journal(found)
        else:
            self.journal = Journal(
                files,
                self._incarnation,
                previous_file=found.previous_file,
                previous_size=found.previous_size,
                file_number=found.file_number,
                next_sequence=found.next_sequence,
                carried=found.carried,
                ahead=journal_ahead,
                piece=journal_piece,
            )
        self.journal.size_submitted = found.report.size_bytes
        # From now on the loss of this file would not go unnoticed.
        catalog.set_meta(
            journal_first=found.journal_first or self.journal.number,
            journal_last=self.journal.number,
            next_ledger_id=self._next_ledger_id,
            next_sequence=max(catalog.meta().next_sequence, 1),
        )

    def _adopt_facts(self, found: Recovered) -> None:
        for state_id in {*found.snapshots, *found.facts}:
            if state_id in found.snapshots:
                before = Snapshot(*found.snapshots[state_id], [])
            else:
                before = self.catalog.snapshot(state_id)
            facts = found.facts.get(state_id, [])
            sequence = facts[-1][0] if facts else before.sequence
            adopted = Snapshot(sequence, before.data, [*before.facts, *(fact for _, fact in facts)])
            if state_id in self.damaged_states:
                self._before_damage[state_id] = adopted
            else:
                self._parked[state_id] = adopted

    def _recovered_log(self, topic_id: int) -> Log | None:
        topic = self.catalog.topic_by_id(topic_id)
        return None if topic is None else self.log(topic)

    # -- logs --------------------------------------------------------------------------------------

    def log(self, topic: TopicRow, rows: Sequence[LedgerRow] | None = None) -> Log:
        """The topic's log, opened on first use (`rows`: its ledgers, if they were fetched before)."""
        if topic.topic_id not in self._logs:
            if topic.topic_id in self._damaged_topics:
                # Opened without what the journal has of it, it would give the same numbers again.
                raise CorruptData(f"{topic.name}: {self._damaged_topics[topic.topic_id]}")
            if rows is None:
                rows = self.catalog.ledgers(topic.topic_id)
            log = Log(topic.topic_id, topic.name, [Ledger(row) for row in rows], self)
            self._logs[topic.topic_id] = log
            self._tell_losses(log)
        return self._logs[topic.topic_id]

    # -- losses ------------------------------------------------------------------------------------

    @property
    def _keeps_journal(self) -> bool:
        """Is something damaged of which the journal holds the intact rest?"""
        return bool(self.damaged_states or self._damaged_topics) or any(
            log.damage for log in self._logs.values()
        )

    def _remember_losses(self, found: Recovered) -> None:
        """Tell the catalog what the journal has lost: the next checkpoint makes its files needless."""
        now_ms = self.clock.wall_ms()
        for topic_id, losses in found.losses.items():
            known = {(one.ledger_id, one.first_index) for one in self.losses.get(topic_id, ())}
            for loss in losses:
                if (loss.ledger_id, loss.first_index) not in known:
                    self.catalog.put_loss(topic_id, loss._replace(found_ms=now_ms))
        if found.losses:
            self.losses = self.catalog.losses()
        for topic_id in found.losses:
            self._tell_losses(self._logs[topic_id])

    def _find_shortages(self) -> None:
        """Remember which ledgers have fewer bytes than were synced to them."""
        there = set(self.files.names(LEDGER_FOLDER))
        for row in list(self.catalog.all_ledgers()):
            path = ledger_path(row.ledger_id)
            is_there = path.removeprefix(f"{LEDGER_FOLDER}/") in there
            try:
                size = self.files.size(path) if is_there else 0
            except OSError as error:
                logger.error("%s: its size cannot be told: %s", path, error)
                continue
            if size >= row.size_bytes or row.ledger_id in self._short_ledgers(row.topic_id):
                continue
            reason = str(Shortage(path, size, row.size_bytes))
            now_ms = self.clock.wall_ms()
            try:
                loss = Ledger(row).loss(size, reason, now_ms, self.files)
            except (CorruptData, OSError) as error:  # it cannot be told from where on
                reason = f"{reason}; {error}"
                loss = Loss(row.ledger_id, row.first_index, row.end_index, reason, now_ms)
            self.catalog.put_loss(row.topic_id, loss)
            self.losses = self.catalog.losses()

    def _short_ledgers(self, topic_id: int) -> set[int]:
        losses = self.losses.get(topic_id, ())
        return {loss.ledger_id for loss in losses if not loss.in_journal}

    def _tell_losses(self, log: Log) -> None:
        """Let a log know what it has lost; the next checkpoint fills the places up."""
        losses = self.losses.get(log.topic_id)
        if not losses:
            return
        log.loss = "; ".join(map(str, losses))
        logger.error("%s takes no messages until the loss is accepted: %s", log.name, log.loss)
        short = self._short_ledgers(log.topic_id)
        for ledger in log.ledgers:
            if ledger.ledger_id in short:
                self._dirty_ledgers[ledger.ledger_id] = ledger

    def is_known_short(self, ledger: Ledger) -> bool:
        """Is it known already that the ledger has lost something, or does that not matter any more?"""
        return ledger.is_gone or ledger.ledger_id in self._short_ledgers(ledger.topic_id)

    def lost(self, topic_id: int, loss: Loss) -> None:
        """The catalog remembers a loss that was found while the broker ran."""
        self.losses.setdefault(topic_id, []).append(loss)
        if (log := self._logs.get(topic_id)) is not None:
            self._tell_losses(log)

    def losses_accepted(self, topic_id: int) -> None:
        """The catalog has forgotten what the topic lost."""
        self.losses.pop(topic_id, None)
        if (log := self._logs.get(topic_id)) is not None:
            log.accept_loss()

    def accept_damage(self, stored: Mapping[int, Snapshot]) -> None:
        """Let damaged states go on from where they were before the fact that is lost. The next checkpoint
        makes that durable. `stored` is what the catalog has of them."""
        for state_id, snapshot in stored.items():
            before = self._before_damage.pop(state_id, snapshot)
            # Everything that the journal has of it up to now is given up.
            self._parked[state_id] = before._replace(sequence=self.journal.last_sequence)
            del self.damaged_states[state_id]

    @property
    def unfilled(self) -> dict[int, str]:
        """By topic: ledgers with a loss whose files are not filled up yet, and why not."""
        return {
            ledger.topic_id: self._logs[ledger.topic_id].stall or "a checkpoint is due"
            for ledger in self._dirty_ledgers.values()
            if ledger.ledger_id in self._short_ledgers(ledger.topic_id)
        }

    def damages(self) -> dict[int, str]:
        """By topic: why it takes no messages. Of topics that are not open, what they have lost."""
        found = {topic_id: "; ".join(map(str, one)) for topic_id, one in self.losses.items()}
        found.update(self._damaged_topics)
        for log in self._logs.values():
            if log.refusal is not None:
                found[log.topic_id] = log.refusal
        return found

    # -- trimming and deleting ---------------------------------------------------------------------

    def trim(self, log: Log, before_index: int) -> int:
        """Drop ledgers that lie wholly before an index; returns how many. Blocks."""
        ledgers = log.trimmable(before_index)
        if ledgers:
            ids = [ledger.ledger_id for ledger in ledgers]
            self.catalog.delete_ledgers(ids, self.journal.last_sequence)
            self.trimmed(log, ledgers)
            self.delete_files(ledgers)
        return len(ledgers)

    def trimmed(self, log: Log, ledgers: Sequence[Ledger]) -> None:
        """The catalog has forgotten these ledgers, the log's first."""
        log.trimmed(len(ledgers))
        for ledger in ledgers:
            self._dirty_ledgers.pop(ledger.ledger_id, None)

    def log_to_delete(self, topic: TopicRow, rows: Sequence[LedgerRow]) -> Log:
        """The topic's log, to be deleted: what cannot be opened can still go."""
        log = self._logs.get(topic.topic_id)
        return log or Log(topic.topic_id, topic.name, [Ledger(row) for row in rows], self)

    def delete(self, topic: TopicRow) -> None:
        """Delete a topic with its ledgers and states, damaged or not. Blocks."""
        log = self.log_to_delete(topic, self.catalog.ledgers(topic.topic_id))
        states = [state.state_id for state in self.catalog.states(topic.topic_id)]
        self.catalog.delete_topic(topic.topic_id, self.journal.last_sequence, log.ledger_ids)
        self.deleted(log, states)
        self.delete_files(log.ledgers)

    def deleted(self, log: Log, state_ids: Sequence[int]) -> None:
        """The catalog has forgotten the topic and these states of it."""
        self._logs.pop(log.topic_id, None)
        self.losses.pop(log.topic_id, None)
        self._damaged_topics.pop(log.topic_id, None)
        log.is_deleted = True
        for ledger in log.ledgers:
            ledger.is_gone = True
            self._dirty_ledgers.pop(ledger.ledger_id, None)
        for state_id in state_ids:
            self.forget_state(state_id)

    def delete_files(self, ledgers: Sequence[Ledger]) -> None:
        """Delete files whose catalog rows are gone; a crash before this leaves files that are never read."""
        for ledger in ledgers:
            self.files.delete(ledger_path(ledger.ledger_id))
            self.files.delete(mileposts_path(ledger.ledger_id))

    def delete_state(self, state_id: int) -> None:
        """Delete a state for good. Blocks on the catalog."""
        self.catalog.delete_state(state_id, self.journal.last_sequence)
        self.forget_state(state_id)

    def forget_state(self, state_id: int) -> None:
        """The catalog has forgotten it."""
        self.submit_gathered()
        self.damaged_states.pop(state_id, None)
        self._before_damage.pop(state_id, None)
        self._open_states.pop(state_id, None)
        self._unfounded.discard(state_id)
        self._dirty_states.discard(state_id)
        self._parked.pop(state_id, None)

    # -- what logs need (LogOwner) -----------------------------------------------------------------

    def submit(self, kind: int, owner: int, body: Sequence[bytes], done: Done) -> int:
        if self._gathered:
            self.submit_gathered()
        if self._together is not None:
            whole = body[0] if len(body) == 1 else b"".join(body)
            self._together.append((_new_part(Part, (kind, owner, whole)), done))
            return self.journal.last_sequence + 1
        return self.journal.submit(kind, owner, body, done)

    @property
    def refused_through(self) -> int:
        return self.journal.refused_through

    def next_ledger_id(self) -> int:
        ledger_id = self._next_ledger_id
        self._next_ledger_id += 1
        return ledger_id

    def touched(self, ledger: Ledger) -> None:
        if ledger.topic_id in self._logs:  # else the topic was deleted while this was on its way
            self._dirty_ledgers[ledger.ledger_id] = ledger

    # -- states ------------------------------------------------------------------------------------

    def open_state(
        self, state_id: int, take_snapshot: TakeSnapshot, stored: Snapshot | None = None
    ) -> Snapshot:
        """What is known of a state: a snapshot, and facts to apply to it, in order.

        From now on `take_snapshot` is asked for the state whenever a checkpoint needs it. `stored`
        is what the catalog has, if it was fetched since the last checkpoint (`checkpoints`).
        """
        if state_id in self.damaged_states:
            raise CorruptData(self.damaged_states[state_id])
        assert state_id not in self._open_states, f"state {state_id} is open"
        snapshot = self._parked.pop(state_id, None)
        if snapshot is not None:
            self._dirty_states.add(state_id)
        else:
            snapshot = stored or self.catalog.snapshot(state_id)
        self._open_states[state_id] = take_snapshot
        return snapshot

    def fact(self, state_id: int, fact: bytes, done: Done) -> int:
        """Something durable happened to an open state: `done` is called when it is on disk.

        The state has changed already, also when the journal then refuses the fact. So the first
        fact behind a refusal takes the whole state with it: what recovery finds is a state that was.
        """
        if self._takes_whole_state(state_id):
            return self.submit(STATE, state_id, (self._open_states[state_id](),), done)
        return self.submit(FACT, state_id, (fact,), done)

    def gather(self, state_id: int, fact: bytes, done: Done) -> None:
        """The same of a fact that may share a record with its neighbours. The caller sees to it that
        `submit_gathered` is called soon; whatever else is submitted comes behind it."""
        assert state_id in self._open_states, f"state {state_id} is not open"
        self._gathered.append((state_id, fact, done))

    def submit_gathered(self) -> None:
        """Journal the facts that were gathered, if there are any, as one record."""
        if not self._gathered:
            return
        gathered, self._gathered = self._gathered, []
        if len(gathered) == 1:
            self.fact(*gathered[0])
            return
        parts: list[Part] = []
        whole: set[int] = set()  # the snapshot of a state has all its facts
        known = -1  # most are of one state
        for state_id, fact, _ in gathered:
            if state_id != known:
                known = state_id
                if state_id not in whole and self._takes_whole_state(state_id):
                    whole.add(state_id)
                    parts.append(Part(STATE, state_id, self._open_states[state_id]()))
            if state_id not in whole:
                parts.append(_new_part(Part, (FACT, state_id, fact)))
        heard = partial(_tell_all, [done for _, _, done in gathered])
        self.journal.submit(FACTS, 0, (encode_parts(parts),), heard)

    def fact_to_come(self, state_id: int, fact: bytes, done: Done) -> int:
        """A fact that becomes true of its state when `done` is called, and not before.

        So behind a refusal it stands behind the whole state, in place of being part of it. See
        `when_unplanned` for what else such a fact has to heed.
        """
        if self._takes_whole_state(state_id):
            self.submit(STATE, state_id, (self._open_states[state_id](),), _unheard)
        return self.submit(FACT, state_id, (fact,), done)

    def keep_state(self, state_id: int, done: Done) -> int:
        """Journal all of an open state as it is now: `done` is called when it is on disk."""
        self._takes_whole_state(state_id)
        return self.submit(STATE, state_id, (self._open_states[state_id](),), done)

    def _takes_whole_state(self, state_id: int) -> bool:
        """A state is about to change: must all of it be journaled, because the journal refused some?"""
        assert state_id in self._open_states, f"state {state_id} is not open"
        self._dirty_states.add(state_id)
        if self.journal.refused_through != self._refused_through:
            self._note_refusals()
        if state_id not in self._unfounded:
            return False
        self._unfounded.discard(state_id)
        return True

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is given inside becomes one record: after a crash all of it is true, or nothing.

        Facts of any state, and entries of any log. Nothing may suspend inside. What happened to the
        states has happened, also if an error ends the block: so it is submitted all the same.
        """
        assert self._together is None, "one at a time"
        self.submit_gathered()
        waiting: list[tuple[Part, Done]] = []
        self._together = waiting
        try:
            yield
        finally:
            self._together = None
            if waiting:

                def durable(error: PersistenceError | None) -> None:
                    for _, done in waiting:
                        done(error)

                parts = [part for part, _ in waiting]
                is_facts = {kind for kind, _, _ in parts} <= {FACT, STATE}
                self.journal.submit(FACTS if is_facts else STEP, 0, (encode_parts(parts),), durable)

    def when_unplanned(self, step: Callable[[], None]) -> None:
        """Take a step whose facts change their states when they are durable, not when they are given.

        A checkpoint would take a snapshot without them and count them as part of it: so while one is
        being planned the step waits. One that was submitted before is answered before the plan.
        """
        if self._is_planning:
            self._after_planning.append(step)
        else:
            step()

    def is_unfounded(self, state_id: int) -> bool:
        """May a state hold what the journal refused, in memory and nowhere else?"""
        self._note_refusals()
        return state_id in self._unfounded

    def _note_refusals(self) -> None:
        if self.journal.refused_through != self._refused_through:
            self._refused_through = self.journal.refused_through
            self._unfounded.update(self._open_states, self._parked)

    def barrier(self, done: Done) -> None:
        """`done` is called when everything submitted so far is on disk."""
        self.submit_gathered()
        self.journal.barrier(done)

    def mark_dirty(self, state_id: int) -> None:
        """An open state changed in a way that its own facts do not tell; snapshot it next time."""
        assert state_id in self._open_states, f"state {state_id} is not open"
        self._dirty_states.add(state_id)

    def close_state(self, state_id: int) -> None:
        """Its owner will not change it for now; the next checkpoint stores what it was."""
        self.submit_gathered()
        self._note_refusals()
        take_snapshot = self._open_states.pop(state_id)
        if state_id in self._dirty_states or state_id in self._storing:
            self._dirty_states.discard(state_id)
            self._parked[state_id] = Snapshot(self.journal.last_sequence, take_snapshot(), [])

    def put_back_state(self, state_id: int, found: Snapshot) -> None:
        """Its owner could not read it: it is as it was found, and no checkpoint asks for it."""
        del self._open_states[state_id]
        if state_id in self._dirty_states:
            self._dirty_states.discard(state_id)
            self._parked[state_id] = found

    # -- checkpoints -------------------------------------------------------------------------------

    @property
    def checkpoint_is_due(self) -> bool:
        return not self._checkpointing and self.journal.size_submitted >= self.journal_size_max

    @property
    def is_dirty(self) -> bool:
        """Would a checkpoint write anything?"""
        return bool(self._dirty_ledgers or self._dirty_states or self._parked)

    def begin_checkpoint(self, then: Callable[[Checkpoint | PersistenceError], None]) -> None:
        """Roll the journal; `then` gets the plan, or the reason why there is none."""
        assert not self._checkpointing
        self.submit_gathered()
        self._checkpointing = self._is_planning = True
        self._rolled_size = self.journal.size_submitted

        def rolled(error: PersistenceError | None) -> None:
            plan: Checkpoint | PersistenceError
            try:
                plan = error or self._plan(cut + 1)
            except Exception as failure:  # a state that cannot give its snapshot, say
                plan = PersistenceError(f"no checkpoint could be planned: {failure}")
                plan.__cause__ = failure
            self._is_planning = False
            if isinstance(plan, PersistenceError):
                self._end_checkpoint(failed=True)
            then(plan)
            steps, self._after_planning = self._after_planning, []
            for step in steps:
                step()

        cut = self.journal.roll(rolled)

    def _plan(self, next_sequence: int) -> Checkpoint:
        self.submit_gathered()  # they are part of the snapshots
        flushes: list[tuple[Ledger, Flush]] = []
        held_ledgers: dict[int, str] = {}
        held_states: dict[int, str] = {}
        first_held: dict[int, int] = {}
        for ledger in sorted(self._dirty_ledgers.values(), key=lambda one: one.ledger_id):
            if ledger.topic_id in first_held:  # see `hold_followers`
                before = first_held[ledger.topic_id]
                held_ledgers[ledger.ledger_id] = f"ledger {before} before it was not written"
                continue
            fills = ledger.ledger_id in self._short_ledgers(ledger.topic_id)
            try:
                flushes.append((ledger, ledger.plan_flush(self._incarnation, fills=fills)))
            except Exception as failure:  # it costs its own topic, and no other
                held_ledgers[ledger.ledger_id] = f"{type(failure).__name__}: {failure}"
                first_held[ledger.topic_id] = ledger.ledger_id
        snapshots = dict(self._parked)
        for state_id in self._dirty_states:
            # Facts of this state that are still on their way are part of the snapshot; their
            # sequences tell recovery to skip them.
            try:
                data = self._open_states[state_id]()
            except Exception as failure:
                logger.exception("state %d gives no snapshot", state_id)
                held_states[state_id] = f"{type(failure).__name__}: {failure}"
            else:
                snapshots[state_id] = Snapshot(self.journal.last_sequence, data, [])
        self._dirty_states = set(held_states)
        self._storing = set(snapshots)
        if self._keeps_journal:
            meta = self.catalog.meta()
            journal_first, next_sequence = meta.journal_first, meta.next_sequence
        else:
            journal_first = self.journal.rolled_to
        return Checkpoint(
            flushes,
            snapshots,
            journal_first,
            self.journal.rolled_to,
            self._next_ledger_id,
            next_sequence,
            self.clock.wall_ms(),
            held_ledgers,
            held_states,
            {},
        )

    def finish_checkpoint(self, checkpoint: Checkpoint, error: BaseException | None) -> None:
        """The checkpoint is recorded, or it failed and everything is as dirty as before."""
        self._end_checkpoint(failed=error is not None)
        self._storing = set()
        if error is not None:
            for state_id, snapshot in checkpoint.snapshots.items():
                if state_id in self._open_states:
                    self._dirty_states.add(state_id)
                else:
                    self._parked.setdefault(state_id, snapshot)
            return
        self.checkpoints += 1
        for state_id, snapshot in checkpoint.snapshots.items():
            if self._parked.get(state_id) is snapshot:
                del self._parked[state_id]
        for ledger, flush in checkpoint.flushes:
            ledger_id = ledger.ledger_id
            if self._dirty_ledgers.get(ledger_id) is not ledger:
                continue  # trimmed or deleted meanwhile
            if ledger_id in checkpoint.losses:
                self.losses.setdefault(ledger.topic_id, []).append(checkpoint.losses[ledger_id])
                self._tell_losses(self._logs[ledger.topic_id])
                continue
            if ledger_id in checkpoint.held_ledgers:
                continue
            try:
                ledger.flushed(flush, self.files)
                self._tail.keep(ledger, [len(block) for block in flush.blocks])
            except Exception as failure:
                if ledger.stored is not flush.row:
                    raise  # it would write again from where the catalog no longer expects it
                checkpoint.held_ledgers[ledger_id] = f"{type(failure).__name__}: {failure}"
                continue
            if not ledger.is_dirty:
                del self._dirty_ledgers[ledger_id]
        self._tell_stalls(checkpoint.held_ledgers)

    def _tell_stalls(self, held: dict[int, str]) -> None:
        """A topic takes messages as long as each of its ledgers can be written."""
        # Twice in a row: one error may pass, and until then the journal has it all.
        stalls = {
            self._dirty_ledgers[ledger_id].topic_id: reason
            for ledger_id, reason in held.items()
            if ledger_id in self._dirty_ledgers and ledger_id in self._held
        }
        self._held = set(held)
        for log in self._logs.values():
            stall = stalls.get(log.topic_id)
            if stall == log.stall:
                continue
            if (log.stall is None) != (stall is None):
                if stall is not None:
                    logger.error("%s takes no messages for now: %s", log.name, stall)
                else:
                    logger.warning("%s takes messages again", log.name)
            log.stall = stall

    def _end_checkpoint(self, *, failed: bool) -> None:
        self._checkpointing = False
        if failed:
            self.journal.size_submitted += self._rolled_size
        self._rolled_size = 0

    @property
    def unstored_size(self) -> int:
        """Bytes in memory that no checkpoint has stored yet, nearly: what a restart would replay."""
        return max(self.journal.size_submitted, 0) + self._rolled_size

    # -- without threads ---------------------------------------------------------------------------

    def pump(self) -> None:
        """Make everything submitted durable, here and now."""
        self.submit_gathered()
        self.journal.pump()

    def checkpoint(self) -> None:
        """A whole checkpoint, here and now."""
        planned: list[Checkpoint | PersistenceError] = []
        self.begin_checkpoint(planned.append)
        self.pump()
        (plan,) = planned
        if isinstance(plan, PersistenceError):
            raise plan
        try:
            with self.catalog.transaction():
                pass  # before a file is touched: is the outcome of the last one certain?
            plan.flush(self.files)
            plan.record(self.catalog)
        except Exception as error:
            self.finish_checkpoint(plan, error)
            raise
        self.finish_checkpoint(plan, None)
        plan.drop_journal(self.files)

    def close(self) -> None:
        """Fold everything in, so that the next start has nothing to replay."""
        self.pump()
        if self.is_dirty:
            self.checkpoint()
        self.journal.close()
        self.catalog.close()


def _tell_all(dones: Sequence[Done], error: PersistenceError | None) -> None:
    """Tell those who share a record; what breaks down for one is no matter of the others."""
    raised: Exception | None = None
    for done in dones:
        try:
            done(error)
        except Exception as failure:
            raised = raised or failure
    if raised is not None:
        raise raised


def _unheard(error: PersistenceError | None) -> None:
    """The record behind it gets the same answer."""
