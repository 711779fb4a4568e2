"""Reads a bucket, or the part of one shard, and finds what is missing, foreign or left over.

    list ─▶ manifest ─▶ journal from the floor on, and every seal ─▶ image ─▶ the packs that it names

It asks for lists and objects only, so nothing changes, and brokers may serve meanwhile. What is found:

- *damage*: an object that something names and that is missing, cut off, or not what was written;
- *leftovers*: objects that nothing names. A kill leaves them; the next checkpoint or start deletes them;
- *foreign*: keys that no release of Milepost writes.

A group that was answered can be told from one that never was: an owner has at most `WINDOW` groups on their
way, so a group that lies further behind a gap proves that the gap was once filled.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from milepost.errors import BucketUnusable, CorruptData
from milepost.storage.bucket import chain, check
from milepost.storage.bucket.board import FOLDER as BOARD
from milepost.storage.bucket.chain import WINDOW, Group, decode_group, group_key, is_seal_size
from milepost.storage.bucket.image import FOLDER as IMAGES
from milepost.storage.bucket.image import PACKS, Extent, Image, packs_of
from milepost.storage.bucket.manifest import CLUSTER, Manifest, Place
from milepost.storage.bucket.manifest import KEY as MANIFEST
from milepost.storage.bucket.objects import (
    Found,
    Get,
    Listed,
    Objects,
    Reply,
    Request,
    Scan,
)

CHECKS: Final = "check/"
REGISTRY: Final = "registry"
SHARDS: Final = "shards/"
# What a bucket of one broker and the part of a shard have beside their manifest.
PART_FOLDERS: Final = (chain.FOLDER, IMAGES, PACKS)
# Objects that are read at a time.
READS: Final = 16
_UNIQUE = re.compile(r"[0-9a-f]{32}")
T = TypeVar("T")

Sizes = Mapping[str, int]
"""The size of each object, by its key."""


@dataclass
class PartAudit:
    """What was found in a bucket of one broker, or in the part of one shard. Keys are without its prefix."""

    prefix: str
    written: bytes | None = None
    """The manifest, as the bucket has it."""
    manifest: Manifest | None = None
    image: Image | None = None
    groups: list[Group] = field(default_factory=list)
    """From the floor on, up to the first damage."""
    lost_files: set[str] = field(default_factory=set)
    """Files of ledgers whose bytes are not all there."""
    damages: list[str] = field(default_factory=list)
    leftovers: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    def where(self, path: str, offset: int) -> str | None:
        """The object, and the byte of it, that a byte of a ledger's file lies in."""
        assert self.image is not None
        for pack, start, size in self.image.extents.get(path, ()):
            if offset < size:
                return f"{self.prefix}{pack}: byte {start + offset}"
            offset -= size
        return None


class Whole(NamedTuple):
    """What lies in a bucket beside its parts."""

    is_cluster: bool
    sizes: dict[str, int]
    leftovers: list[str]
    foreign: list[str]


async def asked(objects: Objects, url: str, request: Request) -> Reply:
    """The store's answer; `BucketUnusable` if it has none."""
    needs = "reading a bucket needs the right to get and list objects there"
    return await check.asked(objects, url, request, needs)


async def listing(objects: Objects, url: str, prefix: str = "") -> dict[str, int]:
    """All objects below a prefix."""
    reply = await asked(objects, url, Scan(prefix))
    assert isinstance(reply, Listed)
    return dict(reply.objects)


def sorted_out(sizes: dict[str, int]) -> Whole | None:
    """What a bucket is, and what does not belong to one; None if it has nothing of Milepost."""
    is_cluster = CLUSTER in sizes
    is_begun = any(key == MANIFEST or key.startswith((*PART_FOLDERS, SHARDS)) for key in sizes)
    if not is_cluster and not is_begun:
        return None
    leftovers = sorted(key for key in sizes if key.startswith(CHECKS))
    keys = (CLUSTER, REGISTRY) if is_cluster else (MANIFEST,)
    folders = (SHARDS, BOARD, CHECKS) if is_cluster else (*PART_FOLDERS, BOARD, CHECKS)
    foreign = sorted(key for key in sizes if key not in keys and not key.startswith(folders))
    return Whole(is_cluster, sizes, leftovers, foreign)


