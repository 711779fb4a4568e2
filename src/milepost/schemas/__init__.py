"""Schemas: what messages mean, and whether they will still mean it tomorrow.

Clients read the first half, under the names of the official `pulsar.schema`; brokers the second.

    fields.py, record.py    classes that declare fields, and are Avro schemas by that
    schema.py               what every schema does; bytes and strings
    json_schema.py, avro.py, protobuf_native.py, key_value.py, primitives.py      the others
    auto.py                 AUTO_CONSUME and AUTO_PRODUCE: by the topic's schema

    types.py                type, definition and version of a schema on the wire
    avro_schema.py, avro_reading.py     Avro's rules: is it a schema, can this one read that one
    validation.py           is a schema what its type says
    compatibility.py        the strategies
    history.py              a topic's versions, and every decision about them

Nothing here waits, opens or asks the time.

auto             read whatever a topic has, or write bytes that it takes
avro             of records, or of dictionaries with a schema of one's own
avro_reading     can data written with one Avro schema be read with another?
avro_schema      what a definition in JSON means, as a tree of nodes
compatibility    may a schema stand beside those that a topic has? The strategies, and the verdict of
fields           the types of a record's fields, as a class declares them
history          the versions of a topic's schema, and every decision about them
json_schema      defined by an Avro schema, written as JSON
key_value        a key's and a value's
primitives       numbers, truth, and times, as Java clients write them
protobuf_native  descriptors, and messages as protobuf writes them
record           classes that declare their fields, and are Avro schemas by that
schema           what a client's schema does, and the two that need no library: bytes and strings
types            what a schema is on the wire: a type, bytes that define it, a name, properties
validation       is a schema what its type says? Asked before one is registered or compared
"""

from milepost.schemas.auto import AutoConsumeSchema, AutoProduceSchema, schema_of
from milepost.schemas.avro import AvroSchema
from milepost.schemas.compatibility import Strategy, check_compatible
from milepost.schemas.fields import (
    Array,
    Boolean,
    Bytes,
    CustomEnum,
    Double,
    Field,
    Float,
    Integer,
    Long,
    Map,
    Null,
    String,
)
from milepost.schemas.history import History, Live, Version
from milepost.schemas.json_schema import JsonSchema
from milepost.schemas.key_value import KeyValue, KeyValueEncodingType, KeyValueSchema
from milepost.schemas.primitives import PrimitiveSchema
from milepost.schemas.protobuf_native import ProtobufNativeSchema
from milepost.schemas.record import Record
from milepost.schemas.schema import BytesSchema, Schema, StringSchema
from milepost.schemas.types import (
    NO_VERSION,
    SchemaInfo,
    SchemaType,
    version_bytes,
    version_number,
)
from milepost.schemas.validation import check_schema

__all__ = [
    # records
    "Record",
    "Field",
    "Null",
    "Boolean",
    "Integer",
    "Long",
    "Float",
    "Double",
    "Bytes",
    "String",
    "Array",
    "Map",
    "CustomEnum",
    # a client's schemas
    "Schema",
    "BytesSchema",
    "StringSchema",
    "JsonSchema",
    "AvroSchema",
    "ProtobufNativeSchema",
    "PrimitiveSchema",
    "KeyValue",
    "KeyValueEncodingType",
    "KeyValueSchema",
    "AutoConsumeSchema",
    "AutoProduceSchema",
    "schema_of",
    # on the wire
    "SchemaType",
    "SchemaInfo",
    "NO_VERSION",
    "version_bytes",
    "version_number",
    # a broker's decisions
    "Strategy",
    "check_schema",
    "check_compatible",
    "History",
    "Live",
    "Version",
]
