"""The value columns of a lake, by the topic's schema.

    value              the bytes; replaying and verifying go by them and by nothing else
    decoded            the value by the schema that the topic had when it was archived: a struct, a number …
    _corrupt_reason    why that is null, where the bytes are not what their schema says

A schema changes while a lake grows. The lake's column is the union of what it ever was: fields are added and
never taken away, in Parquet numbers may become wider; files that are older lack what came later, and a
program that reads them by the lake's type sees nulls. A schema that cannot be united with that is refused
by name.

    columns = SchemaColumns(reader, own, kind)                # made by the driver; goes with the tasks
    columns.beside(raw_batches, topic, writers.schema)       # batches with two columns more
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StructField,
    StructType,
)

from milepost.errors import IncompatibleSchema
from milepost.schemas.types import SchemaInfo
from milepost.spark.values.columns import CORRUPT_REASON, arrow_schema
from milepost.spark.values.topic_schemas import TopicSchema
from milepost.spark.values.typed import TypedBatches, Typing

DECODED: Final = "decoded"

# What Parquet's readers take for the wider one.
_WIDER: Final[dict[tuple[type[DataType], type[DataType]], DataType]] = {
    (IntegerType, LongType): LongType(),
    (FloatType, DoubleType): DoubleType(),
}


class SchemaColumns(NamedTuple):
    """How the values of a step become columns."""

    reader: TopicSchema
    own: DataType
    """What the reader's schema is in Spark."""
    kind: DataType
    """What the lake's column is from this step on; has every field of `own`."""

    def beside(
        self,
        batches: Iterable[pa.RecordBatch],
        topic: str,
        writer_of: Callable[[bytes], SchemaInfo | None],
    ) -> Iterator[pa.RecordBatch]:
        """Batches with all columns, and the schema's columns beside them."""
        own = pa.schema([("value", arrow_type(self.own)), (CORRUPT_REASON, pa.string())])
        typed = TypedBatches(Typing(self.reader, permissive=True), topic, own, writer_of)
        schema = lake_schema(self.kind)
        kind = schema.field(DECODED).type
        for batch in batches:
            (found,) = typed.of([batch])
            arrays = [*batch.columns, fitted(found["value"], kind), found[CORRUPT_REASON]]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def arrow_type(kind: DataType) -> pa.DataType:
    return to_arrow_type(kind, timezone="UTC")


def lake_schema(kind: DataType | None) -> pa.Schema:
    """All columns of a lake whose `decoded` is of this type; None: there is none."""
    schema = arrow_schema()
    if kind is None:
        return schema
    return schema.append(pa.field(DECODED, arrow_type(kind))).append(
        pa.field(CORRUPT_REASON, pa.string())
    )


def type_to_json(kind: DataType) -> Any:
    """A type as manifests and Delta's log say it."""
    return kind.jsonValue()


def type_from_json(said: Any) -> DataType:
    field = {"name": DECODED, "type": said, "nullable": True, "metadata": {}}
    return StructType.fromJson({"type": "struct", "fields": [field]})[DECODED].dataType


def united(held: DataType, new: DataType, *, widens: bool, at: str = DECODED) -> DataType:
    """The type that has what both have; `IncompatibleSchema` if there is none."""
    if isinstance(held, StructType) and isinstance(new, StructType):
        old = {field.name: field.dataType for field in held.fields}
        for field in new.fields:
            known = old.get(field.name)
            old[field.name] = (
                field.dataType
                if known is None
                else united(known, field.dataType, widens=widens, at=f"{at}.{field.name}")
            )
        return StructType([StructField(name, kind) for name, kind in old.items()])
    if isinstance(held, ArrayType) and isinstance(new, ArrayType):
        inner = united(held.elementType, new.elementType, widens=widens, at=f"{at}[]")
        return ArrayType(inner)
    if isinstance(held, MapType) and isinstance(new, MapType) and held.keyType == new.keyType:
        inner = united(held.valueType, new.valueType, widens=widens, at=f"{at}[]")
        return MapType(held.keyType, inner)
    if held == new:
        return held
    pair = (type(held), type(new))
    wider = _WIDER.get(pair) or _WIDER.get((pair[1], pair[0]))
    if widens and wider is not None:
        return wider
    raise IncompatibleSchema(
        f"{at} is {held.simpleString()} in the lake, and {new.simpleString()} by the topic's schema"
    )


def check_readable(held: DataType, wanted: DataType) -> None:
    """Can the lake's column be read as this type: fewer fields, more of them, wider numbers?"""
    both = united(held, wanted, widens=True)
    narrower = _narrower(both, wanted, DECODED)
    if narrower is not None:
        raise IncompatibleSchema(f"{narrower} is wider in the lake than by the topic's schema")


def _narrower(both: DataType, wanted: DataType, at: str) -> str | None:
    """The first place at which `wanted` is narrower; both are of one shape."""
    if isinstance(wanted, StructType):
        assert isinstance(both, StructType)
        found = (
            _narrower(both[field.name].dataType, field.dataType, f"{at}.{field.name}")
            for field in wanted.fields
        )
        return next((one for one in found if one is not None), None)
    if isinstance(wanted, ArrayType):
        assert isinstance(both, ArrayType)
        return _narrower(both.elementType, wanted.elementType, f"{at}[]")
    if isinstance(wanted, MapType):
        assert isinstance(both, MapType)
        return _narrower(both.valueType, wanted.valueType, f"{at}[]")
    return None if both == wanted else at


def fitted(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """An array as one of a type that has every field of its own, and maybe more: those are null."""
    if array.type == kind:
        return array
    if pa.types.is_struct(kind):
        own = {field.name: at for at, field in enumerate(array.type)}
        # `flatten` would hide what lies below nulls; `field` leaves it, and the mask hides it.
        children = [
            fitted(array.field(own[field.name]), field.type)
            if field.name in own
            else pa.nulls(len(array), field.type)
            for field in kind
        ]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=array.is_null())
    if pa.types.is_list(kind):
        flat = _compact(array)
        items = fitted(flat.values, kind.value_type)
        return pa.ListArray.from_arrays(flat.offsets, items, type=kind, mask=flat.is_null())
    if pa.types.is_map(kind):
        flat = _compact(array)
        items = fitted(flat.items, kind.item_type)
        keys = flat.keys.cast(kind.key_type)
        return pa.MapArray.from_arrays(flat.offsets, keys, items, kind, mask=flat.is_null())
    return array.cast(kind)


def _compact(array: pa.Array) -> pa.Array:
    """The same, not a slice of something longer: Arrow takes no mask with one."""
    return array.take(pa.array(range(len(array)), pa.int64())) if array.offset else array


def filled(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch of an older file by the lake's columns of today."""
    arrays = [
        fitted(batch[field.name], field.type)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
