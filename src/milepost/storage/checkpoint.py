"""The checkpoint: moves what the journal holds into ledgers and catalog.

    loop       roll the journal; when that is durable, plan what to write
    any thread flush: append to the ledgers that changed, sync them
    any thread record: one catalog transaction with ledger rows, snapshots, and the new first journal
               file; this is the moment at which the checkpoint has happened
    loop       finish: the files answer for those entries now
    any thread drop the old journal files

A crash before the transaction leaves the old checkpoint in force, and longer ledger files that the next
one cuts; a crash after it leaves journal files that are not needed.

A ledger or state that cannot be written is *held*: everything else is recorded, and the journal is kept,
which has what the held ones would lose. The later ledgers of its topic are held with it: recovery passes
over the journal's records of a ledger when the catalog has a newer one. A ledger whose file is short is a
loss: that is recorded first, and only the next checkpoint touches the file.
"""

from __future__ import annotations

import errno
from collections.abc import Container, Iterable
from typing import NamedTuple

from milepost.storage.catalog.catalog import LEDGER_TOMB, Catalog, Snapshot
from milepost.storage.files import Files
from milepost.storage.journal.journal import FOLDER as JOURNAL_FOLDER
from milepost.storage.journal.journal import file_name
from milepost.storage.ledgers.ledger import FOLDER as LEDGER_FOLDER
from milepost.storage.ledgers.ledger import Flush, Ledger
from milepost.storage.ledgers.loss import Loss, Shortage

# Errors that say nothing about the ledger which met them: they would meet any other.
_EVERYBODYS = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM))


class Checkpoint(NamedTuple):
    """Everything one checkpoint writes: planned on the loop, performed elsewhere."""

    flushes: list[tuple[Ledger, Flush]]
    snapshots: dict[int, Snapshot]
    journal_first: int
    """Files before it are not needed once this is recorded."""
    journal_last: int
    next_ledger_id: int
    next_sequence: int
    """Sequences below it lie in files before `journal_first`."""
    now_ms: int
    held_ledgers: dict[int, str]
    """Those that could not be planned or flushed, and why. Their rows are not recorded."""
    held_states: dict[int, str]
    losses: dict[int, Loss]
    """By ledger: what the flush found to be gone."""

    @property
    def keeps_journal(self) -> bool:
        """Does the journal hold what this checkpoint could not store?"""
        return bool(self.held_ledgers or self.held_states or self.losses)

    def flush(self, files: Files) -> None:
        began = False
        for ledger, flush in self.flushes:
            try:
                began |= flush.perform(files)
            except Exception as failure:
                if ledger.is_gone:
                    continue  # its file was deleted while this was on its way
                if isinstance(failure, OSError) and failure.errno in _EVERYBODYS:
                    raise
                self._contain(ledger, failure, files)
        hold_followers(self.flushes, self.held_ledgers, self.losses)
        if began:
            files.sync_dir(LEDGER_FOLDER)

    def _contain(self, ledger: Ledger, failure: Exception, files: Files) -> None:
        """Let a ledger that cannot be written cost its own topic and no other."""
        reason = f"{type(failure).__name__}: {failure}"
        if isinstance(failure, Shortage):
            reason = str(failure)
            try:
                self.losses[ledger.ledger_id] = ledger.loss(
                    failure.found, reason, self.now_ms, files
                )
            except Exception as worse:
                reason = f"{reason}; {worse}"
            else:
                return
        self.held_ledgers[ledger.ledger_id] = reason

    def record(self, catalog: Catalog) -> None:
        with catalog.transaction():
            # A topic may have been deleted, or trimmed, while the files were being written; what
            # was deleted stays deleted.
            buried = {tomb.object_id for tomb in catalog.tombstones() if tomb.kind == LEDGER_TOMB}
            unwritten = self.held_ledgers.keys() | self.losses.keys()
            catalog.put_ledgers(
                flush.row
                for _, flush in self.flushes
                if flush.row.ledger_id not in buried and flush.row.ledger_id not in unwritten
            )
            for ledger, _ in self.flushes:
                loss = self.losses.get(ledger.ledger_id)
                if loss is not None and ledger.ledger_id not in buried:
                    catalog.put_loss(ledger.topic_id, loss)
            for state_id, snapshot in self.snapshots.items():
                catalog.put_snapshot(state_id, snapshot)
            if self.keeps_journal:
                meta = catalog.meta()
                journal_first, next_sequence = meta.journal_first, meta.next_sequence
            else:
                journal_first, next_sequence = self.journal_first, self.next_sequence
            catalog.forget_tombstones(next_sequence - 1)
            catalog.set_meta(
                journal_first=journal_first,
                journal_last=self.journal_last,
                next_ledger_id=self.next_ledger_id,
                next_sequence=next_sequence,
            )

    def drop_journal(self, files: Files) -> None:
        if self.keeps_journal:
            return
        for name in files.names(JOURNAL_FOLDER):
            path = f"{JOURNAL_FOLDER}/{name}"
            if name.endswith(".journal") and path < file_name(self.journal_first):
                files.delete(path)


def hold_followers(
    flushes: Iterable[tuple[Ledger, Flush]], held: dict[int, str], losses: Container[int] = ()
) -> None:
    """Hold every ledger that comes behind one of its topic that was not written.

    Invariant: the catalog never has a ledger whose predecessor needs the journal still.
    """
    ledgers = sorted((ledger.ledger_id, ledger.topic_id) for ledger, _ in flushes)
    unwritten: dict[int, int] = {}
    for ledger_id, topic_id in ledgers:
        if topic_id in unwritten:
            held.setdefault(ledger_id, f"ledger {unwritten[topic_id]} before it was not written")
        elif ledger_id in held or ledger_id in losses:
            unwritten[topic_id] = ledger_id
