"""Decodes the payloads of a batch to one Arrow array.

A codec takes all values of a batch that one schema wrote, and gives an array of the type that the reader's
schema is in Spark, or raises one of `BAD` if any value of them is not what it should be; the caller finds
out which (typed.py). Records of other versions are resolved as Avro does it, by name, with defaults; JSON and
protobuf say by themselves what they are.

    codec = codec_of(writer=info_of_version_2, reader=info_of_version_5, kind=arrow_type)
    codec.array(values)                                 # values: binary, without nulls
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.json as pa_json
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from milepost.errors import MilepostError, SchemaMismatch
from milepost.schemas import avro, key_value, protobuf_native
from milepost.schemas.key_value import KeyValueEncodingType
from milepost.schemas.primitives import PrimitiveSchema
from milepost.schemas.types import SchemaInfo, SchemaType
from milepost.spark.reading.flat_avro import flat_record
from milepost.spark.values.value_types import LOGICAL, is_map

# What a value that is not what it should be leads to.
BAD: Final = (MilepostError, pa.ArrowException, ValueError, TypeError, OverflowError)

# Numbers that are as wide in bytes as in Arrow, and in the other order.
_NUMBERS: Final = {
    SchemaType.INT8: ">i1", SchemaType.INT16: ">i2", SchemaType.INT32: ">i4",
    SchemaType.INT64: ">i8", SchemaType.FLOAT: ">f4", SchemaType.DOUBLE: ">f8",
}  # fmt: skip
# What fastavro turns into Python's own; annotations that are not here are left as the plain type.
_KEPT_LOGICAL: Final = {"decimal", *(name for _, name in LOGICAL)}


class Codec(Protocol):
    def array(self, values: pa.Array, keys: pa.Array | None = None) -> pa.Array:
        """`values` has no nulls; `keys` are the messages' keys, as bytes, and may."""
        ...


def codec_of(writer: SchemaInfo, reader: SchemaInfo, kind: pa.DataType) -> Codec:
    """What reads the values that `writer` wrote as `kind`, which is the type of `reader`."""
    if writer.type != reader.type:
        raise SchemaMismatch(f"{writer.type.name} data where {reader.type.name} is expected")
    match reader.type:
        case SchemaType.AVRO:
            return AvroCodec(writer, reader, kind)
        case SchemaType.JSON:
            return JsonCodec(kind)
        case SchemaType.PROTOBUF_NATIVE:
            return ProtobufCodec(reader, kind)
        case SchemaType.KEY_VALUE:
            return KeyValueCodec(writer, reader, kind)
        case SchemaType.STRING:
            return CastCodec(kind)
        case number if number in _NUMBERS:
            return NumberCodec(number, kind)
        case primitive if primitive.is_primitive and primitive is not SchemaType.NONE:
            return PlainCodec(PrimitiveSchema(primitive).decode, kind)
    return CastCodec(kind)


class CastCodec:
    """Text, which is checked to be that, and bytes."""

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind

    def array(self, values: pa.Array, keys: pa.Array | None = None) -> pa.Array:
        return values.cast(self._kind)


class PlainCodec:
    """Value by value, for what is rare."""

    def __init__(self, decode: Callable[[bytes], Any], kind: pa.DataType) -> None:
        self._decode = decode
        self._kind = kind

    def array(self, values: pa.Array, keys: pa.Array | None = None) -> pa.Array:
        return pa.array([self._decode(value) for value in values.to_pylist()], self._kind)


class NumberCodec:
    def __init__(self, number: SchemaType, kind: pa.DataType) -> None:
        self._name = number.name
        self._layout = np.dtype(_NUMBERS[number])
        self._kind = kind

    def array(self, values: pa.Array, keys: pa.Array | None = None) -> pa.Array:
        ends = np.frombuffer(values.buffers()[1], np.int32)[values.offset :][: len(values) + 1]
        width = self._layout.itemsize
        if (np.diff(ends) != width).any():
            raise SchemaMismatch(f"bytes that are no {self._name}: it has {width}")
        data = values.buffers()[2]
        numbers = np.frombuffer(data, self._layout, len(values), int(ends[0]))
        return pa.array(numbers.astype(self._layout.newbyteorder("=")), self._kind)


