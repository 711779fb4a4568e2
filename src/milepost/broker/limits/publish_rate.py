"""Publish rate limits: pauses the connections of producers that are too fast.

What they have sent is stored all the same and gets its receipts; what they will send waits in their own
sockets. Nothing is refused and nothing is lost.

    throttle.published(peer, 100, 25_000)     # too much: the peer is held
    throttle.end()                            # the policy is gone: all connections are read again
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from milepost.broker.limits.token_bucket import Throttle
from milepost.broker.peer import Peer
from milepost.broker.policies.effective import Rate

# A timer is set for this long at most.
WAIT_S_MAX = 60.0


class PublishThrottle:
    def __init__(
        self, rate: Rate, now: Callable[[], float], on_hold: Callable[[], None] = lambda: None
    ) -> None:
        """`on_hold` is called for each peer that has to wait."""
        self.rate = rate
        self._on_hold = on_hold
        self._throttle = Throttle(rate, now)
        self._held: set[Peer] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    def published(self, peer: Peer, messages: int, size: int) -> None:
        """So much came from a peer."""
        self._throttle.took(messages, size)
        if not self._throttle.room and peer not in self._held:
            self._held.add(peer)
            peer.hold()
            self._on_hold()
            self._wait()

    def look(self) -> None:
        """Read everybody again if there is room."""
        self._timer = None
        if not self._held:
            return
        if self._throttle.room:
            self._release()
        else:
            self._wait()

    def end(self) -> None:
        """There is no such limit any more."""
        if self._timer is not None:
            self._timer.cancel()
        self._release()

    def _wait(self) -> None:
        if self._timer is None:
            wait_s = min(self._throttle.wait_s, WAIT_S_MAX)
            self._timer = self._loop.call_later(wait_s, self.look)

    def _release(self) -> None:
        held, self._held = self._held, set()
        for peer in held:
            peer.release()
