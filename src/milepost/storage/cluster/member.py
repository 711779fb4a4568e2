"""One broker of a cluster: what it says on the board, what it claims and gives up. Pure steps.

A turn, about once a second:

    say who is here and which shards are served ─▶ look at the board, and at the manifests of free shards
    ─▶ drop shards that others have claimed ─▶ claim free ones, if this broker has the fewest
    ─▶ or have another fetch one, if it has too many

A shard is free if no living broker's notice names it and its manifest has no living owner: it was given back,
its owner is dead, or it was never owned. An owner of a newer release whose notice cannot be read is alive
while the notice changes. The claim names the epoch that was read there, so that of several
brokers that see a shard free one gets it and the others leave it alone. Whatever a broker believes, only the
claim lets it write, and seals end the claim before it (`bucket/chain.py`). What is decided is decided in one
piece, by what was read: a bucket that answers too late leaves a shard to the next turn.

A shard *moves* when another broker fetches it: that one makes a process ready, says on the board that it is
about to have the shard, and only then asks the owner's process for it (`broker/workers/hand_over.py`). If a
broker that was asked to fetch a shard does not do it in time, the shard is given back for any to claim.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from milepost.errors import BucketUnusable, UnknownFormat
from milepost.storage.bucket.manifest import KEY as MANIFEST
from milepost.storage.bucket.manifest import Manifest
from milepost.storage.bucket.objects import (
    Absent,
    Delete,
    Done,
    Failed,
    Found,
    Get,
    Listed,
    Put,
    Reply,
    Scan,
    Steps,
)
from milepost.storage.cluster.assignment import assigned, counts_of
from milepost.storage.cluster.balance import surplus
from milepost.storage.cluster.board import Board
from milepost.storage.cluster.document import shard_prefix
from milepost.storage.cluster.notice import FOLDER, Notice, Seat

logger = logging.getLogger(__name__)

# A shard that could not be opened so often in a row is left to other brokers …
ATTEMPTS: Final = 3
# … for so long.
SHUNNED_S: Final = 60.0
# So long a broker waits for another to fetch a shard, before it gives the shard back for any to claim.
OFFER_S: Final = 10.0
# For the sake of load alone a broker gives no more than one shard in so long: what the last one has changed
# is to be seen by then.
PAUSE_S: Final = 30.0
# What is larger on the board is no notice: a hundred times what a broker with all shards says.
NOTICE_MAX: Final = 1024 * 1024


@dataclass(frozen=True)
class Open:
    """Claim a shard whose manifest is of an epoch, recover and serve it."""

    shard: int
    epoch: int


@dataclass(frozen=True)
class Close:
    """Drain a shard and give it back."""

    shard: int


@dataclass(frozen=True)
class Drop:
    """Another broker has the shard: serve it no more, at once."""

    shard: int


@dataclass(frozen=True)
class Give:
    """Ask another broker to fetch a shard from here."""

    shard: int
    broker: str


@dataclass(frozen=True)
class Fetch:
    """Make a process ready for a shard of another broker, have it handed over, and serve it."""

    shard: int


Order = Open | Close | Drop | Give | Fetch


def manifest_read(shard: int) -> Steps[Reply]:
    """What the bucket answers about the manifest of a shard."""
    return (yield Get(shard_prefix(shard) + MANIFEST))


def notice_read(key: str) -> Steps[Reply]:
    return (yield Get(key))


def notice_forgotten(key: str) -> Steps[Reply]:
    return (yield Delete(key))


class Member:
    def __init__(
        self,
        notice: Notice,
        shards: int,
        loads: Callable[[], Mapping[int, float]] = dict,
        *,
        by_load: bool = True,
    ) -> None:
        """`notice`: what there is to say before the first shard; `loads`: what is known of the load of this
        broker's shards; `by_load`: whether loads count in the balance, or shards alone."""
        self.notice = notice
        self.board = Board()
        self._all = range(shards)
        self._shards: dict[int, Seat | None] = dict(notice.shards)
        self._closing: set[int] = set()
        # Shards that another broker was asked to fetch, and until when that is waited for.
        self._offered: dict[int, float] = {}
        # Shards of others that this broker is fetching.
        self._fetching: set[int] = set()
        # Shards that an operator has moved here.
        self._staying: set[int] = set()
        # Shards whose manifests this release cannot read, each said once.
        self._unreadable: set[int] = set()
        # Brokers whose notices this release cannot read, each said once; and the shards that are theirs.
        self._unread: set[str] = set()
        # What is too large for a notice, each said once.
        self._large: set[str] = set()
        self._left: set[int] = set()
        self._own_loads = loads
        self._by_load = by_load
        # What was last said of the load of each shard. One that has just moved counts as it did.
        self._loads: dict[int, float] = {}
        # When balance may give a shard again.
        self._next_gift = 0.0
        self._now = 0.0
        self._failures: dict[int, int] = {}
        self._shunned_until: dict[int, float] = {}

    @property
    def name(self) -> str:
        return self.notice.broker

    # -- news of this broker's own shards ----------------------------------------------------------

    def opened(self, shard: int, seat: Seat) -> None:
        """A shard is served."""
        self._shards[shard] = seat
        self._fetching.discard(shard)
        self._failures.pop(shard, None)

    def ended(self, shard: int, now: float) -> None:
        """A shard is served no more: it was given back, lost, or could not be opened."""
        seat = self._shards.pop(shard, None)
        was_asked = shard in self._closing or shard in self._fetching
        self._closing.discard(shard)
        self._fetching.discard(shard)
        self._staying.discard(shard)
        self._offered.pop(shard, None)
        if was_asked or seat is not None:
            return
        self._failures[shard] = self._failures.get(shard, 0) + 1
        if self._failures[shard] >= ATTEMPTS:
            del self._failures[shard]
            self._shunned_until[shard] = now + SHUNNED_S

    def asked(self, shard: int, *, stays: bool = False) -> str | None:
        """This broker is to fetch a shard: why it does not; None if it does. An operator's choice `stays`:
        the shard is not given away for the sake of balance."""
        if self.notice.is_leaving:
            return f"broker {self.name} is about to end"
        if shard not in self._all:
            return f"there is no shard {shard}: they are numbered from 0 to {self._all[-1]}"
        if shard in self._shards:
            return f"broker {self.name} has shard {shard}, or is about to"
        self._shards[shard] = None
        self._fetching.add(shard)
        if stays:
            self._staying.add(shard)
        return None

    def is_fetching(self, shard: int, *, stays: bool = False) -> bool:
        """Is this broker fetching a shard already? If so, an operator who chooses it makes it stay."""
        if stays and shard in self._fetching:
            self._staying.add(shard)
        return shard in self._fetching

    def holds(self, shard: int) -> bool:
        """Does this broker serve a shard, or a process of it that gave the shard away and is not gone yet?"""
        return self._shards.get(shard) is not None

    def declined(self, shard: int) -> None:
        """The broker that was asked to fetch a shard does not."""
        if shard in self._offered:
            self._offered[shard] = self._now

    def leave(self) -> None:
        """Give everything back, and claim nothing more."""
        self.notice = self.notice._replace(is_leaving=True)

    def abandon(self) -> None:
        """Count on no shard any more: the process that would tell what becomes of them is gone."""
        self._shards.clear()

    @property
    def has_left(self) -> bool:
        return self.notice.is_leaving and not self._shards

    @property
    def stands_by(self) -> bool:
        """Do the others have every shard, none of them two?"""
        living = self.board.living().values()
        held = self._left.union(*(one.shards for one in living))
        return (
            not self._shards
            and held == set(self._all)
            and all(len(one.shards) < 2 for one in living)
        )

    # -- steps -------------------------------------------------------------------------------------

    def said(self, now: float) -> Steps[bool]:
        """Say who is here; whether the bucket has it."""
        self._now = now
        self._shunned_until = {one: end for one, end in self._shunned_until.items() if now < end}
        self.notice = self.notice._replace(
            beat=self.notice.beat + 1,
            shards=dict(self._shards),
            shunned=tuple(sorted(self._shunned_until)),
            loads={one: load for one, load in self._own_loads().items() if one in self._shards},
        )
        reply = yield Put(self.notice.key, self.notice.encode())
        return isinstance(reply, Done)

    def gone(self) -> Steps[None]:
        """Take the notice away: this broker ends."""
        yield Delete(self.notice.key)

    def listed(self) -> Steps[list[str] | None]:
        """The keys of the other brokers' notices; None if the board could not be read."""
        listed = yield Scan(FOLDER)
        if not isinstance(listed, Listed):
            return None
        large = {key: size for key, size in listed.objects if size > NOTICE_MAX}
        for key in large.keys() - self._large:
            logger.error(
                "%s is no notice: it has %d bytes, and is left alone; delete it", key, large[key]
            )
        self._large = set(large)
        others = (key for key, _ in listed.objects if key != self.notice.key)
        return [key for key in others if key not in large]

    def saw(self, said: Mapping[str, Reply], began: float) -> bool:
        """Know the board by what the bucket said of the notices, by their keys, in a look that began then;
        False if it failed to say it of one."""
        notices: dict[str, Notice] = {}
        unread: dict[str, bytes] = {}
        for key, found in said.items():
            if isinstance(found, Failed):
                return False
            if not isinstance(found, Found):
                continue
            notice = Notice.decode(found.data)
            if (
                notice is None or notice.key != key
            ):  # a copy says nothing of the broker that it names
                unread[key.removeprefix(FOLDER)] = found.data
            else:
                notices[notice.broker] = notice
        self.board.saw(notices, began, unread)
        for broker in unread.keys() - self._unread:
            logger.error(
                "the notice of broker %s cannot be read: it is of a newer release, or damaged; the broker's "
                "shards are left alone while it is there",
                broker,
            )
        self._unread = set(unread)
        return True

    def free(self) -> list[int]:
        """After a look: the shards that no living broker's notice names. Their manifests say more."""
        if self.notice.is_leaving:
            return []
        taken = {shard for one in self.board.living().values() for shard in one.shards}
        return [shard for shard in self._all if shard not in taken | self._shards.keys()]

    def decided(self, manifests: Mapping[int, Reply]) -> Sequence[Order]:
        """What is to be done about shards, after a look, with what was read of free ones (`manifest_read`).
        What is to be opened is to be said first."""
        living = self.board.living()
        lost = [
            shard
            for shard, seat in self._shards.items()
            if seat is not None and any(one.epoch_of(shard) > seat.epoch for one in living.values())
        ]
        self._closing.update(lost)
        orders: list[Order] = [Drop(shard) for shard in lost]
        overdue = [shard for shard, until in self._offered.items() if self._now >= until]
        orders += self._close(shard for shard in overdue if shard not in self._closing)
        for shard in overdue:
            del self._offered[shard]
        shunned = {name: one.shunned for name, one in living.items()}
        if self.notice.is_leaving:
            quiet = [shard for shard in self._shards if self._is_quiet(shard)]
            return orders + self._give(quiet, assigned(counts_of(living), quiet, shunned))
        everyone = {**living, self.name: self.notice._replace(shards=dict(self._shards))}
        free = self.free()
        self._left = set()
        shunned[self.name] = self.notice.shunned
        for shard, broker in assigned(counts_of(everyone), free, shunned).items():
            if shard in manifests:
                is_first = broker == self.name
                epoch = self._claimable(shard, manifests[shard], living, is_first=is_first)
                if epoch is not None:
                    self._shards[shard] = None
                    orders.append(Open(shard, epoch))
        is_settled = not free and all(map(self._is_quiet, self._shards))
        if is_settled and not orders:
            return self._gift(everyone, shunned)
        return orders

    def _gift(
        self, everyone: Mapping[str, Notice], shunned: Mapping[str, Sequence[int]]
    ) -> list[Order]:
        """What this broker gives away for the sake of balance."""
        for one in everyone.values():
            self._loads.update(one.loads)
        loads = {
            name: {
                shard: self._loads.get(shard, 0.0) if self._by_load else 0.0 for shard in one.shards
            }
            for name, one in everyone.items()
            if not one.is_leaving
        }
        movable = [shard for shard in self._shards if shard not in self._staying]
        given = surplus(loads, self.name, movable, shunned)
        if given is None:
            return []
        is_by_count = len(self._shards) - len(loads[given.broker]) >= 2
        if self._now < self._next_gift and not is_by_count:
            return []
        self._next_gift = self._now + PAUSE_S
        return self._give([given.shard], {given.shard: given.broker})

    def _claimable(
        self, shard: int, reply: Reply, living: Mapping[str, Notice], *, is_first: bool
    ) -> int | None:
        """The epoch of a shard that has no living owner, 0 for a new one; None if it has one. If another
        broker comes first, only that of a shard whose last owner is this broker: a process of it died, and
        the others leave the shard to it."""
        if isinstance(reply, Absent):
            return 0 if is_first else None
        if not isinstance(reply, Found):
            return None
        try:
            manifest = Manifest.decode(reply.data)
        except (BucketUnusable, UnknownFormat) as error:
            if shard not in self._unreadable:
                self._unreadable.add(shard)
                logger.error("shard %d is left alone: %s", shard, error)
            return None
        self._unreadable.discard(shard)
        if manifest.owner in self.board.unread():
            self._left.add(shard)
            return None
        if manifest.owner != self.name and not is_first:
            return None
        owner = living.get(manifest.owner)
        return manifest.epoch if owner is None or shard in owner.shunned else None

    def _is_quiet(self, shard: int) -> bool:
        """Is it served, and to be so?"""
        is_kept = shard not in self._closing and shard not in self._offered
        return is_kept and self._shards[shard] is not None

    def _give(self, shards: Iterable[int], brokers: Mapping[int, str]) -> list[Order]:
        """Have each fetched by its broker; what none is there for is given back."""
        orders: list[Order] = []
        for shard in shards:
            if shard in brokers:
                self._offered[shard] = self._now + OFFER_S
                orders.append(Give(shard, brokers[shard]))
            else:
                orders += self._close([shard])
        return orders

    def _close(self, shards: Iterable[int]) -> list[Order]:
        closing = list(shards)
        self._closing.update(closing)
        return [Close(shard) for shard in closing]