class AvroCodec:
    def __init__(self, writer: SchemaInfo, reader: SchemaInfo, kind: pa.DataType) -> None:
        self._kind = kind
        self._reader = avro.parsed(plain_definition(avro.definition_of(reader)))
        # The same schema twice would be resolved, field by field, for nothing.
        self._writer: Any = self._reader
        self._resolved: Any = None
        if writer.data != reader.data:
            definition = plain_definition(avro.definition_of(writer))
            if isinstance(definition, dict) and isinstance(self._reader, dict):
                # Names of the outermost record need not be the same, as with the official clients.
                for key in ("name", "namespace"):
                    definition.pop(key, None)
                definition["name"] = self._reader["name"]
            self._writer, self._resolved = avro.parsed(definition), self._reader
        definition = plain_definition(avro.definition_of(reader))
        self._flat = flat_record(definition, kind) if self._resolved is None else None

    def array(self, values: pa.Array, keys: pa.Array | None = None) -> pa.Array:
        found = self._flat.array(values) if self._flat is not None else None
        return self.plain_array(values) if found is None else found

    def plain_array(self, values: pa.Array) -> pa.Array:
        """One by one: what is not flat, or not as it should be, or of another version."""
        data = values.to_pylist()
        buffer, end, found = io.BytesIO(b"".join(data)), 0, []
        writer, reader, read = self._writer, self._resolved, fastavro.schemaless_reader
        try:
            for one in data:
                found.append(read(buffer, writer, reader))
                end += len(one)
                if buffer.tell() != end:
                    raise SchemaMismatch(f"{len(one)} bytes of which {buffer.tell() - end} are not")
        except Exception as error:  # of many kinds, for bytes that any producer may have sent
            raise SchemaMismatch(f"bytes that are not Avro's: {error!r:.200}") from None
        return pa.array(found, self._kind)


def plain_definition(definition: Any) -> Any:
    """A definition without the annotations that have no type here."""
    if isinstance(definition, list):
        return [plain_definition(one) for one in definition]
    if not isinstance(definition, dict):
        return definition
    return {
        key: plain_definition(one)
        for key, one in definition.items()
        if key != "logicalType" or one in _KEPT_LOGICAL
    }


class JsonCodec:
    """All values are read as one text, each a line that begins and ends as no value can, so that none can
    reach into another."""

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        self._parsing = pa_json.ParseOptions(
            explicit_schema=pa.schema([("v", kind)]), unexpected_field_behavior="ignore"
        )
        # Arrow's reader takes a map for a list of its pairs.
        self._has_map = "map<" in str(kind)

    def array(self, values: pa.Array, keys: pa.Array | None = None) -> pa.Array:
        data = values.to_pylist()
        if self._has_map:
            return pa.array([json.loads(one) for one in data], self._kind)
        text = b"".join([b'{"v":' + one + b"}\n" for one in data])
        reading = pa_json.ReadOptions(use_threads=False, block_size=len(text) + 1)
        found = pa_json.read_json(
            pa.BufferReader(text), read_options=reading, parse_options=self._parsing
        )
        if found.num_rows != len(data):
            raise SchemaMismatch(f"{found.num_rows} JSON values in {len(data)} messages")
        array = found["v"].combine_chunks()
        array.validate(full=True)  # text that is UTF-8
        return array


class ProtobufCodec:
    def __init__(self, reader: SchemaInfo, kind: pa.DataType) -> None:
        self._descriptor = protobuf_native.parse_definition(reader.data)
        self._parse = GetMessageClass(self._descriptor).FromString
        self._kind = kind

    def array(self, values: pa.Array, keys: pa.Array | None = None) -> pa.Array:
        try:
            messages = [self._parse(one) for one in values.to_pylist()]
        except DecodeError as error:
            name = self._descriptor.full_name
            raise SchemaMismatch(f"bytes that are no {name}: {error}") from None
        return _struct(messages, self._descriptor, self._kind)


