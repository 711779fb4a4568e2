"""The start after a crash: replays the journal, cuts a torn tail.

Catalog and ledger files are right up to the last checkpoint; the journal from `journal_first` on has
everything since. Replaying it is idempotent: a record that a checkpoint already folded in is skipped
by its entry id or its sequence, so a crash in the middle of a checkpoint, or of a recovery, costs
nothing. Recovery writes nothing itself.

What cannot be read is either a torn tail, which was not answered and is cut, or damage. Damage
is never guessed away: its topic takes no messages, or its state is not opened, with a reason, and everyone
else is served. Entries whose numbers can be told (salvage.py) are a loss that an operator can accept, and
those behind them are there. A record that can be read and not be applied, whatever the error, is the damage
of its topic or state alone. When not even the owner of a lost record is known, opening is refused.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from milepost.errors import CorruptData, MilepostError
from milepost.positions.ids import Position
from milepost.storage.catalog.catalog import LEDGER_TOMB, STATE_TOMB, TOPIC_TOMB, Catalog
from milepost.storage.files import Files
from milepost.storage.header import HEADER_SIZE, JOURNAL, FileHeader
from milepost.storage.journal.journal import FOLDER as JOURNAL_FOLDER
from milepost.storage.journal.journal import SUFFIX, Carried, file_name
from milepost.storage.journal.records import (
    CATALOG,
    ENTRIES,
    FACT,
    FACTS,
    LEDGER_BODY,
    STATE,
    STEP,
    Damage,
    Record,
    Scan,
    decode_parts,
    scan,
    seed_of,
)
from milepost.storage.journal.runway import BLOCK_SIZE
from milepost.storage.ledgers.entry import HEADER_SIZE as ENTRY_HEADER_SIZE
from milepost.storage.ledgers.entry import Block, decode_entries
from milepost.storage.ledgers.ledger import FOLDER as LEDGER_FOLDER
from milepost.storage.ledgers.ledger import Ledger, LedgerRow, ledger_path
from milepost.storage.ledgers.log import Log
from milepost.storage.ledgers.loss import Loss
from milepost.storage.ledgers.salvage import Salvaged, first_index_of, is_stored, salvaged, zeros

logger = logging.getLogger(__name__)


@dataclass
class RecoveryReport:
    """What one start found: logged once, and exported."""

    files: int = 0
    size_bytes: int = 0
    records: int = 0
    entries: int = 0
    facts: int = 0
    cut_bytes: int = 0
    """Torn tail: written, never acknowledged, gone."""
    damages: list[Damage] = field(default_factory=list)


@dataclass
class Recovered:
    """Everything the journal added to the catalog, and where the journal goes on."""

    logs: dict[int, Log] = field(default_factory=dict)
    facts: dict[int, list[tuple[int, bytes]]] = field(default_factory=dict)
    """By state: (sequence, fact) behind its snapshot, in order."""
    snapshots: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    """By state: (sequence, snapshot) that was journalled and replaces the catalog's."""
    damaged_states: dict[int, str] = field(default_factory=dict)
    """States of which a fact is lost, and why. What is found of them ends before it."""
    damaged_topics: dict[int, str] = field(default_factory=dict)
    """Topics whose log cannot even be opened, and why."""
    losses: dict[int, list[Loss]] = field(default_factory=dict)
    """By topic: entries that the journal has lost and whose numbers are known."""
    journal_first: int = 0
    """The oldest file of the journal; 0 in a directory that was never opened."""
    previous_file: int = 0
    previous_size: int = 0
    carried: Carried | None = None
    file_number: int = 1
    next_sequence: int = 1
    next_ledger_id: int = 1
    report: RecoveryReport = field(default_factory=RecoveryReport)


OpenLog = Callable[[int], Log | None]
"""A topic's log as the catalog knows it, or None if there is no such topic."""


def recover(
    files: Files, catalog: Catalog, open_log: OpenLog, *, salvage: bool = False
) -> Recovered:
    """Replay the journal. `salvage` goes on where opening would be refused, for repair tools."""
    replay = _Replay(files, catalog, open_log, salvage)
    # Up to a million objects that all stay: the cyclic collector would look through them over and
    # over, for a third of the whole time.
    collects = gc.isenabled()
    gc.disable()
    try:
        replay.run()
    finally:
        if collects:
            gc.enable()
    return replay.found


