"""The chain of groups in a bucket: claim it, seal what others left, read it, extend it.

Each epoch's groups are numbered from 0. The chain of an epoch ends at its *seal*, which the next owner
creates at the first absent number. So an owner that was only slow finds the seal, or another number taken,
when its group arrives, and knows that it is fenced: it has answered nothing behind the seal, and must
answer nothing more. Groups that arrive behind the seal are never read.

Groups below the manifest's floor are deleted. Seals never are: on a deleted seal's number a group of a slow
owner would find room, be answered, and be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from milepost.errors import CorruptData, Fenced, WrongBucket
from milepost.storage.bucket.manifest import KEY, Manifest, Place, first_manifest
from milepost.storage.bucket.objects import Pause, Steps, created, fetched, replaced
from milepost.storage.bucket.upkeep.lost import checked_new, lost
from milepost.storage.files import Buffer
from milepost.storage.header import HEADER_SIZE, FileHeader

FOLDER = "journal/"
GROUP = b"GRUP"  # incarnation: the writer's nonce; a: epoch, b: number, c: size, d: first sequence
SEAL = b"SEAL"  # incarnation: the writer's nonce; a: epoch, b: number

# Groups that may be on their way at a time.
WINDOW = 8


class Claim(NamedTuple):
    """The right to extend the chain, until the next claim."""

    manifest: Manifest
    tag: str
    """Of the manifest in the bucket."""

    @property
    def nonce(self) -> bytes:
        return bytes.fromhex(self.manifest.nonce)


class Group(NamedTuple):
    """Records that became durable together."""

    place: Place
    first_sequence: int
    pieces: Sequence[Buffer]
    """Of its body. They are copied once, into the object."""

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)


def group_key(place: Place) -> str:
    """The key of a group or a seal.

    >>> group_key(Place(3, 10))
    'journal/00000003/000000000010'
    """
    return f"{FOLDER}{place.epoch:08d}/{place.number:012d}"


def place_of(key: str) -> Place | None:
    """The place that a key stands for; None if it is not the key of a group."""
    epoch, _, number = key.removeprefix(FOLDER).partition("/")
    # Not isdigit: that is also said of ², which is no number.
    if not key.startswith(FOLDER) or not epoch.isdecimal() or not number.isdecimal():
        return None
    place = Place(int(epoch), int(number))
    return place if group_key(place) == key else None


def encode_group(nonce: bytes, group: Group) -> bytes:
    size = sum(map(len, group.pieces))
    header = FileHeader(GROUP, nonce, *group.place, size, group.first_sequence)
    return b"".join((header.encode(), *group.pieces))


def encode_seal(nonce: bytes, place: Place) -> bytes:
    return FileHeader(SEAL, nonce, *place, 0, 0).encode()


def is_seal_size(size: int) -> bool:
    """May an object of this size be a seal? A group is never so small."""
    return size <= HEADER_SIZE


def decode_group(data: bytes, place: Place) -> Group | None:
    """The group that lies at a place, or None if it is a seal."""
    key = group_key(place)
    kind = SEAL if data[4:8] == SEAL else GROUP
    header = FileHeader.decode(data, key, kind)
    if (header.a, header.b) != place:
        raise CorruptData(f"{key}: says that it is {group_key(Place(header.a, header.b))}")
    if kind == SEAL:
        return None
    body = data[HEADER_SIZE:]
    if len(body) != header.c:
        raise CorruptData(f"{key}: {len(body)} bytes, and {header.c} were written")
    return Group(place, header.d, (body,))


# -- owning ------------------------------------------------------------------------------------------


def claimed(
    cluster: str, owner: str, fresh_nonce: Callable[[], str], epoch: int | None = None
) -> Steps[Claim]:
    """Become the owner: the manifest with the next epoch.

    With an `epoch` only as long as the manifest is of that one, 0 for none; else `Fenced`: another broker
    came first. `CorruptData` if the manifest is gone and what it named is there.
    """
    attempt = 0
    while True:
        found = yield from fetched(KEY)
        nonce = fresh_nonce()
        there = 0 if found is None else Manifest.decode(found.data).epoch
        if epoch is not None and there != epoch:
            raise Fenced(f"another broker came first: the manifest is of epoch {there}")
        if found is None:
            yield from checked_new(KEY)
            manifest = first_manifest(cluster, owner, nonce)
            tag = yield from created(KEY, manifest.encode())
        else:
            before = Manifest.decode(found.data)
            if before.cluster != cluster:
                raise WrongBucket(
                    f"the bucket belongs to cluster {before.cluster!r}, and this broker is of "
                    f"{cluster!r}: give each cluster a prefix of its own"
                )
            manifest = before.claimed(owner, nonce)
            tag = yield from replaced(KEY, manifest.encode(), found.tag)
        if tag is not None:
            return Claim(manifest, tag)
        yield Pause(attempt)
        attempt += 1


def checked_whole(claim: Claim, there: Iterable[tuple[Place, int]]) -> Steps[None]:
    """Raise `CorruptData` if a group that was answered is gone, or the manifest is an old one. `there`: the
    places of the objects that are there, with their sizes, listed after the claim.

    What is proved by what is there: an owner has at most `WINDOW` groups on their way, so a group further
    behind a gap proves that the gap was filled. A seal is created at the first absent number, and nothing is
    written in an epoch before those before it are sealed. To seal such a gap would lose what lies behind it.
    """
    floor, own = claim.manifest.floor, claim.manifest.epoch
    epochs: dict[int, dict[int, int]] = {}
    for place, size in there:
        if place >= floor:
            epochs.setdefault(place.epoch, {})[place.number] = size
    if later := [epoch for epoch in epochs if epoch >= own]:
        # Nothing was written under this claim yet.
        if (yield from _is_ours(claim)):
            raise CorruptData(
                f"{KEY}: is of epoch {own}, and {group_key(Place(max(later), 0)).rpartition('/')[0]}/ is "
                "there: it is an old one; restore the newest from the store's versions"
            )
        return
    last = max(epochs, default=floor.epoch)
    for epoch in range(floor.epoch, last + 1):
        numbers = epochs.get(epoch, {})
        number = floor.number if epoch == floor.epoch else 0
        while number in numbers and not is_seal_size(numbers[number]):
            number += 1
        if number in numbers:
            continue  # it is sealed
        behind = (
            Place(epoch, one)
            for one, size in sorted(numbers.items())
            if one >= number + WINDOW or (one > number and is_seal_size(size))
        )
        beyond = (Place(last, one) for one in sorted(epochs.get(last, ())) if epoch < last)
        proof = next(iter((*behind, *beyond)), None)
        # A list is not of one moment, and a later owner deletes what is below its floor.
        key = group_key(Place(epoch, number))
        if proof is not None and (yield from fetched(key)) is None:
            if (yield from _is_ours(claim)):
                raise lost(key, f"{group_key(proof)} proves that it was there")
            return


def _is_ours(claim: Claim) -> Steps[bool]:
    """Is the manifest still that of the claim?"""
    found = yield from fetched(KEY)
    return found is not None and found.tag == claim.tag


def sealed_groups(claim: Claim) -> Steps[list[Group]]:
    """Seal the chains of all epochs before the claim's; the groups from the floor on, in order."""
    groups: list[Group] = []
    place = claim.manifest.floor
    while place.epoch < claim.manifest.epoch:
        found = yield from fetched(group_key(place))
        if found is None:
            # The first absent number, not the one behind the largest: what lies behind a gap was never
            # answered, and the gap could still be filled.
            seal = encode_seal(claim.nonce, place)
            if (yield from created(group_key(place), seal)) is None:
                continue  # taken meanwhile: read it
            group = None
        else:
            group = decode_group(found.data, place)
        if group is None:
            place = Place(place.epoch + 1, 0)
        else:
            groups.append(group)
            place = place._replace(number=place.number + 1)
    return groups