def _struct(messages: Sequence[Any], descriptor: Descriptor, kind: pa.DataType) -> pa.Array:
    """Messages field by field; None is a null struct."""
    absent = np.array([one is None for one in messages], bool)
    arrays = [_field(messages, descriptor.fields_by_name[field.name], field.type) for field in kind]
    return pa.StructArray.from_arrays(
        arrays, fields=list(kind), mask=pa.array(absent) if absent.any() else None
    )


def _field(messages: Sequence[Any], field: FieldDescriptor, kind: pa.DataType) -> pa.Array:
    name = field.name
    if is_map(field):
        assert field.message_type is not None
        value = field.message_type.fields_by_name["value"]
        pairs = [None if one is None else list(getattr(one, name).items()) for one in messages]
        if value.message_type is None:
            shown = _shown(value)
            return pa.array(
                [one if one is None else [(k, shown(v)) for k, v in one] for one in pairs], kind
            )
        # Maps of messages are pairs of two arrays.
        flat = [pair for one in pairs if one is not None for pair in one]
        names = pa.array([key for key, _ in flat], kind.key_type)
        items = _struct([item for _, item in flat], value.message_type, kind.item_type)
        return pa.MapArray.from_arrays(_ends(pairs), names, items)
    if field.is_repeated:
        rows = [None if one is None else list(getattr(one, name)) for one in messages]
        if field.message_type is None:
            shown = _shown(field)
            return pa.array(
                [one if one is None else [shown(item) for item in one] for one in rows], kind
            )
        flat = [item for one in rows if one is not None for item in one]
        items = _struct(flat, field.message_type, kind.value_type)
        return pa.ListArray.from_arrays(_ends(rows), items, type=kind)
    if field.has_presence:
        values = [
            getattr(one, name) if one is not None and one.HasField(name) else None
            for one in messages
        ]
    else:
        values = [None if one is None else getattr(one, name) for one in messages]
    if field.message_type is not None:
        return _struct(values, field.message_type, kind)
    shown = _shown(field)
    return pa.array([None if one is None else shown(one) for one in values], kind)


def _ends(rows: Sequence[Sequence[Any] | None]) -> pa.Array:
    """Where each row's items begin; null where the row is."""
    at, found = 0, list[int | None]()
    for row in rows:
        found.append(None if row is None else at)
        at += len(row or ())
    return pa.array([*found, at], pa.int32())


def _shown(field: FieldDescriptor) -> Callable[[Any], Any]:
    if field.enum_type is not None:
        names = field.enum_type.values_by_number
        return lambda number: names[number].name if number in names else str(number)
    return lambda value: value


class KeyValueCodec:
    """Two codecs: the key's is in the payload, or is the message's key."""

    def __init__(self, writer: SchemaInfo, reader: SchemaInfo, kind: pa.DataType) -> None:
        self._fields = list(kind)
        self._is_separated = key_value.encoding_of(writer) is KeyValueEncodingType.SEPARATED
        self._codecs = [
            codec_of(written, read, field.type)
            for written, read, field in zip(
                key_value.split_info(writer), key_value.split_info(reader), kind, strict=True
            )
        ]

    def array(self, values: pa.Array, keys: pa.Array | None = None) -> pa.Array:
        parts: tuple[pa.Array, pa.Array]
        if self._is_separated:
            assert keys is not None, "keys are read where they are needed"
            parts = keys, values
        else:
            pairs = [key_value.split_bytes(one) for one in values.to_pylist()]
            parts = (
                pa.array([key for key, _ in pairs], pa.binary()),
                pa.array([value for _, value in pairs], pa.binary()),
            )
        arrays = [
            with_nulls(part, field.type, codec.array)
            for part, field, codec in zip(parts, self._fields, self._codecs, strict=True)
        ]
        return pa.StructArray.from_arrays(arrays, fields=self._fields)


def with_nulls(
    values: pa.Array, kind: pa.DataType, decode: Callable[[pa.Array], pa.Array]
) -> pa.Array:
    """Decode what is there; what is null stays null."""
    if not values.null_count:
        return decode(values)
    there = values.is_valid()
    found = decode(values.filter(there))
    # The rank of each among those that are there; null for the others, and `take` keeps that.
    ranks = np.cumsum(there.to_numpy(zero_copy_only=False)) - 1
    return found.take(pa.array(ranks, pa.int64(), mask=values.is_null().to_numpy(False)))
