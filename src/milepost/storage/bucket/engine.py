"""The store of a broker on a bucket: what the broker awaits, durable when the bucket has it.

It is the engine of a data directory with three differences. Groups of the journal go to the bucket. A
change of the catalog is answered when the record that holds it is there. A checkpoint puts what it wrote
into packs before the catalog counts on it, merges packs that have become many or sparse, stores the catalog
as an image, and moves the manifest; only then are the groups that the image holds deleted, and after a grace
what no image names any more.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, Protocol
from uuid import uuid4

from milepost.errors import BucketUnusable, Fenced, PersistenceError, UnknownFormat
from milepost.storage.bucket import chain
from milepost.storage.bucket.board import BEAT_S, Sign, board_key
from milepost.storage.bucket.cache import CacheFiles
from milepost.storage.bucket.catalog_changes import NotedCatalog
from milepost.storage.bucket.chain import Claim
from milepost.storage.bucket.committer import BucketCommitter
from milepost.storage.bucket.image import FOLDER as IMAGES
from milepost.storage.bucket.image import (
    PACKS,
    Extents,
    Image,
    Piece,
    extended,
    packed,
    size_of,
)
from milepost.storage.bucket.journal import BucketJournal
from milepost.storage.bucket.manifest import KEY as MANIFEST
from milepost.storage.bucket.manifest import Manifest
from milepost.storage.bucket.objects import (
    Delete,
    Found,
    Get,
    Listed,
    Put,
    Scan,
    fetched,
    perform,
    stored,
)
from milepost.storage.bucket.upkeep import collector, merge
from milepost.storage.bucket.upkeep.collector import GRACE_S, Collector
from milepost.storage.bucket.watched import RIGHT_S, WatchedObjects
from milepost.storage.catalog.catalog import Catalog
from milepost.storage.catalog.sqlite_catalog import FILE as CATALOG_FILE
from milepost.storage.catalog.sqlite_catalog import SqliteCatalog
from milepost.storage.checkpoint import Checkpoint
from milepost.storage.engine import CatalogOutcome, StorageEngine, settle
from milepost.storage.files import Files
from milepost.storage.header import HEADER_SIZE
from milepost.storage.journal.committer import AnyCommitter
from milepost.storage.journal.loop_commit import Shortcut
from milepost.storage.journal.records import CATALOG
from milepost.storage.ledgers.ledger import Flush, LedgerRow, ledger_path, mileposts_path
from milepost.storage.ledgers.mileposts import ROW_SIZE
from milepost.storage.lock import DirectoryLock
from milepost.storage.store import Store

logger = logging.getLogger(__name__)

# A pack is about this large at most, unless one ledger has more.
PACK_SIZE: Final = 32 * 1024 * 1024
# Packs that are on their way at a time.
PACKS_AT_ONCE: Final = 4
# More than on a disk: readers that wait for the bucket must not hold up checkpoints, nor other readers.
FILE_THREADS: Final = 32
# How often a broker that may not serve looks whether it may again.
_LOOK_S: Final = 0.05
# How often a broker that may serve looks whether the right that others renew is still the same.
_GLANCE_S: Final = 0.25
# For giving a shard back; without it the next owner waits until this one is taken for dead.
_RELEASE_S: Final = 5.0


class Right(Protocol):
    """The right to serve: kept by writes to the bucket, lost after some seconds without."""

    def idle_s(self) -> float: ...
    def has_right(self) -> bool: ...
    @property
    def lapses(self) -> int:
        """How often it was lost and another broker may have come between."""
        ...


class BucketEngine(StorageEngine):
    """A store on a bucket, its threads, and the loop they report to. Made and used on that loop."""

    _file_thread_count = FILE_THREADS

    def __init__(
        self,
        store: Store,
        lock: DirectoryLock,
        objects: WatchedObjects,
        files: CacheFiles,
        claim: Claim,
        extents: Extents,
        linger_s: float,
        garbage: Sequence[str] = (),
        right: Right | None = None,
        lapses: int = 0,
        grace_s: float = GRACE_S,
    ) -> None:
        """`garbage`: keys that may be deleted, for no image can name them any more. `right`: the broker is
        one of several, and another process renews its right to serve; `lapses`: as it was before the
        claim."""
        assert isinstance(store.journal, BucketJournal)
        assert isinstance(store.catalog, NotedCatalog)
        self.objects = objects
        self._journal = store.journal
        self._noted_catalog = store.catalog
        self._cache = files
        self._claim = claim
        self._extents = extents
        # Images and packs that were there when the checkpoint under way began, with their sizes.
        self._there: dict[str, int] = {}
        self._collector = Collector(objects, store.clock.monotonic, grace_s, objects.upkeep)
        self._has_changes = False  # of the catalog, since the last image
        self._linger_s = linger_s
        self._is_alone = right is None
        # The next owner of a shard waits: replaying little is quicker than a checkpoint.
        self._folds_at_close = self._is_alone
        self._right: Right = objects if right is None else right
        # Invariant: with these lapses of the right the claim was known to hold.
        self._lapses = lapses
        self._changes_on_their_way = 0
        super().__init__(store, lock)
        if (changes := store.catalog.take_changes()) is not None:  # made by the recovery itself
            store.journal.submit(CATALOG, 0, (changes,), self._change_is_durable)
            self._changes_on_their_way += 1
        self._count_packs()
        self._collector.add(garbage)
        self._tasks = [
            self._loop.create_task(self._watch_right()),
            self._loop.create_task(self._collector.run()),
        ]
        if self._is_alone:
            self._tasks.append(self._loop.create_task(self._beat()))
        for task in self._tasks:
            task.add_done_callback(self._task_ended)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        """Without one of them the right to serve is not watched, or nothing is freed."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._give_up("a task of the bucket has ended", error)

    # -- the journal -------------------------------------------------------------------------------

    def _begin_committing(self, shortcut: Shortcut) -> AnyCommitter:
        return BucketCommitter(
            self._journal,
            self.objects,
            self._claim.nonce,
            self.store.clock,
            self._linger_s,
            self._committed,
        )

    # -- the catalog -------------------------------------------------------------------------------

    def _tell(self, outcomes: list[CatalogOutcome]) -> None:
        changes = self._noted_catalog.take_changes()
        with suppress(RuntimeError):  # the loop is gone, and with it the callers
            self._loop.call_soon_threadsafe(self._journal_changes, changes, outcomes)

    def _journal_changes(self, changes: bytes | None, outcomes: list[CatalogOutcome]) -> None:
        """Answer the callers when their changes are in the bucket, and so is all that they may have
        read."""

        def durable(error: PersistenceError | None) -> None:
            self._change_is_durable(error)
            settle(outcomes)

        if changes is not None:
            self._has_changes = True
            self._changes_on_their_way += 1
            self._journal.submit(CATALOG, 0, (changes,), durable)
        elif self._changes_on_their_way:
            self._changes_on_their_way += 1
            self._journal.barrier(durable)
        else:
            settle(outcomes)

    def _change_is_durable(self, error: PersistenceError | None) -> None:
        assert error is None, "a journal in a bucket refuses nothing"
        self._changes_on_their_way -= 1

    # -- checkpoints -------------------------------------------------------------------------------

    @property
    def _has_news(self) -> bool:
        # Also when only ledgers were deleted: their packs are freed by the next image.
        return super()._has_news or self._has_changes

    async def _flushed(self, plan: Checkpoint) -> None:
        """Put what the checkpoint wrote into packs, and merge packs."""
        # Listed before the manifest is moved: what the image does not name then, none ever will.
        self._there = await perform(self.objects, collector.found())
        # What was deleted need not be merged. A ledger that no checkpoint has recorded is put again.
        rows = await self.catalog(lambda catalog: catalog.all_ledgers())
        self._extents = _extents_of(rows, self._extents)
        pieces = await self.perform(partial(pieces_of, plan, self._extents))
        packs = {f"{PACKS}{uuid4().hex}": pack for pack in packed(pieces, PACK_SIZE)}
        await self._put_packs({key: [piece.data for piece in pack] for key, pack in packs.items()})
        self._extents = extended(self._extents, packs)
        self._cache.grown(self._extents)
        await self._merge()

    async def _put_packs(self, packs: Mapping[str, Sequence[bytes | memoryview]]) -> None:
        turns = asyncio.Semaphore(PACKS_AT_ONCE)

        async def put(key: str, parts: Sequence[bytes | memoryview]) -> None:
            async with turns:
                # Megabytes: copied by another thread, and only those of the packs on their way.
                data = await self.perform(lambda _: b"".join(parts))
                await perform(self.objects, stored(key, data))

        await asyncio.gather(*(put(key, parts) for key, parts in packs.items()))

    async def _merge(self) -> None:
        """Write packs anew that are many and small, or mostly dead. The next image names the new ones."""
        wanted = merge.chosen(self._extents, self._there, PACK_SIZE)
        found: dict[str, bytes] = {}
        for pack in wanted:
            one = await perform(self.objects, fetched(pack))
            if one is None:
                logger.error("%s is missing, and the image names it: `milepost verify`", pack)
                continue
            found[pack] = one.data
        if not found:
            return
        groups = merge.sources(self._extents, list(found), PACK_SIZE)
        packs = {f"{PACKS}{uuid4().hex}": group for group in groups}
        parts = {
            key: [
                memoryview(found[one.pack])[one.start : one.start + one.size] for _, _, one in group
            ]
            for key, group in packs.items()
        }
        named = sum(one.extent.size for group in packs.values() for one in group)
        if sum(len(part) for group in parts.values() for part in group) != named:
            logger.error("packs are shorter than the image says: `milepost verify`")
            return
        await self._put_packs(parts)
        self._extents = merge.relocated(self._extents, packs)
        self._cache.relocate(self._extents)
        self.objects.upkeep.merged_bytes += named

    def _record(self, plan: Checkpoint, catalog: Catalog) -> None:
        assert catalog is self._noted_catalog
        with self._noted_catalog.unnoted():
            plan.record(catalog)

    async def _recorded(self) -> None:
        """Store the image, let starts begin with it, and delete what it replaces."""
        self._has_changes = False
        meta = await self.catalog(lambda catalog: catalog.meta())
        floor = self._journal.floor(meta.journal_first)
        image, complete = await self._loop.run_in_executor(
            self._file_threads, self._take_image, self._cache.root, self._extents
        )
        key = f"{IMAGES}{uuid4().hex}"
        data = await self._loop.run_in_executor(self._file_threads, image.encode)
        await perform(self.objects, stored(key, data))
        try:
            self._claim = await perform(
                self.objects, chain.moved(self._claim, floor, key, uuid4().hex)
            )
        except Fenced as error:
            self.committer.stop()
            self._give_up("the bucket is lost", error)
            raise
        self._journal.forget_before(meta.journal_first)
        self._extents = image.extents
        self._count_packs()
        await self.perform(lambda _: self._cache.recorded(image.extents, complete))
        self._collector.add(collector.unnamed(self._there, key, image.extents))
        # The checkpoint has happened. What the store does not list or delete is left to the next one.
        there = await self.objects.answer(Scan(chain.FOLDER))
        if isinstance(there, Listed):
            keys = chain.collectable(there.objects, floor)
            await collector.delete_all(self.objects, keys)
        await self._collector.collect()

    def _count_packs(self) -> None:
        sizes = merge.live_sizes(self._extents)
        self.objects.upkeep.packs = len(sizes)
        self.objects.upkeep.pack_bytes = sum(sizes.values())

    @staticmethod
    def _take_image(root: Path, extents: Extents) -> tuple[Image, list[str]]:
        """The catalog as it is now, and the extents of the ledgers that it has; which ledgers grow no more
        and are in packs as a whole."""
        catalog = SqliteCatalog(root / CATALOG_FILE)
        try:
            # In this order: a ledger that is deleted in between keeps its extents until the next image.
            rows = list(catalog.all_ledgers())
            held = _extents_of(rows, extents)
            complete = [
                path
                for row in rows
                if row.sealed
                and size_of(held.get(path := ledger_path(row.ledger_id), ())) == row.size_bytes
            ]
            return Image(catalog.image(), held), complete
        finally:
            catalog.close()

    # -- the right to serve ------------------------------------------------------------------------

    @property
    def may_serve(self) -> bool:
        return self._right.has_right() and self._right.lapses == self._lapses

    @property
    def idle_s(self) -> float:
        """Since the last write that keeps the right to serve."""
        return self._right.idle_s()

    @property
    def bucket(self) -> WatchedObjects:
        return self.objects

    @property
    def epoch(self) -> int:
        return self._claim.manifest.epoch

    async def _beat(self) -> None:
        """Say that the broker is there, and so find out whether the bucket can be written; and look whether
        another one has claimed it, as one does that takes this broker for dead. Without anything to write the
        broker would not find out."""
        key = board_key(self._claim.manifest.owner)
        sign = Sign(socket.gethostname(), os.getpid(), 0)
        while True:
            sign = sign._replace(beat=sign.beat + 1)
            with suppress(TimeoutError):  # the next one may have better luck
                async with asyncio.timeout(RIGHT_S / 2):
                    await self.objects.answer(Put(key, sign.encode()))
                    reply = await self.objects.answer(Get(MANIFEST))
                    if isinstance(reply, Found) and not self._is_own(reply.data):
                        self._is_lost()
                        return
            await asyncio.sleep(BEAT_S)

    async def _watch_right(self) -> None:
        """Tell when the right to serve is over; it comes back by itself with the next write."""
        while True:
            while self.may_serve:
                left_s = max(RIGHT_S - self._right.idle_s(), 0.001)
                await asyncio.sleep(left_s if self._is_alone else min(left_s, _GLANCE_S))
            self._on_lapse()
            while not self.may_serve:
                await asyncio.sleep(_LOOK_S)
                if self._right.has_right():
                    await self._look_at_claim()
            logger.warning("the bucket takes writes again: clients are served")

    async def _look_at_claim(self) -> None:
        """The right has come back: does the claim still hold? Another broker may have come between."""
        lapses = self._right.lapses
        if lapses == self._lapses:
            return
        with suppress(Fenced):  # the engine has given up
            await self.prove_claim()
            self._lapses = lapses

    async def prove_claim(self) -> None:
        found = await perform(self.objects, fetched(MANIFEST))
        if found is None or not self._is_own(found.data):
            raise self._is_lost()

    def _is_lost(self) -> Fenced:
        """Another broker has come: nothing is answered any more."""
        self.committer.stop()
        lost = Fenced("another broker has claimed it")
        self._give_up("the bucket is lost" if self._is_alone else "the shard is lost", lost)
        return lost

    def _is_own(self, manifest: bytes) -> bool:
        try:
            return Manifest.decode(manifest).epoch == self.epoch
        except (BucketUnusable, UnknownFormat):  # of a newer release, which has claimed the bucket
            return False

    async def _give_back(self) -> None:
        if self._is_alone:
            await self.objects.answer(Delete(board_key(self._claim.manifest.owner)))
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_RELEASE_S):
                await perform(self.objects, chain.released(self._claim, uuid4().hex))

    async def close(self) -> None:
        """Fold everything in, stop the threads, give the bucket back."""
        await super().close()
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        if self.failure is None:
            await self._give_back()
        self._cache.close()
        await self.objects.close()


