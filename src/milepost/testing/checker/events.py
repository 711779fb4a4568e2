"""The format of a history, version 1: JSON lines, an event each, checked before they are judged.

The first line is `{"history": 1}`. Every other line has an `op`. An operation takes two lines, its
invocation and what became of it, tied by a number: `{"is": "invoke", "op": "publish", "n": 7, …}` and
`{"is": "ok", "n": 7, …}`, or `fail` (it certainly did not happen) or `unknown` (it may have happened, now
or later). An observation takes one line and has no `is`. The order of the lines is the order in time: an
invocation is written before the request leaves, an outcome and an observation after they were heard.

A line that is cut, is no object, has an unknown kind, an unknown or missing field, or a number that no
broker has, is refused with its number: a field that the checker does not know would go unjudged.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NoReturn

VERSION: Final = 1
INVOKE: Final = "invoke"
OUTCOMES: Final = ("ok", "fail", "unknown")

# Event: the fields of a line. Every id in it is one number by now, which sorts as ids do (`place_of`).
Event = dict[str, Any]

NUMBER_MAX: Final = 2**63 - 1
# The end behind the last index is a number too.
INDEX_MAX: Final = NUMBER_MAX - 1
BATCH_MAX: Final = 2**31 - 1
TEXT_MAX: Final = 1024
LINE_MAX: Final = 1 << 20


class BadHistory(ValueError):
    """A line that is no event. `line` is its number, from 1."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}")
        self.line = line


# -- fields ------------------------------------------------------------------------------------------


def _text(value: Any) -> Any:
    if type(value) is str and 0 < len(value) <= TEXT_MAX:
        return value
    raise ValueError(f"a text of 1 to {TEXT_MAX} characters is wanted")


def _message(value: Any) -> Any:
    return None if value is None else _text(value)


def _texts(value: Any) -> Any:
    if type(value) is not list or not value:
        raise ValueError("a list of texts is wanted")
    return [_text(one) for one in value]


def _places(value: Any) -> Any:
    if type(value) is not list or not value:
        raise ValueError("a list of ids is wanted")
    return [place_of(one) for one in value]


def _number(value: Any) -> Any:
    if type(value) is int and 0 <= value <= NUMBER_MAX:
        return value
    raise ValueError(f"a whole number from 0 to {NUMBER_MAX} is wanted")


def _index(value: Any) -> Any:
    if type(value) is int and 0 <= value <= INDEX_MAX:
        return value
    raise ValueError(f"a whole number from 0 to {INDEX_MAX} is wanted")


def _count(value: Any) -> Any:
    if type(value) is int and -NUMBER_MAX <= value <= NUMBER_MAX:
        return value
    raise ValueError("a whole number of 64 bits is wanted")


def _seconds(value: Any) -> Any:
    if type(value) in (int, float) and abs(value) <= NUMBER_MAX and math.isfinite(value):
        return value
    raise ValueError("seconds are wanted")


def _duration(value: Any) -> Any:
    if _seconds(value) >= 0:
        return value
    raise ValueError("seconds that are not below 0 are wanted")


def _flag(value: Any) -> Any:
    if type(value) is bool:
        return value
    raise ValueError("true or false is wanted")


def place_of(value: Any) -> int:
    """An id, [ledger, entry, batch index], as one number that sorts as ids do."""
    if type(value) is list and len(value) == 3:
        ledger_id, entry_id, batch_index = value
        if (
            type(ledger_id) is type(entry_id) is type(batch_index) is int
            and 0 <= ledger_id <= NUMBER_MAX
            and 0 <= entry_id <= NUMBER_MAX
            and -1 <= batch_index <= BATCH_MAX
        ):
            return ledger_id << 96 | entry_id << 32 | batch_index + 1
    raise ValueError("an id is wanted: [ledger, entry, batch index or -1]")


def id_text(place: int | None) -> str:
    if place is None:
        return "no id"
    return f"{place >> 96}:{place >> 32 & (1 << 64) - 1}:{(place & 0xFFFFFFFF) - 1}"


def _place(value: Any) -> Any:
    return None if value is None else place_of(value)


def _mode(value: Any) -> Any:
    if value in ("strict", "connection", "queue"):
        return value
    raise ValueError("strict, connection or queue is wanted")


