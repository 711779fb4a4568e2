"""Schemas of one value: numbers, booleans, dates and times.

Numbers are big-endian. DATE, TIME and TIMESTAMP are milliseconds since 1970 (UTC); INSTANT seconds and
nanoseconds since then; LOCAL_DATE days since then; LOCAL_TIME nanoseconds since midnight; LOCAL_DATE_TIME
both. Python's datetime ends at microseconds: what is finer is cut off.

    >>> PrimitiveSchema(SchemaType.INT32).encode(5).hex()
    '00000005'
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final, NamedTuple

from milepost.errors import InvalidSchema, SchemaMismatch
from milepost.schemas.schema import Schema
from milepost.schemas.types import SchemaInfo, SchemaType

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY: Final = _EPOCH.date().toordinal()


class _Form(NamedTuple):
    layout: struct.Struct
    value_type: type[Any]
    pack: Callable[[Any], tuple[Any, ...]]
    unpack: Callable[..., Any]


class PrimitiveSchema(Schema):
    def __init__(self, schema_type: SchemaType) -> None:
        if schema_type not in _FORMS:
            raise InvalidSchema(f"{schema_type.name} is no primitive type")
        self._form = _FORMS[schema_type]
        super().__init__(self._form.value_type, schema_type, None, schema_type.name)
        # Unlike the official Python client's own types these have no definition at all, as in Java.
        self._schema_info = SchemaInfo(schema_type.name, schema_type, b"")

    def encode(self, obj: Any) -> bytes:
        if self._form.value_type is float and isinstance(obj, int):
            obj = float(obj)
        self._check_type(obj)
        try:
            return self._form.layout.pack(*self._form.pack(obj))
        except (struct.error, OverflowError) as failure:
            name = self._schema_info.type.name
            raise SchemaMismatch(f"{obj!r:.60} does not fit {name}: {failure}") from None

    def decode(self, data: bytes, writer: SchemaInfo | None = None) -> Any:
        name, layout = self._schema_info.type.name, self._form.layout
        if len(data) != layout.size:
            raise SchemaMismatch(f"{len(data)} bytes are no {name}: it has {layout.size}")
        try:
            return self._form.unpack(*layout.unpack(data))
        except (ValueError, OverflowError) as failure:
            raise SchemaMismatch(f"{data.hex()} is no {name}: {failure}") from None


def _number(code: str, value_type: type[Any]) -> _Form:
    return _Form(struct.Struct(f">{code}"), value_type, lambda value: (value,), lambda value: value)


def _to_ms(value: datetime) -> int:
    return (_aware(value) - _EPOCH) // timedelta(milliseconds=1)


def _from_ms(value: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=value)


def _aware(value: datetime) -> datetime:
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value


def _to_instant(value: datetime) -> tuple[int, int]:
    since = _aware(value) - _EPOCH
    return since // timedelta(seconds=1), since % timedelta(seconds=1) // timedelta(
        microseconds=1
    ) * 1000


def _from_instant(seconds: int, nanos: int) -> datetime:
    return _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)


def _to_nanos(value: time | datetime) -> int:
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return (seconds * 1_000_000 + value.microsecond) * 1000


def _from_nanos(nanos: int) -> time:
    if nanos < 0:
        raise ValueError(f"{nanos} nanoseconds since midnight")
    seconds, micros = divmod(nanos // 1000, 1_000_000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return time(hour, minute, second, micros)


def _from_day(day: int) -> date:
    return date.fromordinal(day + _EPOCH_DAY)


_MILLISECONDS: Final = _Form(
    struct.Struct(">q"), datetime, lambda value: (_to_ms(value),), _from_ms
)

_FORMS: Final[dict[SchemaType, _Form]] = {
    SchemaType.BOOLEAN: _number("?", bool),
    SchemaType.INT8: _number("b", int),
    SchemaType.INT16: _number("h", int),
    SchemaType.INT32: _number("i", int),
    SchemaType.INT64: _number("q", int),
    SchemaType.FLOAT: _number("f", float),
    SchemaType.DOUBLE: _number("d", float),
    SchemaType.DATE: _MILLISECONDS,
    SchemaType.TIME: _MILLISECONDS,
    SchemaType.TIMESTAMP: _MILLISECONDS,
    SchemaType.INSTANT: _Form(struct.Struct(">qi"), datetime, _to_instant, _from_instant),
    SchemaType.LOCAL_DATE: _Form(
        struct.Struct(">q"), date, lambda value: (value.toordinal() - _EPOCH_DAY,), _from_day
    ),
    SchemaType.LOCAL_TIME: _Form(
        struct.Struct(">q"), time, lambda value: (_to_nanos(value),), _from_nanos
    ),
    SchemaType.LOCAL_DATE_TIME: _Form(
        struct.Struct(">qq"),
        datetime,
        lambda value: (value.toordinal() - _EPOCH_DAY, _to_nanos(value)),
        lambda day, nanos: datetime.combine(_from_day(day), _from_nanos(nanos)),
    ),
}
