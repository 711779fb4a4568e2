"""Can data written with one Avro schema be read with another?

Judges as the Java library does whose verdicts Pulsar's brokers give, which is not always what the
specification says: records match whatever their names; enums and fixed types match by their short names;
an enum may lose symbols, because what is missing shows only when it is read; a field that the
writer has not must have a default that fits its type.

    >>> from milepost.schemas.avro_schema import parse
    >>> why_not(reader=parse('"long"'), writer=parse('"int"'))      # None: it can
    >>> why_not(reader=parse('"int"'), writer=parse('"long"'))
    'long cannot be read as int'

Aliases are the reader's: a writer's record, enum, fixed or field
that carries one of them is taken for the reader's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from milepost.errors import InvalidSchema
from milepost.schemas.avro_schema import Field, Node, identity

# What each kind may be read as, beside itself.
_PROMOTIONS: Final = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}

# Pairs of schemas that one comparison may look at.
STEPS_MAX: Final = 200_000


def why_not(reader: Node, writer: Node) -> str | None:
    """Why data of `writer` cannot be read as `reader`; None if it can."""
    try:
        if identity(reader) == identity(writer):
            return None  # aliases, which could make two fields one, are for others
        return _Reading(reader).fault(reader, writer, "")
    except RecursionError:
        raise InvalidSchema("the Avro schema is nested too deep to be compared") from None


class _Reading:
    def __init__(self, reader: Node) -> None:
        self._aliases: dict[str, str] = {}
        self._field_aliases: dict[str, dict[str, str]] = {}
        for node in _named(reader):
            for alias in node.aliases:
                self._aliases[alias] = node.name
            self._field_aliases[node.name] = {
                alias: one.name for one in node.fields for alias in one.aliases
            }
        # Records that are or were being compared, by identity, and the verdict. While it is open, it
        # is that they match: only then can a schema that holds itself ever be judged.
        self._seen: dict[tuple[int, int], str | None] = {}
        # Records that are being compared to choose between the branches of a union.
        self._choosing: set[tuple[int, int]] = set()
        self._steps = 0

    def _name(self, writer: Node) -> str:
        return self._aliases.get(writer.name, writer.name)

    def _short_name(self, writer: Node) -> str:
        return self._name(writer).rpartition(".")[2]

    def fault(self, reader: Node, writer: Node, where: str) -> str | None:
        self._step()
        if writer.kind == "union":
            faults = (self.fault(reader, branch, where) for branch in writer.inner)
            return next((fault for fault in faults if fault is not None), None)
        if reader.kind == "union":
            branch = self._branch(reader, writer)
            if branch is None:
                return _say(where, f"no branch for {_call(writer)}")
            return self.fault(branch, writer, where)
        if reader.kind != writer.kind:
            if reader.kind in _PROMOTIONS.get(writer.kind, ()):
                return None
            return _say(where, f"{_call(writer)} cannot be read as {_call(reader)}")
        if reader.kind in ("array", "map"):
            return self.fault(reader.inner[0], writer.inner[0], f"{where}[]")
        if reader.kind == "record":
            return self._record(reader, writer, where)
        if reader.kind in ("enum", "fixed") and self._short_name(writer) != reader.short_name:
            return _say(where, f"{_call(writer)} cannot be read as {_call(reader)}")
        if reader.size != writer.size:
            return _say(where, f"{_call(reader)} has {reader.size} bytes, was {writer.size}")
        return None

    def _step(self) -> None:
        self._steps += 1
        if self._steps > STEPS_MAX:
            raise InvalidSchema("the Avro schema is too large to be compared")

    def _record(self, reader: Node, writer: Node, where: str) -> str | None:
        pair = (id(reader), id(writer))
        if pair in self._seen:
            return self._seen[pair]
        self._seen[pair] = None
        self._seen[pair] = fault = next(self._field_faults(reader, writer, where), None)
        return fault

    def _field_faults(self, reader: Node, writer: Node, where: str) -> Iterator[str]:
        written = self._fields(writer)
        if len(written) < len(writer.fields):
            yield _say(where, f"two fields of {_call(writer)} become one by an alias")
        for one in reader.fields:
            path = f"{where}.{one.name}" if where else one.name
            if one.name in written:
                fault = self.fault(one.schema, written[one.name].schema, path)
                if fault is not None:
                    yield fault
            elif not one.has_default:
                yield _say(path, "a field that was not written, and has no default")
            elif not fits(one.schema, one.default):
                yield _say(path, "a field that was not written, and its default does not fit it")

    def _fields(self, writer: Node) -> dict[str, Field]:
        aliases = self._field_aliases.get(self._name(writer), {})
        return {aliases.get(one.name, one.name): one for one in writer.fields}

    def _branch(self, reader: Node, writer: Node) -> Node | None:
        """The branch of the reader's union that takes the writer's data."""
        alike: Node | None = None
        for branch in reader.inner:
            if branch.kind != writer.kind:
                continue
            if not branch.name or branch.name == self._name(writer):
                return branch
            # Of records with other names the first will do, or the last with the same short name.
            if (
                branch.kind == "record"
                and (alike is None or branch.short_name == self._short_name(writer))
                and self._is_alike(branch, writer)
            ):
                alike = branch
        if alike is not None:
            return alike
        promotions = _PROMOTIONS.get(writer.kind, ())
        return next((branch for branch in reader.inner if branch.kind in promotions), None)

    def _is_alike(self, reader: Node, writer: Node) -> bool:
        """Whether two records match on the surface. What is wrong inside their fields comes out when
        the branch has been chosen, and is too late for another choice: so does Java."""
        pair = (id(reader), id(writer))
        if pair in self._choosing:
            return True
        self._choosing.add(pair)
        try:
            written = self._fields(writer)
            return self._has_all(reader, writer) and not any(
                self._clashes(one.schema, written[one.name].schema)
                for one in reader.fields
                if one.name in written
            )
        finally:
            self._choosing.discard(pair)

    def _has_all(self, reader: Node, writer: Node) -> bool:
        written = self._fields(writer)
        return all(one.name in written or one.has_default for one in reader.fields)

    def _clashes(self, reader: Node, writer: Node) -> bool:
        self._step()
        if writer.kind == "union":
            return False
        if reader.kind == "union":
            return self._branch(reader, writer) is None
        if reader.kind == writer.kind == "record":
            return not self._has_all(reader, writer)
        if reader.kind == writer.kind and reader.kind in ("array", "map"):
            return False
        return self.fault(reader, writer, "") is not None


def fits(schema: Node, value: Any) -> bool:
    """Whether a default, as JSON, is a value of its field's type."""
    match schema.kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "int" | "long":
            return isinstance(value, int) and not isinstance(value, bool)
        case "float" | "double":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "string" | "bytes" | "enum" | "fixed":
            return isinstance(value, str)
        case "array":
            return isinstance(value, list) and all(fits(schema.inner[0], one) for one in value)
        case "map":
            return isinstance(value, dict) and all(
                fits(schema.inner[0], one) for one in value.values()
            )
        case "union":
            return any(fits(branch, value) for branch in schema.inner)
    return isinstance(value, dict) and all(
        (one.name in value or one.has_default)
        and fits(one.schema, value.get(one.name, one.default))
        for one in schema.fields
    )


def _named(node: Node) -> Iterator[Node]:
    """Every named type of a schema, once."""
    seen: set[int] = set()
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if one.name:
            if id(one) in seen:
                continue
            seen.add(id(one))
            yield one
        waiting += one.inner
        waiting += [part.schema for part in one.fields]


def _call(node: Node) -> str:
    return f"{node.kind} {node.name}" if node.name else node.kind


def _say(where: str, what: str) -> str:
    return f"{where}: {what}" if where else what
