"""Schemas: what messages mean, and whether they will still mean it tomorrow.

Clients read the first half, under the names of the official `pulsar.schema`; brokers the second.

Nothing here waits, opens or asks the time.

auto             AUTO_CONSUME and AUTO_PRODUCE: the schema that the topic has
avro             the AVRO schema of a client: records or dictionaries
avro_reading     can data written with one Avro schema be read with another?
avro_schema      parses the definition of an Avro schema
compatibility    the compatibility strategies: may this schema follow those?
fields           the field types of `Record` classes
history          the versions of a topic's schema, and the decisions about a new one
json_schema      the JSON schema of a client
key_value        the KEY_VALUE schema of a client
primitives       schemas of one value: numbers, booleans, dates and times
protobuf_native  the PROTOBUF_NATIVE schema of a client
record           `Record`: classes that declare fields and are Avro schemas
schema           the base of a client's schemas; bytes and strings
shown_values     values for people, with limits: what a server may decode of payloads that strangers wrote
types            a schema on the wire: type, definition, name, properties, version
validation       checks that a definition is what its type says
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
