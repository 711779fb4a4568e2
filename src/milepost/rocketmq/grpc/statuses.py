"""The status that ends a call, and the time that a client gives it."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Final
from urllib.parse import quote_from_bytes

from milepost.rocketmq.grpc.headers import written

# Of the text behind a status.
TEXT_SIZE_MAX: Final = 1024
# Longer times are none: clients say sixty years where they mean for ever.
TIME_S_MAX: Final = 10 * 365 * 86400.0

_TIME: Final = re.compile(r"([0-9]{1,8})([HMSmun])")
_UNITS: Final = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
# What may stand as it is in the text behind a status: what is printed, but for the percent sign.
_PLAIN: Final = "".join(chr(one) for one in range(0x20, 0x7F) if chr(one) != "%")


class Status(IntEnum):
    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    UNAUTHENTICATED = 16


class Ended(Exception):
    """The call ends with a status instead of an answer."""

    def __init__(self, status: Status, text: str) -> None:
        super().__init__(status, text)
        self.status = status
        self.text = text


_BEGINS: Final = ((":status", "200"), ("content-type", "application/grpc"))
BEGINS: Final = written(*_BEGINS)
"""The headers of every answer."""
ENDS_WELL: Final = written(("grpc-status", "0"))


def ends(status: Status, text: str = "") -> bytes:
    """The headers behind an answer."""
    return ENDS_WELL if status is Status.OK else written(*_status(status, text))


def nothing_but(status: Status, text: str) -> bytes:
    """The headers of an answer that has nothing else."""
    return written(*_BEGINS, *_status(status, text))


def not_grpc(http_status: int) -> bytes:
    """The headers of an answer to what is no call of gRPC's."""
    return written((":status", str(http_status)))


def _status(status: Status, text: str) -> tuple[tuple[str, str], ...]:
    said = quote_from_bytes(text.encode()[:TEXT_SIZE_MAX], safe=_PLAIN)
    return ("grpc-status", str(int(status))), ("grpc-message", said)


def time_s(said: str) -> float | None:
    """The seconds that a client gives a call, as its header says; None: as many as it takes.

    >>> time_s("3S"), time_s("99999999u"), time_s("525600H"), time_s("")
    (3.0, 99.999999, None, None)
    """
    found = _TIME.fullmatch(said)
    if found is None:
        return None
    seconds = int(found[1]) * _UNITS[found[2]]
    return seconds if seconds < TIME_S_MAX else None
