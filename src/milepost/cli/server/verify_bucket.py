"""Checks a bucket: the objects, then what a start would make of them.

Each part (a shard, or all of a bucket of one broker) is read as a start reads it, into a directory that is
deleted again, and checked as a data directory is. Ledgers are brought one at a time. No broker is kept from
writing: what looks damaged while the manifest changes is looked at again.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

import google_crc32c

from milepost.cli.exits import CommandFailed, Exit
from milepost.cli.server.verify import Report, StoreCheck
from milepost.errors import CorruptData
from milepost.storage.bucket.address import check_url
from milepost.storage.bucket.manifest import CLUSTER, Place
from milepost.storage.bucket.manifest import KEY as MANIFEST
from milepost.storage.bucket.objects import Found, Get, Objects
from milepost.storage.bucket.upkeep import audit
from milepost.storage.bucket.upkeep.audit import PartAudit
from milepost.storage.header import HEADER_SIZE, FileHeader
from milepost.storage.ledgers.ledger import ledger_path, mileposts_path
from milepost.storage.ledgers.mileposts import ROW_SIZE

if TYPE_CHECKING:
    from milepost.storage.bucket.chain import Group
    from milepost.storage.files import Files
    from milepost.storage.ledgers.ledger import LedgerRow

# How often a part that changes while it is read is read again.
LOOKS: Final = 5
# Objects of one kind that are named; more are counted.
NAMED_MAX: Final = 20
_PLACE: Final = re.compile(r"((?:ledgers|journal)/[0-9a-f]+\.[a-z]+): byte ([0-9]+)")


def check_bucket(url: str, *, endpoint: str = "", region: str = "") -> Report:
    """Everything that can be said of a bucket; `BucketUnusable` if it cannot be read."""
    from milepost.storage.bucket.stores import open_objects

    check_url(url)
    parts = urlsplit(url)
    if parts.scheme == "file" and not Path(unquote(parts.path)).is_dir():
        raise CommandFailed(f"{url}: there is no such folder; look at the path", Exit.NOT_FOUND)

    async def run() -> Report:
        objects = open_objects(url, endpoint=endpoint, region=region, only_reads=True)
        try:
            return await checked(objects, url)
        finally:
            await objects.close()

    return asyncio.run(run())


async def checked(objects: Objects, url: str) -> Report:
    from milepost.storage.cluster.document import ClusterDocument, shard_prefix
    from milepost.storage.cluster.part import PartObjects
    from milepost.storage.cluster.registry import Content

    whole = audit.sorted_out(await audit.listing(objects, url))
    if whole is None:
        raise CommandFailed(
            f"{url}: no data of Milepost: it has neither `manifest` nor `cluster`; look at the prefix",
            Exit.NOT_FOUND,
        )
    report = Report()
    prefixes = [""]
    if whole.is_cluster:
        found = await audit.asked(objects, url, Get(CLUSTER))
        data = found.data if isinstance(found, Found) else b""  # deleted since it was listed
        if not any(key.startswith(audit.SHARDS) for key in whole.sizes):
            ClusterDocument.decode(data)  # nothing else says that it is a bucket of Milepost
        document = audit.decoded(ClusterDocument.decode, data, CLUSTER, report.problems)
        numbers = _shards_in(whole.sizes) if document is None else range(document.shards)
        prefixes = [shard_prefix(number) for number in numbers]
        registry = await audit.asked(objects, url, Get(audit.REGISTRY))
        if isinstance(registry, Found):
            audit.decoded(Content.decode, registry.data, audit.REGISTRY, report.problems)
        elif any(key.startswith(audit.SHARDS) for key in whole.sizes):
            report.problems.append(f"{audit.REGISTRY}: is missing: tenants, namespaces, policies")
    elif any(key.startswith(audit.SHARDS) for key in whole.sizes):
        report.problems.append(f"{CLUSTER}: is missing, and there are shards")
    leftovers, foreign = list(whole.leftovers), list(whole.foreign)
    if whole.is_cluster:
        foreign += [
            key for key in whole.sizes if key.startswith(audit.SHARDS) and not _is_of(key, prefixes)
        ]
    for prefix in prefixes:
        part_objects = PartObjects(objects, prefix) if prefix else objects
        part = await _checked_part(part_objects, url, prefix, report)
        if part is not None:
            leftovers += [prefix + key for key in part.leftovers]
            foreign += [prefix + key for key in part.foreign]
    report.remarks += _named("foreign: {}: no object of Milepost; no broker reads it", foreign)
    report.remarks += _named(
        "left over: {}: nothing names it; the owner's checkpoints delete such objects", leftovers
    )
    return report


def _shards_in(keys: Iterable[str]) -> list[int]:
    """The shards that have objects: what there is to go by if the cluster's document is damaged."""
    found = (re.match(f"{audit.SHARDS}([0-9]+)/", key) for key in keys)
    return sorted({int(one[1]) for one in found if one})