async def audited(objects: Objects, url: str, prefix: str) -> PartAudit | None:
    """Read the part of a bucket that `objects` has; None if it is empty. `prefix` is what its keys begin
    with in the bucket, for messages."""
    part = PartAudit(prefix)
    found = await asked(objects, url, Get(MANIFEST))
    # After the manifest: what it names was written before.
    sizes: dict[str, int] = {}
    for folder in PART_FOLDERS:
        sizes |= await listing(objects, url, folder)
    if not isinstance(found, Found):
        if not sizes:
            return None
        part.damages.append(f"{prefix}{MANIFEST}: is missing, and {len(sizes)} objects are there")
        return part
    if not sizes:
        Manifest.decode(found.data)  # nothing else says that it is a bucket of Milepost
    part.written = found.data
    part.manifest = manifest = decoded(Manifest.decode, found.data, prefix + MANIFEST, part.damages)
    if manifest is None:
        return part
    places = {
        place: size for key, size in sizes.items() if (place := chain.place_of(key)) is not None
    }
    part.foreign += sorted(key for key in sizes if not _is_ours(key))
    wanted = [
        place for place, size in places.items() if place >= manifest.floor or is_seal_size(size)
    ]
    data = await _read(objects, url, [group_key(place) for place in wanted])
    _walk(part, manifest, places, data)
    image = await asked(objects, url, Get(manifest.image)) if manifest.image else None
    if isinstance(image, Found):
        try:
            part.image = await asyncio.to_thread(Image.decode, image.data, manifest.image)
        except CorruptData as failure:
            part.damages.append(f"{prefix}{failure}")
    elif image is not None:
        part.damages.append(f"{prefix}{manifest.image}: is missing, and the manifest names it")
    elif places:
        part.damages.append(f"{prefix}{MANIFEST}: names no image, and there is a journal")
    _look_at_packs(part, manifest, sizes)
    return part


def decoded(decode: Callable[[bytes], T], data: bytes, key: str, damages: list[str]) -> T | None:
    """What a document says; None if its bytes cannot be read, which is damage."""
    try:
        return decode(data)
    except BucketUnusable as failure:
        damages.append(f"{key}: {len(data)} bytes that cannot be read: {failure.__cause__}")
        return None


def _is_ours(key: str) -> bool:
    """May a key below one of the three folders be of Milepost?"""
    for folder in (IMAGES, PACKS):
        if key.startswith(folder):
            return _UNIQUE.fullmatch(key.removeprefix(folder)) is not None
    return chain.place_of(key) is not None


async def _read(objects: Objects, url: str, keys: Iterable[str]) -> dict[str, bytes]:
    """The objects that are there, many at a time."""
    data: dict[str, bytes] = {}
    turns = asyncio.Semaphore(READS)

    async def read(key: str) -> None:
        async with turns:
            found = await asked(objects, url, Get(key))
            if isinstance(found, Found):
                data[key] = found.data

    await asyncio.gather(*map(read, keys))
    return data


# -- the journal -------------------------------------------------------------------------------------


def _walk(
    part: PartAudit, manifest: Manifest, places: Mapping[Place, int], data: Mapping[str, bytes]
) -> None:
    """Follow the journal as a start does, and judge what lies beside it."""
    prefix, epochs = part.prefix, _by_epoch(places)
    for epoch in sorted(epochs):
        if epoch > manifest.epoch:
            part.damages.append(
                f"{prefix}{group_key(Place(epoch, epochs[epoch][0]))}: is of epoch {epoch}, and the "
                f"manifest of epoch {manifest.epoch}: the manifest is an old one"
            )
    for epoch in range(1, manifest.floor.epoch):
        _look_below(part, epoch, epochs.get(epoch, ()), places, data)
    place, is_whole = manifest.floor, True
    part.leftovers += [group_key(one) for one in places if one.epoch == place.epoch and one < place]
    while place.epoch <= manifest.epoch:
        group = _look_at(part, place, manifest, epochs, data)
        if group is None or isinstance(group, str):
            is_whole = is_whole and group is None
            if group == "broken":
                place = place._replace(number=place.number + 1)
                continue
            place = Place(place.epoch + 1, 0)
            continue
        if is_whole:
            part.groups.append(group)
        place = place._replace(number=place.number + 1)


