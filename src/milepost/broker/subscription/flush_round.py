"""The round: read loops that woke run first, then each session is flushed once.

What a commit makes visible goes to many: messages to consumers, receipts to producers. One round sends it
all, the messages first: a consumer waits for them, while the producer is only told. A connection that
produces and consumes has its receipts written before that, ahead of the messages; cursors know those by then.

A round comes at the end of a turn of the loop. Behind a commit it comes at once (`during`): everything that
the commit changed is known by then, and one more turn would be a look at every socket in between.

Read loops that woke together may have much to send. When they have worked for a millisecond, the others wait
for the next round, so that receipts go out and sockets are looked at in between. What the sockets brought is
committed before that round: a publish waits for one step of the read loops at most, and not for two.

    commit ─▶ during: submitters are told ─▶ read loops run ─▶ flush ─▶ afterwards: receipts ─▶ flush
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

# How long read loops work in one round; what lies between two looks at the clock comes on top of it.
WORK_S: Final = 0.001


class Flushable(Protocol):
    def flush(self) -> None:
        """Send what was written."""
        ...


class FlushRound:
    def __init__(
        self, on_error: Callable[[str, BaseException], None], now: Callable[[], float]
    ) -> None:
        """`on_error` is told of a read loop, session or work that broke down: the others go on. `now`
        never goes back."""
        self._on_error = on_error
        self._now = now
        self._loop = asyncio.get_running_loop()
        # A round is on its way. Invariant: true if a read loop, a session or some work waits for one.
        self._is_due = False
        self._read_loops: list[Callable[[], None]] = []
        self._sessions: list[Flushable] = []
        self._afterwards: list[Callable[[], None]] = []

    def dispatch(self, run: Callable[[], None]) -> None:
        """Run a read loop in the next round."""
        if not self._is_due:
            self._schedule()
        self._read_loops.append(run)

    def flush(self, session: Flushable) -> None:
        """Flush a session in the next round."""
        if not self._is_due:
            self._schedule()
        self._sessions.append(session)

    def afterwards(self, work: Callable[[], None]) -> None:
        """Do something in the next round, when its read loops have run and what they wrote is sent."""
        if not self._is_due:
            self._schedule()
        self._afterwards.append(work)

    def during(self, work: Callable[[], None]) -> None:
        """Do something, then the round that it asked for. Read loops that wait for the round that is
        scheduled are left to it: receipts do not wait until those have sent what they have at hand."""
        is_scheduled, self._is_due = self._is_due, True
        earlier, self._read_loops = self._read_loops, []
        try:
            work()
        finally:
            if is_scheduled:
                self._go()  # the round that is scheduled does the rest
                self._read_loops[:0] = earlier
            else:
                self._run()

    def _schedule(self) -> None:
        self._is_due = True
        self._loop.call_soon(self._run)

    def _run(self) -> None:
        # Due while it runs: what is asked for meanwhile is part of it, or of the next round.
        try:
            self._go()
        finally:
            self._is_due = False
            if self._sessions or self._afterwards:
                self._schedule()
            elif self._read_loops:
                # One turn of the loop later than it could be, behind what the sockets bring in between.
                self._is_due = True
                self._loop.call_soon(self._loop.call_soon, self._run)

    def _go(self) -> None:
        works, self._afterwards = self._afterwards, []
        if self._read_loops:
            self._dispatch_some()
            if works:
                self._flush_all()
        for work in works:
            try:
                work()
            except Exception as error:
                self._on_error("receipts", error)
        # Where no read loop ran, no message waits: receipts and answers of one commit leave in one piece.
        self._flush_all()

    def _dispatch_some(self) -> None:
        # A read loop that is not done asks again: others have their turn before that.
        waiting, self._read_loops = self._read_loops, []
        until = self._now() + WORK_S
        for count, run in enumerate(waiting, 1):
            try:
                run()
            except Exception as error:
                self._on_error("feed", error)
            if count < len(waiting) and self._now() >= until:
                self._read_loops = waiting[count:] + self._read_loops
                return

    def _flush_all(self) -> None:
        sessions, self._sessions = self._sessions, []
        while sessions:
            try:
                sessions.pop().flush()
            except Exception as error:
                self._on_error("flush", error)
