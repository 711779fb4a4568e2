"""Parses durations, sizes and times.

>>> duration_s("3h"), duration_s("90")
(10800, 90)
>>> size_bytes("10M")
10485760
>>> time_ms("2026-11-15T14:00:00Z", now_ms=0), time_ms("-10m", now_ms=600_000)
(1794751200000, 0)
"""

from __future__ import annotations

import re
from typing import Any

import click

from milepost.errors import InvalidInput

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800, "y": 31_536_000}
MESSAGE_SIZE_MAX = 2**30
_UNITS_BYTES = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_DURATION = re.compile(r"(-?[0-9]{1,18})([smhdwy]?)", re.IGNORECASE)
_MOMENT = re.compile(r"@([0-9]{1,18})")
_TIME_OF_DAY = re.compile(r"([0-9]{1,2}):([0-5][0-9])(?::([0-5][0-9]))?")
_DAY_MS = 86_400_000
# A broker takes no later one: JSON's numbers are exact up to here.
TIME_MS_END = 2**53
_SIZE = re.compile(r"(-?[0-9]{1,18})([kmgt]?)(?:i?b)?", re.IGNORECASE)


def duration_s(text: str) -> int:
    """Seconds: `90`, `100m`, `3h`, `2d`, `5w`, `1y`."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise InvalidInput(f"{text!a}: expected a time like 90, 100m, 3h, 2d or 5w")
    return int(match[1]) * _UNITS_S[match[2].lower() or "s"]


def size_bytes(text: str) -> int:
    """Bytes: `4096`, `10M`, `16G`, `3T`."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise InvalidInput(f"{text!a}: expected a size like 4096, 10M, 16G or 3T")
    return int(match[1]) * _UNITS_BYTES.get(match[2].lower(), 1)


def message_size_bytes(text: str) -> int:
    """The size of a message that this machine can make."""
    size = size_bytes(text)
    if not 0 <= size <= MESSAGE_SIZE_MAX:
        raise InvalidInput(f"{text!a}: expected a size from 0 to 1G")
    return size


def minutes(text: str) -> int:
    """Whole minutes, what is beyond them dropped as `pulsar-admin` drops it; -1 has no unit."""
    seconds = duration_s(text)
    if 0 < seconds < 60:
        # It would become 0, which keeps nothing.
        raise InvalidInput(f"{text!a}: expected a minute or more, 0, or -1")
    return seconds if seconds == -1 else seconds // 60


def megabytes(text: str) -> int:
    """The same of a size: whole MiB."""
    size = size_bytes(text)
    if 0 < size < _UNITS_BYTES["m"]:
        raise InvalidInput(f"{text!a}: expected 1M or more, 0, or -1")
    return size if size == -1 else size // _UNITS_BYTES["m"]


def milliseconds(text: str) -> int:
    return duration_s(text) * 1000


def names(text: str) -> list[str]:
    """Names behind commas."""
    return split_names((text,))


def time_ms(text: str, *, now_ms: int) -> int:
    """A moment in milliseconds: ISO 8601 (in UTC unless it says), `@1700000000000`, `-10m`, or the last
    time that it was `14:30` (in UTC)."""
    if (match := _MOMENT.fullmatch(text)) and (moment_ms := int(match[1])) < TIME_MS_END:
        return moment_ms
    if text.startswith("-") and _DURATION.fullmatch(text):
        return max(now_ms + duration_s(text) * 1000, 0)
    if (match := _TIME_OF_DAY.fullmatch(text)) and int(match[1]) < 24:
        seconds = int(match[1]) * 3600 + int(match[2]) * 60 + int(match[3] or 0)
        today_ms = now_ms - now_ms % _DAY_MS + seconds * 1000
        return today_ms if today_ms <= now_ms else today_ms - _DAY_MS
    from datetime import UTC, datetime  # not for every command's start

    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return max(round(moment.timestamp() * 1000), 0)
    except (ValueError, OverflowError):
        raise InvalidInput(
            f"{text!a}: expected a time like 2026-11-15T14:00:00Z, 14:30, @1700000000000 or -10m"
        ) from None


class _Read(click.ParamType):  # type: ignore[type-arg]  # not generic before 8.4
    """A click type around one of the functions above."""

    def __init__(self, name: str, read: Any) -> None:
        self.name = name
        self._read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return self._read(value)
        except (InvalidInput, OverflowError) as error:
            self.fail(str(error), param, ctx)


class Number(click.FloatRange):
    """A number that is one: neither endless nor none, and of a size that clocks can count."""

    def __init__(self, min: float, max: float = 1e9) -> None:
        super().__init__(min=min, max=max)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = super().convert(value, param, ctx)
        if found != found:
            self.fail(f"{value!r} is not a number", param, ctx)
        return found


DURATION = _Read("time", duration_s)
SIZE = _Read("size", size_bytes)
MESSAGE_SIZE = _Read("size", message_size_bytes)
MINUTES = _Read("time", minutes)
MILLISECONDS = _Read("time", milliseconds)
MEGABYTES = _Read("size", megabytes)
NAMES = _Read("names", names)


class Property(click.ParamType):  # type: ignore[type-arg]  # not generic before 8.4
    """`key=value`."""

    name = "key=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        key, equals, text = str(value).partition("=")
        if not equals or not key:
            self.fail(f"{value!a}: expected key=value", param, ctx)
        return key, text


def split_names(texts: tuple[str, ...]) -> list[str]:
    """Options that may be repeated, and hold names behind commas."""
    return [name.strip() for text in texts for name in text.split(",") if name.strip()]
