"""The checkpoint: fold the journal into ledgers and catalog, so that recovery has little to replay.

    loop       roll the journal; when that is durable, plan what to write
    any thread flush: append to the ledgers that changed, sync them
    any thread record: one catalog transaction with ledger rows, snapshots, and the new first journal
               file; this is the moment at which the checkpoint has happened
    loop       finish: the files answer for those entries now
    any thread drop the old journal files

A crash before the transaction leaves the old checkpoint in force, and longer ledger files that the next
one cuts; a crash after it leaves journal files that nobody needs.
"""

from __future__ import annotations

from typing import NamedTuple

from milepost.errors import CorruptData
from milepost.storage.catalog import LEDGER_TOMB, Catalog, Snapshot
from milepost.storage.files import Files
from milepost.storage.journal import FOLDER as JOURNAL_FOLDER
from milepost.storage.journal import file_name
from milepost.storage.ledger import FOLDER as LEDGER_FOLDER
from milepost.storage.ledger import Flush, Ledger


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

    def flush(self, files: Files) -> None:
        began = False
        for ledger, flush in self.flushes:
            try:
                began |= flush.perform(files)
            except (OSError, CorruptData):
                if not ledger.is_gone:
                    raise  # else its file was deleted while this was on its way
        if began:
            files.sync_dir(LEDGER_FOLDER)

    def record(self, catalog: Catalog) -> None:
        with catalog.transaction():
            # A topic may have been deleted, or trimmed, while the files were being written; what
            # was deleted stays deleted.
            buried = {tomb.object_id for tomb in catalog.tombstones() if tomb.kind == LEDGER_TOMB}
            catalog.put_ledgers(
                flush.row for _, flush in self.flushes if flush.row.ledger_id not in buried
            )
            for state_id, snapshot in self.snapshots.items():
                catalog.put_snapshot(state_id, snapshot)
            catalog.forget_tombstones(self.next_sequence - 1)
            catalog.set_meta(
                journal_first=self.journal_first,
                journal_last=self.journal_last,
                next_ledger_id=self.next_ledger_id,
                next_sequence=self.next_sequence,
            )

    def drop_journal(self, files: Files) -> None:
        for name in files.names(JOURNAL_FOLDER):
            path = f"{JOURNAL_FOLDER}/{name}"
            if name.endswith(".journal") and path < file_name(self.journal_first):
                files.delete(path)
