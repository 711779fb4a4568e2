"""Sends groups of records to the bucket, several at a time, and answers them in order.

    submit ─┬─ end of this turn of the loop ─┬─▶ PUT … PUT … PUT ─▶ landed, and all before it: finish
            └─ large: at once ───────────────┘

A group leaves at the end of the turn when none is on its way. Otherwise it waits for more records, until it
is large or the linger is over: a request to a bucket has a price and a latency, whatever its size.

A large group leaves in the middle of a turn, and no request waits for the turn after it: when many clients
publish, one turn reads megabytes and takes a tenth of a second, which is longer than the store takes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any, Final

from milepost.clock import Clock
from milepost.storage.bucket.chain import WINDOW, Group, added
from milepost.storage.bucket.journal import LARGE, BucketJournal, Outgoing
from milepost.storage.bucket.manifest import Place
from milepost.storage.bucket.objects import Objects, perform
from milepost.storage.journal.committer import AnyCommitter
from milepost.storage.journal.queue import Commit

_GO: Final = None  # what a loop sends into a coroutine that may go on


class Begun:
    """A coroutine whose first step is done at once, not in the next turn; to await it is to go on with it."""

    def __init__(self, coroutine: Coroutine[Any, None, None]) -> None:
        self._coroutine = coroutine
        self._error: BaseException | None = None
        self._is_over = False
        try:
            self._waits_for = coroutine.send(_GO)
        except StopIteration:
            self._is_over = True
        except BaseException as error:  # for the code that awaits it
            self._error = error

    def __await__(self) -> Generator[Any, None, None]:
        if self._error is not None:
            raise self._error
        while not self._is_over:
            try:
                try:
                    yield self._waits_for
                except BaseException as error:  # a cancellation: the coroutine decides
                    self._waits_for = self._coroutine.throw(error)
                else:
                    self._waits_for = self._coroutine.send(_GO)
            except StopIteration:
                self._is_over = True


def delay_s(in_flight: int, size: int, waited_s: float, linger_s: float) -> float | None:
    """How long a group still waits before it leaves; None if there is no room for it.

    >>> delay_s(0, 10, 0.0, 0.1), delay_s(1, 10, 0.04, 0.1), delay_s(1, LARGE, 0.0, 0.1)
    (0.0, 0.06, 0.0)
    >>> delay_s(WINDOW, LARGE, 1.0, 0.1) is None
    True
    """
    if in_flight >= WINDOW:
        return None
    if not in_flight or size >= LARGE:
        return 0.0
    return max(round(linger_s - waited_s, 6), 0.0)


class BucketCommitter(AnyCommitter):
    """Made and used on the loop; a task for each group that is on its way."""

    def __init__(
        self,
        journal: BucketJournal,
        objects: Objects,
        nonce: bytes,
        clock: Clock,
        linger_s: float,
        finished: Callable[[], None],
    ) -> None:
        super().__init__()
        self._journal = journal
        self._objects = objects
        self._nonce = nonce
        self._clock = clock
        self._linger_s = linger_s
        self._finished = finished
        self._loop = asyncio.get_running_loop()
        self._is_stopped = False
        self._timer: asyncio.Handle | None = None
        self._waiting_since = 0.0
        # What was taken from the journal and is not answered, in order.
        self._unanswered: deque[Outgoing] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        journal.on_waiting = self._look
        journal.on_large = self._send_large

    def stop(self) -> None:
        """Nothing waits any more, or nothing may be answered any more."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()

    def _look(self) -> None:
        """Something waits for a commit, and nothing did before."""
        self._waiting_since = self._clock.monotonic()
        self._schedule(0.0)

    def _schedule(self, delay: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if delay:
            self._timer = self._loop.call_later(delay, self._send)
        else:
            self._timer = self._loop.call_soon(self._send)

    def _send(self) -> None:
        self._timer = None
        journal, now = self._journal, self._clock.monotonic()
        while journal.is_waiting and not self._is_stopped:
            _, size = journal.load()
            waited = now - self._waiting_since
            delay = delay_s(journal.window.in_flight, size, waited, self._linger_s)
            if delay is None:
                return  # the next group that lands makes room
            if delay:
                self._schedule(delay)
                return
            self._send_one(now)
        self._answer()

    def _send_large(self) -> None:
        """What waits is large. Nothing is answered here: the submitter is not done with its step."""
        if self._journal.window.in_flight < WINDOW and not self._is_stopped:
            self._send_one(self._clock.monotonic())
            self._schedule(0.0)

    def _send_one(self, now: float) -> None:
        """Send the next group."""
        for outgoing in self._journal.outgoing():
            self._unanswered.append(outgoing)
            if outgoing.group is not None:
                request = Begun(perform(self._objects, added(self._nonce, outgoing.group)))
                task = self._loop.create_task(self._add(outgoing.group, request))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        self._waiting_since = now

    async def _add(self, group: Group, request: Begun) -> None:
        try:
            await request
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._is_stopped = True
            self.give_up("the journal cannot go on", error)
            return
        if not self._is_stopped:
            self._journal.commits += 1
            self._journal.window.landed(group.place)
            self._answer()
            if self._journal.is_waiting:
                self._send()

    def _answer(self) -> None:
        """Tell the submitters of all groups that have none before them on its way."""
        commits: list[Commit] = []
        window = self._journal.window
        answered_below = Place(window.next_place.epoch, window.next_place.number - window.in_flight)
        while self._unanswered and not self._is_stopped:
            group, commit = self._unanswered[0]
            if group is not None and group.place >= answered_below:
                break
            self._unanswered.popleft()
            commits.append(commit)
        if not commits:
            return
        try:
            self.around(partial(self._journal.finish, commits))
        except Exception as error:  # of one submitter: the others were told
            self.on_error("commit", error)
        finally:
            self._finished()