Check = Callable[[Any], Any]
Fields = dict[str, Check]

_EVERYWHERE: Fields = {"op": _text, "t": _seconds, "note": lambda value: value}
_OF_GROUP: Fields = {"topic": _text, "sub": _text}
_NAMED: Fields = {"messages": _texts, "ids": _places}
_COUNTS = ("ready", "delayed", "inflight", "acked", "first", "end")

# By operation: fields that must be there, and fields that may be.
INVOCATIONS: dict[str, tuple[Fields, Fields]] = {
    "publish": (
        {"topic": _text, "message": _text, "by": _text},
        {"lane": _text, "txn": _text},
    ),
    "ack": (
        {**_OF_GROUP, "by": _text},
        {**_NAMED, "cumulative": _flag, "txn": _text},
    ),
    "seek": ({**_OF_GROUP, "by": _text, "index": _index}, {"last": _index}),
    "reset": ({**_OF_GROUP, "by": _text, "index": _index}, {"last": _index}),
    "commit": ({"txn": _text}, {}),
    "abort": ({"txn": _text}, {}),
    "trim": ({"topic": _text, "index": _index}, {"policy": _text}),
    "delete": ({"topic": _text}, {}),
}

# By operation: what `ok` may say beside `is` and `n`; the other outcomes have nothing to say.
RESULTS: dict[str, Fields] = {
    "publish": {"id": _place, "index": _index, "first": _place, "owner": _number},
    "seek": {"last": _index},
    "reset": {"last": _index},
    "trim": {"first": _index},
}

OBSERVATIONS: dict[str, tuple[Fields, Fields]] = {
    "topic": ({"topic": _text}, {"deduplicated": _flag}),
    "subscribe": (_OF_GROUP, {"at": _index, "group": _text}),
    "unsubscribe": (_OF_GROUP, {}),
    "start": ({}, {}),
    "kill": ({}, {}),
    "join": (
        {**_OF_GROUP, "by": _text},
        {"mode": _mode, "alone": _flag, "ordered": _flag},
    ),
    "leave": ({**_OF_GROUP, "by": _text}, {}),
    "active": ({**_OF_GROUP, "by": _text}, {"over": _flag}),
    "release": ({**_OF_GROUP, "by": _text}, _NAMED),
    "receive": (
        {"topic": _text, "message": _message},
        {
            "sub": _text,
            "by": _text,
            "id": _place,
            "index": _index,
            "life": _number,
            "key": _text,
            "first": _place,
            "whole": _flag,
        },
    ),
    # An ack for which no answer was asked.
    "ack": (
        {**_OF_GROUP, "by": _text, "t": _seconds},
        {**_NAMED, "cumulative": _flag, "slack": _duration, "life": _number},
    ),
    "counts": ({**_OF_GROUP, **dict.fromkeys(_COUNTS, _count)}, {"mark": _count, "now": _flag}),
    "lookup": ({"topic": _text, "index": _count, "id": _place}, {}),
    "opened": ({"topic": _text, "state": _text}, {}),
    "scan": ({"topic": _text}, {"first": _index}),
    "stored": ({"topic": _text, "message": _message, "id": _place}, {"index": _index}),
    "fill": ({"topic": _text, "from": _index, "to": _index}, {}),
    "scanned": ({"topic": _text}, {"end": _index}),
    "drained": (_OF_GROUP, {"again": _flag}),
}


def _table(kinds: dict[str, tuple[Fields, Fields]], more: Fields) -> dict[str, Any]:
    return {
        op: (tuple(wanted), {**_EVERYWHERE, **more, **wanted, **also})
        for op, (wanted, also) in kinds.items()
    }


_IS: Fields = {"is": lambda value: value, "n": _number}
_INVOCATIONS = _table(INVOCATIONS, _IS)
_OBSERVATIONS = _table(OBSERVATIONS, {})
_NO_RESULT: Fields = {**_EVERYWHERE, **_IS}
_RESULTS: dict[str, Fields] = {op: {**_NO_RESULT, **RESULTS.get(op, {})} for op in INVOCATIONS}


# -- lines -------------------------------------------------------------------------------------------


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON's")


