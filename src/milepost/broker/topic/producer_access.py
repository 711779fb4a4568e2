"""Decides which producer may publish: shared, exclusive, waiting, fenced (PIP-68).

    SHARED                  with others; refused while a producer has the topic alone, or waits for that
    EXCLUSIVE               alone; refused while another producer is there
    WAIT_FOR_EXCLUSIVE      alone; waits in line while another producer is there
    EXCLUSIVE_WITH_FENCING  alone; everybody else is put out, those in line too

Who gets a topic alone gets it under an *epoch*, a number of the topic that only grows. A producer that
reconnects claims its epoch: if no other had the topic alone since, it goes on under the same one; if
another had, it is fenced and stays out for ever. So two producers never both believe that they are
alone, whichever connection breaks when.

A producer that was put out with its topic, which an operator unloads, comes back in a moment. Until then its
place is *kept* from those that wait for it in line. Upstream does not tell those of an unload at all. It is
kept too while a producer opens again on its own connection.

An epoch that could be given twice would prove nothing: a grant names the epoch to *store*, and the
producer is told only when that is durable. If storing it fails, say `leave`; the number is not used
again.

This is a decision table with a memory: it knows no connection, sends nothing, stores nothing.

    >>> access = ProducerAccess[str](epoch=4)
    >>> access.admit("a", AccessMode.EXCLUSIVE).epoch_to_store
    5
    >>> access.admit("b", AccessMode.WAIT_FOR_EXCLUSIVE).standing.name
    'WAITING'
    >>> [(a.producer, a.epoch) for a in access.leave("a")]
    [('b', 6)]
    >>> str(access.admit("a", AccessMode.EXCLUSIVE, claimed_epoch=5).error)
    'producer a was here under epoch 5, the topic is at epoch 6'
"""

from __future__ import annotations

from collections.abc import Hashable
from enum import Enum, IntEnum
from typing import Generic, NamedTuple, TypeVar

from milepost.errors import Busy, ProducerBusy, ProducerFenced

P = TypeVar("P", bound=Hashable)


class AccessMode(IntEnum):
    """As numbered on the wire (`ProducerAccessMode`)."""

    SHARED = 0
    EXCLUSIVE = 1
    WAIT_FOR_EXCLUSIVE = 2
    EXCLUSIVE_WITH_FENCING = 3


class Standing(Enum):
    GRANTED = "granted"
    WAITING = "waiting"
    REFUSED = "refused"


class Admission(NamedTuple, Generic[P]):
    """What becomes of one producer, and of those it displaces."""

    producer: P
    standing: Standing
    epoch: int | None = None
    """GRANTED to be alone: the epoch, for PRODUCER_SUCCESS. None for a shared producer."""
    epoch_to_store: int | None = None
    """To be durable before the producer is told; None when nothing new is to be stored."""
    error: Busy | None = None
    """REFUSED: why."""
    to_close: tuple[P, ...] = ()
    """Producers that are put out at once. They have left already."""
    to_refuse: tuple[P, ...] = ()
    """Producers in line whose requests fail with ProducerFenced. They have left already."""


