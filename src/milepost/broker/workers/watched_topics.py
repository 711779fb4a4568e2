"""Topics of other workers, for clients that watch a namespace here (PIP-145); and of this one, for theirs.

A worker whose clients watch asks each other one "which topics have you, if not these?" and is answered when
they change, or after a while. So only workers with watchers ask, nothing is lost when a worker dies, and a
change is known after tenths of a second. What is known of a worker's topics changes here and at the watchers
in one step.

    async with broker.watched_topics.joining("public/default") as list_names:
        …                                                   # list_names() has the topics of all workers
        broker.watchers.add(…)                              # what comes and goes from here on is told
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from milepost.broker.directory.topic_watchers import topics_hash
from milepost.broker.workers.link import Answer, Doc
from milepost.errors import MilepostError

if TYPE_CHECKING:
    from milepost.broker.broker import Broker
    from milepost.broker.workers.workers import Workers

logger = logging.getLogger(__name__)

# A question about topics that do not change is answered after so long.
HOLD_S: Final = 10.0
# How much longer the answer is waited for.
GRACE_S: Final = 5.0
# Changes of so long are answered together.
GATHER_S: Final = 0.1
# A worker that does not answer is asked again after so long.
RETRY_S: Final = 1.0


class WatchedTopics:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        # Of each other worker: the topics of watched namespaces. Invariant: the watchers know them.
        self._known: dict[int, dict[str, set[str]]] = {}
        # Namespaces that clients are about to watch.
        self._joining: Counter[str] = Counter()
        self._asking: dict[int, asyncio.Task[None]] = {}
        # Set, and replaced, when topics of this worker come or go.
        self._changed = asyncio.Event()
        self._digests: dict[str, str] = {}

    @property
    def _workers(self) -> Workers:
        workers = self._broker.workers
        assert workers is not None, "there are no others"
        return workers

    @property
    def _namespaces(self) -> set[str]:
        return self._broker.watchers.namespaces() | set(self._joining)

    # -- asking ------------------------------------------------------------------------------------

    @asynccontextmanager
    async def joining(self, namespace: str) -> AsyncIterator[Callable[[], Sequence[str]]]:
        """While a client joins those that watch a namespace: what lists its topics at all workers, as the
        watchers know them at that moment."""
        own = partial(self._broker.topics_of_namespace, namespace)
        if self._broker.workers is None:
            yield own
            return
        self._joining[namespace] += 1
        try:
            await asyncio.gather(
                *(self._learn(shard, namespace) for shard in self._workers.placement.others)
            )
            yield lambda: sorted(
                {*own(), *(name for one in self._known.values() for name in one[namespace])}
            )
        finally:
            self._joining -= Counter([namespace])

    async def _learn(self, shard: int, namespace: str) -> None:
        """Know the topics of a worker, and hear of changes from here on."""
        known = self._known.setdefault(shard, {})
        if namespace not in known:
            values = {"namespace": namespace, "mode": "PERSISTENT"}
            said, _ = await self._workers.ask_served(shard, "topics", values)
            if (
                namespace not in known
            ):  # else another client has asked too, and changes were heard since
                known[namespace] = set(said["names"])
                if (asking := self._asking.pop(shard, None)) is not None:
                    asking.cancel()  # its question leaves this namespace out
        if shard not in self._asking:
            asking = asyncio.get_running_loop().create_task(self._follow(shard))
            self._asking[shard] = asking
            asking.add_done_callback(partial(self._ended, shard))

    def _ended(self, shard: int, asking: asyncio.Task[None]) -> None:
        if self._asking.get(shard) is asking:
            del self._asking[shard]
        if not asking.cancelled() and (error := asking.exception()) is not None:
            self._broker.unexpected("watched topics", error)

    async def _follow(self, shard: int) -> None:
        """Hear what changes at a worker, as long as a client watches."""
        known = self._known[shard]
        while not self._broker.is_closing:
            namespaces = self._namespaces
            for namespace in known.keys() - namespaces:
                del known[namespace]
            if not known:
                return
            digests = {namespace: topics_hash(names) for namespace, names in known.items()}
            try:
                said, _ = await self._workers.link.ask(
                    shard, "watch_topics", {"digests": digests}, timeout_s=HOLD_S + GRACE_S
                )
            except MilepostError as error:
                logger.info("topics of worker %d are not watched just now: %s", shard, error)
                await asyncio.sleep(RETRY_S)
                continue
            for namespace, names in said["names"].items():
                now, before = set(names), known[namespace]
                known[namespace] = now
                self._broker.watchers.changed(namespace, sorted(now - before), sorted(before - now))

    # -- answering ---------------------------------------------------------------------------------

    def changed(self, namespace: str) -> None:
        """Topics of this worker came or went."""
        self._digests.pop(namespace, None)
        self._changed.set()
        self._changed = asyncio.Event()

    async def answer(self, said: Doc, body: bytes) -> Answer:
        """Topics of namespaces that are not those that another worker knows of, when there are any."""
        digests: dict[str, str] = said["digests"]
        with suppress(TimeoutError):
            async with asyncio.timeout(HOLD_S):
                while not (news := self._news(digests)) and not self._broker.is_closing:
                    await self._changed.wait()
                    await asyncio.sleep(GATHER_S)
                return {"names": news}, b""
        return {"names": {}}, b""

    def _news(self, digests: dict[str, str]) -> dict[str, Sequence[str]]:
        return {
            namespace: self._broker.topics_of_namespace(namespace)
            for namespace, digest in digests.items()
            if self._digest(namespace) != digest
        }

    def _digest(self, namespace: str) -> str:
        digest = self._digests.get(namespace)
        if digest is None:
            digest = topics_hash(self._broker.topics_of_namespace(namespace))
            self._digests[namespace] = digest
        return digest

    def close(self) -> None:
        for asking in self._asking.values():
            asking.cancel()
        self._changed.set()
