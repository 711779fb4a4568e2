"""Parses the definition of an Avro schema.

Owns the rules of the Avro specification for schemas, with the names that Pulsar allows beyond it: any
letters, and `$`, which Java gives to nested classes. Defaults are taken as they are. Never reads or
writes data; clients leave that to fastavro.

    >>> parse('{"type": "record", "name": "A", "fields": [{"name": "x", "type": ["null", "A"]}]}')
    <Avro record A>

A named type that is used again is the same node object, so that a tree may have circles. `identity`
gives two schemas the same value when they differ in nothing that matters: order of keys, documentation
and aliases do not; names, fields, defaults and other properties do.
"""

from __future__ import annotations

import json
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Final

from milepost.errors import InvalidSchema

PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")

# Nodes that one definition may have: more than any class has fields, and little work to compare.
NODES_MAX: Final = 20_000


@dataclass(slots=True, eq=False)
class Field:
    name: str
    schema: Node
    has_default: bool
    default: Any
    aliases: tuple[str, ...]
    # Everything else that was said of it, but its documentation.
    properties: dict[str, Any]


@dataclass(slots=True, eq=False)
class Node:
    """One schema. Which fields are filled depends on `kind`."""

    kind: str
    """A primitive's name, `record`, `enum`, `fixed`, `array`, `map` or `union`."""
    name: str = ""
    """Of a named type, with its namespace."""
    aliases: tuple[str, ...] = ()
    fields: list[Field] = field(default_factory=list)
    symbols: tuple[str, ...] = ()
    size: int = 0
    inner: list[Node] = field(default_factory=list)
    """The branches of a union; the one item or value type of an array or map."""
    properties: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<Avro {self.kind}{' ' if self.name else ''}{self.name}>"

    @property
    def short_name(self) -> str:
        return self.name.rpartition(".")[2]


def parse(text: str | bytes) -> Node:
    """The schema that a text defines, or `InvalidSchema` that says what is wrong with it."""
    try:
        return _Parser().node(json.loads(text), "")
    except RecursionError:
        raise InvalidSchema("the Avro schema is nested too deep") from None
    except ValueError as failure:  # of JSON, or bytes that are no text
        if isinstance(failure, InvalidSchema):
            raise
        raise InvalidSchema(f"the Avro schema is not JSON: {failure}") from None