def added(nonce: bytes, group: Group) -> Steps[None]:
    """Add a group to the owner's own chain; `Fenced` if another object is there."""
    data = encode_group(nonce, group)
    if (yield from created(group_key(group.place), data)) is None:
        raise Fenced(
            f"another broker has taken the bucket over: {group_key(group.place)} is not ours"
        )


def moved(claim: Claim, floor: Place, image: str, nonce: str) -> Steps[Claim]:
    """Let starts begin at another floor with another image; `Fenced` if the claim is over."""
    manifest = claim.manifest._replace(floor=floor, image=image, nonce=nonce)
    tag = yield from replaced(KEY, manifest.encode(), claim.tag)
    if tag is None:
        raise Fenced("another broker has taken the bucket over: the manifest is not ours")
    # The chain goes on under the nonce that it was claimed with.
    return Claim(manifest._replace(nonce=claim.manifest.nonce), tag)


def released(claim: Claim, nonce: str) -> Steps[bool]:
    """Give the chain back: the next owner need not wait. False if it has another owner already."""
    manifest = claim.manifest._replace(owner="", nonce=nonce)
    return (yield from replaced(KEY, manifest.encode(), claim.tag)) is not None


def collectable(objects: Iterable[tuple[str, int]], floor: Place) -> list[str]:
    """Of listed objects (key and size) those that are groups below the floor. Seals stay."""
    return [
        key
        for key, size in objects
        if (place := place_of(key)) is not None and place < floor and not is_seal_size(size)
    ]


class Window:
    """Which groups of the owner's chain are on their way, and which may be answered: in order only."""

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch
        self._next = 0
        self._answered = 0  # groups below it are
        self._landed: set[int] = set()

    @property
    def next_place(self) -> Place:
        return Place(self._epoch, self._next)

    @property
    def in_flight(self) -> int:
        return self._next - self._answered

    def send(self) -> Place:
        """The place of the next group, which is on its way now."""
        place = self.next_place
        self._next += 1
        return place

    def landed(self, place: Place) -> Sequence[Place]:
        """A group is in the bucket: the groups that may be answered now, oldest first."""
        self._landed.add(place.number)
        first = self._answered
        while self._answered in self._landed:
            self._landed.discard(self._answered)
            self._answered += 1
        return [Place(self._epoch, number) for number in range(first, self._answered)]
