"""Topics with transactions that are open, committed, aborted or interleaved, made over sockets.

Each scene is a topic of its own on a real broker, and knows which of its messages are committed. What
clients in processes of their own may see of it is in the table of `docs/transactions.md`; its columns are
the names of the scenes.
"""

from __future__ import annotations

from collections.abc import Callable

import milepost

PREFIX = "persistent://public/default/"


class Scene:
    """One topic. What is sent has a key, so that table views see it too."""

    def __init__(self, client: milepost.Client, name: str) -> None:
        self.topic = f"{PREFIX}seen-{name.replace(' ', '-')}"
        self._client = client
        self._producer = client.create_producer(self.topic)
        self._txns: dict[str, milepost.Transaction] = {}
        self._ends: dict[str, bool] = {}
        self._sent: list[tuple[str, bytes, str]] = []
        SCENES[name](self)

    def send(self, key: str, txn: str = "") -> None:
        value = b"%d" % len(self._sent)
        if txn and txn not in self._txns:
            self._txns[txn] = self._client.transaction(timeout=600)
        self._producer.send(value, partition_key=key, txn=self._txns.get(txn))
        self._sent.append((key, value, txn))

    def end(self, txn: str, *, commit: bool) -> None:
        self._txns[txn].commit() if commit else self._txns[txn].abort()
        self._ends[txn] = commit

    def _seen(self) -> list[tuple[str, bytes]]:
        seen = []
        for key, value, txn in self._sent:
            if txn and txn not in self._ends:
                break  # nothing behind an open transaction's first message
            if not txn or self._ends[txn]:
                seen.append((key, value))
        return seen

    @property
    def committed(self) -> list[bytes]:
        """What may be seen, in order."""
        return [value for _, value in self._seen()]

    @property
    def by_key(self) -> dict[str, bytes]:
        """The newest of each key of the same."""
        return dict(self._seen())


def _mixed(scene: Scene) -> None:
    scene.send("a")
    scene.send("a", "one")
    scene.send("b", "one")
    scene.send("c")


def _committed(scene: Scene) -> None:
    _mixed(scene)
    scene.end("one", commit=True)


def _aborted(scene: Scene) -> None:
    _mixed(scene)
    scene.end("one", commit=False)


def _all_aborted(scene: Scene) -> None:
    scene.send("a", "one")
    scene.end("one", commit=False)


def _interleaved(scene: Scene) -> None:
    scene.send("a", "two")
    scene.send("b", "one")
    scene.send("c")
    scene.send("c", "two")
    scene.send("b", "one")
    scene.end("two", commit=False)
    scene.send("d", "three")
    scene.send("a")
    scene.end("one", commit=True)


SCENES: dict[str, Callable[[Scene], None]] = {
    "open": _mixed,
    "committed": _committed,
    "aborted": _aborted,
    "nothing but aborted": _all_aborted,
    "interleaved": _interleaved,
}
