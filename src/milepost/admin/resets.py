"""Calls about resets: dry run, check, history (Milepost only).

outcome = admin.reset_subscription(topic, "billing", by=-100, dry_run=True)
outcome.redelivered, outcome.moves[0].to
"""

from __future__ import annotations

from dataclasses import dataclass

from milepost.admin.request import Answer, Json, Script, get, own_path, post
from milepost.positions.ids import MessageId


@dataclass(frozen=True, slots=True)
class Move:
    """What a reset does to one partition. Indexes are those of that partition."""

    topic: str
    # −1 for a topic without partitions.
    partition: int
    # The messages that are kept: [first, end).
    first: int
    end: int
    # The first index that was not acked, and the one that is delivered next.
    was: int
    to: int
    # The cursor's, from then on.
    epoch: int
    # Acked messages that are ready again; messages not acked that are acked now.
    redelivered: int
    skipped: int
    # Messages taken from consumers that held them.
    released: int
    # Why `to` is not what was asked for; empty if it is.
    note: str


@dataclass(frozen=True, slots=True)
class ResetOutcome:
    dry_run: bool
    redelivered: int
    skipped: int
    moves: tuple[Move, ...]


def reset_subscription(
    topic: str,
    subscription: str,
    *,
    index: int | None = None,
    message_id: MessageId | None = None,
    time_ms: int | None = None,
    position: str | None = None,
    by: int | None = None,
    last: int | None = None,
    after: bool = False,
    expected: int | None = None,
    dry_run: bool = False,
    create: bool = False,
    exact: bool = False,
    partition: int | None = None,
) -> Script[ResetOutcome]:
    """Move a subscription, on all partitions or none, while its consumers live.

    Where to is exactly one of an index, an id, a time, a position (`earliest`, `latest`), by how many
    indexes, and how many before the end; of the last two each partition goes as far as it can. `exact`
    refuses what is no longer there, and a time behind the last message. `expected` is the first index
    that must not be acked yet; else it is refused. With `create` a subscription that is not there
    is made, and begins there.
    """
    body: Json = {
        "index": index,
        "id": None if message_id is None else str(message_id),
        "time": time_ms,
        "position": position,
        "by": by,
        "last": last,
        "expected": expected,
        "partition": partition,
    }
    given = {name: value for name, value in body.items() if value is not None}
    path = own_path(topic, "subscriptions", subscription, "reset")
    if create:
        given["create"] = True
    if exact:
        given["exact"] = True
    answer = yield post(path, {**given, "after": after, "dry_run": dry_run})
    return _outcome(answer)


def get_resets(topic: str, subscription: str) -> Script[list[Json]]:
    """Who moved a subscription, when, from where to where; oldest first."""
    answer = yield get(own_path(topic, "subscriptions", subscription, "resets"))
    found = answer.json()
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise answer.bad("not a list of resets")
    return found


def _outcome(answer: Answer) -> ResetOutcome:
    document = answer.object()
    names = Move.__slots__
    try:
        moves = tuple(Move(**{name: one[name] for name in names}) for one in document["moves"])
        return ResetOutcome(
            document["dry_run"], document["redelivered"], document["skipped"], moves
        )
    except (KeyError, TypeError):
        raise answer.bad("not the outcome of a reset") from None
