"""The store of a stage on a bucket in memory: what a broker on a bucket has, without its threads.

A restart takes the bucket over as another machine would: claim, seals, an empty directory, recovery.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast
from uuid import uuid4

from milepost.clock import Clock
from milepost.errors import PersistenceError
from milepost.storage.bucket import chain
from milepost.storage.bucket.cache import CacheFiles
from milepost.storage.bucket.catalog_changes import NotedCatalog
from milepost.storage.bucket.engine import pieces_of
from milepost.storage.bucket.image import FOLDER as IMAGES
from milepost.storage.bucket.image import PACKS, Image, extended, packed
from milepost.storage.bucket.journal import BucketJournal
from milepost.storage.bucket.manifest import Place
from milepost.storage.bucket.objects import Steps, fetched, stored
from milepost.storage.bucket.start import Taken, furnish
from milepost.storage.catalog.sqlite_catalog import FILE as CATALOG_FILE
from milepost.storage.checkpoint import Checkpoint
from milepost.storage.journal.records import CATALOG
from milepost.storage.ledgers.ledger import ledger_path, mileposts_path
from milepost.storage.recovery import Recovered
from milepost.storage.store import Store
from milepost.testing.bucket import MemoryBucket
from stage.engine import HandEngine

T = TypeVar("T")

PACK_SIZE = 1 << 20


def now(bucket: MemoryBucket, steps: Steps[T]) -> T:
    """Take steps of the protocol, each answered at once."""
    try:
        request = next(steps)
        while True:
            request = steps.send(bucket.apply(request))
    except StopIteration as end:
        return cast("T", end.value)


def copied(folder: Path) -> MemoryBucket:
    """A bucket of a folder, as it is now."""
    bucket = MemoryBucket()
    for path in folder.rglob("*"):
        key = str(path.relative_to(folder))
        if path.is_file() and not key.startswith("."):
            bucket.objects[key] = path.read_bytes()
    return bucket


class BucketStore:
    """A bucket that has been taken over, and the store in the directory that was made of it."""

    def __init__(
        self, bucket: MemoryBucket, clock: Clock, cluster: str = "stage", **options: Any
    ) -> None:
        self.bucket = bucket
        self._cluster = cluster
        self.changes = 0
        """Records that are changes of the catalog."""
        self._root = Path(tempfile.mkdtemp("-stage"))
        try:
            self._open(clock, options)
        except BaseException:
            shutil.rmtree(self._root)
            raise

    def _open(self, clock: Clock, options: dict[str, Any]) -> None:
        claim = self._now(chain.claimed(self._cluster, uuid4().hex, _nonce))
        groups = self._now(chain.sealed_groups(claim))
        if claim.manifest.image:
            found = self._now(fetched(claim.manifest.image))
            assert found is not None, "the manifest names an image that is gone"
            image = Image.decode(found.data, claim.manifest.image)
        else:
            catalog = NotedCatalog(self._root / CATALOG_FILE)
            image = Image(catalog.image(), {})
            catalog.close()
            claim = self._store_image(claim, image, Place(claim.manifest.epoch, 0))
        self.claim, self.extents = claim, image.extents
        self.files = CacheFiles(self._root, self.bucket, image.extents)
        self.catalog = furnish(self.files, self._root, Taken(claim, image, groups, []))
        manifest = claim.manifest

        def begin(found: Recovered) -> BucketJournal:
            return BucketJournal(
                self.catalog.meta().incarnation,
                manifest.epoch,
                manifest.floor,
                file_number=found.file_number,
                next_sequence=found.next_sequence,
            )

        self.store = Store(self.files, self.catalog, clock, begin_journal=begin, **options)

    def _now(self, steps: Steps[T]) -> T:
        return now(self.bucket, steps)

    def _store_image(self, claim: chain.Claim, image: Image, floor: Place) -> chain.Claim:
        key = f"{IMAGES}{_nonce()}"
        self._now(stored(key, image.encode()))
        return self._now(chain.moved(claim, floor, key, _nonce()))

    @property
    def journal(self) -> BucketJournal:
        journal = self.store.journal
        assert isinstance(journal, BucketJournal)
        return journal

    def note_changes(self, done: Callable[[PersistenceError | None], None]) -> bool:
        """Journal what the catalog was changed by; whether it was."""
        changes = self.catalog.take_changes()
        if changes is not None:
            self.journal.submit(CATALOG, 0, (changes,), done)
            self.changes += 1
        return changes is not None

    def commit(self) -> list[Any]:
        """Put the groups that wait into the bucket."""
        commits = []
        while self.journal.is_waiting:
            for group, commit in self.journal.outgoing():
                if group is not None:
                    self._now(chain.added(self.claim.nonce, group))
                    self.journal.commits += 1
                    self.journal.window.landed(group.place)
                commits.append(commit)
        return commits

    def pack(self, plan: Checkpoint) -> None:
        """Put what a checkpoint wrote into packs."""
        pieces = pieces_of(plan, self.extents, self.files)
        packs = {f"{PACKS}{_nonce()}": pack for pack in packed(pieces, PACK_SIZE)}
        for key, pack in packs.items():
            self._now(stored(key, b"".join(piece.data for piece in pack)))
        self.extents = extended(self.extents, packs)

    def move(self) -> None:
        """Let starts begin with the catalog as it is now."""
        meta = self.catalog.meta()
        rows = self.catalog.all_ledgers()
        there = {path(row.ledger_id) for row in rows for path in (ledger_path, mileposts_path)}
        self.extents = {path: held for path, held in self.extents.items() if path in there}
        image, floor = (
            Image(self.catalog.image(), self.extents),
            self.journal.floor(meta.journal_first),
        )
        self.claim = self._store_image(self.claim, image, floor)
        self.journal.forget_before(meta.journal_first)
        for key in chain.collectable([(k, len(v)) for k, v in self.bucket.objects.items()], floor):
            del self.bucket.objects[key]

    def close(self) -> None:
        self.files.close()
        shutil.rmtree(self._root)


def _nonce() -> str:
    return uuid4().hex


class HandBucketEngine(HandEngine):
    """A `HandEngine` whose groups go to the bucket, with the changes of the catalog among them."""

    def __init__(self, on: BucketStore) -> None:
        super().__init__(on.store)
        self._on = on

    def work(self) -> bool:
        self._note_strays()
        return super().work()

    def _note_strays(self) -> None:
        """Steps of tests, and of the store, change the catalog without a call."""
        self._on.note_changes(lambda error: None)

    def _commit(self) -> bool:
        if self.holds_journal:
            return False
        commits = self._on.commit()
        self._around(partial(self.store.journal.finish, commits))
        return bool(commits)

    def change_one(self) -> bool:
        """A change is answered when the bucket has it, and all that it may have read."""
        if not self._changes:
            return False
        call = self._changes.popleft()
        self._note_strays()
        try:
            with self.store.catalog.transaction():
                result, failure = call.change(self.store.catalog), None
        except Exception as error:
            result, failure = None, error

        def durable(error: PersistenceError | None) -> None:
            assert error is None, "a journal in a bucket refuses nothing"
            self._loop.call_soon(call.settle, result, failure)

        if not self._on.note_changes(durable):
            self.store.journal.barrier(durable)
        return True

    async def checkpoint(self) -> None:
        planned: Any = self._loop.create_future()
        self.store.begin_checkpoint(planned.set_result)
        plan = await planned
        if isinstance(plan, PersistenceError):
            raise plan
        self.checkpoint_now(plan)

    def checkpoint_now(self, plan: Checkpoint) -> None:
        catalog = self._on.catalog
        try:
            plan.flush(self._files)
            self._on.pack(plan)
            with catalog.unnoted():
                plan.record(catalog)
            self._on.move()
        except BaseException as error:
            self.store.finish_checkpoint(plan, error)
            raise
        self.store.finish_checkpoint(plan, None)
        plan.drop_journal(self._files)