_decode = json.JSONDecoder(parse_constant=_no_constant).raw_decode


def read_header(line: str) -> Event:
    """Check the first line of a history: its version, and the window of acks without an answer."""
    return checked_header(_object(1, line))


def checked_header(event: Event) -> Event:
    """The same of a first line that was never written as text."""
    version = event.pop("history", None)
    if version != VERSION or type(version) is not int:
        problem = f"the first line has to say {{'history': {VERSION}}}, not {_short(version)}"
        raise BadHistory(1, problem)
    _check(1, event, {"window_s": _duration, "note": lambda value: value})
    return event


def read_events(lines: Iterable[str]) -> Iterator[tuple[int, Event]]:
    """The events behind the first line, with the numbers of their lines."""
    return checked_events(_object(number, line) for number, line in enumerate(lines, 2))


def checked_events(events: Iterable[Event]) -> Iterator[tuple[int, Event]]:
    """The events behind the first line, each with the number that its line has or would have.

    An outcome gets the `op` of its invocation, and `invoked`, the invocation itself with its `line`.
    """
    open_operations: dict[int, Event] = {}
    for number, event in enumerate(events, 2):
        kind = event.get("is")
        if kind is None:
            table = _OBSERVATIONS
        elif kind == INVOKE:
            table = _INVOCATIONS
        elif kind in OUTCOMES:
            _close(number, event, open_operations)
            yield number, event
            continue
        else:
            raise BadHistory(number, f"is {_short(kind)}: an event is invoke, ok, fail or unknown")
        op = event.get("op")
        if type(op) is not str or op not in table:
            raise BadHistory(number, f"op {_short(op)} is none of {', '.join(sorted(table))}")
        wanted, fields = table[op]
        _check(number, event, fields)
        for name in wanted:
            if name not in event:
                raise BadHistory(number, f"{op} without {name}")
        if kind == INVOKE:
            _open(number, event, open_operations)
        yield number, event


def _object(number: int, line: str) -> Event:
    if len(line) > LINE_MAX:
        raise BadHistory(number, f"{len(line)} characters, at most {LINE_MAX}")
    try:
        event, end = _decode(line)
        if line[end:].strip():
            raise ValueError(f"behind the event stands {_short(line[end:])}")
    except (ValueError, RecursionError) as error:
        cut = "" if line.endswith("\n") else " (the line is cut)"
        raise BadHistory(number, f"no JSON: {error}{cut}") from None
    if type(event) is not dict:
        raise BadHistory(number, f"{_short(event)} is no object")
    return event


def _check(number: int, event: Event, fields: Fields) -> None:
    for name, value in event.items():
        check = fields.get(name)
        if check is _text and type(value) is str and 0 < len(value) <= TEXT_MAX:
            continue  # most fields: a call for each would cost more than the rest of the line
        if check is None:
            raise BadHistory(number, f"the field {_short(name)} has no meaning there")
        try:
            event[name] = check(value)
        except ValueError as error:
            raise BadHistory(number, f"{name} is {_short(value)}: {error}") from None


def _open(number: int, event: Event, open_operations: dict[int, Event]) -> None:
    n = event.get("n")
    if n is None:
        raise BadHistory(number, f"{event['op']} without n")
    if n in open_operations:
        raise BadHistory(number, f"n {n} is open since line {open_operations[n]['line']}")
    event["line"] = number
    open_operations[n] = event


def _close(number: int, event: Event, open_operations: dict[int, Event]) -> None:
    n = event.get("n")
    invoked = open_operations.pop(n, None) if type(n) is int else None
    if invoked is None:
        raise BadHistory(number, f"no operation with n {_short(n)} is open")
    op = event.setdefault("op", invoked["op"])
    if op != invoked["op"]:
        raise BadHistory(number, f"n {n} is of {invoked['op']}, not of {_short(op)}")
    _check(number, event, _RESULTS[op] if event["is"] == "ok" else _NO_RESULT)
    event["invoked"] = invoked


def _short(value: Any) -> str:
    text = repr(value) if type(value) is not int or value.bit_length() < 128 else "a huge number"
    return text if len(text) <= 60 else f"{text[:60]}…"