class _Parser:
    def __init__(self) -> None:
        self._named: dict[str, Node] = {}
        self._count = 0

    def node(self, said: Any, namespace: str) -> Node:
        self._count += 1
        if self._count > NODES_MAX:
            raise InvalidSchema(f"the Avro schema has more than {NODES_MAX} parts")
        if isinstance(said, str):
            return self._by_name(said, namespace, {})
        if isinstance(said, list):
            return self._union(said, namespace)
        if not isinstance(said, dict):
            raise InvalidSchema(f"{_brief(said)} is no Avro schema")
        kind = said.get("type")
        match kind:
            case "record" | "error":
                return self._record(said, namespace)
            case "enum":
                return self._enum(said, namespace)
            case "fixed":
                return self._fixed(said, namespace)
            case "array":
                items = self.node(_part(said, "items", kind), namespace)
                return Node("array", inner=[items], properties=_rest(said, "items"))
            case "map":
                values = self.node(_part(said, "values", kind), namespace)
                return Node("map", inner=[values], properties=_rest(said, "values"))
            case str():
                return self._by_name(kind, namespace, _rest(said))
            case dict() | list():
                return self.node(kind, namespace)
        raise InvalidSchema(f"{_brief(said)} has no type")

    def _by_name(self, name: str, namespace: str, properties: dict[str, Any]) -> Node:
        if name in PRIMITIVES:
            return Node(name, properties=properties)
        found = self._named.get(_full_name(name, namespace)) or self._named.get(name)
        if found is None:
            raise InvalidSchema(f"Avro type {_brief(name)} is not defined")
        return found

    def _union(self, said: list[Any], namespace: str) -> Node:
        branches = [self.node(one, namespace) for one in said]
        seen: set[str] = set()
        for branch in branches:
            if branch.kind == "union":
                raise InvalidSchema("an Avro union is directly inside another")
            key = branch.name or branch.kind
            if key in seen:
                raise InvalidSchema(f"an Avro union has {_brief(key)} twice")
            seen.add(key)
        return Node("union", inner=branches)

    def _record(self, said: dict[str, Any], namespace: str) -> Node:
        made, inside = self._define("record", said, namespace)
        fields = said.get("fields")
        if not isinstance(fields, list):
            raise InvalidSchema(f"Avro record {made.name} has no list of fields")
        names: set[str] = set()
        for one in fields:
            if not isinstance(one, dict):
                raise InvalidSchema(f"Avro record {made.name} has {_brief(one)} for a field")
            name = _checked_name(one.get("name"))
            if name in names:
                raise InvalidSchema(f"Avro record {made.name} has field {_brief(name)} twice")
            names.add(name)
            made.fields.append(
                Field(
                    name,
                    self.node(_part(one, "type", f"field {name}"), inside),
                    "default" in one,
                    one.get("default"),
                    _names(one, "aliases"),
                    _rest(one, "default"),
                )
            )
        made.properties = _rest(said, "fields")
        return made

    def _enum(self, said: dict[str, Any], namespace: str) -> Node:
        made, _ = self._define("enum", said, namespace)
        if not isinstance(said.get("symbols"), list):
            raise InvalidSchema(f"Avro enum {made.name} has no list of symbols")
        made.symbols = tuple(_checked_name(symbol) for symbol in said["symbols"])
        if len(set(made.symbols)) != len(made.symbols):
            raise InvalidSchema(f"Avro enum {made.name} has a symbol twice")
        default = said.get("default")
        if default is not None and default not in made.symbols:
            raise InvalidSchema(
                f"Avro enum {made.name} has no symbol {_brief(default)}, its default"
            )
        made.properties = _rest(said, "symbols")
        return made

    def _fixed(self, said: dict[str, Any], namespace: str) -> Node:
        made, _ = self._define("fixed", said, namespace)
        size = said.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise InvalidSchema(f"Avro fixed {made.name} has size {_brief(size)}")
        made.size = size
        made.properties = _rest(said, "size")
        return made

    def _define(self, kind: str, said: dict[str, Any], namespace: str) -> tuple[Node, str]:
        """A named type, known from here on, and the namespace of what is inside it."""
        own = said.get("namespace", namespace)
        if not isinstance(own, str):
            raise InvalidSchema(f"Avro {kind} with namespace {_brief(own)}")
        name = said.get("name")
        if not isinstance(name, str):
            raise InvalidSchema(f"an Avro {kind} has {_brief(name)} for a name")
        full = _full_name(name, own)
        space, _, short = full.rpartition(".")
        _checked_name(short)
        if any(0xD800 <= ord(character) < 0xE000 for character in space):
            # Half of a surrogate pair, which JSON can write: no answer could repeat it.
            raise InvalidSchema(f"{_brief(space)} is no Avro namespace")
        if full in PRIMITIVES:
            raise InvalidSchema(f"an Avro {kind} is named {full}, which is a primitive type")
        if full in self._named:
            raise InvalidSchema(f"Avro type {full} is defined twice")
        aliases = tuple(_full_name(alias, space) for alias in _names(said, "aliases"))
        made = self._named[full] = Node(kind, full, aliases)
        return made, space


def identity(node: Node) -> Hashable:
    """A value that equal schemas share."""
    seen: set[str] = set()

    def of(node: Node) -> Hashable:
        if node.name:
            if node.name in seen:
                return node.name
            seen.add(node.name)
        return (
            node.kind,
            node.name,
            tuple(
                (
                    one.name,
                    of(one.schema),
                    one.has_default,
                    _text(one.default),
                    _text(one.properties),
                )
                for one in node.fields
            ),
            node.symbols,
            node.size,
            tuple(of(inner) for inner in node.inner),
            _text(node.properties),
        )

    try:
        return of(node)
    except RecursionError:
        raise InvalidSchema("the Avro schema is nested too deep") from None


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _rest(said: dict[str, Any], *known: str) -> dict[str, Any]:
    """Properties beyond those of the specification; `default` of an enum is none either."""
    ours = {"type", "name", "namespace", "doc", "aliases", *known}
    if "symbols" in known:
        ours.add("default")
    return {key: value for key, value in said.items() if key not in ours}


def _part(said: dict[str, Any], key: str, of: str) -> Any:
    if key not in said:
        raise InvalidSchema(f"Avro {of} has no {key}")
    return said[key]


def _names(said: dict[str, Any], key: str) -> tuple[str, ...]:
    names = said.get(key, [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InvalidSchema(f"Avro {key} {_brief(names)} are no list of names")
    return tuple(names)


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _checked_name(name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise InvalidSchema(f"{_brief(name)} is no Avro name")
    first, rest = name[0], name[1:]
    if not (first.isalpha() or first in "_$") or not all(c.isalnum() or c in "_$" for c in rest):
        raise InvalidSchema(f"{_brief(name)} is no Avro name: letters, digits, _ and $ only")
    return name


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
