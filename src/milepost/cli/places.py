"""Places in a topic as people write them: an index, an id, a time, the beginning, the end.

    earliest, latest         the first message that is kept; behind the last
    120, idx:120             the message with that index
    -10, idx:-10             ten before the end (as a target of `seek --by`: ten back)
    3:7, 3:7:0, 3:7:-1:2     an id as Java prints it; C++'s (3,7,-1,2) as well; a chunk id as a;b
    -10m, @1700000000000     a time: ten minutes ago; milliseconds since 1970
    2026-11-15T14:00:00Z     a time in ISO 8601

Owns the reading of these texts and their way to the admin calls. It never moves anything.
"""

from __future__ import annotations

import re
import time
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from milepost.cli.quantities import time_ms
from milepost.errors import InvalidInput
from milepost.positions.ids import EARLIEST, LATEST, MessageId

if TYPE_CHECKING:
    from milepost.admin import Admin

_INDEX = re.compile(r"(?:idx:)?(-?[0-9]{1,19})")


class Kind(StrEnum):
    EARLIEST = "earliest"
    LATEST = "latest"
    INDEX = "index"
    ID = "id"
    TIME = "time"
    BY = "by"


class Place(NamedTuple):
    kind: Kind
    # The index, milliseconds of the time, or how many messages; 0 where the kind says it all.
    number: int = 0
    message_id: MessageId | None = None

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
        return {{Kind.TIME: "time_ms"}.get(self.kind, self.kind.value): self.number}


END = Place(Kind.LATEST)


def parse_place(text: str, *, now_ms: int | None = None) -> Place:
    """Read any of the forms above; `InvalidInput` for anything else."""
    text = text.strip()
    if text in ("earliest", "beginning"):
        return Place(Kind.EARLIEST)
    if text in ("latest", "end"):
        return Place(Kind.LATEST)
    if match := _INDEX.fullmatch(text):
        return Place(Kind.INDEX, int(match[1]))
    if (":" in text and not re.match(r"\d{4}-", text)) or text.startswith("("):
        return Place(Kind.ID, message_id=MessageId.parse(text))
    now_ms = int(time.time() * 1000) if now_ms is None else now_ms
    try:
        return Place(Kind.TIME, time_ms(text, now_ms=now_ms))
    except InvalidInput:
        raise InvalidInput(
            f"{text!a} is no place; say earliest, latest, an index (idx:120), an id "
            "(3:7:-1:2) or a time (2026-11-15T14:00:00Z, -10m)"
        ) from None


def position_of(admin: Admin, topic: str, place: Place | str) -> MessageId:
    """The id that a place means now, for calls that take nothing but ids."""
    if isinstance(place, str):
        place = parse_place(place)
    if place.kind is Kind.EARLIEST:
        return EARLIEST
    if place.kind is Kind.LATEST:
        return LATEST
    if place.kind is Kind.INDEX:
        return admin.get_message_id_by_index(topic, place.number, precise=True)
    if place.kind is Kind.TIME:
        return admin.get_message_id_by_timestamp(topic, place.number)
    assert place.message_id is not None
    return place.message_id
