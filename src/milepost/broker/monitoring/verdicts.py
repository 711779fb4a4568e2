"""Judges a subscription: caught up, slow, starved, stalled, and why.

From facts, not from thresholds.

A backlog is no trouble as long as it shrinks, and a caught-up subscription is well however long nothing
was published. The broker sees what a monitor of positions cannot: permits, connections, who holds what.

    CAUGHT_UP        nothing is left to do now
    CONSUMING        acks come, at least as fast as messages; when it will be done, if that can be said
    SLOW             acks come, but messages come faster
    RESET_PENDING    connected consumers have not obeyed the last reset yet
    NO_CONSUMER      messages are ready, and no consumer is connected
    STARVED          messages are ready, and the consumers ask for none
    STALLED          consumers hold messages and ack none
    BLOCKED_BY_HOLE  later messages are acked, and the oldest one is not: it keeps all of them
    DAMAGED          the topic takes no messages: some are lost, or its ledgers cannot be written

`judge` is pure. The names and their order, from none to most trouble, are `positions/severity.py`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from milepost.broker.metrics.samples import Recent
from milepost.cursor.outcomes import Counts
from milepost.positions.severity import Verdict


class Asking(NamedTuple):
    """What is known of a connected consumer."""

    name: str
    permits: int
    inflight: int
    is_blocked: bool
    """Holds as much as one consumer may hold unacked."""
    is_writable: bool
    """Does its connection take what is sent?"""


class Hole(NamedTuple):
    """The oldest messages that are not acked though later ones are."""

    index: int  # type: ignore[assignment]  # in place of tuple.index, which has no use here
    end: int
    id: str
    """Of the first of them: `ledger:entry:partition:batch index`."""
    age_ms: int
    """Since it was published."""
    holder: str
    """The consumer that has it; empty if none has."""
    delivery_count: int
    """How often it was delivered, as far as that is counted."""


class HeldBack(NamedTuple):
    """The open transaction whose first message is the first that consumers cannot see yet."""

    transaction: str
    """`(0,17)`"""
    owner: str
    """The role that opened it; empty where clients are not asked who they are."""
    opened_ms: int
    open_ms: int
    """For how long it has been open."""
    messages: int
    """Indexes that cannot be seen because of it, its own messages included."""
    topics: tuple[str, ...]
    """All that it writes to or acks of."""

    def __str__(self) -> str:
        return f"transaction {self.transaction}{_of(self.owner)}, open for {_age(self.open_ms)}"


class Judged(NamedTuple):
    verdict: Verdict
    reason: str
    drained_in_s: float | None = None
    """When the backlog will be done at this pace; None if that cannot be said."""


def judge(
    counts: Counts,
    consumers: Sequence[Asking],
    recent: Recent,
    *,
    waiting: Sequence[str] = (),
    hole: Hole | None = None,
    refusal: str | None = None,
    of_spark: bool = False,
    pending: int = 0,
    pending_in: str = "",
    held_back: HeldBack | None = None,
) -> Judged:
    """`waiting`: connected consumers that have not obeyed the last reset; `refusal`: why the topic
    takes no messages; `of_spark`: it is the progress of a Spark query, which comes and goes. `pending`: of
    what is inflight, how much transactions have acked that have not ended; `pending_in`: which."""
    if refusal is not None:
        return Judged(Verdict.DAMAGED, f"the topic takes no messages: {refusal}")
    ready, inflight, delayed, _ = counts
    inflight -= pending  # with no consumer: its transaction decides
    if waiting:
        return Judged(
            Verdict.RESET_PENDING, f"the last reset is not obeyed yet by {_names(waiting)}"
        )
    if not ready + inflight:
        left = [f"{delayed} delayed, none of them due"] if delayed else []
        if pending:
            left.append(f"{pending} acked in {pending_in}, which has not ended")
        if held_back is not None:
            left.append(f"{held_back.messages} behind the end wait for {held_back}")
        if left:
            return Judged(Verdict.CAUGHT_UP, "; ".join(left))
        return Judged(Verdict.CAUGHT_UP, "everything is acked")
    if not consumers:
        remains = "; its Spark query does not run, and reads them when it does" if of_spark else ""
        return Judged(Verdict.NO_CONSUMER, f"{ready} ready, and no consumer is connected{remains}")
    watched = f"in the last {recent.seconds:.0f} s"
    if hole is not None and recent.messages_acked and not recent.has_moved:
        return Judged(
            Verdict.BLOCKED_BY_HOLE,
            f"index {hole.index} ({hole.id}) is {_with(hole)}, delivered {_times(hole.delivery_count)}; "
            f"{recent.messages_acked} behind it were acked {watched}",
        )
    if ready and not inflight:
        reason = _why_nothing_goes(consumers)
        if reason or (recent.seconds and not recent.messages_out):
            return Judged(Verdict.STARVED, f"{ready} ready, but {reason or 'nothing goes out'}")
    if recent.seconds and inflight and not recent.messages_acked:
        holders = [consumer.name for consumer in consumers if consumer.inflight]
        return Judged(
            Verdict.STALLED, f"{inflight} with {_names(holders)}, none of them acked {watched}"
        )
    if not recent.seconds:
        return Judged(Verdict.CONSUMING, "watched for too short a time to say more")
    rates = f"{recent.rate_acked:.1f}/s acked, {recent.rate_in:.1f}/s published {watched}"
    shrinks = recent.rate_acked - recent.rate_in
    if shrinks < 0:
        return Judged(Verdict.SLOW, rates)
    drained_in_s = (ready + inflight) / shrinks if shrinks else None
    return Judged(Verdict.CONSUMING, rates, drained_in_s)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _why_nothing_goes(consumers: Sequence[Asking]) -> str:
    """What keeps every consumer from getting more; empty if one of them could."""
    if any(_can_take(consumer) for consumer in consumers):
        return ""
    blocked = [consumer.name for consumer in consumers if consumer.is_blocked]
    if blocked:
        return f"{_names(blocked)} may hold no more unacked messages"
    silent = [consumer.name for consumer in consumers if consumer.permits <= 0]
    if silent:
        return f"{_names(silent)} asks for nothing"
    return f"{_names([consumer.name for consumer in consumers])} does not read what it is sent"


def _can_take(consumer: Asking) -> bool:
    return consumer.permits > 0 and consumer.is_writable and not consumer.is_blocked


def _with(hole: Hole) -> str:
    return f"with {hole.holder}" if hole.holder else "with no consumer"


def _names(names: Sequence[str]) -> str:
    """A few names, and how many more."""
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


def _of(owner: str) -> str:
    return f" of role {owner}" if owner else ""


def _age(milliseconds: int) -> str:
    """A duration in words.

    >>> [_age(ms) for ms in (900, 90_000, 200_000, 7_300_000)]
    ['0 s', '90 s', '3 min', '2 h']
    """
    seconds = milliseconds // 1000
    for unit, size in (("s", 1), ("min", 60)):
        if seconds < 120 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds // 3600} h"
