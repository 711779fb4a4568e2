"""The schema that rows are written by: the topic's, or one that the user gives.

A given one is registered when the first producer connects, as any client's is; the broker's refusal names
both. Which columns become the value is decided here, when a query is planned.

    target = find_target(options, schema)            # None: values are bytes or text as they are
    target.column(batch)                              # what is encoded of a batch
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.types import StructType

from milepost.errors import IncompatibleSchema, InvalidOption, InvalidSchema
from milepost.positions.names import TopicName
from milepost.schemas.key_value import data_from_json, is_separated
from milepost.schemas.types import SchemaInfo, SchemaType
from milepost.schemas.validation import check_schema
from milepost.spark.options import WriteOptions
from milepost.spark.reading.survey import partitions_of
from milepost.spark.values.columns import COLUMNS
from milepost.spark.values.schema_check import misfit, record_fields
from milepost.spark.values.topic_schemas import TopicSchema, schema_of
from milepost.spark.writing.publish import Publisher

# How much of a definition an error shows.
SHOWN_MAX = 300


@dataclass(frozen=True)
class Target:
    info: SchemaInfo
    fields: tuple[str, ...] | None = None
    """Columns that are fields of the record; None: it is in the column `value`."""

    def column(self, batch: pa.RecordBatch) -> pa.Array:
        if self.fields is None:
            return batch["value"]
        return pa.StructArray.from_arrays([batch[name] for name in self.fields], list(self.fields))


def find_target(options: WriteOptions, columns: StructType) -> Target | None:
    """The schema to write by; `InvalidOption` if the columns do not fit it."""
    if options.encode == "raw":
        return None
    topic = TopicName.parse(options.topic).base.text
    found = schema_of(options.connection, topic, None)
    given = options.target_schema
    if given is None:
        if found is None:
            raise InvalidOption(
                f"option encode is schema, and {topic} has none: give one by option targetSchema"
            )
        info = found.info
    else:
        info = parse_schema(given)
        if found is None or not found.info.is_same(info):
            _register(options, info, found)
    fields = None if "value" in columns.names else _fields(info, columns, options.unique_key)
    if fields is None:
        kind = columns["value"].dataType
    else:
        kind = StructType([columns[name] for name in fields])
    if is_separated(info) and "key" in columns.names:
        raise InvalidOption("column key: the schema's key is the message's, so there is no other")
    try:
        why = misfit(kind, info)
    except InvalidOption as error:  # of a type that Spark has not
        raise InvalidOption(str(error).replace("decode=raw", "encode=raw")) from None
    if why is not None:
        raise InvalidOption(f"the rows do not fit the schema of {topic}: {why} ({shown(info)})")
    return Target(info, fields)


def parse_schema(text: str) -> SchemaInfo:
    """A schema as `milepost schemas upload` takes it: `{"type": …, "schema": …, "properties": {…}}`."""
    try:
        said = json.loads(text)
        kind, definition = said["type"], said.get("schema", "")
        properties = {str(name): str(one) for name, one in said.get("properties", {}).items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise InvalidOption(
            f"option targetSchema is {text[:80]!a}; allowed is JSON with type, schema and properties"
        ) from None
    if not isinstance(definition, str):
        definition = json.dumps(definition)
    try:
        named = SchemaType.named(str(kind))
        is_pair = named is SchemaType.KEY_VALUE
        data = data_from_json(definition) if is_pair else definition.encode()
        info = SchemaInfo(named.name, named, data, properties)
        check_schema(info)
    except (InvalidSchema, UnicodeEncodeError) as error:
        raise InvalidOption(f"option targetSchema: {error}") from None
    return info


def shown(info: SchemaInfo) -> str:
    """A schema in an error."""
    definition = " ".join(info.data.decode(errors="replace").split())
    return f"{info.type.name} {definition[:SHOWN_MAX]}".strip()


def _register(options: WriteOptions, info: SchemaInfo, found: TopicSchema | None) -> None:
    """Let the topic have the schema before any row is written, or say why it does not take it."""
    first = partitions_of(options.connection, options.topic, make=True)[0]
    try:
        with Publisher(options.connection, first, schema=info):
            pass
    except IncompatibleSchema as error:
        own = "none" if found is None else shown(found.info)
        raise IncompatibleSchema(
            f"{options.topic} does not take the schema {shown(info)}; its own is {own}: {error}"
        ) from None


def _fields(info: SchemaInfo, columns: StructType, unique_key: str | None) -> tuple[str, ...]:
    """The columns that are fields of a record, where there is no column `value`."""
    names = record_fields(info)
    if names is None:
        raise InvalidOption(
            f"there is no column value to be written, and {info.type.name} is no record of columns"
        )
    for name in columns.names:
        if name in names and name in COLUMNS:
            raise InvalidOption(
                f"column {name} is the message's and a field of the record: put the record in a struct value"
            )
        if name not in names and name not in COLUMNS and name != unique_key:
            raise InvalidOption(
                f"column {name} is no field of the schema, which has {', '.join(names)}: drop it"
            )
    found = tuple(name for name in columns.names if name in names)
    if not found:
        raise InvalidOption(
            f"there is no column value, and none of the schema's fields: {', '.join(names)}"
        )
    return found
