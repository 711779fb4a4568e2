"""`Record`: classes that declare fields and are Avro schemas.

    class Example(Record):
        a = String()
        b = Integer(required=True)
        inner = Other()                     # another record; its class will do as well

    Example(a="text", b=5, inner={"x": 1})
    Example.schema()                        # {"type": "record", "name": "Example", "fields": [...]}

As in the official `pulsar.schema`: the fields are those of the class itself, without those it inherits;
`_avro_namespace` gives the record a namespace, `_sorted_fields` puts the fields of the schema in
alphabetic order; a record in a record is, unless given, as it was declared. A field that is assigned is
checked then, not when it is sent.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from enum import Enum, EnumMeta
from typing import Any, ClassVar, cast

from milepost.errors import SchemaMismatch, UndeclaredField
from milepost.schemas.fields import Array, CustomEnum, Field, Map

# Of a record that is a field of another; beside its values in `__dict__`.
_OWN = ("_default", "_required_default", "_required")


class RecordMeta(type):
    """Collects the fields of a class, in the order of their declaration."""

    def __new__(
        metacls, name: str, parents: tuple[type, ...], attributes: dict[str, Any]
    ) -> RecordMeta:
        fields: dict[str, Field | Record] = {}
        if parents:  # not of Record itself
            for key, value in attributes.items():
                if isinstance(value, EnumMeta):
                    fields[key] = CustomEnum(cast("type[Enum]", value))
                elif isinstance(value, RecordMeta):
                    fields[key] = value()
                elif isinstance(value, Field | Record):
                    fields[key] = value
        return super().__new__(metacls, name, parents, {**attributes, "_fields": fields})


class Record(metaclass=RecordMeta):
    _fields: ClassVar[dict[str, Any]]
    _avro_namespace: ClassVar[str | None] = None
    _sorted_fields: ClassVar[bool] = False

    def __init__(
        self,
        default: Any = None,
        required_default: bool = False,
        required: bool = False,
        **values: Any,
    ) -> None:
        """`default`, `required_default` and `required` are of a record that is another's field."""
        self._default = default
        self._required_default = required_default
        self._required = required
        for name, field in self._fields.items():
            if name in values:
                setattr(self, name, _converted(field, values[name]))
            elif isinstance(field, Record):
                setattr(self, name, copy.deepcopy(field))
            else:
                super().__setattr__(name, field.default())

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _OWN:
            field = self._fields.get(name)
            if field is None:
                raise UndeclaredField(f"record {type(self).__name__} has no field {name}")
            value = field.validate_type(name, value)
        super().__setattr__(name, value)

    def values(self) -> dict[str, Any]:
        """The fields' values, in order."""
        return {name: value for name, value in self.__dict__.items() if name not in _OWN}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record):
            return NotImplemented
        return Record.values(self) == Record.values(other)

    __hash__ = None  # type: ignore[assignment]  # it can be changed

    def __repr__(self) -> str:
        return f"{type(self).__name__}({Record.values(self)})"

    # -- as a schema -------------------------------------------------------------------------------

    @classmethod
    def schema(cls) -> Any:
        return cls.schema_info(set())

    @classmethod
    def schema_info(cls, defined_names: set[str]) -> Any:
        """The Avro record; its name alone if it is among `defined_names` already."""
        space = cls._avro_namespace
        full_name = cls.__name__ if space is None else f"{space}.{cls.__name__}"
        if full_name in defined_names:
            return full_name
        defined_names.add(full_name)
        schema: dict[str, Any] = {"type": "record", "name": cls.__name__}
        if space is not None:
            schema["namespace"] = space
        schema["fields"] = [
            _described(name, cls._fields[name], defined_names)
            for name in (sorted(cls._fields) if cls._sorted_fields else cls._fields)
        ]
        return schema

    # -- as a field of another record --------------------------------------------------------------

    def type(self) -> str:
        return self.__class__.__name__

    def python_type(self) -> Any:
        return self.__class__

    def validate_type(self, name: str, val: Any) -> Any:
        if val is None and not self._required:
            return self._default
        if not isinstance(val, self.__class__):
            expected = self.__class__.__name__
            raise SchemaMismatch(
                f"field {name}: {val.__class__.__name__} where {expected} is expected"
            )
        return val

    def default(self) -> Any:
        return self._default

    def required_default(self) -> bool:
        return self._required_default


def _described(name: str, field: Any, defined_names: set[str]) -> dict[str, Any]:
    described: dict[str, Any] = {"name": name}
    if field.required_default():
        default = field.default()
        described["default"] = default.name if isinstance(default, Enum) else default
    kind = field.schema_info(defined_names)
    described["type"] = kind if field._required else ["null", kind]
    return described


def _converted(field: Any, value: Any) -> Any:
    """Dictionaries become the records that they describe."""
    if isinstance(field, Record) and isinstance(value, Mapping):
        return field.__class__(**value)
    if isinstance(field, Array) and isinstance(value, list):
        return [_converted(field.inner, one) for one in value]
    if isinstance(field, Map) and isinstance(value, dict):
        return {key: _converted(field.inner, one) for key, one in value.items()}
    return value
