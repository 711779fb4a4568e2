"""Anomalies, each planted into a history that has none: `PLANTS` has a plant for every name.

A plant takes the events of a clean history and a random number generator, and changes the events; or
returns False where the history has no place for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

Event = dict[str, Any]
Plant = Callable[[list[Event], Random], bool]
PLANTS: dict[str, list[Plant]] = {}


def plants(name: str) -> Callable[[Plant], Plant]:
    def register(plant: Plant) -> Plant:
        PLANTS.setdefault(name, []).append(plant)
        return plant

    return register


# -- finding places ----------------------------------------------------------------------------------


def one_of(random: Random, found: Iterator[int]) -> int | None:
    places = list(found)
    return random.choice(places) if places else None


def where(events: list[Event], op: str, is_: str | None = None, **fields: Any) -> Iterator[int]:
    for at, event in enumerate(events):
        wanted = {"op": op, "is": is_, **fields}
        if all(event.get(name) == value for name, value in wanted.items()):
            yield at


def outcome_of(events: list[Event], invoked: int) -> tuple[int, str]:
    for at in range(invoked + 1, len(events)):
        if events[at].get("n") == events[invoked]["n"] and "op" not in events[at]:
            return at, events[at]["is"]
    return len(events), "open"


def answered(events: list[Event], op: str, **fields: Any) -> Iterator[tuple[int, int]]:
    """Operations that succeeded: where they were invoked and answered."""
    for at in where(events, op, "invoke", **fields):
        end, kind = outcome_of(events, at)
        if kind == "ok":
            yield at, end


def moves(events: list[Event], first: int, group: Event) -> list[int]:
    """Where seeks, resets and deletions of the group are invoked or may still happen."""
    found = []
    for at, event in enumerate(events):
        if event.get("op") in ("seek", "reset") and event["topic"] == group["topic"]:
            end, kind = outcome_of(events, at)
            if event["sub"] == group["sub"] and (end > first or kind != "ok"):
                found.append(at)
    return found


def acked_message(events: list[Event], ack: Event) -> Event:
    """The delivery of what an ack names."""
    return next(
        event
        for event in events
        if event.get("op") == "receive"
        and [event["id"]] == ack["ids"]
        and event["topic"] == ack["topic"]
    )


def received(seen: Event, sub: str, by: str = "stranger") -> Event:
    fields = {name: seen[name] for name in ("topic", "message", "id", "index")}
    return {"op": "receive", "sub": sub, "by": by, **fields}


def in_transactions(events: list[Event]) -> set[str]:
    return {event["message"] for event in events if event.get("op") == "publish" and "txn" in event}


def replace_by_fill(events: list[Event], at: int) -> None:
    event = events[at]
    index = event["index"]
    events[at] = {"op": "fill", "topic": event["topic"], "from": index, "to": index + 1}


def answered_publishes(events: list[Event], topic: str) -> set[str]:
    return {events[at]["message"] for at, _ in answered(events, "publish", topic=topic)}


# -- messages ----------------------------------------------------------------------------------------


def _stored_once(events: list[Event], topic: str = "t") -> Iterator[int]:
    """Stored messages that had their receipt and belong to no transaction."""
    known = answered_publishes(events, topic) - in_transactions(events)
    for at in where(events, "stored", topic=topic):
        if events[at]["message"] in known:
            yield at


@plants("lost")
def receipt_is_lost(events: list[Event], random: Random) -> bool:
    at = one_of(random, _stored_once(events))
    if at is None:
        return False
    replace_by_fill(events, at)
    return True


@plants("lost")
def trimmed_by_itself(events: list[Event], random: Random) -> bool:
    if any(where(events, "trim", "invoke", topic="t")):
        return False
    at = one_of(random, where(events, "scan", topic="t"))
    stored = [at for at in _stored_once(events) if events[at]["index"] == 0]
    if at is None or not stored:
        return False
    events[at]["first"] = 1
    del events[stored[0]]
    return True


@plants("hole")
def index_without_anything(events: list[Event], random: Random) -> bool:
    at = one_of(random, where(events, "stored", topic="t"))
    if at is None:
        return False
    del events[at]
    return True


@plants("reused-index")
def one_index_twice(events: list[Event], random: Random) -> bool:
    places = [
        at
        for at in where(events, "stored", topic="t")
        if events[at - 1]["op"] == "stored" and events[at - 1]["topic"] == "t"
    ]
    at = one_of(random, iter(places))
    if at is None:
        return False
    events[at]["index"] -= 1
    return True


@plants("inconsistent-position")
def another_messages_id(events: list[Event], random: Random) -> bool:
    at = one_of(random, where(events, "receive", topic="t"))
    if at is None:
        return False
    others = [
        events[one]["id"]
        for one in where(events, "receive", topic="t")
        if one < at and events[one]["message"] != events[at]["message"]
    ]
    if not others:
        return False
    events[at]["id"] = random.choice(others)
    return True


@plants("inconsistent-position")
def another_index(events: list[Event], random: Random) -> bool:
    at = one_of(random, where(events, "receive", topic="t"))
    if at is None:
        return False
    events[at]["index"] += 10_000
    twin = received(events[at] | {"index": events[at]["index"] - 10_000}, "new")
    events.insert(at, twin)
    return True


@plants("reordered")
def two_of_one_producer(events: list[Event], random: Random) -> bool:
    lanes = {
        (event["topic"], event["message"]): event["by"]
        for event in events
        if event.get("op") == "publish"
    }
    stored = list(where(events, "stored", topic="t"))
    pairs = [
        (first, second)
        for first in stored
        for second in stored
        if first < second
        and lanes["t", events[first]["message"]] == lanes["t", events[second]["message"]]
    ]
    if not pairs:
        return False
    first, second = random.choice(pairs)
    events[first]["message"], events[second]["message"] = (
        events[second]["message"],
        events[first]["message"],
    )
    return True


@plants("phantom")
def bytes_of_no_producer(events: list[Event], random: Random) -> bool:
    at = one_of(random, where(events, "receive"))
    if at is None:
        return False
    unknown = {"topic": events[at]["topic"], "message": random.choice((None, "m-from-nowhere"))}
    events.insert(at, {"op": "receive", **unknown})
    return True


@plants("duplicate")
def stored_twice(events: list[Event], random: Random) -> bool:
    at = one_of(random, where(events, "stored", topic="t"))
    end = one_of(random, where(events, "scanned", topic="t"))
    if at is None or end is None:
        return False
    index = events[end]["end"]
    events[end]["end"] += 1
    events.insert(end, events[at] | {"id": [10_000, 0, -1], "index": index})
    return True


@plants("aborted-read")
def refused_and_there(events: list[Event], random: Random) -> bool:
    refused = [
        at for at in where(events, "publish", "invoke") if outcome_of(events, at)[1] == "fail"
    ]
    at = one_of(random, iter(refused))
    if at is None:
        return False
    place = {"op": "receive", "topic": events[at]["topic"], "message": events[at]["message"]}
    events.append(place)
    return True


@plants("torn-chunk")
def half_a_message(events: list[Event], random: Random) -> bool:
    at = one_of(random, where(events, "receive"))
    if at is None:
        return False
    events[at]["whole"] = False
    return True


@plants("torn-chunk")
def another_first_chunk(events: list[Event], random: Random) -> bool:
    at = one_of(random, where(events, "receive"))
    if at is None:
        return False
    events[at]["first"] = [0, 1, -1]
    events.insert(at + 1, events[at] | {"first": [0, 2, -1], "sub": "new"})
    return True


@plants("split-brain")
def fenced_owner(events: list[Event], random: Random) -> bool:
    owned = [at for at, event in enumerate(events) if event.get("owner", 0) > 0]
    if not owned:
        return False
    at = owned[-1]
    topic = next(e["topic"] for e in events if e.get("n") == events[at]["n"] and "op" in e)
    names = {e["n"]: e["topic"] for e in events if e.get("op") == "publish"}
    before = [one for one in owned[:-1] if names[events[one]["n"]] == topic]
    asked = next(one for one, e in enumerate(events) if e.get("n") == events[at]["n"])
    if not any(one < asked for one in before):
        return False
    events[at]["owner"] = 0
    return True


# -- acks --------------------------------------------------------------------------------------------


@plants("redelivered-after-durable-ack")
def acked_and_again(events: list[Event], random: Random) -> bool:
    places = [
        (at, end)
        for at, end in answered(events, "ack")
        if "txn" not in events[at] and not moves(events, at, events[at])
    ]
    if not places:
        return False
    at, end = random.choice(places)
    seen = acked_message(events, events[at])
    events.insert(random.randint(end + 1, len(events)), received(seen, events[at]["sub"]))
    return True


@plants("ack-window-exceeded")
def old_ack_is_gone(events: list[Event], random: Random) -> bool:
    for at in where(events, "ack"):
        kills = [kill for kill in where(events, "kill") if kill > at]
        if kills and not moves(events, at, events[at]):
            break
    else:
        return False
    seen = acked_message(events, events[at])
    events[at]["t"] = events[kills[0]]["t"] - 0.3
    # No answer in that life may have taken long, or the machine was to blame.
    events.insert(kills[0] + 2, received(seen, events[at]["sub"]))
    return True


# -- seeks -------------------------------------------------------------------------------------------


def _calm_seek(events: list[Event], op: str) -> Iterator[tuple[int, int]]:
    """Seeks that were answered, and behind which their subscription did not move again."""
    for at, end in answered(events, op):
        if set(moves(events, at, events[at])) == {at}:
            yield at, end


@plants("stale-after-seek")
def from_before_the_seek(events: list[Event], random: Random) -> bool:
    return _stale(events, "seek", "c0")


@plants("reset-undone")
def from_before_the_reset(events: list[Event], random: Random) -> bool:
    return _stale(events, "reset", "stranger")


def _stale(events: list[Event], op: str, by: str) -> bool:
    for at, end in _calm_seek(events, op):
        seek = events[at]
        for event in events:
            is_seen = event.get("op") == "receive" and event["topic"] == seek["topic"]
            if is_seen and event["index"] < seek["index"]:
                events.insert(end + 1, received(event, seek["sub"], by))
                return True
    return False


@plants("wrong-first")
def not_the_target(events: list[Event], random: Random) -> bool:
    """The target of a seek is not what comes first: it does not come at all."""
    for at, end in _calm_seek(events, "seek"):
        group = {"topic": events[at]["topic"], "sub": events[at]["sub"]}
        next_ones = [one for one in where(events, "receive", **group) if one > end][:2]
        others = [
            one
            for one, event in enumerate(events)
            if end < one and event.get("op") in ("ack", "join", "kill", "trim")
            and (event.get("sub") in (group["sub"], None))
        ]  # fmt: skip
        if len(next_ones) < 2 or any(one < next_ones[1] for one in others):
            continue
        missed = events[next_ones[0]]["message"]
        was_sent = any(one < at for one in where(events, "publish", "invoke", message=missed))
        if was_sent and missed not in in_transactions(events):
            events.insert(at, received(events.pop(next_ones[0]), "new"))
            return True
    return False


@plants("torn-seek")
def target_of_neither(events: list[Event], random: Random) -> bool:
    taken = in_transactions(events)
    seen = {
        event["index"]: event
        for event in events
        if event.get("op") == "stored" and event["topic"] == "t" and event["message"] not in taken
    }
    if len(seen) < 4:
        return False
    first, second, missed, last = sorted(random.sample(sorted(seen), 4))
    group = {"topic": "t", "sub": "new"}
    events += [
        {"op": "join", **group, "by": "a", "alone": True},
        {"is": "invoke", "op": "seek", "n": 10_001, **group, "by": "a", "index": first},
        {"is": "invoke", "op": "reset", "n": 10_002, **group, "by": "b", "index": second},
        {"is": "ok", "n": 10_002},
        {"is": "ok", "n": 10_001},
        received(seen[last], "new", "a"),
    ]
    return missed < last


@plants("skipped")
def one_between(events: list[Event], random: Random) -> bool:
    taken = in_transactions(events)
    runs = [
        at
        for at in range(1, len(events) - 1)
        if all(
            event.get("op") == "receive" and event.get("sub") == "e" and event["topic"] == "t"
            for event in events[at - 1 : at + 2]
        )
        and events[at]["message"] not in taken
    ]
    at = one_of(random, iter(runs))
    if at is None:
        return False
    events.insert(at - 1, received(events.pop(at), "new"))
    return True


@plants("reordered")
def an_ordered_consumer(events: list[Event], random: Random) -> bool:
    runs = [
        at
        for at in range(1, len(events))
        if all(
            event.get("op") == "receive" and event.get("sub") == "e" and event["topic"] == "t"
            for event in events[at - 1 : at + 1]
        )
    ]
    at = one_of(random, iter(runs))
    if at is None:
        return False
    events[at - 1], events[at] = events[at], events[at - 1]
    return True


# -- looks -------------------------------------------------------------------------------------------


@plants("bad-lookup")
def another_message_found(events: list[Event], random: Random) -> bool:
    found = [at for at in where(events, "lookup") if events[at]["id"] is not None]
    at = one_of(random, iter(found))
    if at is None:
        return False
    # By the end of the history every index is told.
    events.append(events[at] | {"id": [10_000, 0, -1]})
    return True


@plants("bad-lookup")
def not_found(events: list[Event], random: Random) -> bool:
    at = one_of(random, _stored_once(events))
    if at is None:
        return False
    events.append({"op": "lookup", "topic": "t", "index": events[at]["index"], "id": None})
    return True


@plants("bad-lookup")
def found_below_zero(events: list[Event], random: Random) -> bool:
    return _found_where_nothing_is(events, random, -1)


@plants("bad-lookup")
def found_behind_the_end(events: list[Event], random: Random) -> bool:
    ends = [events[at]["end"] for at in where(events, "scanned", topic="t")]
    return bool(ends) and _found_where_nothing_is(events, random, ends[-1] + random.randrange(3))


def _found_where_nothing_is(events: list[Event], random: Random, index: int) -> bool:
    at = one_of(random, where(events, "stored", topic="t"))
    if at is None:
        return False
    events.append({"op": "lookup", "topic": "t", "index": index, "id": events[at]["id"]})
    return True


@plants("bad-accounting")
def numbers_that_do_not_add_up(events: list[Event], random: Random) -> bool:
    at = one_of(random, where(events, "counts"))
    if at is None:
        return False
    events[at][random.choice(("ready", "delayed", "inflight", "acked", "end"))] += 1
    return True


@plants("bad-accounting")
def acked_and_counted_as_ready(events: list[Event], random: Random) -> bool:
    """Everything that was acked one by one, and was never sought again, is told to be ready."""
    for at in [*where(events, "counts", now=True)][::-1]:
        counts = events[at]
        first, group = counts["first"], {name: counts[name] for name in ("topic", "sub")}
        acked = [
            acked_message(events, events[one])["index"]
            for one, end in answered(events, "ack", **group)
            if end < at and "txn" not in events[one]
        ]
        if any(index >= first for index in acked) and not moves(events, 0, group):
            counts["ready"] += counts["acked"]
            counts["acked"] = 0
            return True
    return False


@plants("bad-accounting")
def never_acked_and_counted_so(events: list[Event], random: Random) -> bool:
    """A subscription that has never received anything says that it has acked everything."""
    ends = [at for at in where(events, "scanned", topic="t") if events[at]["end"]]
    at = one_of(random, _stored_once(events))
    if at is None or not ends:
        return False
    scans = [events[one]["first"] for one in where(events, "scan", topic="t")]
    first, end = scans[-1], events[ends[-1]]["end"]
    counts = {"ready": 0, "delayed": 0, "inflight": 0, "acked": end - first}
    group = {"topic": "t", "sub": "new"}
    events.append({"op": "counts", **group, **counts, "first": first, "end": end, "now": True})
    return True


@plants("regressed")
def end_went_back(events: list[Event], random: Random) -> bool:
    at = one_of(random, where(events, "counts"))
    if at is None or not events[at]["acked"]:
        return False
    back = {"end": events[at]["end"] - 1, "acked": events[at]["acked"] - 1}
    events.insert(at + 1, events[at] | back)
    return True


@plants("regressed")
def mark_delete_went_back(events: list[Event], random: Random) -> bool:
    at = one_of(random, where(events, "counts"))
    if at is None or not events[at]["mark"] or moves(events, at, events[at]):
        return False
    events.insert(at + 1, events[at] | {"mark": events[at]["mark"] - 1})
    return True


@plants("unstable-recovery")
def opened_as_another(events: list[Event], random: Random) -> bool:
    at = one_of(random, where(events, "opened"))
    assert at is not None
    events[at]["state"] = "another"
    return True


# -- consumers ---------------------------------------------------------------------------------------


@plants("double-active")
def two_at_once(events: list[Event], random: Random) -> bool:
    at = random.randint(1, len(events))
    events[at:at] = [{"op": "active", "topic": "t", "sub": "e", "by": by} for by in "ab"]
    return True


@plants("key-reorder")
def key_with_two(events: list[Event], random: Random) -> bool:
    at = one_of(random, where(events, "receive", sub="s"))
    if at is None:
        return False
    events.insert(at + 1, events[at] | {"by": "stranger"})
    return True


@plants("trimmed-unacked")
def trimmed_too_early(events: list[Event], random: Random) -> bool:
    at = one_of(random, _stored_once(events))
    if at is None:
        return False
    group = {"topic": "t", "sub": "new"}
    events += [
        {"op": "subscribe", **group},
        {"is": "invoke", "op": "trim", "n": 10_001, "topic": "t", "index": events[at]["index"] + 1},
        {"is": "ok", "n": 10_001},
    ]
    return True


@plants("trimmed-unacked")
def acked_by_an_aborted_transaction(events: list[Event], random: Random) -> bool:
    at = one_of(random, _stored_once(events))
    if at is None:
        return False
    group = {"topic": "t", "sub": "new"}
    events += [
        {"op": "subscribe", **group},
        received(events[at], "new"),
        {"is": "invoke", "op": "ack", "n": 10_001, **group, "by": "stranger", "ids": [events[at]["id"]],
         "txn": "another"},
        {"is": "ok", "n": 10_001},
        {"is": "invoke", "op": "abort", "n": 10_002, "txn": "another"},
        {"is": "ok", "n": 10_002},
        {"op": "subscribe", **group, "at": events[at]["index"]},
        {"is": "invoke", "op": "trim", "n": 10_003, "topic": "t", "index": events[at]["index"] + 1},
        {"is": "ok", "n": 10_003},
    ]  # fmt: skip
    return True


@plants("stuck")
def never_delivered(events: list[Event], random: Random) -> bool:
    events += [
        {"is": "invoke", "op": "publish", "n": 10_001, "topic": "t", "by": "p", "message": "late"},
        {"is": "ok", "n": 10_001, "id": [10_000, 0, -1], "index": 100_000},
        {"op": "drained", "topic": "t", "sub": random.choice("es")},
    ]
    return True


# -- transactions ------------------------------------------------------------------------------------


@plants("dirty-read")
def seen_before_the_commit(events: list[Event], random: Random) -> bool:
    sent = [at for at in where(events, "publish", "invoke") if "txn" in events[at]]
    at = one_of(random, iter(sent))
    if at is None:
        return False
    end, _ = outcome_of(events, at)
    topic, message = events[at]["topic"], events[at]["message"]
    events.insert(end + 1, {"op": "receive", "topic": topic, "message": message})
    return True


@plants("aborted-read")
def seen_behind_the_abort(events: list[Event], random: Random) -> bool:
    aborted = {events[at]["txn"]: end for at, end in answered(events, "abort")}
    sent = [at for at in where(events, "publish", "invoke") if events[at].get("txn") in aborted]
    at = one_of(random, iter(sent))
    if at is None:
        return False
    topic, message = events[at]["topic"], events[at]["message"]
    end = aborted[events[at]["txn"]]
    place = random.randint(end + 1, len(events))
    events.insert(place, {"op": "receive", "topic": topic, "message": message})
    return True


@plants("torn-transaction")
def half_there(events: list[Event], random: Random) -> bool:
    sent: dict[str, set[str]] = {}
    for event in events:
        if event.get("op") == "publish" and "txn" in event:
            sent.setdefault(event["txn"], set()).add(event["message"])
    for names in sent.values():
        stored = [at for at in where(events, "stored") if events[at]["message"] in names]
        # What is not behind another message of its scan may have been trimmed.
        behind = [at for at in stored if events[at - 1]["op"] == "stored"]
        if len(stored) > 1 and behind:
            replace_by_fill(events, random.choice(behind))
            return True
    return False


@plants("torn-transaction")
def committed_and_aborted(events: list[Event], random: Random) -> bool:
    ended = [*answered(events, "commit"), *answered(events, "abort")]
    if not ended:
        return False
    at, end = random.choice(ended)
    other = "abort" if events[at]["op"] == "commit" else "commit"
    events[end + 1 : end + 1] = [
        {"is": "invoke", "op": other, "n": 10_001, "txn": events[at]["txn"]},
        {"is": "ok", "n": 10_001},
    ]
    return True


@plants("lost")
def committed_and_gone(events: list[Event], random: Random) -> bool:
    committed = {events[at]["txn"] for at, _ in answered(events, "commit")}
    sent: dict[str, set[str]] = {}
    for event in events:
        if event.get("op") == "publish" and event.get("txn") in committed:
            sent.setdefault(event["txn"], set()).add(event["message"])
    for names in sent.values():
        stored = [at for at in where(events, "stored") if events[at]["message"] in names]
        if len(stored) == len(names):
            for at in stored:
                replace_by_fill(events, at)
            return True
    return False


@plants("aborted-ack")
def kept_away(events: list[Event], random: Random) -> bool:
    aborted = {events[at]["txn"]: at for at, _ in answered(events, "abort")}
    for at in [*where(events, "ack", "invoke")]:
        ack = events[at]
        index = acked_message(events, ack)["index"] if "txn" in ack else 0
        trims = [
            events[one]["index"] for one in where(events, "trim", "invoke", topic=ack["topic"])
        ]
        if any(index < one for one in trims):
            continue  # it need not come any more
        if ack.get("txn") in aborted and not moves(events, at, ack):
            group = ack["topic"], ack["sub"]
            gone = {
                event["n"] for event in events
                if event.get("op") == "ack" and event.get("ids") == ack["ids"] and "n" in event
                and (event["topic"], event["sub"]) == group and event is not ack
            }  # fmt: skip
            end = aborted[ack["txn"]]
            kept = [
                event
                for one, event in enumerate(events)
                if event.get("n") not in gone
                and not (
                    one > end
                    and event.get("op") in ("receive", "ack")
                    and (event["topic"], event.get("sub")) == group
                    and ack["ids"] == event.get("ids", [event.get("id")])
                )
            ]
            events[:] = kept
            return True
    return False


@plants("acked-twice")
def two_have_acked_it(events: list[Event], random: Random) -> bool:
    committed = {events[at]["txn"] for at, _ in answered(events, "commit")}
    for at in [*where(events, "ack", "invoke")]:
        ack = events[at]
        if ack.get("txn") in committed and not moves(events, at, ack):
            events += [
                {**ack, "n": 10_001, "txn": "another"},
                {"is": "ok", "n": 10_001},
                {"is": "invoke", "op": "commit", "n": 10_002, "txn": "another"},
                {"is": "ok", "n": 10_002},
            ]
            return True
    return False
