"""The start of a broker on a bucket: claim, seal, make the local directory, recover.

    list what may be garbage ─▶ claim ─▶ seal and read the chain ─▶ image and groups into an empty directory
    ─▶ recovery as after a crash ─▶ engine

Taking over is restarting: the directory that is made here is one that a killed broker could have left, and
the recovery that reads it is the one of a broker with a disk of its own. Ledgers stay in the bucket until
they are read.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import socket
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import uuid4

from milepost.clock import Clock
from milepost.errors import BucketUnusable, CorruptData, Fenced, WrongBucket, WrongDataDirectory
from milepost.storage.bucket import chain
from milepost.storage.bucket.board import BEAT_S, DEAD_S, Sign, board_key
from milepost.storage.bucket.cache import SIZE_DEFAULT, CacheFiles
from milepost.storage.bucket.catalog_changes import NotedCatalog
from milepost.storage.bucket.chain import Claim, Group, group_key
from milepost.storage.bucket.check import first_contact, probe
from milepost.storage.bucket.engine import BucketEngine, Right
from milepost.storage.bucket.image import FOLDER as IMAGES
from milepost.storage.bucket.image import Image
from milepost.storage.bucket.journal import BucketJournal
from milepost.storage.bucket.manifest import CLUSTER, Manifest, Place
from milepost.storage.bucket.manifest import KEY as MANIFEST
from milepost.storage.bucket.objects import (
    Delete,
    Found,
    Get,
    Objects,
    Reply,
    Request,
    fetched,
    listed,
    perform,
    stored,
)
from milepost.storage.bucket.upkeep import collector
from milepost.storage.bucket.upkeep.collector import GRACE_S
from milepost.storage.bucket.watched import WatchedObjects
from milepost.storage.catalog.sqlite_catalog import FILE as CATALOG_FILE
from milepost.storage.files import Buffer
from milepost.storage.header import HEADER_SIZE, JOURNAL, FileHeader
from milepost.storage.journal.journal import FOLDER as JOURNAL_FOLDER
from milepost.storage.journal.journal import file_name
from milepost.storage.journal.records import CATALOG, scan, seed_of
from milepost.storage.ledgers.ledger import FOLDER as LEDGER_FOLDER
from milepost.storage.ledgers.ledger import ledger_path, mileposts_path
from milepost.storage.lock import DirectoryLock, make_directory
from milepost.storage.recovery import Recovered
from milepost.storage.store import Store

logger = logging.getLogger(__name__)

# The folder of the data directory that is made anew by each start.
CACHE: Final = "cache"
# Groups that are read at a time.
_READS: Final = 16


class Taken(NamedTuple):
    """A bucket that has been taken over, and what was found in it."""

    claim: Claim
    image: Image | None
    groups: list[Group]
    garbage: list[str]
    """Objects that no image can name any more."""
    lapses: int = 0
    """How often the right to serve had lapsed when the claim was made."""


class ShardSeat(NamedTuple):
    """What a process that is to serve a shard was told."""

    epoch: int
    """That the shard's manifest is of: another one means that another broker came first."""
    right: Right


def fresh_nonce() -> str:
    return uuid4().hex


async def open_bucket(
    objects: Objects,
    url: str,
    data: Path,
    clock: Clock,
    *,
    cluster: str,
    owner: str,
    linger_s: float,
    cache_size: int = SIZE_DEFAULT,
    seat: ShardSeat | None = None,
    grace_s: float = GRACE_S,
    **options: Any,
) -> BucketEngine:
    """Take a bucket over and recover what is in it; with a `seat` it is the part of one shard."""
    if (data / CATALOG_FILE).exists():
        raise WrongDataDirectory(
            f"data directory {data} holds the data of a broker without a bucket; give this one "
            "another --data, which needs nothing in it"
        )
    make_directory(data)
    lock = DirectoryLock(data)
    watched = WatchedObjects(objects)
    try:
        if seat is None:
            taken = await _take_alone(objects, watched, url, cluster, owner)
            lapses = taken.lapses
        else:
            lapses = seat.right.lapses
            taken = await take_over(watched, cluster, owner, seat.epoch)
        root = data / CACHE
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir(mode=0o700)
        if taken.image is None:
            taken = await _begin(watched, root, taken)
        assert taken.image is not None
        files = CacheFiles(root, watched, taken.image.extents, cache_size, watched.cache)
        catalog = await asyncio.to_thread(furnish, files, root, taken)
        try:
            manifest = taken.claim.manifest
            store = Store(
                files, catalog, clock, begin_journal=_journal_maker(catalog, manifest), **options
            )
        except BaseException:
            catalog.close()
            raise
    except BaseException:
        lock.release()
        if seat is None:
            await objects.answer(Delete(board_key(owner)))
        await objects.close()
        raise
    return BucketEngine(
        store,
        lock,
        watched,
        files,
        taken.claim,
        taken.image.extents,
        linger_s,
        taken.garbage,
        None if seat is None else seat.right,
        lapses,
        grace_s,
    )


