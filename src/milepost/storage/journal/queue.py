"""The queue of the journal: takes records, groups them, tells how they went.

It is what every journal has, wherever its groups go: to a file (journal.py), or to a bucket. Records are
numbered as they come; a group is everything that waits, up to a size; answers come in order.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import google_crc32c

from milepost.errors import PersistenceError
from milepost.storage.files import Buffer
from milepost.storage.journal.records import RECORD_HEADER_SIZE, body_crc

logger = logging.getLogger(__name__)

# One group is at most this large, so that the first of many large entries does not wait for the last.
GROUP_SIZE_MAX = 8 * 1024 * 1024

Done = Callable[[PersistenceError | None], None]


ROLL = 0  # in place of a kind: begin a new file
BARRIER = -1  # … or only say when everything before is durable


class Waiting(NamedTuple):
    """A record that waits for its group; `body` None for a roll or a barrier, which end one."""

    generation: int
    kind: int
    owner: int
    sequence: int
    body: Sequence[Buffer] | None
    size: int
    crc: int
    done: Done


# Skips the argument handling of a named tuple's constructor, which is half of its time.
_new_waiting = cast("Callable[[type[Waiting], tuple[object, ...]], Waiting]", tuple.__new__)


class Commit(NamedTuple):
    """A group whose fate is known: all of it durable, or none of it."""

    waiting: list[Waiting]
    error: PersistenceError | None
    file_number: int
    """The file that took it; for a roll, the new file."""


class JournalQueue:
    """The loop's side of a journal: takes records, gives completions."""

    def __init__(self, *, file_number: int, next_sequence: int) -> None:
        self.last_sequence = next_sequence - 1
        """Sequence of the newest record submitted. Only grows."""
        self.size_submitted = 0
        """Bytes submitted since the last roll: what a restart would have to replay."""
        self.refused_through = -1
        """Whatever was submitted up to here and is not answered yet will be refused."""
        self.rolled_to = file_number
        """The file that the last roll began."""
        self._generation = 0
        # Rolls that were submitted and are not told of yet.
        self._rolls = 0
        self.on_waiting: Callable[[], None] = lambda: None
        """Called when something waits for a commit and nothing did before."""
        self._queue: deque[Waiting] = deque()
        self._head: Waiting | None = None  # taken from the queue, too large for the group before
        self.is_failing = False
        """The last group could not be written."""
        self.commits = 0
        """Groups synced; with `last_sequence` it tells how well commits are shared."""
        self.commits_on_loop = 0
        """Of them, by the loop itself; the committer counts."""

    @property
    def number(self) -> int:
        """The file that is being written."""
        raise NotImplementedError

    def commit(self) -> list[Commit]:
        """Take everything that waits, make it durable with one sync, and say how it went."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    # -- on the loop ---------------------------------------------------------------------------

    def submit(self, kind: int, owner: int, body: Sequence[Buffer], done: Done) -> int:
        """Queue one record; `done` is called in order of submission, on the loop."""
        self.last_sequence = sequence = self.last_sequence + 1
        if len(body) == 1 and (only := body[0]).__class__ is bytes:
            size, crc = len(only), google_crc32c.value(only)
        else:
            size, crc = sum(map(len, body)), body_crc(body)
        self.size_submitted += size + RECORD_HEADER_SIZE
        fields = (self._generation, kind, owner, sequence, body, size, crc, done)
        self._enqueue(_new_waiting(Waiting, fields))
        return sequence

    def roll(self, done: Done) -> int:
        """Begin a new file behind everything submitted so far; returns the sequence it cuts at.

        When `done` is called without an error, every record up to that sequence is durable and
        lies in files before `rolled_to`.
        """
        self.size_submitted = 0
        self._rolls += 1
        sequence = self.last_sequence
        self._enqueue(Waiting(self._generation, ROLL, 0, sequence, None, 0, 0, done))
        return sequence

    def barrier(self, done: Done) -> None:
        """Call `done` when everything submitted so far is durable, writing nothing of its own."""
        sequence = self.last_sequence
        self._enqueue(Waiting(self._generation, BARRIER, 0, sequence, None, 0, 0, done))

    def _enqueue(self, waiting: Waiting) -> None:
        is_first = not self._queue
        self._queue.append(waiting)
        if is_first:
            self.on_waiting()

    def finish(self, commits: Sequence[Commit]) -> None:
        """Tell the submitters, in order. A failure opens a new generation for what comes after it."""
        raised: Exception | None = None
        for commit in commits:
            first = commit.waiting[0]
            if (commit.error is not None) != self.is_failing and first.body is not None:
                self._turn(commit.error)
            lost_records = commit.error is not None and first.body is not None
            if lost_records and first.generation == self._generation:
                self._generation += 1
                self.refused_through = self.last_sequence
            for _, kind, _, _, _, size, _, done in commit.waiting:
                if kind == ROLL:
                    self._rolls -= 1
                    self.rolled_to = commit.file_number
                elif lost_records:
                    self.size_submitted -= size + RECORD_HEADER_SIZE
                try:
                    done(commit.error)
                except Exception as error:  # the others are told all the same
                    raised = raised or error
        if raised is not None:
            raise raised

    def _turn(self, error: Exception | None) -> None:
        """The disk has begun to refuse, or takes again: news, once each."""
        self.is_failing = error is not None
        if error is not None:
            logger.error("publishes, acks and seeks are refused: %s", error)
        else:
            logger.warning("the disk takes publishes, acks and seeks again")

    def pump(self) -> None:
        """Commit and finish until nothing waits: the journal without its thread."""
        while commits := self.commit():
            self.finish(commits)

    # -- for who commits -------------------------------------------------------------------------

    @property
    def is_waiting(self) -> bool:
        """Is there anything to commit?"""
        return self._head is not None or bool(self._queue)

    def load(self) -> tuple[int, int]:
        """How many records wait, and how many bytes they are."""
        count, size = len(self._queue), sum([one.size for one in self._queue])
        return (count, size) if self._head is None else (count + 1, size + self._head.size)

    def _take(self) -> tuple[list[Waiting], Waiting | None]:
        """Records for one group, and the roll or barrier that ends it early, if one does."""
        group: list[Waiting] = []
        size = 0
        while True:
            waiting = self._head
            self._head = None
            if waiting is None:
                if not self._queue:
                    return group, None
                waiting = self._queue.popleft()
            if waiting.body is None:
                return group, waiting
            size += waiting.size
            if group and size > GROUP_SIZE_MAX:
                self._head = waiting
                return group, None
            group.append(waiting)
