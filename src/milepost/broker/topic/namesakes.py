"""Topics and subscriptions that are deleted, and made again, while transactions are open.

What was added to a transaction is what had the name then. Before another one takes the name, open
transactions let go of it, durably; the old one is gone by then, so a crash between the two loses nothing. A
subscription whose deletion the catalog may still refuse is not gone yet.

    subscription    deleted ─▶ it is known that it is ─▶ let go ─▶ the next one is made
    topic           deleted, made again ─▶ let go ─▶ it is made ready for transactions
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from milepost.broker.transactions.coordinator import Added, Coordinator
from milepost.errors import MilepostError

if TYPE_CHECKING:
    from milepost.broker.topic.topic import Topic
    from milepost.storage.interface import Store


class Namesakes:
    def __init__(
        self, store: Store, books: Callable[[], Iterable[tuple[int, Coordinator]]]
    ) -> None:
        """`books`: what is known of transactions here, each with its state in the store."""
        self._store = store
        self._books = books
        self.departures: dict[Topic, set[asyncio.Future[None]]] = {}
        """Deletions of subscriptions that the catalog may refuse: done when it has answered."""
        # Facts on their way to the disk, of what transactions have let go.
        self._partings: set[asyncio.Future[MilepostError | None]] = set()

    @contextmanager
    def departing(self, topic: Topic) -> Iterator[None]:
        """A subscription of the topic is being deleted; it may be back at the end of the block."""
        answer = asyncio.get_running_loop().create_future()
        self.departures.setdefault(topic, set()).add(answer)
        try:
            yield
        finally:
            self.departures[topic].discard(answer)
            if not self.departures[topic]:
                del self.departures[topic]
            answer.set_result(None)

    async def settle(self, topic: Topic) -> None:
        """Return when it is known which subscriptions a topic has."""
        while answers := self.departures.get(topic):
            await asyncio.wait(answers)

    async def let_go_of_deleted(self, topic: Topic) -> bool:
        """The same as `let_go` of all subscriptions that a topic has not any more. Had it to wait?"""
        is_waiting = topic in self.departures
        await self.settle(topic)
        text, there = topic.name.text, topic.subscriptions.keys() | topic.being_made
        gone = {
            one
            for _, book in self._books()
            for txn in book.open.values()
            for one in txn.subscriptions
            if one[0] == text and one[1] not in there
        }
        return await self.let_go(sorted(gone)) or is_waiting

    async def let_go(self, names: Sequence[Added]) -> bool:
        """Open transactions have no part any more in what had these names: durable when this returns. The
        second of two callers may find nothing left to do, so it waits for what the first has begun; and what
        the disk has refused is tried again, for it is true in memory. Had it to wait?"""
        for state_id, book in self._books():
            fact = book.let_go(names) if book.open else b""
            if fact or self._store.is_unfounded(state_id):
                answer = asyncio.get_running_loop().create_future()
                self._partings.add(answer)
                answer.add_done_callback(self._partings.discard)
                if fact:
                    self._store.fact(state_id, fact, answer.set_result)
                else:
                    self._store.keep_state(state_id, answer.set_result)
        answers = list(self._partings)
        for answer in answers:
            if (error := await asyncio.shield(answer)) is not None:  # others may wait for it too
                raise error
        return bool(answers)
