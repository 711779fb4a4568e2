"""The columns of a table: names, Spark types, Arrow types.

Spark takes a batch only if its Arrow schema is exactly the one that it derives from its own, and prunes no
columns of a Python source: who wants fewer says so, by `columns` or by a schema.

    >>> ddl(("index", "value"))
    'index BIGINT, value BINARY'
    >>> arrow_schema(("index",)).field("index").type
    DataType(int64)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from milepost.errors import InvalidOption


class Row(NamedTuple):
    """One message. The fields are the columns, in their order."""

    topic: str
    partition: int
    """-1: the topic is not partitioned."""
    index: int  # type: ignore[assignment]  # in place of tuple.index, which has no use here
    """Of a chunked message: that of its last chunk."""
    message_id: bytes
    """As official clients serialise it."""
    ledger_id: int
    entry_id: int
    batch_index: int
    """-1: not in a batch."""
    first_chunk_id: bytes | None
    """The id of the first chunk; None for what was sent whole."""
    key: bytes | None
    value: bytes | None
    """Decompressed; None for a null value, which is not an empty one."""
    properties: list[tuple[str, str]]
    publish_time: int
    """Milliseconds here, a timestamp for Spark."""
    event_time: int | None
    producer: str
    sequence_id: int
    schema_version: bytes | None


_MOMENT: Final = pa.timestamp("us", tz="UTC")

_TYPES: Final = {
    "topic": ("STRING", pa.string()),
    "partition": ("INT", pa.int32()),
    "index": ("BIGINT", pa.int64()),
    "message_id": ("BINARY", pa.binary()),
    "ledger_id": ("BIGINT", pa.int64()),
    "entry_id": ("BIGINT", pa.int64()),
    "batch_index": ("INT", pa.int32()),
    "first_chunk_id": ("BINARY", pa.binary()),
    "key": ("BINARY", pa.binary()),
    "value": ("BINARY", pa.binary()),
    "properties": ("MAP<STRING, STRING>", pa.map_(pa.string(), pa.string())),
    "publish_time": ("TIMESTAMP", _MOMENT),
    "event_time": ("TIMESTAMP", _MOMENT),
    "producer": ("STRING", pa.string()),
    "sequence_id": ("BIGINT", pa.int64()),
    "schema_version": ("BINARY", pa.binary()),
}
COLUMNS: Final = tuple(_TYPES)
assert Row._fields == COLUMNS
# What a read has that names no columns: the message and its position. The rest is asked for.
USUAL: Final = (
    "topic",
    "partition",
    "index",
    "key",
    "value",
    "properties",
    "publish_time",
    "event_time",
)
ALL: Final = ("all",)
"""The option `columns` that asks for every column."""
# Beside them where values are decoded and bad ones kept (`mode=permissive`): their bytes, and what is wrong.
CORRUPT: Final = "_corrupt"
CORRUPT_REASON: Final = "_corrupt_reason"
_CORRUPT_TYPES: Final = {CORRUPT: "BINARY", CORRUPT_REASON: "STRING"}


def check_columns(names: Iterable[str], known: Sequence[str] = COLUMNS) -> tuple[str, ...]:
    """Known columns, each once; `InvalidOption` names another."""
    found = tuple(names)
    for name in found:
        if name not in known:
            raise InvalidOption(f"there is no column {name!a}; there are {', '.join(known)}")
    return found


def ddl(names: Sequence[str] = COLUMNS, *, value: str = "BINARY") -> str:
    """The columns as Spark declares them; `value` is the type of that one."""
    types = {name: kind for name, (kind, _) in _TYPES.items()} | _CORRUPT_TYPES | {"value": value}
    return ", ".join(f"{name} {types[name]}" for name in names)


def simple_type(name: str) -> str:
    """A column's type as Spark prints it."""
    kind = _CORRUPT_TYPES.get(name) or _TYPES[name][0]
    return kind.lower().replace(" ", "")


def arrow_schema(names: Sequence[str] = COLUMNS) -> pa.Schema:
    """The columns as Spark wants them handed over."""
    return pa.schema([(name, _TYPES[name][1]) for name in names])


def to_batch(rows: Sequence[Row], names: Sequence[str] = COLUMNS) -> pa.RecordBatch:
    """Rows of the plain reader as Arrow has them."""
    arrays = []
    for name in names:
        values = [getattr(row, name) for row in rows]
        if name in ("publish_time", "event_time"):
            values = [None if one is None else one * 1000 for one in values]
            arrays.append(pa.array(values, pa.int64()).cast(_MOMENT))
        else:
            arrays.append(pa.array(values, _TYPES[name][1]))
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(names))
