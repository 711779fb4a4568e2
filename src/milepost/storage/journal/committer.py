"""Writes and syncs groups of records, on the loop or on a thread of its own.

The one that has the journal's *turn* may commit; the other one touches nothing of the committer's side. The
loop has it while nothing is under way. When something waits, it commits at the end of what it is doing:
itself if the shortcut allows it, else it gives the turn to the thread, which goes on until nothing waits
and gives it back with its last report.

    submit ─▶ end of this turn of the loop ─┬─ short way: commit, finish
                                            └─ thread: commit … commit ─▶ back on the loop: finish

What collects until the end of a turn what it will submit (`before_commit`) is called right before, so that it
does not cost one more turn.

Results come back in the order of submission, for there is one turn only. Who has it also sees to it that
the journal's runway (runway.py) is laid in time, by a thread that has nothing else to wait for.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from queue import SimpleQueue

from milepost.clock import Clock
from milepost.storage.journal.journal import Journal
from milepost.storage.journal.loop_commit import Shortcut
from milepost.storage.journal.queue import Commit

logger = logging.getLogger(__name__)


def told(place: str, error: BaseException) -> None:
    """Log an error that no code foresaw and that cost nothing beside itself."""
    logger.error("contained, in %s: %s: %s", place, type(error).__name__, error, exc_info=error)


class AnyCommitter:
    """What the engine asks of a committer, wherever the groups go."""

    def __init__(self) -> None:
        self.around: Callable[[Callable[[], None]], None] = lambda tell: tell()
        """Called with what tells submitters how their group went, which it has to do."""
        self.on_error: Callable[[str, BaseException], None] = told
        """Called with the place and an error that no code foresaw, which cost nothing else."""
        self.on_fatal: Callable[[str], None] = lambda reason: None
        """Called when the journal cannot go on in this process, with the reason."""
        self.failure: str | None = None
        """Why nothing is committed any more."""

    def before_commit(self, work: Callable[[], None]) -> None:
        """Call `work`, which submits something, at the end of this turn of the loop."""
        asyncio.get_running_loop().call_soon(work)

    def stop(self) -> None:
        """Nothing waits any more, and nothing will."""
        raise NotImplementedError

    def give_up(self, what: str, error: BaseException) -> None:
        """What was being committed may be durable or not: only a start can tell."""
        self.failure = f"{what}: {type(error).__name__}: {error}"
        logger.critical(self.failure, exc_info=error)
        self.on_fatal(self.failure)


class Committer(AnyCommitter):
    """Made and used on the loop; one thread."""

    def __init__(
        self,
        journal: Journal,
        clock: Clock,
        shortcut: Shortcut,
        finished: Callable[[], None],
        aside: Callable[[Callable[[], None]], object],
    ) -> None:
        """`finished` is called after each group whose submitters were told; `aside` lets another thread
        do something."""
        super().__init__()
        self._journal = journal
        self._clock = clock
        self._shortcut = shortcut
        self._finished = finished
        self._aside = aside
        self._loop = asyncio.get_running_loop()
        self._is_scheduled = False
        # What submits something before the next group is taken. Invariant: empty unless one is scheduled.
        self._before: list[Callable[[], None]] = []
        # The thread has the turn. Invariant: written on the loop only.
        self._is_away = False
        self._turns: SimpleQueue[bool] = SimpleQueue()  # False: there will be no more
        self._thread = threading.Thread(target=self._serve, name="journal", daemon=True)
        self._thread.start()
        journal.on_waiting = self._look

    def stop(self) -> None:
        """Nothing waits any more, and nothing will: end the thread."""
        self._turns.put(False)
        self._thread.join()

    def before_commit(self, work: Callable[[], None]) -> None:
        if self._is_away:  # the thread goes on with what is submitted meanwhile
            self._loop.call_soon(work)
        else:
            self._before.append(work)
            self._look()

    def _look(self) -> None:
        """Something waits for a commit."""
        if not self._is_scheduled and not self._is_away:
            self._is_scheduled = True
            self._loop.call_soon(self._take_turn)

    def _take_turn(self) -> None:
        while self._before:
            works, self._before = self._before, []
            for work in works:
                try:
                    work()
                except Exception as error:  # the others have their turn all the same
                    self.on_error("commit", error)
        self._is_scheduled = False
        journal = self._journal
        assert not self._is_away, "scheduled while the thread has the turn"
        count, size = journal.load()
        if not count:
            return
        clock = self._clock
        now = clock.monotonic()
        if self._shortcut.allows(now, clock.thread_cpu, count, size) and journal.is_plain:
            before = journal.commits
            try:
                commits = journal.commit()
            except BaseException as error:
                self._is_away = True  # for ever
                self._break(error)
                return
            journal.commits_on_loop += journal.commits - before
            ended = clock.monotonic()
            self._shortcut.took(ended, ended - now, on_loop=True, count=count, size=size)
            self._finish(commits, ended)
        else:
            self._is_away = True
            self._turns.put(True)

    def _finish(self, commits: Sequence[Commit], ended: float) -> None:
        for commit in commits:
            if commit.error is not None:
                self._shortcut.close(ended)
        try:
            self.around(partial(self._journal.finish, commits))
        except Exception as error:  # of one submitter: the others were told
            self.on_error("commit", error)
        finally:
            if self._journal.is_waiting:
                self._look()
            if not self._is_away and (work := self._journal.more_runway(ended)) is not None:
                self._aside(work)
            self._finished()

    # -- the thread --------------------------------------------------------------------------------

    def _serve(self) -> None:
        while self._turns.get():
            is_last = False
            while not is_last:
                began = self._clock.monotonic()
                try:
                    commits = self._journal.commit()
                except BaseException as error:
                    with suppress(RuntimeError):
                        self._loop.call_soon_threadsafe(self._break, error)
                    return
                ended = self._clock.monotonic()
                is_last = not self._journal.is_waiting
                try:
                    self._loop.call_soon_threadsafe(self._came_back, commits, began, ended, is_last)
                except RuntimeError:  # the loop is gone: no caller is left to be told
                    return

    def _break(self, error: BaseException) -> None:
        self.give_up("the journal cannot go on", error)

    def _came_back(
        self, commits: Sequence[Commit], began: float, ended: float, is_last: bool
    ) -> None:
        if is_last:
            self._is_away = False
        sizes = [record.size for one in commits for record in one.waiting]
        count, size = len(sizes), sum(sizes)
        self._shortcut.took(ended, ended - began, on_loop=False, count=count, size=size)
        self._finish(commits, ended)
