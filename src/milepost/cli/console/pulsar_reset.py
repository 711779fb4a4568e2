"""Resets of Apache Pulsar's subscriptions, with a preview counted here.

Apache Pulsar has no dry run and no condition on a reset: how many entries come again and how many are skipped
is counted from what it told a moment ago, and a group that has moved since is found by asking once more right
before. It closes the group's consumers, which come back at the new position.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from milepost.admin.errors import Missing
from milepost.admin.pulsar_entries import Places, acked_entries
from milepost.cli.console.pulsar_messages import start_of
from milepost.errors import InvalidInput, MilepostError, NotFound, PreconditionFailed
from milepost.positions.ids import MessageId
from milepost.positions.names import TopicName

if TYPE_CHECKING:
    from milepost.admin import Admin

Json = dict[str, Any]

TARGETS: Final = ("index", "id", "time", "position")
NOTE = (
    "Counted in entries from what Apache Pulsar tells, which has no preview of its own; "
    "it closes the group's consumers, and they come back there"
)


def reset(admin: Admin, topic: str, subscription: str, asked: Json) -> Json:
    """Reset a group, or say what that would do; a partitioned topic's on each partition."""
    parts = int(admin.get_partitioned_topic_metadata(topic).get("partitions", 0))
    base = TopicName.parse(topic)
    names = [str(base.partition_name(one)) for one in range(parts)] if parts else [topic]
    moves = [_planned(admin, one, subscription, asked) for one in names]
    if not asked.get("dry_run"):
        for number, (name, move) in enumerate(zip(names, moves, strict=True)):
            try:
                _perform(admin, name, subscription, move)
            except MilepostError as error:
                if not number:
                    raise
                # Apache Pulsar resets one partition after another: the person has to know which are reset.
                raise PreconditionFailed(
                    f"{number} of {len(names)} partitions of {topic} are reset; {name} is not: {error}"
                ) from error
    return {
        "dry_run": bool(asked.get("dry_run")),
        "redelivered": sum(one["redelivered"] for one in moves),
        "skipped": sum(one["skipped"] for one in moves),
        "moves": moves,
    }


def _planned(admin: Admin, topic: str, subscription: str, asked: Json) -> Json:
    internal = admin.get_internal_stats(topic)
    places = Places.of(internal)
    cursor = (internal.get("cursors") or {}).get(subscription)
    if cursor is None:
        raise NotFound(f"{topic} has no subscription {subscription}")
    acked = acked_entries(places, cursor)
    was = acked.next_absent(0, places.end)
    expected = asked.get("expected")
    if expected is not None and expected != was:
        raise PreconditionFailed(f"the first entry that is not acked is {was}, and not {expected}")
    to = _target(admin, topic, places, asked)
    return {
        "partition": TopicName.parse(topic).partition,
        "was": was,
        "to": to,
        "redelivered": acked.count_within(to, places.end),
        "skipped": to - acked.count_within(0, to),
        "released": None,
        "note": NOTE,
        "position": None if to >= places.end else list(places.position_of(to)),
    }


def _target(admin: Admin, topic: str, places: Places, asked: Json) -> int:
    said = [name for name in TARGETS if asked.get(name) is not None]
    if not said:
        raise InvalidInput("say where to: an index, an id, a time or a position")
    if len(said) > 1:
        raise InvalidInput(f"say one place, and not {' and '.join(said)}")
    value = asked[said[0]]
    match said[0]:
        case "position":
            if value not in ("earliest", "latest"):
                raise InvalidInput(f"position: {value!r} is neither earliest nor latest")
            return 0 if value == "earliest" else places.end
        case "id":
            found = max(places.number_of(MessageId.parse(str(value)).position), 0)
        case name:
            if type(value) is not int or value < 0:  # isinstance would take True for 1
                raise InvalidInput(f"{name}: {value!r} is not a whole number from 0 on")
            index, time_ms = (value, None) if name == "index" else (None, value)
            found = start_of(admin, topic, places, index, "", time_ms)
    return min(found, places.end)


def _perform(admin: Admin, topic: str, subscription: str, move: Json) -> None:
    if move["position"] is None:
        admin.skip_all_messages(topic, subscription)
        return
    ledger, entry = move["position"]
    try:
        admin.reset_cursor(topic, subscription, MessageId(ledger, entry))
    except Missing:
        raise NotFound(f"{topic}: entry {ledger}:{entry} is gone, or the subscription is") from None
