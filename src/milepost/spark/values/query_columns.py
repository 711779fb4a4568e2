"""The columns that a query asks for, checked against what there is.

Spark asks for a schema when a query is written and hands it back when it is planned, maybe as the user
changed it: fewer columns, in another order. Types stay ours, but for values of JSON, which take any.

Schemas and what reads them are imported by queries that decode values, and by no others (source.py says why).

    chosen = wanted(options, schema)            # in the planning process; goes to the tasks
    chosen.shown(connection, topic, fetch(connection, part, chosen.fetched))
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from milepost.client.connection.endpoint import Endpoint
from milepost.errors import InvalidOption
from milepost.spark.options import ReadOptions
from milepost.spark.values.columns import (
    ALL,
    COLUMNS,
    CORRUPT,
    CORRUPT_REASON,
    USUAL,
    check_columns,
    simple_type,
)

if TYPE_CHECKING:
    from milepost.spark.values.typed import Typing


@dataclass(frozen=True)
class Wanted:
    columns: tuple[str, ...]
    schema: StructType
    typing: Typing | None = None
    """None: values are bytes, or are not wanted."""

    @property
    def fetched(self) -> tuple[str, ...]:
        """The columns that the broker's entries are read for."""
        if self.typing is None:
            return self.columns
        from milepost.spark.values.typed import needed

        return needed(self.columns)

    def shown(
        self, connection: Endpoint, topic: str, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """Batches as Spark wants them."""
        if self.typing is None:
            yield from batches
            return
        from milepost.spark.values.topic_schemas import Writers
        from milepost.spark.values.typed import TypedBatches

        writers = Writers(connection, topic, self.typing.reader)
        schema = to_arrow_schema(self.schema, timezone="UTC")
        yield from TypedBatches(self.typing, topic, schema, writers.schema).of(batches)


def known_columns(options: ReadOptions) -> tuple[str, ...]:
    keeps_bad = options.permissive and options.decode != "raw"
    return (*COLUMNS, CORRUPT, CORRUPT_REASON) if keeps_bad else COLUMNS


def loaded_columns(options: ReadOptions) -> tuple[str, ...]:
    """The columns that a frame is loaded with."""
    known = known_columns(options)
    if options.columns == ALL:
        return known
    usual = tuple(name for name in known if name in USUAL or name not in COLUMNS)
    return check_columns(options.columns or usual, known)


def declared_value(options: ReadOptions) -> str:
    """The type of the column `value`, as Spark declares it."""
    from milepost.spark.values.topic_schemas import reader_schema
    from milepost.spark.values.value_types import value_type

    given = options.value_schema
    if given is None:
        return value_type(reader_schema(options).info)
    head = given.strip().upper()
    return given if head.startswith(("STRUCT<", "ARRAY<", "MAP<")) else f"STRUCT<{given}>"


def wanted(options: ReadOptions, schema: StructType) -> Wanted:
    """What a schema asks for, which may be the user's."""
    names = check_columns((field.name for field in schema.fields), known_columns(options))
    decodes = options.decode != "raw" and {"value", CORRUPT, CORRUPT_REASON} & set(names)
    for field in schema.fields:
        if decodes and field.name == "value":
            continue
        given, own = field.dataType.simpleString(), simple_type(field.name)
        if given != own:
            raise InvalidOption(
                f"column {field.name} is {own}, the schema has {given}: cast it behind the source"
            )
    if not decodes:
        return Wanted(names, schema)
    return Wanted(names, schema, _typing(options, schema))


def _typing(options: ReadOptions, schema: StructType) -> Typing:
    from milepost.schemas.types import SchemaInfo, SchemaType
    from milepost.spark.values.topic_schemas import TopicSchema, reader_schema
    from milepost.spark.values.typed import Typing
    from milepost.spark.values.value_types import value_type

    value = schema["value"].dataType if "value" in schema.names else None
    if options.value_schema is not None:
        info = SchemaInfo("given", SchemaType.JSON, b"")
        return Typing(TopicSchema(info, b""), options.permissive, is_given=True)
    reader = reader_schema(options)
    own = value_type(reader.info)
    if value is None:
        raise InvalidOption(f"{CORRUPT} says what is wrong with column value, which must be there")
    if declared(value) != own and reader.info.type is not SchemaType.JSON:
        raise InvalidOption(
            f"column value is {own} by the topic's schema, the query has {declared(value)}: the schema "
            "has changed meanwhile (option schemaVersion pins it), or cast it behind the source"
        )
    return Typing(reader, options.permissive)


def declared(kind: DataType) -> str:
    """A type in the words of value_types.py."""
    if isinstance(kind, StructType):
        fields = (
            f"`{field.name.replace('`', '``')}`: {declared(field.dataType)}"
            for field in kind.fields
        )
        return f"STRUCT<{', '.join(fields)}>"
    if isinstance(kind, ArrayType):
        return f"ARRAY<{declared(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"MAP<{declared(kind.keyType)}, {declared(kind.valueType)}>"
    return kind.simpleString().upper().replace(",", ", ")
