"""Deletes objects that no image names any more, after a grace.

An object that was listed *before* the owner's manifest was replaced, and that the new image does not name, is
never named again: earlier owners cannot move the manifest any more, and every name is used once. So a start
and each checkpoint may hand over what they found, also what a kill has left. It is deleted only after the
grace: a broker that has lost the shard and does not know it yet, a thread that brings a ledger from a pack
that was merged, and `milepost verify` may still read it. What is not deleted when the owner ends is found by
the next start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from milepost.storage.bucket.image import FOLDER as IMAGES
from milepost.storage.bucket.image import PACKS, Extents, packs_of
from milepost.storage.bucket.objects import Delete, Done, Objects, Steps, listed
from milepost.storage.bucket.watched import Upkeep

# Much longer than a broker that has lost its right goes on serving.
GRACE_S: Final = 60.0
# An object that the store did not delete is tried again after so long.
RETRY_S: Final = 10.0
# Deletions that are on their way at a time.
DELETIONS: Final = 16


def found() -> Steps[dict[str, int]]:
    """The images and packs that are there, with their sizes. To be asked before the manifest is moved."""
    images = yield from listed(IMAGES)
    packs = yield from listed(PACKS)
    return dict([*images, *packs])


def unnamed(there: Iterable[str], image: str, extents: Extents) -> list[str]:
    """Of objects that were found those that are not named by the manifest's image."""
    named = packs_of(extents) | {image}
    return [key for key in there if key not in named]


async def delete_all(objects: Objects, keys: Iterable[str]) -> set[str]:
    """Delete objects, several at a time: a store takes as long for one as a checkpoint has for all. Returns
    those that the store has deleted. After one that it has not, no other is begun: a store that takes no
    deletions must not hold up checkpoints, which go on without."""
    turns = asyncio.Semaphore(DELETIONS)
    gone: set[str] = set()
    is_refused = False

    async def delete(key: str) -> None:
        nonlocal is_refused
        async with turns:
            if is_refused:
                return
            if isinstance(await objects.answer(Delete(key)), Done):
                gone.add(key)
            else:
                is_refused = True

    await asyncio.gather(*map(delete, keys))
    return gone


class Collector:
    def __init__(
        self,
        objects: Objects,
        monotonic: Callable[[], float],
        grace_s: float = GRACE_S,
        upkeep: Upkeep | None = None,
    ) -> None:
        """`upkeep`: where it is counted."""
        self._objects = objects
        self._monotonic = monotonic
        self._grace_s = grace_s
        # Key → when it may be deleted.
        self._waiting: dict[str, float] = {}
        self._news = asyncio.Event()
        self.upkeep = Upkeep() if upkeep is None else upkeep

    def add(self, keys: Iterable[str]) -> None:
        """Nothing names these any more."""
        due = self._monotonic() + self._grace_s
        for key in keys:
            self._waiting.setdefault(key, due)
        self.upkeep.waiting = len(self._waiting)
        self._news.set()

    async def collect(self) -> None:
        """Delete the objects whose grace is over. Those that the store does not delete are tried later."""
        now = self._monotonic()
        keys = [key for key, due in self._waiting.items() if due <= now]
        gone = await delete_all(self._objects, keys)
        for key in keys:
            if key not in self._waiting:
                continue  # a checkpoint collects as well
            if key in gone:
                del self._waiting[key]
                self.upkeep.collected += 1
            else:
                self._waiting[key] = self._monotonic() + RETRY_S
        self.upkeep.waiting = len(self._waiting)

    async def run(self) -> None:
        """Delete objects as their time comes, until it is cancelled."""
        while True:
            self._news.clear()
            await self.collect()
            if not self._waiting:
                await self._news.wait()
                continue
            first = min(self._waiting.values())
            await asyncio.sleep(max(first - self._monotonic(), 0.01))