class ProducerAccess(Generic[P]):
    """Who publishes to one topic and who waits. Producers are known by any hashable value."""

    __slots__ = ("_alone", "_is_kept", "_shared", "_waiting", "epoch")

    # The highest epoch ever given; None if there was none.  Invariant: never falls.
    epoch: int | None

    # Who has the topic alone.  Invariant: then no producer shares it.
    _alone: P | None

    # The place of the producer that had the topic alone under this epoch is kept.
    # Invariant: then no producer is there.
    _is_kept: bool

    # Who shares the topic, in order of coming (a dict for its order).
    _shared: dict[P, None]

    # Who waits in line, with the epoch that each claims.
    # Invariant: a producer waits only while another is there, or its place is kept.
    _waiting: dict[P, int | None]

    def __init__(self, epoch: int | None = None) -> None:
        """`epoch` is the one that was stored last."""
        self.epoch = epoch
        self._alone = None
        self._is_kept = False
        self._shared = {}
        self._waiting = {}

    def admit(
        self, producer: P, mode: AccessMode | int, claimed_epoch: int | None = None
    ) -> Admission[P]:
        """A producer comes. `claimed_epoch` is the epoch it was granted before it reconnected."""
        assert producer not in self, f"{producer} is here already"
        if mode == AccessMode.SHARED:
            if self._alone is not None or self._waiting:
                return _refused(producer, ProducerBusy(f"{self._holder()} has the topic alone"))
            self._shared[producer] = None
            self._is_kept = False
            return Admission(producer, Standing.GRANTED)
        if self._is_outdated(claimed_epoch):
            return _refused(producer, self._fenced(producer, claimed_epoch))
        to_close: tuple[P, ...] = ()
        to_refuse: tuple[P, ...] = ()
        if mode == AccessMode.EXCLUSIVE_WITH_FENCING:
            to_close, to_refuse = self._present(), tuple(self._waiting)
            self._waiting.clear()
        elif self._alone is not None and claimed_epoch == self.epoch:
            # An epoch is given to one producer: this is the one that has the topic, back before its
            # broken connection was noticed. Upstream fences it, from itself, for good.
            to_close = (self._alone,)
        elif self._alone is not None or self._shared:
            if mode == AccessMode.WAIT_FOR_EXCLUSIVE:
                self._waiting[producer] = claimed_epoch
                return Admission(producer, Standing.WAITING)
            return _refused(producer, ProducerFenced(f"{self._holder()} is on the topic"))
        elif (
            self._is_kept and mode == AccessMode.WAIT_FOR_EXCLUSIVE and claimed_epoch != self.epoch
        ):
            self._waiting[producer] = claimed_epoch
            return Admission(producer, Standing.WAITING)
        return self._grant(producer, claimed_epoch, to_close, to_refuse)

    def leave(self, producer: P) -> list[Admission[P]]:
        """A producer is gone. Returns what that decides for those in line: at most one grant, and
        refusals of those whose claims it made void. A stranger's leave changes nothing."""
        self._waiting.pop(producer, None)
        self._shared.pop(producer, None)
        if self._alone == producer:
            self._alone = None
        return self._next_in_line()

    @property
    def is_owned(self) -> bool:
        """Has a producer the topic alone, or is its place kept?"""
        return self._is_kept or self._alone is not None

    def keep_place(self) -> None:
        """The producer of the last epoch was put out with the topic, and comes back."""
        assert not self._present(), self._present()
        self._is_kept = True

    def step_aside(self, producer: P) -> None:
        """The producer that has the topic alone comes again, on the same connection: those in line do not
        get its place meanwhile. `give_place_up` follows when the outcome is known."""
        assert self.is_alone(producer), producer
        self._alone = None
        self._is_kept = True

    def give_place_up(self) -> list[Admission[P]]:
        """It has not come back. Returns what that decides, as `leave`."""
        self._is_kept = False
        return self._next_in_line()

    def _next_in_line(self) -> list[Admission[P]]:
        if self.is_owned or self._shared or not self._waiting:
            return []
        following = next(iter(self._waiting))
        claimed_epoch = self._waiting.pop(following)
        decided = [self._grant(following, claimed_epoch, (), ())]
        for waiting, claimed in list(self._waiting.items()):
            if self._is_outdated(claimed):
                del self._waiting[waiting]
                decided.append(_refused(waiting, self._fenced(waiting, claimed)))
        return decided

    def __contains__(self, producer: object) -> bool:
        """Is it here, or in line?"""
        return producer in self._shared or producer in self._waiting or self.is_alone(producer)

    def is_alone(self, producer: object) -> bool:
        """Has it the topic for itself?"""
        return self._alone is not None and self._alone == producer

    def waits(self, producer: object) -> bool:
        """Is it in line?"""
        return producer in self._waiting

    def check(self) -> None:
        """Assert every `Invariant:` above."""
        assert self._alone is None or not self._shared, (self._alone, self._shared)
        assert not self._waiting or self._is_kept or self._present(), self._waiting
        assert not self._is_kept or not self._present(), self._present()
        assert self._alone is None or self.epoch is not None, self._alone
        for claimed in self._waiting.values():
            assert not self._is_outdated(claimed), (claimed, self.epoch)

    # ── inside ────────────────────────────────────────────────────────────────────────────────

    def _grant(
        self,
        producer: P,
        claimed_epoch: int | None,
        to_close: tuple[P, ...],
        to_refuse: tuple[P, ...],
    ) -> Admission[P]:
        self._shared.clear()
        self._is_kept = False
        self._alone = producer
        if claimed_epoch is not None and claimed_epoch == self.epoch and not to_close:
            return Admission(producer, Standing.GRANTED, self.epoch, to_refuse=to_refuse)
        # A claim that is higher than ours was granted in another life of the topic, before it was
        # deleted: its bearer is a newcomer here.
        self.epoch = 0 if self.epoch is None else self.epoch + 1
        return Admission(
            producer, Standing.GRANTED, self.epoch, self.epoch, None, to_close, to_refuse
        )

    def _is_outdated(self, claimed_epoch: int | None) -> bool:
        return claimed_epoch is not None and self.epoch is not None and claimed_epoch < self.epoch

    def _fenced(self, producer: P, claimed_epoch: int | None) -> ProducerFenced:
        return ProducerFenced(
            f"producer {producer} was here under epoch {claimed_epoch}, "
            f"the topic is at epoch {self.epoch}"
        )

    def _present(self) -> tuple[P, ...]:
        return tuple(self._shared) if self._alone is None else (self._alone,)

    def _holder(self) -> str:
        """The producer because of which others are refused."""
        return f"producer {next(iter((*self._present(), *self._waiting)))}"


def _refused(producer: P, error: Busy) -> Admission[P]:
    return Admission(producer, Standing.REFUSED, error=error)
