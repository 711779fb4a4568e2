"""Clients that are told when topics of a namespace come and go (PIP-145).

A watcher has a pattern, the names that match it, and which of them came and went since its client was last
told. Changes of one turn of the loop are told together, with the hash of all names that match now, by which
the client knows that it has missed nothing.

Patterns come from strangers. They are RE2's: matching takes time linear in the name, whatever the
pattern. Without their scheme pattern and name must match as wholes, as upstream has it. A walk through very
many names, and telling very many watchers, rests now and then; walks are one at a time, however many clients
ask.

    >>> pattern = TopicPattern("persistent://public/default/orders-.*", length_max=50)
    >>> pattern.matching(["persistent://public/default/orders-eu", "persistent://public/default/x"])
    ['persistent://public/default/orders-eu']
    >>> topics_hash([])
    '0'
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

import google_crc32c
import re2

from milepost.broker.limits.time_slices import TimeSlices
from milepost.clock import Clock
from milepost.errors import InvalidInput, TooManyRequests
from milepost.wire import replies

# Of one connection.
WATCHERS_MAX: Final = 1000

# Names that are matched between two looks at the clock, some microseconds each.
_MATCHED_AT_ONCE: Final = 64
# Names of watchers that are told in one turn: their hash is over all of them.
TOLD_AT_ONCE: Final = 2000


def topics_hash(names: Iterable[str]) -> str:
    """By which both sides know whether they speak of the same topics."""
    return f"{google_crc32c.value(','.join(sorted(names)).encode()):x}"


class TopicPattern:
    __slots__ = ("_regex",)

    def __init__(self, text: str, *, length_max: int) -> None:
        if len(text) > length_max:
            raise InvalidInput(
                f"a pattern of {len(text)} characters; at most {length_max} are allowed"
            )
        options = re2.Options()
        options.log_errors = False
        try:
            self._regex = re2.compile(_without_scheme(text), options)
        except re2.error as error:
            raise InvalidInput(f"pattern {text!r}: {_reason(error)}") from None

    def matching(self, names: Iterable[str]) -> list[str]:
        # As bytes: of text the library would count characters, which takes four times as long.
        is_match = self._regex.fullmatch
        return [name for name in names if is_match(_without_scheme(name).encode())]


def _without_scheme(name: str) -> str:
    return name.partition("://")[2] or name


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else error
    return reason.decode() if isinstance(reason, bytes) else str(reason)


class WatchingPeer(Protocol):
    """The connection of a client that watches."""

    def write(self, buffers: tuple[bytes, ...]) -> None: ...


class _Watcher:
    __slots__ = ("gone", "is_waiting", "names", "namespace", "new", "pattern")

    def __init__(self, namespace: str, pattern: TopicPattern, names: set[str]) -> None:
        self.namespace = namespace
        self.pattern = pattern
        self.names = names
        """Topics that match now."""
        self.new: set[str] = set()
        """Those of them that the client was not told of."""
        self.gone: set[str] = set()
        """Topics that do not match any more, or are not there, and the client was not told."""
        self.is_waiting = False
        """It has something to tell, and its turn comes."""

    def change(self, added: Iterable[str], removed: Iterable[str]) -> None:
        for name in removed:
            if name in self.names:
                self.names.discard(name)
                if name in self.new:
                    self.new.discard(name)
                else:
                    self.gone.add(name)
        for name in self.pattern.matching(added):
            if name not in self.names:
                self.names.add(name)
                if name in self.gone:
                    self.gone.discard(name)
                else:
                    self.new.add(name)


class TopicWatchers:
    """All watchers of a broker. `schedule` calls a function in the next turn of the loop."""

    def __init__(self, schedule: Callable[[Callable[[], None]], object]) -> None:
        self._schedule = schedule
        self._by_peer: dict[WatchingPeer, dict[int, _Watcher]] = {}
        # Watchers that have something to tell.
        self._waiting: deque[tuple[WatchingPeer, int, _Watcher]] = deque()
        self._is_scheduled = False
        self._walk = asyncio.Lock()

    def __len__(self) -> int:
        return sum(map(len, self._by_peer.values()))

    async def matching(
        self, pattern: TopicPattern, list_names: Callable[[], Sequence[str]], clock: Clock
    ) -> list[str]:
        """The names that match now, in order, of those that are listed now and again at the end."""
        async with self._walk:
            slices = TimeSlices(clock)
            names, found = list_names(), list[str]()
            for at in range(0, len(names), _MATCHED_AT_ONCE):
                found += pattern.matching(names[at : at + _MATCHED_AT_ONCE])
                if slices.is_over:
                    await slices.rest()
            if (later := list_names()) == names:
                return found
            new, still = set(later).difference(names), set(later).intersection(found)
            return sorted([*still, *pattern.matching(new)])

    def add(
        self,
        peer: WatchingPeer,
        watcher_id: int,
        namespace: str,
        pattern: TopicPattern,
        matching: Iterable[str],
    ) -> None:
        """Watch; `matching` are the names that match already. An id that is in use begins anew."""
        of_peer = self._by_peer.setdefault(peer, {})
        if len(of_peer) >= WATCHERS_MAX and watcher_id not in of_peer:
            raise TooManyRequests(f"this connection has {WATCHERS_MAX} topic watchers already")
        of_peer[watcher_id] = _Watcher(namespace, pattern, set(matching))

    def remove(self, peer: WatchingPeer, watcher_id: int) -> None:
        of_peer = self._by_peer.get(peer, {})
        of_peer.pop(watcher_id, None)
        if not of_peer:
            self.forget(peer)

    def of(self, peer: WatchingPeer) -> list[tuple[int, str]]:
        """The watchers of a peer, and the namespace of each."""
        return [(one, watcher.namespace) for one, watcher in self._by_peer.get(peer, {}).items()]

    def namespaces(self) -> set[str]:
        """The namespaces that are watched."""
        return {one.namespace for of_peer in self._by_peer.values() for one in of_peer.values()}

    def forget(self, peer: WatchingPeer) -> None:
        """The connection is gone."""
        self._by_peer.pop(peer, None)

    def changed(self, namespace: str, added: Iterable[str], removed: Iterable[str]) -> None:
        """Topics of a namespace came or went."""
        if not self._by_peer:
            return
        added, removed = list(added), list(removed)
        for peer, of_peer in self._by_peer.items():
            for watcher_id, watcher in of_peer.items():
                if watcher.namespace == namespace:
                    watcher.change(added, removed)
                    if not watcher.is_waiting and (watcher.new or watcher.gone):
                        watcher.is_waiting = True
                        self._waiting.append((peer, watcher_id, watcher))
        self._schedule_tell()

    def _schedule_tell(self) -> None:
        if self._waiting and not self._is_scheduled:
            self._is_scheduled = True
            self._schedule(self._tell)

    def _tell(self) -> None:
        """Tell some watchers, and the others in turns to come."""
        self._is_scheduled = False
        left = TOLD_AT_ONCE
        while self._waiting and left > 0:
            peer, watcher_id, watcher = self._waiting.popleft()
            watcher.is_waiting = False
            if self._by_peer.get(peer, {}).get(watcher_id) is not watcher:
                continue  # it was closed meanwhile
            new, gone, watcher.new, watcher.gone = watcher.new, watcher.gone, set(), set()
            if new or gone:
                left -= max(len(watcher.names), 1)
                update = replies.watch_topic_update(
                    watcher_id, sorted(new), sorted(gone), topics_hash(watcher.names)
                )
                peer.write((update,))
        self._schedule_tell()
