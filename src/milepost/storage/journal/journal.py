"""The journal: one append-only sequence of every durable fact, synced in groups.

Many callers `submit`, one committer takes all that waits, writes it with one vectored write, syncs
once and hands the completions back in order. An fsync costs the same however many topics wait for
it, so publishing to a thousand topics costs what publishing to one costs.

The journal is three plain steps and knows no thread: `submit` and `finish` run on the broker's loop,
`commit` wherever the disk may block. The committer (committer.py) runs them for real; tests call `pump`.

When the disk fails, rule 3 of docs/format.md holds. The group that failed, and everything submitted
before its failure was known, is refused: positions were given out behind it. A descriptor whose sync
failed is never synced again: a new file is begun whose header says how much of the old one counts.
Only when even that fails is the outcome unknown, and said to be. Sequences that were refused are never
written, and a missing one means damage; so what comes behind them goes to a new file too.

Ahead of a file's end there may be zeros, so that a sync has less to store: runway.py.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from milepost.errors import DiskFull, OutcomeUnknown, PersistenceError
from milepost.storage.files import AppendFile, Buffer, Files
from milepost.storage.header import JOURNAL, FileHeader
from milepost.storage.journal.queue import ROLL, Commit, JournalQueue, Waiting
from milepost.storage.journal.records import RECORD_HEADER_SIZE, encode_header, seed_of
from milepost.storage.journal.runway import AHEAD_DEFAULT, PIECE_SIZE, Runway

FOLDER = "journal"
SUFFIX = ".journal"
_DRAFT = ".new"  # behind the name of a file that is being begun


class Carried(NamedTuple):
    """The last group that a start found in the journal: written again, for it is unknown whether
    the process that wrote it lived to sync it, and the kernel shows it either way."""

    first_sequence: int
    end_sequence: int
    data: bytes


def file_name(number: int) -> str:
    return f"{FOLDER}/{number:016x}{SUFFIX}"


class Journal(JournalQueue):
    """The open end of the journal in files."""

    def __init__(
        self,
        files: Files,
        incarnation: bytes,
        *,
        previous_file: int,
        previous_size: int,
        file_number: int,
        next_sequence: int,
        carried: Carried | None = None,
        ahead: int = AHEAD_DEFAULT,
        piece: int = PIECE_SIZE,
    ) -> None:
        """Begin file `file_number`, which continues `previous_file` cut at `previous_size` bytes,
        with the records that are carried over from there. `ahead` and `piece`: of its runway."""
        super().__init__(file_number=file_number, next_sequence=next_sequence)
        self._files = files
        self._incarnation = incarnation
        self._seed = seed_of(incarnation)
        # The committer's side. Invariant: no other thread touches these while a commit runs.
        # But the queue, whose two ends are safe: the loop's and the committer's.
        self._refuse_below = 0  # records of an older generation stand behind a failed group
        self._previous = (previous_file, previous_size)
        self._number = file_number - 1
        self._file: AppendFile | None = None
        self._ahead, self._piece = ahead, piece
        self._runway = Runway(0)  # of the file
        self._good_size = 0  # bytes of the file that are synced
        self._next_sequence = next_sequence  # of the next record in this file
        self._is_uncertain = False  # a failed group may count until the next file is begun
        self._begin_file(next_sequence, carried)

    @property
    def number(self) -> int:
        """The file that is being written."""
        return self._number

    # -- wherever the disk may block -------------------------------------------------------------

    @property
    def is_plain(self) -> bool:
        """Would a commit only append and sync? Not if a file has to be begun, or if it may have to wait
        for who lays the runway."""
        runway = self._runway
        return (
            self._file is not None
            and not runway.is_suspect
            and (not runway.is_laying or runway.is_clear(self._good_size + self._load_size()))
            and not self._rolls
        )

    def _load_size(self) -> int:
        count, size = self.load()
        return count * RECORD_HEADER_SIZE + size

    def commit(self) -> list[Commit]:
        """Take everything that waits, make it durable with one sync, and say how it went."""
        group, mark = self._take()
        commits: list[Commit] = []
        if group and group[0].generation < self._refuse_below:
            refused = [w for w in group if w.generation < self._refuse_below]
            group = group[len(refused) :]
            commits.append(Commit(refused, _behind_a_failure(), self._number))
        if group:
            commits.append(Commit(group, self._write(group), self._number))
        if mark is not None:
            error: PersistenceError | None = None
            if mark.generation < self._refuse_below:
                error = _behind_a_failure()
            elif mark.kind == ROLL:
                error = self._roll(mark.sequence + 1)
            elif self._is_uncertain and (failure := self._restart(mark.sequence + 1)) is not None:
                error = OutcomeUnknown(f"no new journal file could be begun: {failure}")
            commits.append(Commit([mark], error, self._number))
        return commits

    def more_runway(self, now: float) -> Callable[[], None] | None:
        """What a thread that may block should do now, if anything: lay zeros ahead of the file's end.
        Asked by the one that may commit."""
        file, runway, files = self._file, self._runway, self._files
        if file is None or not runway.wants_more(file.size, now):
            return None
        runway.begin(file.size, now)
        return partial(runway.lay, partial(files.lay, file_name(self._number)), lambda: file.size)

    def close(self) -> None:
        self._runway.close()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, group: list[Waiting]) -> PersistenceError | None:
        first, end = group[0].sequence, group[-1].sequence + 1
        assert end - first == len(group), (first, end, len(group))
        if self._file is not None and (
            first != self._next_sequence  # refused records: only the start of a file may have a gap
            or self._runway.is_suspect
        ):
            self._abandon()
        if self._file is None and (failure := self._restart(first)) is not None:
            return self._refuse(group, _refusal(failure))
        assert self._file is not None
        buffers: list[Buffer] = []
        for _, kind, owner, sequence, body, size, crc, _ in group:
            assert body is not None
            buffers.append(encode_header(self._seed, kind, size, crc, owner, sequence, first))
            buffers += body
        runway = self._runway
        try:
            if runway.is_clear(self._good_size + sum(map(len, buffers))):
                self._file.append(buffers)
            else:
                with runway.turn:
                    self._file.append(buffers)
        except OSError as failure:
            return self._refuse(group, self._take_back(failure, end))
        try:
            self._file.sync()
        except OSError as failure:
            # The kernel may have dropped the dirty pages and forgotten the error: this descriptor
            # can never be trusted to tell again.
            self._abandon()
            return self._refuse(group, self._certain(failure, end))
        self._good_size = self._file.size
        self._next_sequence = end
        self.commits += 1
        return None

    def _refuse(self, group: list[Waiting], error: PersistenceError) -> PersistenceError:
        self._refuse_below = group[-1].generation + 1
        return error

    def _take_back(self, failure: OSError, next_sequence: int) -> PersistenceError:
        """A write failed half-way: cut it off, which needs no space, so that it is certainly gone."""
        self._abandon()
        try:
            file = self._files.open_append(file_name(self._number), self._good_size)
            try:
                file.sync()
            finally:
                file.close()
        except OSError:
            return self._certain(failure, next_sequence)
        return _refusal(failure)

    def _certain(self, failure: OSError, next_sequence: int) -> PersistenceError:
        """Begin the next file, whose header makes certain that what failed does not count."""
        if (worse := self._restart(next_sequence)) is not None:
            self._is_uncertain = True
            return OutcomeUnknown(f"no new journal file could be begun: {worse}")
        return _refusal(failure)

    def _abandon(self) -> None:
        assert self._file is not None
        self._runway.close()
        self._file.close()
        self._file = None
        self._previous = (self._number, self._good_size)

    def _roll(self, next_sequence: int) -> PersistenceError | None:
        if self._file is not None:
            self._abandon()
        failure = self._restart(next_sequence)
        return None if failure is None else _refusal(failure)

    def _restart(self, next_sequence: int) -> OSError | None:
        try:
            self._begin_file(next_sequence)
        except OSError as failure:
            return failure
        return None

    def _begin_file(self, next_sequence: int, carried: Carried | None = None) -> None:
        """A file gets its name when its beginning is synced: one that is there is whole."""
        number = self._number + 1
        while self._files.exists(file_name(number)):
            number += 1  # left behind by an attempt that failed
        path, draft = file_name(number), file_name(number) + _DRAFT
        first_sequence = carried.first_sequence if carried else next_sequence
        header = FileHeader(JOURNAL, self._incarnation, number, *self._previous, first_sequence)
        self._files.delete(draft)
        file = self._files.create(draft)
        try:
            file.append([header.encode(), carried.data if carried else b""])
            file.sync()
            self._files.rename(draft, path)
            self._files.sync_dir(FOLDER)
        except OSError:
            file.close()
            for name in (draft, path):  # a disk that is full for a day must not collect empty files
                with suppress(OSError):
                    self._files.delete(name)
            raise
        self._file = file
        self._runway = Runway(self._ahead, self._piece)
        self._is_uncertain = False
        self._number = number
        self._good_size = file.size
        self._next_sequence = carried.end_sequence if carried else next_sequence


def _behind_a_failure() -> PersistenceError:
    return PersistenceError("not written: it stood behind a write that failed")


def _refusal(failure: OSError) -> PersistenceError:
    if failure.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(f"no space left for the journal: {failure.strerror}")
    return PersistenceError(f"the journal cannot be written: {failure.strerror}")