async def _take_alone(
    unwatched: Objects, objects: WatchedObjects, url: str, cluster: str, owner: str
) -> Taken:
    """Take a bucket over as its only broker. What makes a bucket unusable is said once, by what is raised:
    these requests are not watched."""
    await first_contact(unwatched, url)
    if await perform(objects, fetched(CLUSTER)) is not None:
        raise WrongBucket(
            f"{url} is served by a cluster of brokers: start with --shards auto, or give this one "
            "another prefix"
        )
    epoch, gone = await _wait_for_owner(objects)
    sign = Sign(socket.gethostname(), os.getpid(), 0)
    await probe(unwatched, url, board_key(owner), sign.encode())
    try:
        taken = await take_over(objects, cluster, owner, epoch)
    except Fenced as error:  # it has waited as this one has
        raise BucketUnusable(
            f"another broker has taken the bucket just now: stop it first, or give this one another "
            f"prefix ({error})"
        ) from error
    if gone is not None:
        taken.garbage.append(gone)
    return taken


async def _wait_for_owner(objects: Objects) -> tuple[int, str | None]:
    """Raise `BucketUnusable` if another broker is there; else the epoch that may be followed, 0 in a new
    bucket, and the key of a broker that is not there any more."""
    found = await perform(objects, fetched(MANIFEST))
    if found is None:
        return 0, None
    manifest = Manifest.decode(found.data)
    epoch, owner, key = manifest.epoch, manifest.owner, board_key(manifest.owner)
    first = await perform(objects, fetched(key))
    if first is None:
        return epoch, None  # it went in good order
    sign = Sign.decode(first.data)
    if sign is not None and sign.is_surely_dead(socket.gethostname()):
        return epoch, key
    logger.warning("the bucket belongs to broker %s: waiting whether it is there", owner)
    for _ in range(round(DEAD_S / BEAT_S)):
        await asyncio.sleep(BEAT_S)
        now = await perform(objects, fetched(key))
        if now is None:
            return epoch, None
        if now.data != first.data:
            where = f" (host {sign.host}, process {sign.pid})" if sign is not None else ""
            raise BucketUnusable(
                f"the bucket is in use by broker {owner}{where}: stop it first, or give this one "
                "another prefix"
            )
    return epoch, key


async def take_over(
    objects: WatchedObjects, cluster: str, owner: str, epoch: int | None = None
) -> Taken:
    """Become the owner of a bucket, and read what starts need; `epoch` as of `chain.claimed`."""
    while True:
        # Listed before the claim: whatever no image names then, none ever will. An owner before this
        # one cannot move the manifest any more, and a later one has names of its own.
        there = list(await perform(objects, collector.found()))
        claim = await perform(objects, chain.claimed(cluster, owner, fresh_nonce, epoch))
        lapses = objects.lapses
        chained = await _chained(objects)
        await perform(objects, chain.checked_whole(claim, chained))
        ahead = await _ahead(objects, claim.manifest, chained)
        groups = await perform(ahead, chain.sealed_groups(claim))
        if not claim.manifest.image:
            return Taken(claim, None, groups, there, lapses)
        key = claim.manifest.image
        found = await perform(objects, fetched(key))
        if found is not None:
            image = await asyncio.to_thread(Image.decode, found.data, key)
            garbage = collector.unnamed(there, key, image.extents)
            return Taken(claim, image, groups, garbage, lapses)
        now = await perform(objects, fetched(MANIFEST))
        if now is None or Manifest.decode(now.data).epoch == claim.manifest.epoch:
            raise CorruptData(f"{key}: the manifest names it, and it is not in the bucket")
        # Another broker has come between; it may be gone again.


class _Ahead:
    """`Objects` of which some were read before they are asked for."""

    def __init__(self, objects: Objects, found: dict[str, Found]) -> None:
        self._objects = objects
        self._found = found

    async def answer(self, request: Request) -> Reply:
        if isinstance(request, Get) and request.key in self._found:
            return self._found.pop(request.key)
        return await self._objects.answer(request)

    def read(self, key: str, start: int, size: int) -> Buffer:
        return self._objects.read(key, start, size)

    async def close(self) -> None:
        await self._objects.close()


async def _chained(objects: Objects) -> list[tuple[Place, int]]:
    """The groups and seals that are there, and their sizes."""
    return [
        (place, size)
        for key, size in await perform(objects, listed(chain.FOLDER))
        if (place := chain.place_of(key)) is not None
    ]


