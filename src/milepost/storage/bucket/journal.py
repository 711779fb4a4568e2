"""The journal of a store whose groups go to a bucket.

A local journal writes files; here each group is an object, and "file" only numbers what lies between two
rolls. Nothing is ever refused: a group is sent until it is in the bucket, or until another broker owns
that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from milepost.storage.bucket.chain import Group, Window
from milepost.storage.bucket.manifest import Place
from milepost.storage.files import Buffer
from milepost.storage.journal.queue import ROLL, Commit, JournalQueue, Waiting
from milepost.storage.journal.records import encode_header, seed_of

# A group of this size does not wait for more.
LARGE: Final = 1024 * 1024


class Outgoing(NamedTuple):
    """What the committer has to see to, in order."""

    group: Group | None
    """None for a roll or a barrier: it is answered with what stands before it."""
    commit: Commit


class BucketJournal(JournalQueue):
    """The open end of the journal in a bucket."""

    def __init__(
        self, incarnation: bytes, epoch: int, floor: Place, *, file_number: int, next_sequence: int
    ) -> None:
        """`floor`: where a start begins as long as no checkpoint was made."""
        super().__init__(file_number=file_number, next_sequence=next_sequence)
        self._seed = seed_of(incarnation)
        self.window = Window(epoch)
        self.on_large: Callable[[], None] = lambda: None
        """Called with each record while what waits is large."""
        self._waiting_size = 0
        self._number = file_number
        self._floor = floor
        # File number → the place of the first group behind the roll that began it.
        self._begins = {file_number: self.window.next_place}

    @property
    def number(self) -> int:
        return self._number

    def floor(self, file_number: int) -> Place:
        """Where a start has to begin that needs everything from a file on."""
        return self._begins.get(file_number, self._floor)

    def forget_before(self, file_number: int) -> None:
        """A checkpoint needs nothing from before a file."""
        self._floor = self.floor(file_number)
        self._begins = {n: place for n, place in self._begins.items() if n >= file_number}

    def _enqueue(self, waiting: Waiting) -> None:
        super()._enqueue(waiting)
        self._waiting_size += waiting.size
        if self._waiting_size >= LARGE:
            self.on_large()

    def outgoing(self) -> list[Outgoing]:
        """The next group and the roll or barrier that ends it early."""
        waiting, mark = self._take()
        _, self._waiting_size = self.load()
        taken: list[Outgoing] = []
        if waiting:
            place = self.window.send()
            group = Group(place, waiting[0].sequence, self._encoded(waiting))
            taken.append(Outgoing(group, Commit(waiting, None, self._number)))
        if mark is not None:
            if mark.kind == ROLL:
                self._number += 1
                self._begins[self._number] = self.window.next_place
            taken.append(Outgoing(None, Commit([mark], None, self._number)))
        return taken

    def _encoded(self, waiting: Sequence[Waiting]) -> list[Buffer]:
        first = waiting[0].sequence
        buffers: list[Buffer] = []
        for _, kind, owner, sequence, body, size, crc, _ in waiting:
            assert body is not None
            buffers.append(encode_header(self._seed, kind, size, crc, owner, sequence, first))
            buffers += body
        return buffers

    def close(self) -> None:
        """There is no file to close."""