def _look_at(
    part: PartAudit,
    place: Place,
    manifest: Manifest,
    epochs: Mapping[int, Sequence[int]],
    data: Mapping[str, bytes],
) -> Group | str | None:
    """The group at a place; None at the end of its epoch; "gap" or "broken" for damage."""
    key, numbers = group_key(place), epochs.get(place.epoch, ())
    behind = [number for number in numbers if number > place.number]
    if key not in data:
        is_sealed = any(epoch > place.epoch for epoch in epochs if epoch <= manifest.epoch)
        if is_sealed or (behind and behind[-1] >= place.number + WINDOW):
            what = "a group or a seal" if is_sealed else "a group"
            part.damages.append(f"{part.prefix}{key}: is missing: {what} was there")
            return "gap"
        part.leftovers += [group_key(place._replace(number=number)) for number in behind]
        return None
    try:
        group = decode_group(data[key], place)
    except CorruptData as failure:
        part.damages.append(f"{part.prefix}{failure}")
        return "broken"
    if group is not None:
        return group
    if place.epoch == manifest.epoch:
        part.damages.append(
            f"{part.prefix}{key}: is a seal of the manifest's own epoch: the manifest is an old one"
        )
    if behind and behind[-1] >= place.number + WINDOW:
        part.damages.append(
            f"{part.prefix}{key}: is a seal, and "
            f"{group_key(place._replace(number=behind[-1]))} proves that a group was there before"
        )
        return "gap"
    part.leftovers += [group_key(place._replace(number=number)) for number in behind]
    return None


def _look_below(
    part: PartAudit,
    epoch: int,
    numbers: Sequence[int],
    places: Mapping[Place, int],
    data: Mapping[str, bytes],
) -> None:
    """Below the floor an epoch has its seal, and at most groups that are to be deleted."""
    seals = 0
    for number in numbers:
        place = Place(epoch, number)
        if not is_seal_size(places[place]):
            part.leftovers.append(group_key(place))
            continue
        try:
            decode_group(data.get(group_key(place), b""), place)
            seals += 1
        except CorruptData as failure:
            part.damages.append(f"{part.prefix}{failure}")
    if not seals:
        part.damages.append(
            f"{part.prefix}{group_key(Place(epoch, 0)).rpartition('/')[0]}/: the seal of epoch {epoch} "
            "is missing: an owner that was only slow could write there"
        )


def _by_epoch(places: Iterable[Place]) -> dict[int, list[int]]:
    epochs: dict[int, list[int]] = {}
    for place in sorted(places):
        epochs.setdefault(place.epoch, []).append(place.number)
    return epochs


# -- packs -------------------------------------------------------------------------------------------


def _look_at_packs(part: PartAudit, manifest: Manifest, sizes: Sizes) -> None:
    """Does every pack that the image names have the bytes that it should?"""
    named = {manifest.image}
    if part.image is not None:
        named |= packs_of(part.image.extents)
        bad: dict[str, str] = {}
        for path, extents in part.image.extents.items():
            for extent in extents:
                if (reason := _shortage(extent, sizes)) is not None:
                    bad.setdefault(extent.pack, f"{part.prefix}{extent.pack}: {reason}")
                    part.lost_files.add(path)
        files = dict.fromkeys(bad, 0)
        for extents in part.image.extents.values():
            for pack in {one.pack for one in extents} & bad.keys():
                files[pack] += 1
        part.damages += [
            f"{reason}; {files[pack]} files of ledgers lie in it" for pack, reason in bad.items()
        ]
    if part.image is None and manifest.image:
        return  # which packs are needed is not known
    part.leftovers += sorted(
        key
        for key in sizes
        if key.startswith((IMAGES, PACKS)) and key not in named and _is_ours(key)
    )


def _shortage(extent: Extent, sizes: Sizes) -> str | None:
    size = sizes.get(extent.pack)
    if size is None:
        return "is missing, and the image names it"
    if size < extent.start + extent.size:
        return f"has {size} bytes, and the image names byte {extent.start + extent.size - 1}"
    return None