class _Ownerless(CorruptData):
    """A record speaks of what the catalog does not know."""


class _Replay:
    def __init__(self, files: Files, catalog: Catalog, open_log: OpenLog, salvage: bool) -> None:
        self._files = files
        self._catalog = catalog
        self._open_log = open_log
        self._salvage = salvage
        self._meta = catalog.meta()
        self._tombs = {(tomb.kind, tomb.object_id) for tomb in catalog.tombstones()}
        self._topic_of: dict[int, int] = {}  # ledger → topic
        self._folded: dict[int, int] = {}  # state → sequence that its snapshot holds
        # Ledger → records of entries that were lost; the entries may be in its file after all.
        self._lost: dict[int, list[Damage]] = {}
        self._lost_from: dict[
            int, int
        ] = {}  # damaged state → sequence of the first fact that is lost
        self._place = ("", 0)  # file and byte of the record that is looked at
        # A ledger may have been buried before it reached the journal: its id stays taken.
        buried = [ledger_id for kind, ledger_id in self._tombs if kind == LEDGER_TOMB]
        self.found = Recovered(
            next_ledger_id=max([self._meta.next_ledger_id, *(each + 1 for each in buried)])
        )

    def run(self) -> None:
        found, report = self.found, self.found.report
        chain = self._chain()
        found.next_sequence = max(self._meta.next_sequence, 1)
        seed = seed_of(self._meta.incarnation)
        for at, header in enumerate(chain):
            path = file_name(header.a)
            data = self._files.read(path, 0, self._files.size(path))
            whole = at + 1 < len(chain)
            if whole:
                valid = chain[at + 1].c
                if len(data) < valid:
                    self._damaged(Damage(path, len(data), found.next_sequence))
                data = data[:valid]
            scanned = scan(data, HEADER_SIZE, path, header.d, seed, whole=whole)
            report.files += 1
            used = _without_runway(data, scanned.size)
            report.size_bytes += used
            report.records += len(scanned.records)
            report.cut_bytes += used - scanned.size
            found.previous_file, found.previous_size = header.a, scanned.size
            found.next_sequence = max(found.next_sequence, header.d)
            for damage in scanned.damages:
                self._damaged(damage)
            for record in scanned.records:
                try:
                    self._apply(record, path)
                except Exception as failure:
                    self._contain(record, failure)
                found.next_sequence = record.sequence + 1
            if scanned.damages:
                found.next_sequence = max(
                    found.next_sequence, *(damage.sequence + 1 for damage in scanned.damages)
                )
            elif not whole:
                self._carry(header, scanned, data)
        # A snapshot may hold facts that the crash kept from the journal. Their sequences are not given
        # again: a new fact under an old number would be taken for one that the snapshot holds.
        found.next_sequence = max(found.next_sequence, self._catalog.last_folded() + 1)
        for ledger_id, damages in self._lost.items():
            if damages:
                self._place = damages[0].file, damages[0].offset
                try:
                    log = self._log_of_ledger(ledger_id)
                except _Ownerless as failure:
                    if not self._salvage:
                        raise CorruptData(f"{self._where}: {failure}") from failure
                    continue  # the damage is in the report
                except Exception as failure:
                    reason = f"{damages[0]}; {_told(failure)}"
                    self._refuse_topic(self._topic_of[ledger_id], reason)
                    continue
                if log is not None and log.damage is None:
                    self._end_of(log, ledger_id, damages[0])

    def _carry(self, header: FileHeader, scanned: Scan, data: bytes) -> None:
        """Let the next file rely on nothing that a process which was killed may not have synced.

        What lies before the last group was: that is when the group was written. And a file with a
        record in it has its name on disk, as has one that the catalog knows.
        """
        found, records = self.found, scanned.records
        if records:
            first = next(r for r in records if r.group == records[-1].group)
            found.previous_size = first.offset
            end = records[-1].sequence + 1
            found.carried = Carried(first.sequence, end, data[first.offset : scanned.size])
        elif header.a > self._meta.journal_last:
            found.previous_file, found.previous_size = header.b, header.c

    def _chain(self) -> list[FileHeader]:
        """Headers of the files to replay, oldest first, each vouched for by the next one."""
        first, last = self._meta.journal_first, self._meta.journal_last
        numbers = [
            int(name.removesuffix(SUFFIX), 16)
            for name in self._files.names(JOURNAL_FOLDER)
            if name.endswith(SUFFIX)
        ]
        self.found.file_number = max([first, *(number + 1 for number in numbers)])
        headers = {number: self._header(number) for number in numbers if number >= first}
        if not last:  # never opened: a file that is there was being begun when the crash came
            self._refuse_orphans()
            return []
        self.found.journal_first = first
        if last not in headers:
            raise CorruptData(f"{file_name(last)}: missing, recovery needs it")
        chain: list[FileHeader] = []
        number = max(headers)
        while True:
            if number not in headers:
                raise CorruptData(f"{file_name(number)}: missing, recovery needs it")
            chain.append(headers[number])
            if number == first:
                return chain[::-1]
            number = headers[number].b
            if number < first:
                raise CorruptData(
                    f"{file_name(chain[-1].a)}: continues file {number}, recovery starts at {first}"
                )

    def _header(self, number: int) -> FileHeader:
        path = file_name(number)
        head = self._files.read(path, 0, HEADER_SIZE)
        header = FileHeader.decode(head, path, JOURNAL, self._meta.incarnation)
        if header.a != number:
            raise CorruptData(f"{path}: says it is file {header.a}")
        return header

    def _refuse_orphans(self) -> None:
        """The catalog is new. If ledgers are there, it is not the one that knew of them."""
        if names := self._files.names(LEDGER_FOLDER):
            raise CorruptData(
                f"{LEDGER_FOLDER}/{names[0]}: {len(names)} files, of which the catalog knows none: "
                "is catalog.sqlite missing?"
            )

    # -- records -----------------------------------------------------------------------------------

    def _apply(self, record: Record, path: str) -> None:
        self._place = path, record.offset
        if record.kind == ENTRIES:
            self._entries(record)
        elif record.kind in (FACT, STATE):
            self._fact(record)
        elif record.kind in (FACTS, STEP):
            for kind, owner, body in decode_parts(record.body):
                part = record._replace(kind=kind, owner=owner, body=body)
                try:
                    self._apply(part, path)
                except Exception as failure:
                    self._contain(part, failure)
        elif record.kind != CATALOG:  # those were applied before there was a catalog to ask
            self._ledger(record)

    @property
    def _where(self) -> str:
        return "{}: byte {}".format(*self._place)

    def _contain(self, record: Record, failure: Exception) -> None:
        """Let a record that cannot be applied cost its own topic or state, and no other."""
        reason = f"{self._where}: {_told(failure)}"
        topic_id = self._topic_of.get(record.owner)
        is_fact = record.kind in (FACT, STATE)
        if isinstance(failure, _Ownerless) or not (is_fact or topic_id is not None):
            if not self._salvage:
                raise CorruptData(reason) from failure
            place = Damage(*self._place, record.sequence, record.kind, record.owner, record.group)
            self.found.report.damages.append(place)
            return
        logger.error("%s", reason, exc_info=failure)
        if is_fact:
            self._damage_state(record.owner, record.sequence, reason)
        elif topic_id is not None:
            self._refuse_topic(topic_id, reason)

    def _refuse_topic(self, topic_id: int, reason: str) -> None:
        log = self.found.logs.get(topic_id)
        if log is not None:
            self._close(log, reason)
        else:
            self.found.damaged_topics.setdefault(topic_id, reason)

    def _ledger(self, record: Record) -> None:
        topic_id, first_index, time_ms = LEDGER_BODY.unpack(record.body)
        self.found.next_ledger_id = max(self.found.next_ledger_id, record.owner + 1)
        self._topic_of[record.owner] = topic_id
        log = self._log(topic_id)
        if log is None or (LEDGER_TOMB, record.owner) in self._tombs:
            return
        if any(ledger.ledger_id >= record.owner for ledger in log.ledgers[-1:]):
            return  # a checkpoint has it
        # Ledgers are trimmed from the front: a log without any begins wherever this one does.
        if log.damage is None and log.ledgers and first_index != log.end_index:
            self._lose(log, record.sequence, end_index=first_index)
        if log.damage is None and log.ledgers and first_index != log.end_index:
            self._close(log, f"ledger {record.owner} begins at {first_index}, not {log.end_index}")
        if log.damage is None:
            log.admit_ledger(Ledger(LedgerRow(record.owner, topic_id, first_index, time_ms)))

    def _entries(self, record: Record) -> None:
        log = self._log_of_ledger(record.owner)
        if log is None or log.damage is not None:
            return
        block = Block.decode(record.body, "journal")
        ledger = log.ledgers[-1]
        if block.ledger_id != record.owner:
            raise CorruptData(f"entries of ledger {block.ledger_id} in a record of {record.owner}")
        if (
            ledger.ledger_id > record.owner
            or block.first_entry_id + block.entry_count <= ledger.entries
        ):
            return  # a checkpoint has it
        if block.first_entry_id > ledger.entries:
            self._fill_hole(log, ledger, block, record.sequence)
        if log.damage is None:
            self._admit(log, block)

    def _admit(self, log: Log, block: Block) -> None:
        log.admit(block)
        self.found.report.entries += block.entry_count

    def _fact(self, record: Record) -> None:
        state_id = record.owner
        if (STATE_TOMB, state_id) in self._tombs:
            return
        if record.sequence <= self._folded_through(state_id):
            return
        if record.sequence >= self._lost_from.get(state_id, record.sequence + 1):
            if record.kind != STATE:
                return
            # It replaces everything before it, what is lost, too.
            del self._lost_from[state_id], self.found.damaged_states[state_id]
        self.found.report.facts += 1
        if record.kind == STATE:
            self.found.snapshots[state_id] = (record.sequence, record.body)
            self.found.facts.pop(state_id, None)
        else:
            self.found.facts.setdefault(state_id, []).append((record.sequence, record.body))

    def _folded_through(self, state_id: int) -> int:
        """The last sequence that a state's snapshot in the catalog holds."""
        if state_id not in self._folded:
            if self._catalog.state_by_id(state_id) is None:
                raise _Ownerless(f"state {state_id} is not in the catalog")
            self._folded[state_id] = self._catalog.snapshot(state_id).sequence
        return self._folded[state_id]

    def _log(self, topic_id: int) -> Log | None:
        if topic_id not in self.found.logs:
            if (TOPIC_TOMB, topic_id) in self._tombs or topic_id in self.found.damaged_topics:
                return None
            log = self._open_log(topic_id)
            if log is None:
                raise _Ownerless(f"topic {topic_id} is not in the catalog")
            self.found.logs[topic_id] = log
        return self.found.logs[topic_id]

    def _log_of_ledger(self, ledger_id: int) -> Log | None:
        if (LEDGER_TOMB, ledger_id) in self._tombs:
            return None
        if ledger_id not in self._topic_of:
            row = self._catalog.ledger(ledger_id)
            if row is None:
                raise _Ownerless(f"ledger {ledger_id} is not in the catalog")
            self._topic_of[ledger_id] = row.topic_id
        return self._log(self._topic_of[ledger_id])

    # -- damage ------------------------------------------------------------------------------------

    def _damaged(self, damage: Damage) -> None:
        self.found.report.damages.append(damage)
        if damage.kind is None and not self._salvage:
            raise CorruptData(str(damage))
        if damage.kind in (FACT, STATE) and damage.owner is not None:
            self._lost_fact(damage.owner, damage)
        elif damage.kind == ENTRIES and damage.owner is not None:
            self._lost.setdefault(damage.owner, []).append(damage)
        elif not self._salvage:
            # The start of a ledger, or facts of several states: of what is in the body that is lost.
            raise CorruptData(str(damage))

    def _fill_hole(self, log: Log, ledger: Ledger, block: Block, sequence: int) -> None:
        """Entries missing from the journal may have reached the ledger's file before the crash; else they
        are lost."""
        end_id = block.first_entry_id
        path = ledger_path(ledger.ledger_id)
        try:
            data = self._files.read(path, ledger.size_bytes, self._files.size(path))
            entries = [e for e in decode_entries(data, path) if e.entry_id < end_id]
        except (OSError, CorruptData):
            data, entries = b"", []
        wanted = [Position(ledger.ledger_id, n) for n in range(ledger.entries, end_id)]
        if [e.position for e in entries] != wanted:
            self._lose(log, sequence, end_id=end_id, end_index=first_index_of(block))
            if ledger.entries == end_id:
                return
            self._close(log, f"entries {ledger.entries} to {end_id - 1} of {ledger} are missing")
            return
        at = 0
        for entry in entries:  # one by one: entries of a block share a time, these may not
            end = at + ENTRY_HEADER_SIZE + len(entry.beside) + len(entry.payload)
            self._admit(log, Block.decode(data[at:end], path))
            at = end
        lost = self._lost.get(ledger.ledger_id, [])
        lost[:] = [damage for damage in lost if damage.sequence > sequence]

    def _lost_fact(self, state_id: int, damage: Damage) -> None:
        if (STATE_TOMB, state_id) in self._tombs:
            return
        try:
            is_folded = damage.sequence <= self._folded_through(state_id)
        except _Ownerless as failure:
            if not self._salvage:
                raise CorruptData(f"{damage}; {failure}") from failure
            return  # the damage is in the report
        if not is_folded:
            self._damage_state(state_id, damage.sequence, str(damage))

    def _damage_state(self, state_id: int, sequence: int, reason: str) -> None:
        self.found.damaged_states.setdefault(state_id, reason)
        self._lost_from.setdefault(state_id, sequence)

    def _end_of(self, log: Log, ledger_id: int, damage: Damage) -> None:
        """The last records of a ledger are lost, and nothing behind them says what they held."""
        last = log.ledgers[-1] if log.ledgers else None
        if last is None or last.ledger_id != ledger_id:
            return  # the next ledger began where this one ends
        if not self._lose(log):
            self._close(log, f"{damage}; it cannot be told how many messages it held")

    def _lose(
        self,
        log: Log,
        sequence: int | None = None,
        *,
        end_id: int | None = None,
        end_index: int | None = None,
    ) -> bool:
        """Give numbers to the entries that damaged records before a sequence held, or before the end of
        the journal. `end_id` and `end_index` are of the entry behind them, as far as one is known. False:
        some of them have none."""
        ledger = log.ledgers[-1]
        known = self._lost.get(ledger.ledger_id, [])
        damages = [one for one in known if sequence is None or one.sequence < sequence]
        if not damages:
            return False
        for damage in damages:
            if is_stored(damage.body, ledger, self._files):
                continue
            found = salvaged(damage.body, ledger)
            if found is None or (end_index is not None and found.block.end_index > end_index):
                break
            self._admit_lost(log, ledger, found, str(damage))
        else:
            end_index = ledger.end_index if end_index is None else end_index
        if end_index is not None and ledger.end_index < end_index:
            # Behind the last entry of a ledger it does not matter how many there were.
            found = zeros(ledger, ledger.entries + 1 if end_id is None else end_id, end_index)
            if found is not None:
                self._admit_lost(log, ledger, found, str(damages[0]))
        known[:] = [one for one in known if one not in damages]
        return ledger.end_index == end_index

    def _admit_lost(self, log: Log, ledger: Ledger, found: Salvaged, reason: str) -> None:
        ledger.is_struck = True
        self._admit(log, found.block)
        losses = self.found.losses.setdefault(log.topic_id, [])
        for first, end in found.lost:
            losses.append(Loss(ledger.ledger_id, first, end, reason, 0, in_journal=True))

    def _close(self, log: Log, reason: str) -> None:
        log.damage = log.damage or reason


def _told(failure: Exception) -> str:
    """What an error says; of one that is not ours also what it is."""
    if isinstance(failure, MilepostError):
        return str(failure)
    return f"{type(failure).__name__}: {failure}"


def _without_runway(data: bytes, valid_size: int) -> int:
    """How many bytes of a journal file were written there, not counting zeros that were laid ahead.

    Those end with a block. What looks like them and is not was lost before it was answered.
    """
    if len(data) % BLOCK_SIZE or len(data) == valid_size:
        return len(data)
    return valid_size + len(data[valid_size:].rstrip(b"\0"))