async def _ahead(
    objects: Objects, manifest: Manifest, chained: Iterable[tuple[Place, int]]
) -> Objects:
    """Read the groups from the floor on, many at a time. What is above the floor stays as it is."""
    keys = [group_key(place) for place, _ in chained if place >= manifest.floor]
    found: dict[str, Found] = {}
    turns = asyncio.Semaphore(_READS)

    async def read(key: str) -> None:
        async with turns:
            if (one := await perform(objects, fetched(key))) is not None:
                found[key] = one

    await asyncio.gather(*map(read, keys))
    return _Ahead(objects, found)


async def _begin(objects: Objects, root: Path, taken: Taken) -> Taken:
    """The bucket is new: store an empty catalog. Its identity must be known before the first group."""
    if taken.groups:
        raise CorruptData(
            f"{group_key(taken.groups[0].place)}: there are groups, and the manifest names no image"
        )
    catalog = NotedCatalog(root / CATALOG_FILE)
    image = Image(catalog.image(), {})
    catalog.close()
    key = f"{IMAGES}{fresh_nonce()}"
    await perform(objects, stored(key, image.encode()))
    floor = Place(taken.claim.manifest.epoch, 0)
    claim = await perform(objects, chain.moved(taken.claim, floor, key, fresh_nonce()))
    return taken._replace(claim=claim, image=image)


def _journal_maker(
    catalog: NotedCatalog, manifest: Manifest
) -> Callable[[Recovered], BucketJournal]:
    def make(found: Recovered) -> BucketJournal:
        return BucketJournal(
            catalog.meta().incarnation,
            manifest.epoch,
            manifest.floor,
            file_number=found.file_number,
            next_sequence=found.next_sequence,
        )

    return make


def furnish(files: CacheFiles, root: Path, taken: Taken) -> NotedCatalog:
    """Make the directory that recovery reads. Blocks."""
    assert taken.image is not None
    database = root / CATALOG_FILE
    database.unlink(missing_ok=True)
    for beside in ("-wal", "-shm"):
        (root / f"{CATALOG_FILE}{beside}").unlink(missing_ok=True)
    database.write_bytes(taken.image.catalog)
    catalog = NotedCatalog(database)
    try:
        files.make_folder(JOURNAL_FOLDER)
        files.make_folder(LEDGER_FOLDER)
        meta = catalog.meta()
        seed = seed_of(meta.incarnation)
        _apply_changes(catalog, taken.groups, seed)
        last = _write_journal(files, meta.incarnation, taken.groups, max(meta.next_sequence, 1))
        catalog.set_meta(
            journal_first=1,
            journal_last=last,
            next_ledger_id=meta.next_ledger_id,
            next_sequence=meta.next_sequence,
        )
        # Appending needs the mileposts of the ledgers that still grow: all at once, not one by one.
        growing = [row for row in catalog.all_ledgers() if row.entries and not row.sealed]
        files.bring([mileposts_path(row.ledger_id) for row in growing])
        files.bring_heads([ledger_path(row.ledger_id) for row in growing])
    except BaseException:
        catalog.close()
        raise
    return catalog


def _apply_changes(catalog: NotedCatalog, groups: Iterable[Group], seed: int) -> None:
    for group in groups:
        key = group_key(group.place)
        scanned = scan(group.body, 0, key, group.first_sequence, seed, whole=True)
        for damage in scanned.damages:
            if damage.kind in (None, CATALOG):  # else it is the damage of its topic or state alone
                raise CorruptData(str(damage))
        for record in scanned.records:
            if record.kind == CATALOG:
                catalog.apply(record.body)


def _write_journal(
    files: CacheFiles, incarnation: bytes, groups: Sequence[Group], next_sequence: int
) -> int:
    """Groups as files of a journal, one for each epoch; returns the number of the last."""
    number, before, size = 0, 0, 0
    for _, chained in groupby(groups, key=lambda group: group.place.epoch):
        bodies = list(chained)
        number += 1
        header = FileHeader(JOURNAL, incarnation, number, before, size, bodies[0].first_sequence)
        _write(files, number, [header.encode(), *(group.body for group in bodies)])
        before, size = number, HEADER_SIZE + sum(len(group.body) for group in bodies)
    if not number:
        number = 1
        header = FileHeader(JOURNAL, incarnation, number, 0, 0, next_sequence)
        _write(files, number, [header.encode()])
    return number


def _write(files: CacheFiles, number: int, buffers: Sequence[bytes]) -> None:
    file = files.create(file_name(number))
    try:
        file.append(buffers)
    finally:
        file.close()