def _is_of(key: str, prefixes: Sequence[str]) -> bool:
    """Is it an object that a shard may have?"""
    for prefix in prefixes:
        if key.startswith(prefix):
            rest = key.removeprefix(prefix)
            return rest == MANIFEST or rest.startswith(audit.PART_FOLDERS)
    return False


def _named(what: str, keys: Sequence[str]) -> list[str]:
    more = [f"… and {len(keys) - NAMED_MAX} more such objects"] if len(keys) > NAMED_MAX else []
    return [what.format(key) for key in keys[:NAMED_MAX]] + more


async def _checked_part(
    objects: Objects, url: str, prefix: str, report: Report
) -> PartAudit | None:
    """Check a part, as it is at one moment: again if something is wrong and the manifest has changed."""
    for look in range(LOOKS):
        part = await audit.audited(objects, url, prefix)
        if part is None:
            return None
        found = Report(problems=list(part.damages))
        failure: OSError | None = None
        if part.manifest is not None and part.image is not None:
            try:
                await asyncio.to_thread(_check_store, objects, part, found)
            except OSError as error:  # it may be an object that the owner has deleted since
                failure = error
        if failure is None and not found.all_problems:
            break
        if look == LOOKS - 1 or not await _has_changed(objects, url, part):
            if failure is not None:
                raise failure
            break
    report.problems += found.problems
    report.topics += found.topics
    report.remarks += found.remarks
    report.cut_bytes += found.cut_bytes
    return part


async def _has_changed(objects: Objects, url: str, part: PartAudit) -> bool:
    """Has the owner written another manifest since a part was looked at?"""
    if part.written is None:
        return False
    now = await audit.asked(objects, url, Get(MANIFEST))
    return not isinstance(now, Found) or now.data != part.written


def _check_store(objects: Objects, part: PartAudit, report: Report) -> None:
    """Make the directory that a start would make, and check it. Blocks."""
    from milepost.storage.bucket.cache import CacheFiles
    from milepost.storage.bucket.chain import Claim
    from milepost.storage.bucket.start import Taken, furnish

    assert part.manifest is not None
    assert part.image is not None
    held = {path: one for path, one in part.image.extents.items() if path not in part.lost_files}
    taken = Taken(Claim(part.manifest, ""), part.image, part.groups, [])
    with tempfile.TemporaryDirectory(prefix="milepost-verify-") as folder:
        files = CacheFiles(Path(folder), objects, held)

        def read(ledger_id: int) -> None:
            paths = [
                one for one in (ledger_path(ledger_id), mileposts_path(ledger_id)) if one in held
            ]
            for path in paths:
                if (wrong := _convenience(files, path, rows[ledger_id])) is not None:
                    report.remarks.append(f"{part.where(path, 0)}: {path}: {wrong}")
                files.give_back(path)

        try:
            catalog = furnish(files, Path(folder), taken)
            try:
                rows = {row.ledger_id: row for row in catalog.all_ledgers()}
                found = StoreCheck(files, catalog, read).run()
            finally:
                catalog.close()
        except CorruptData as failure:
            report.problems.append(f"{part.prefix}{_placed(str(failure), part)}")
            return
        finally:
            files.close()
    for topic in found.topics:
        topic.problems = [_placed(problem, part) for problem in topic.problems]
    report.topics += found.topics
    report.problems += [_placed(problem, part) for problem in found.problems]
    report.cut_bytes += found.cut_bytes


def _convenience(files: Files, path: str, row: LedgerRow) -> str | None:
    """What is wrong with a part of a file that a broker can do without."""
    if not FileHeader.is_whole(files.read(path, 0, HEADER_SIZE)):
        return "the header is damaged; entries are read without it"
    if path == mileposts_path(row.ledger_id):
        rows = files.read(path, HEADER_SIZE, row.entries * ROW_SIZE)
        if google_crc32c.value(rows) != row.mileposts_crc:
            return "the checksum does not match; it is made again from the ledger"
    return None


def _placed(problem: str, part: PartAudit) -> str:
    """A problem with the object, and the byte in it, that the file's place stands for."""
    named = _PLACE.search(problem)
    if named is None:
        return problem
    path, offset = named[1], int(named[2])
    if path.startswith("ledgers/"):
        where = part.where(path, offset)
    else:
        number = int(path.removeprefix("journal/").partition(".")[0], 16)
        where = _group_at(part.groups, number, offset)
        where = None if where is None else part.prefix + where
    return problem if where is None else f"{where}: {problem}"


def _group_at(groups: Sequence[Group], number: int, offset: int) -> str | None:
    """The object that a byte of a journal file lies in: a file has the groups of one epoch."""
    from milepost.storage.bucket.chain import group_key

    epochs = sorted({group.place.epoch for group in groups})
    if not 0 < number <= len(epochs):
        return None
    offset -= HEADER_SIZE
    for group in groups:
        if group.place.epoch == epochs[number - 1]:
            if offset < len(group.body):
                return f"{group_key(Place(*group.place))}: byte {HEADER_SIZE + offset}"
            offset -= len(group.body)
    return None
