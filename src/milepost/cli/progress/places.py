"""Parses places in a topic: an index, an id, a time, earliest, latest.

    earliest, latest         the first message that is kept; behind the last
    120, index:120           the message with that index (idx:120 as well)
    -10, index:-10           ten before the end, of each partition its own
    3:7, id:3:7:-1:2         an id as Java prints it; C++'s (3,7,-1,2) as well; a chunk id as a;b
    -10m, @1700000000000     a time: ten minutes ago; milliseconds since 1970
    2026-11-15T14:00:00Z     a time in ISO 8601
    time:14:30               the last time that it was half past two, in UTC

`14:30` alone may be an id or a time, and 1700000000000 an index or a time: both are refused. Owns the
reading of these texts and their way to the admin calls. It never moves anything.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from milepost.cli.quantities import time_ms
from milepost.errors import InvalidInput
from milepost.positions.ids import EARLIEST, LATEST, MessageId
from milepost.positions.spans import INDEX_MAX

if TYPE_CHECKING:
    from milepost.admin import Admin

_NUMBER = re.compile(r"-?[0-9]{1,19}")
_TIME_OF_DAY = re.compile(r"[0-9]{1,2}:[0-5][0-9](:[0-5][0-9])?")
# As many digits as the milliseconds of these decades have.
_MILLISECONDS = re.compile(r"[0-9]{12,}")


class Kind(StrEnum):
    EARLIEST = "earliest"
    LATEST = "latest"
    INDEX = "index"
    ID = "id"
    TIME = "time"
    BY = "by"


class Place(NamedTuple):
    kind: Kind
    # The index, milliseconds of the time, or how many; 0 where the kind says it all.
    number: int = 0
    message_id: MessageId | None = None
    # Of an index: it counts from the end, each partition's own. -0 is the end.
    is_from_end: bool = False

    def __str__(self) -> str:
        if self.kind in (Kind.EARLIEST, Kind.LATEST):
            return self.kind.value
        return f"{self.kind.value} {self.message_id or self.number}"

    def as_target(self) -> dict[str, Any]:
        """Keywords of `Admin.reset_subscription`."""
        if self.kind in (Kind.EARLIEST, Kind.LATEST):
            return {"position": self.kind.value}
        if self.kind is Kind.ID:
            return {"message_id": self.message_id}
        if self.is_from_end:
            return {"last": -self.number}
        return {{Kind.TIME: "time_ms"}.get(self.kind, self.kind.value): self.number}


END = Place(Kind.LATEST)


def parse_place(text: str, *, now_ms: int | None = None, is_id: bool = False) -> Place:
    """Read any of the forms above; `InvalidInput` for anything else, and for what has two readings.

    `is_id`: an option that pulsar-admin has for ids, where ledger:entry is never a time.
    """
    text = text.strip()
    now_ms = int(time.time() * 1000) if now_ms is None else now_ms
    if text in ("earliest", "beginning"):
        return Place(Kind.EARLIEST)
    if text in ("latest", "end"):
        return Place(Kind.LATEST)
    prefix, colon, rest = text.partition(":")
    if colon and prefix in _PREFIXES:
        return _PREFIXES[prefix](rest.strip(), now_ms)
    if not is_id and (_TIME_OF_DAY.fullmatch(text) or _MILLISECONDS.fullmatch(text)):
        raise InvalidInput(
            f"{text!a} has several readings; say id:LEDGER:ENTRY, index:NUMBER or "
            f"time:{text}, whichever it is"
        )
    if _NUMBER.fullmatch(text):
        return _index(text, now_ms)
    if (":" in text and not re.match(r"\d{4}-", text)) or text.startswith("("):
        return _id(text, now_ms)
    try:
        return _time(text, now_ms)
    except InvalidInput:
        raise InvalidInput(
            f"{text!a} is no place; say earliest, latest, an index (index:120), an id "
            "(id:3:7:-1:2) or a time (time:2026-11-15T14:00:00Z, -10m)"
        ) from None


def _index(text: str, _: int) -> Place:
    if not _NUMBER.fullmatch(text) or abs(int(text)) > INDEX_MAX:
        raise InvalidInput(f"index {text!a}: expected a whole number up to {INDEX_MAX}")
    return Place(Kind.INDEX, int(text), is_from_end=text.startswith("-"))


def _id(text: str, _: int) -> Place:
    return Place(Kind.ID, message_id=MessageId.parse(text))


def _time(text: str, now_ms: int) -> Place:
    return Place(Kind.TIME, time_ms(text if not text.isdecimal() else f"@{text}", now_ms=now_ms))


_PREFIXES: dict[str, Callable[[str, int], Place]] = {
    "id": _id,
    "index": _index,
    "idx": _index,
    "time": _time,
}


def position_of(
    admin: Admin, topic: str, place: Place | str, *, is_id: bool = False, checked: bool = False
) -> MessageId:
    """The id that a place means now, for calls that take nothing but ids.

    `checked`: an id that no message has is `Missing`, where the broker would take the nearest.
    """
    if isinstance(place, str):
        place = parse_place(place, is_id=is_id)
    if place.kind is Kind.EARLIEST:
        return EARLIEST
    if place.kind is Kind.LATEST:
        return LATEST
    if place.is_from_end:
        from milepost.cli.messages.peek import end_index

        before = end_index(admin, topic) + place.number
        return LATEST if not place.number else _at_index(admin, topic, max(before, 0))
    if place.kind is Kind.INDEX:
        return _at_index(admin, topic, place.number)
    if place.kind is Kind.TIME:
        return admin.get_message_id_by_timestamp(topic, place.number)
    at = place.message_id
    assert at is not None
    if checked and at not in (EARLIEST, LATEST):
        admin.get_message_by_id(topic, at.ledger_id, at.entry_id)
    return at


def _at_index(admin: Admin, topic: str, index: int) -> MessageId:
    return admin.get_message_id_by_index(topic, index, precise=True)
