"""One broker of a cluster: what it says on the board, what it claims and gives up. Pure steps.

A turn, about once a second:

    say who is here and which shards are served ─▶ look at the board ─▶ drop shards that others have claimed
    ─▶ claim free ones, if this broker has the fewest ─▶ or give one away, if it has too many

A shard is free if no living broker's notice names it and its manifest has no living owner: it was given back,
its owner is dead, or it was never owned. The claim names the epoch that was read there, so that of several
brokers that see a shard free one gets it and the others leave it alone. Whatever a broker believes, only the
claim lets it write, and seals end the claim before it (`bucket/chain.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

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
    Scan,
    Steps,
)
from milepost.storage.cluster.assignment import assigned, counts_of, surplus
from milepost.storage.cluster.board import Board
from milepost.storage.cluster.document import shard_prefix
from milepost.storage.cluster.notice import FOLDER, Notice, Seat

# A shard that could not be opened so often in a row is left to other brokers …
ATTEMPTS: Final = 3
# … for so long.
SHUNNED_S: Final = 60.0


class Open(NamedTuple):
    """Claim a shard whose manifest is of an epoch, recover and serve it."""

    shard: int
    epoch: int


class Close(NamedTuple):
    """Drain a shard and give it back."""

    shard: int


class Drop(NamedTuple):
    """Another broker has the shard: serve it no more, at once."""

    shard: int


Order = Open | Close | Drop


class Member:
    def __init__(self, notice: Notice, shards: int) -> None:
        """`notice`: what there is to say before the first shard."""
        self.notice = notice
        self.board = Board()
        self._all = range(shards)
        self._shards: dict[int, Seat | None] = dict(notice.shards)
        self._closing: set[int] = set()
        self._failures: dict[int, int] = {}
        self._shunned_until: dict[int, float] = {}

    @property
    def name(self) -> str:
        return self.notice.broker

    # -- news of this broker's own shards ----------------------------------------------------------

    def opened(self, shard: int, seat: Seat) -> None:
        """A shard is served."""
        self._shards[shard] = seat
        self._failures.pop(shard, None)

    def ended(self, shard: int, now: float) -> None:
        """A shard is served no more: it was given back, lost, or could not be opened."""
        seat = self._shards.pop(shard, None)
        was_asked = shard in self._closing
        self._closing.discard(shard)
        if was_asked or seat is not None:
            return
        self._failures[shard] = self._failures.get(shard, 0) + 1
        if self._failures[shard] >= ATTEMPTS:
            del self._failures[shard]
            self._shunned_until[shard] = now + SHUNNED_S

    def leave(self) -> None:
        """Give everything back, and claim nothing more."""
        self.notice = self.notice._replace(is_leaving=True)

    @property
    def has_left(self) -> bool:
        return self.notice.is_leaving and not self._shards

    @property
    def stands_by(self) -> bool:
        """Do the others have every shard, none of them two?"""
        living = self.board.living().values()
        held = {shard for one in living for shard in one.shards}
        return (
            not self._shards
            and held == set(self._all)
            and all(len(one.shards) < 2 for one in living)
        )

    # -- steps -------------------------------------------------------------------------------------

    def said(self, now: float) -> Steps[bool]:
        """Say who is here; whether the bucket has it."""
        self._shunned_until = {one: end for one, end in self._shunned_until.items() if now < end}
        self.notice = self.notice._replace(
            beat=self.notice.beat + 1,
            shards=dict(self._shards),
            shunned=tuple(sorted(self._shunned_until)),
        )
        reply = yield Put(self.notice.key, self.notice.encode())
        return isinstance(reply, Done)

    def gone(self) -> Steps[None]:
        """Take the notice away: this broker ends."""
        yield Delete(self.notice.key)

    def looked(self, now: Callable[[], float]) -> Steps[bool]:
        """Look at the board; False if it could not be read."""
        began = now()
        listed = yield Scan(FOLDER)
        if not isinstance(listed, Listed):
            return False
        notices: dict[str, Notice] = {}
        for key, _ in listed.objects:
            if key == self.notice.key:
                continue
            found = yield Get(key)
            if isinstance(found, Failed):
                return False
            notice = Notice.decode(found.data) if isinstance(found, Found) else None
            if notice is not None:
                notices[notice.broker] = notice
        self.board.saw(notices, began)
        for key in self.board.forgotten():
            yield Delete(key)
        return True

    def decided(self) -> Steps[Sequence[Order]]:
        """What is to be done about shards, after a look. What is to be opened is to be said first."""
        living = self.board.living()
        lost = [
            shard
            for shard, seat in self._shards.items()
            if seat is not None and any(one.epoch_of(shard) > seat.epoch for one in living.values())
        ]
        self._closing.update(lost)
        orders: list[Order] = [Drop(shard) for shard in lost]
        if self.notice.is_leaving:
            return orders + self._close(shard for shard in self._shards if self._is_quiet(shard))
        taken = {shard for one in living.values() for shard in one.shards} | self._shards.keys()
        everyone = {**living, self.name: self.notice._replace(shards=dict(self._shards))}
        counts = counts_of(everyone)
        free = [shard for shard in self._all if shard not in taken]
        shunned = {name: one.shunned for name, one in everyone.items()}
        for shard, broker in assigned(counts, free, shunned).items():
            if broker == self.name:
                epoch = yield from self._claimable(shard, living)
                if epoch is not None:
                    self._shards[shard] = None
                    orders.append(Open(shard, epoch))
        is_settled = not free and all(map(self._is_quiet, self._shards))
        if is_settled and not orders:
            given = surplus(counts, self.name, list(self._shards))
            return self._close([] if given is None else [given])
        return orders

    def _claimable(self, shard: int, living: dict[str, Notice]) -> Steps[int | None]:
        """The epoch of a shard that has no living owner, 0 for a new one; None if it has one."""
        reply = yield Get(shard_prefix(shard) + MANIFEST)
        if isinstance(reply, Absent):
            return 0
        if not isinstance(reply, Found):
            return None
        manifest = Manifest.decode(reply.data)
        owner = living.get(manifest.owner)
        return manifest.epoch if owner is None or shard in owner.shunned else None

    def _is_quiet(self, shard: int) -> bool:
        """Is it served, and to be so?"""
        return self._shards[shard] is not None and shard not in self._closing

    def _close(self, shards: Iterable[int]) -> list[Order]:
        closing = list(shards)
        self._closing.update(closing)
        return [Close(shard) for shard in closing]
