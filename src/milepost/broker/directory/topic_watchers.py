"""Clients that are told when topics of a namespace come and go (PIP-145).

A watcher has a pattern and the names that matched it when its client was last told. Changes of one turn
of the loop are told together, with the hash of all names that match now, by which the client knows that
it has missed nothing.

Patterns come from strangers. They are RE2's: matching takes time linear in the name, whatever the
pattern. Without their scheme pattern and name must match as wholes, as upstream has it.

    >>> pattern = TopicPattern("persistent://public/default/orders-.*", length_max=50)
    >>> pattern.matching(["persistent://public/default/orders-eu", "persistent://public/default/x"])
    ['persistent://public/default/orders-eu']
    >>> topics_hash([])
    '0'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

import google_crc32c
import re2

from milepost.errors import InvalidInput, TooManyRequests
from milepost.wire import replies

# Of one connection.
WATCHERS_MAX = 1000


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
        return [name for name in names if self._regex.fullmatch(_without_scheme(name))]


def _without_scheme(name: str) -> str:
    return name.partition("://")[2] or name


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else error
    return reason.decode() if isinstance(reason, bytes) else str(reason)


class WatchingPeer(Protocol):
    """The connection of a client that watches."""

    def write(self, buffers: tuple[bytes, ...]) -> None: ...


class _Watcher:
    __slots__ = ("names", "namespace", "pattern", "told")

    def __init__(self, namespace: str, pattern: TopicPattern, names: set[str]) -> None:
        self.namespace = namespace
        self.pattern = pattern
        self.names = names
        """Topics that match now."""
        self.told = set(names)
        """Those that the client knows."""


class TopicWatchers:
    """All watchers of a broker. `schedule` calls a function in the next turn of the loop."""

    def __init__(self, schedule: Callable[[Callable[[], None]], object]) -> None:
        self._schedule = schedule
        self._by_peer: dict[WatchingPeer, dict[int, _Watcher]] = {}
        self._is_scheduled = False

    def __len__(self) -> int:
        return sum(map(len, self._by_peer.values()))

    def add(
        self,
        peer: WatchingPeer,
        watcher_id: int,
        namespace: str,
        pattern: TopicPattern,
        names: Iterable[str],
    ) -> list[str]:
        """Watch; returns the names that match already. An id that is in use begins anew."""
        of_peer = self._by_peer.setdefault(peer, {})
        if len(of_peer) >= WATCHERS_MAX and watcher_id not in of_peer:
            raise TooManyRequests(f"this connection has {WATCHERS_MAX} topic watchers already")
        matching = pattern.matching(names)
        of_peer[watcher_id] = _Watcher(namespace, pattern, set(matching))
        return matching

    def remove(self, peer: WatchingPeer, watcher_id: int) -> None:
        of_peer = self._by_peer.get(peer, {})
        of_peer.pop(watcher_id, None)
        if not of_peer:
            self.forget(peer)

    def of(self, peer: WatchingPeer) -> list[tuple[int, str]]:
        """The watchers of a peer, and the namespace of each."""
        return [(one, watcher.namespace) for one, watcher in self._by_peer.get(peer, {}).items()]

    def forget(self, peer: WatchingPeer) -> None:
        """The connection is gone."""
        self._by_peer.pop(peer, None)

    def changed(self, namespace: str, added: Iterable[str], removed: Iterable[str]) -> None:
        """Topics of a namespace came or went."""
        if not self._by_peer:
            return
        added, removed = list(added), list(removed)
        for of_peer in self._by_peer.values():
            for watcher in of_peer.values():
                if watcher.namespace == namespace:
                    watcher.names.difference_update(removed)
                    watcher.names.update(watcher.pattern.matching(added))
        if not self._is_scheduled:
            self._is_scheduled = True
            self._schedule(self._tell)

    def _tell(self) -> None:
        self._is_scheduled = False
        for peer, of_peer in list(self._by_peer.items()):
            for watcher_id, watcher in of_peer.items():
                new, deleted = watcher.names - watcher.told, watcher.told - watcher.names
                watcher.told = set(watcher.names)
                if new or deleted:
                    update = replies.watch_topic_update(
                        watcher_id, sorted(new), sorted(deleted), topics_hash(watcher.names)
                    )
                    peer.write((update,))
