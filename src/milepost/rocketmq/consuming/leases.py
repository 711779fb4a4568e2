"""Which messages clients hold, until when, and which wait behind them.

A lease is one delivery of one message. It ends by an ack, by a release, or when its time is over; then the
message is ready again. Knows no clock but the time that it is given, and no cursor.

    >>> leases = Leases()
    >>> lease = leases.grant(41, ((41, 42),), "client", until=10.0)
    >>> leases.find(41, lease.number) is lease, leases.next_end, leases.take_over(9.0)
    (True, 10.0, [])
    >>> [one.index for one in leases.take_over(10.0)], leases.find(41, lease.number)
    ([41], None)
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from milepost.positions.ranges import Range


@dataclass(slots=True, eq=False)
class Lease:
    number: int
    """Higher for a later lease."""
    index: int
    """Of the message; of a chunked one, of its last chunk."""
    ranges: Sequence[Range]
    """What of the subscription it holds: of a chunked message all chunks."""
    client: str
    until: float
    """Seconds of the monotonic clock."""
    renews_s: float = 0.0
    """It is prolonged by so much while its client lives; 0: it ends."""
    key: str = ""
    """The message group."""


class Leases:
    def __init__(self, numbers: Iterator[int] | None = None) -> None:
        """`numbers`: those of new leases; no two leases of a process have the same."""
        self._by_index: dict[int, Lease] = {}
        self._by_client: dict[str, dict[int, Lease]] = {}
        # (end, number, lease): entries of leases that were ended or moved stay until their time is over.
        # Invariant: every lease is in it with its end.
        self._ends: list[tuple[float, int, Lease]] = []
        self._numbers = numbers or count(1)

    def __len__(self) -> int:
        return len(self._by_index)

    def grant(
        self,
        index: int,
        ranges: Sequence[Range],
        client: str,
        until: float,
        renews_s: float = 0.0,
        key: str = "",
    ) -> Lease:
        """A new lease of a message that has none."""
        assert index not in self._by_index, f"index {index} is leased twice"
        lease = Lease(next(self._numbers), index, ranges, client, until, renews_s, key)
        self._by_index[index] = lease
        self._by_client.setdefault(client, {})[index] = lease
        heapq.heappush(self._ends, (until, lease.number, lease))
        return lease

    def find(self, index: int, number: int) -> Lease | None:
        """The lease with this number, if it has not ended."""
        lease = self._by_index.get(index)
        return lease if lease is not None and lease.number == number else None

    def at(self, index: int) -> Lease | None:
        return self._by_index.get(index)

    def move(self, lease: Lease, until: float) -> None:
        """It ends at another time, and is not prolonged any more."""
        lease.until, lease.renews_s = until, 0.0
        heapq.heappush(self._ends, (until, lease.number, lease))
        if len(self._ends) > 2 * len(self._by_index) + 64:
            self._tidy()

    def end(self, lease: Lease) -> None:
        if self._by_index.get(lease.index) is lease:
            self._forget(lease)

    def _forget(self, lease: Lease) -> None:
        del self._by_index[lease.index]
        own = self._by_client[lease.client]
        del own[lease.index]
        if not own:
            del self._by_client[lease.client]

    def of_client(self, client: str) -> list[Lease]:
        return list(self._by_client.get(client, {}).values())

    def clear(self) -> None:
        self._by_index.clear()
        self._by_client.clear()
        self._ends.clear()

    @property
    def next_end(self) -> float | None:
        """When a lease next ends; None if there is none."""
        while self._ends and not self._is_current(*self._ends[0]):
            heapq.heappop(self._ends)
        return self._ends[0][0] if self._ends else None

    def take_over(
        self, now: float, is_alive: Callable[[str], bool] = lambda client: False
    ) -> list[Lease]:
        """End the leases whose time is over. Those of a client that is alive go on if they renew."""
        over: list[Lease] = []
        while (end := self.next_end) is not None and end <= now:
            lease = heapq.heappop(self._ends)[2]
            if lease.renews_s and is_alive(lease.client):
                lease.until = now + lease.renews_s
                heapq.heappush(self._ends, (lease.until, lease.number, lease))
            else:
                self._forget(lease)
                over.append(lease)
        return over

    def _is_current(self, until: float, number: int, lease: Lease) -> bool:
        return self._by_index.get(lease.index) is lease and lease.until == until

    def _tidy(self) -> None:
        self._ends = [entry for entry in self._ends if self._is_current(*entry)]
        heapq.heapify(self._ends)


class MessageGroups:
    """The order of a FIFO consumer group: a message waits while a client has, or has failed, one before it
    of the same message group. Messages without a message group are one.

    >>> groups = MessageGroups()
    >>> groups.went("a", 1)
    >>> groups.may_go("a", 2, (), lambda index: False), groups.may_go("b", 2, (), lambda index: False)
    (False, True)
    >>> groups.done("a", 1)
    >>> groups.may_go("a", 2, (), lambda index: False)
    True
    """

    def __init__(self) -> None:
        # Message group → indexes that clients have got, and that are not known to be acked.
        self._open: dict[str, set[int]] = {}

    def went(self, key: str, index: int) -> None:
        """A client gets the message."""
        self._open.setdefault(key, set()).add(index)

    def done(self, key: str, index: int) -> None:
        """The message is acked."""
        found = self._open.get(key)
        if found is not None:
            found.discard(index)
            if not found:
                del self._open[key]

    def may_go(
        self, key: str, index: int, mine: Collection[int], is_done: Callable[[int], bool]
    ) -> bool:
        """May a client have the message that gets `mine` with it? `is_done` says whether a message was
        acked in another way: by an operator, say."""
        before = [one for one in self._open.get(key, ()) if one < index and one not in mine]
        for one in before:
            if not is_done(one):
                return False
            self.done(key, one)
        return True

    def clear(self) -> None:
        self._open.clear()