def _extents_of(rows: Iterable[LedgerRow], extents: Extents) -> Extents:
    """The extents of the ledgers that the catalog has."""
    paths = {path(row.ledger_id) for row in rows for path in (ledger_path, mileposts_path)}
    return {path: held for path, held in extents.items() if path in paths}


def pieces_of(plan: Checkpoint, extents: Extents, files: Files) -> list[Piece]:
    """What the files of a checkpoint have that no pack has yet. Blocks."""
    pieces: list[Piece] = []
    for ledger, flush in plan.flushes:
        if ledger.ledger_id in plan.held_ledgers or ledger.ledger_id in plan.losses:
            continue
        for path, first, end in _stretches(flush, extents):
            try:
                data = files.read(path, first, end - first)
            except FileNotFoundError:
                if ledger.is_gone:
                    break
                raise
            if len(data) != end - first:
                raise PersistenceError(f"{path}: {first + len(data)} bytes, and {end} were written")
            pieces.append(Piece(path, first, data))
    return pieces


def _stretches(flush: Flush, extents: Extents) -> list[tuple[str, int, int]]:
    """Of each file that a flush wrote to: its path, and from where to where it is in no pack."""
    row = flush.row
    path, rows_path = ledger_path(row.ledger_id), mileposts_path(row.ledger_id)
    stretches = [(path, size_of(extents.get(path, ())), row.size_bytes)]
    if flush.rows:
        # Rows that were made again are written anew from the first one.
        first = size_of(extents.get(rows_path, ())) if flush.from_rows else 0
        stretches.append((rows_path, first, HEADER_SIZE + row.entries * ROW_SIZE))
    return [one for one in stretches if one[1] < one[2]]
