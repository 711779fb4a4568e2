"""The field types of `Record` classes.

A field knows its Avro type, checks and converts the values given to it, and has a default. Names, defaults
and conversions are those of the official `pulsar.schema`: text is taken for bytes and bytes for text, an
enum's member by its name or number.

    class Reading(Record):
        sensor = String(required=True)
        celsius = Double()
        tags = Array(String())

A field that is not `required` may be None, and its type in the schema is a union with null. Only with
`required_default` does the schema say the default.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

from milepost.errors import SchemaMismatch

if TYPE_CHECKING:
    from milepost.schemas.record import Record


class Field:
    """Base of all types; a plain type says what it is called and what its values are."""

    avro_type: ClassVar[str] = ""
    value_types: ClassVar[tuple[type[Any], ...]] = ()

    def __init__(
        self, default: Any = None, required: bool = False, required_default: bool = False
    ) -> None:
        self._required = required
        self._required_default = required_default
        self._default: Any = None
        if default is not None:
            self._default = self.validate_type("default", default)

    def type(self) -> str:
        return self.avro_type

    def python_type(self) -> tuple[Any, ...]:
        return self.value_types

    def validate_type(self, name: str, val: Any) -> Any:
        """The value as it is kept, or `SchemaMismatch`, which is a `TypeError` too."""
        if val is None and not self._required:
            return self.default()
        if not isinstance(val, self.python_type()):
            raise _mismatch(name, val, self.type())
        return val

    def schema(self) -> Any:
        return self.schema_info(set())

    def schema_info(self, defined_names: set[str]) -> Any:
        """The Avro type, as JSON; a named type in full only where it comes first."""
        return self.type()

    def default(self) -> Any:
        return self._default

    def required_default(self) -> bool:
        return self._required_default


class Null(Field):
    avro_type = "null"

    def python_type(self) -> tuple[Any, ...]:
        return (type(None),)

    def validate_type(self, name: str, val: Any) -> Any:
        if val is not None:
            raise _mismatch(name, val, "null")
        return None


class Boolean(Field):
    """False where nothing is given."""

    avro_type = "boolean"
    value_types = (bool,)

    def default(self) -> Any:
        return False if self._default is None else self._default


class Integer(Field):
    avro_type = "int"
    value_types = (int,)


class Long(Field):
    avro_type = "long"
    value_types = (int,)


class Float(Field):
    avro_type = "float"
    value_types = (float, int)


class Double(Field):
    avro_type = "double"
    value_types = (float, int)


class Bytes(Field):
    avro_type = "bytes"
    value_types = (bytes, str)

    def validate_type(self, name: str, val: Any) -> Any:
        val = super().validate_type(name, val)
        return val.encode() if isinstance(val, str) else val


class String(Field):
    avro_type = "string"
    value_types = (str, bytes)

    def validate_type(self, name: str, val: Any) -> Any:
        val = super().validate_type(name, val)
        return val.decode() if isinstance(val, bytes) else val


class CustomEnum(Field):
    avro_type = "enum"

    def __init__(
        self,
        enum_type: type[Enum],
        default: Any = None,
        required: bool = False,
        required_default: bool = False,
    ) -> None:
        if not (isinstance(enum_type, type) and issubclass(enum_type, Enum)):
            raise SchemaMismatch(f"{enum_type!r} is no class of enum members")
        self.enum_type = enum_type
        self.values = {member.value: member for member in enum_type}
        super().__init__(default, required, required_default)

    def python_type(self) -> tuple[Any, ...]:
        return (self.enum_type,)

    def validate_type(self, name: str, val: Any) -> Any:
        if val is None or isinstance(val, self.enum_type):
            return val
        if isinstance(val, str) and val in self.enum_type.__members__:
            return self.enum_type[val]
        if isinstance(val, int) and val in self.values:
            return self.values[val]
        raise SchemaMismatch(f"field {name}: {self.enum_type.__name__} has no member {val!r:.60}")

    def schema_info(self, defined_names: set[str]) -> Any:
        name = self.enum_type.__name__
        if name in defined_names:
            return name
        defined_names.add(name)
        return {"type": "enum", "name": name, "symbols": [one.name for one in self.enum_type]}


class _Container(Field):
    """Of values that share a type: a field, or a record given as an example or as its class."""

    items_key: ClassVar[str]

    def __init__(
        self,
        inner: Field | Record | type[Record],
        default: Any = None,
        required: bool = False,
        required_default: bool = False,
    ) -> None:
        self.inner = _checked_inner(inner)
        super().__init__(default, required, required_default)

    def validate_type(self, name: str, val: Any) -> Any:
        if val is None:
            return None
        val = super().validate_type(name, val)
        for one in self._values(name, val):
            if not isinstance(one, self.inner.python_type()):
                raise _mismatch(name, one, f"{self.type()} of {self.inner.type()}")
        return val

    def _values(self, name: str, val: Any) -> list[Any]:
        raise NotImplementedError

    def schema_info(self, defined_names: set[str]) -> Any:
        return {"type": self.type(), self.items_key: self.inner.schema_info(defined_names)}


class Array(_Container):
    avro_type = "array"
    value_types = (list,)
    items_key = "items"

    @property
    def array_type(self) -> Any:
        return self.inner

    def _values(self, name: str, val: Any) -> list[Any]:
        values: list[Any] = val
        return values


class Map(_Container):
    """Keys are text."""

    avro_type = "map"
    value_types = (dict,)
    items_key = "values"

    @property
    def value_type(self) -> Any:
        return self.inner

    def _values(self, name: str, val: Any) -> list[Any]:
        for key in val:
            if not isinstance(key, str):
                raise _mismatch(name, key, "map with keys that are text")
        return list(val.values())


def _checked_inner(inner: Any) -> Any:
    from milepost.schemas.record import Record  # declared with the fields of this module

    if isinstance(inner, type) and issubclass(inner, Record):
        return inner()
    if not isinstance(inner, Field | Record):
        raise SchemaMismatch(f"{inner!r} is neither a field nor a record")
    return inner


def _mismatch(name: str, val: Any, expected: str) -> SchemaMismatch:
    return SchemaMismatch(f"field {name}: {type(val).__name__} where {expected} is expected")
