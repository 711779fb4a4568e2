"""One setting: its name, type, default and meaning (class Setting).

Owns the reading of one value, from text or from TOML, and the words for what is allowed. It never
reads a file and never decides which source wins: that is `settings.py`, whose table is made of these.

    >>> port = Setting("port", Kind.COUNT, 6650, "Where clients connect.", low=0, high=65535)
    >>> port.parse("7000"), port.parse("many"), port.allowed
    (7000, None, 'a whole number from 0 to 65535')
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
INT_MAX = 2**31 - 1

# Stands where a secret would be shown.
HIDDEN = "(hidden)"

Value = bool | int | float | str | Path

_UNITS = {"": 1, "B": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB}
_WHOLE = re.compile(r"-?[0-9]{1,18}")
_DECIMAL = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,9})?")
_SIZE = re.compile(r"([0-9]{1,18}) ?(B|KiB|MiB|GiB)?")


class Kind(Enum):
    SWITCH = "true or false"
    COUNT = "a whole number"
    SIZE = "a size (bytes, or a number with KiB, MiB or GiB)"
    DURATION = "a number"
    TEXT = "text"
    CHOICE = "one of"
    PATH = "a path"


class Alias(NamedTuple):
    """A key of Pulsar's `broker.conf` that means this setting."""

    key: str

    # One of the key's units in ours: a key in megabytes has MIB, one in minutes 60.
    unit: float = 1

    # What the key means when it is there without a value; None: the default, as upstream mostly has it.
    empty: Value | None = None

    # The key holds class names; any at all switch the setting on, none says nothing.
    names_classes: bool = False


@dataclass(frozen=True, slots=True)
class Setting:
    name: str
    kind: Kind
    default: Value
    doc: str
    low: float = 0
    high: float = 0
    choices: tuple[str, ...] = ()
    aliases: tuple[Alias, ...] = ()

    # May a running broker take a new value?
    live: bool = False

    # May the value be a secret? Then it is shown nowhere.
    secret: bool = False

    # What is lost when this switch is off; said in one warning at start.
    weakens: str = ""

    @property
    def allowed(self) -> str:
        """What is accepted, for an error and for the documentation."""
        match self.kind:
            case Kind.CHOICE:
                return f"one of {', '.join(self.choices)}"
            case Kind.COUNT | Kind.DURATION:
                return f"{self.kind.value} from {self.low:.10g} to {self.high:.10g}"
            case Kind.SIZE:
                return f"{self.kind.value} from {show_size(self.low)} to {show_size(self.high)}"
            case Kind.SWITCH | Kind.TEXT | Kind.PATH:
                return str(self.kind.value)

    def accepts(self, value: object) -> bool:
        """Is this a value of the right type, within the range?"""
        match self.kind:
            case Kind.SWITCH:
                return isinstance(value, bool)
            case Kind.COUNT | Kind.SIZE:
                return type(value) is int and self.low <= value <= self.high
            case Kind.DURATION:
                return type(value) in (int, float) and self.low <= _number(value) <= self.high
            case Kind.CHOICE:
                return value in self.choices
            case Kind.TEXT:
                return isinstance(value, str) and value.isprintable()
            case Kind.PATH:
                return isinstance(value, Path) and str(value).isprintable()

    def parse(self, text: str, alias: Alias | None = None) -> Value | None:
        """Text of a conf file, a variable or a flag as a value; None if it is not one."""
        value = self._parse(text.strip())
        if alias is not None and alias.names_classes:
            value = True
        elif alias is not None and alias.unit != 1 and isinstance(value, int | float):
            scaled = value * alias.unit
            value = scaled if self.kind is Kind.DURATION else int(scaled)
        return value if self.accepts(value) else None

    def _parse(self, text: str) -> Value | None:
        match self.kind:
            case Kind.SWITCH:
                return {"true": True, "false": False}.get(text.lower())
            case Kind.COUNT:
                return int(text) if _WHOLE.fullmatch(text) else None
            case Kind.SIZE:
                found = _SIZE.fullmatch(text)
                return int(found[1]) * _UNITS[found[2] or ""] if found else None
            case Kind.DURATION:
                return float(text) if _DECIMAL.fullmatch(text) else None
            case Kind.PATH:
                return Path(text) if text else None
            case Kind.TEXT | Kind.CHOICE:
                return text

    def take(self, value: object) -> Value | None:
        """A value that already has a type, as TOML gives it; None if it is not one of ours."""
        if isinstance(value, str) and self.kind in (Kind.SIZE, Kind.PATH):
            value = self._parse(value)
        if not self.accepts(value):
            return None
        if self.kind is Kind.DURATION:
            return float(_number(value))
        assert isinstance(value, bool | int | float | str | Path)
        return value

    def show(self, value: Value) -> str:
        """As a person would write it in a file; `parse` reads it back."""
        if isinstance(value, bool):
            return "true" if value else "false"
        if self.secret and value and not str(value).startswith(("file:", "/", ".")):
            return HIDDEN  # it holds the secret itself, not the name of its file
        if self.kind is Kind.SIZE:
            return show_size(_number(value))
        return f"{value:g}" if isinstance(value, float) else str(value)


def show_size(size: float) -> str:
    for unit in ("GiB", "MiB", "KiB"):
        if size and size % _UNITS[unit] == 0:
            return f"{size / _UNITS[unit]:.0f} {unit}"
    return f"{size:.0f}"


def _number(value: object) -> float:
    assert isinstance(value, int | float)
    return value


# -- rows of the table ---------------------------------------------------------------------------
#
# Each makes a dataclass field that carries its `Setting`. The name is filled in by the table.


def switch(default: bool, doc: str, pulsar: Pulsar = (), **more: Any) -> Any:
    return _row(Kind.SWITCH, default, doc, pulsar, **more)


def count(
    default: int, doc: str, pulsar: Pulsar = (), *, low: int = 0, high: int = INT_MAX, **more: Any
) -> Any:
    return _row(Kind.COUNT, default, doc, pulsar, low=low, high=high, **more)


def size(
    default: int, doc: str, pulsar: Pulsar = (), *, low: int = 0, high: int, **more: Any
) -> Any:
    return _row(Kind.SIZE, default, doc, pulsar, low=low, high=high, **more)


def duration(
    default: float, doc: str, pulsar: Pulsar = (), *, low: float = 0, high: float, **more: Any
) -> Any:
    return _row(Kind.DURATION, default, doc, pulsar, low=low, high=high, **more)


def text(default: str, doc: str, pulsar: Pulsar = (), **more: Any) -> Any:
    return _row(Kind.TEXT, default, doc, pulsar, **more)


def choice(
    default: str, choices: tuple[str, ...], doc: str, pulsar: Pulsar = (), **more: Any
) -> Any:
    return _row(Kind.CHOICE, default, doc, pulsar, choices=choices, **more)


def path(default: str, doc: str) -> Any:
    return _row(Kind.PATH, Path(default), doc, ())


Pulsar = str | Alias | tuple[str | Alias, ...]


def _row(kind: Kind, default: Value, doc: str, pulsar: Pulsar, **more: Any) -> Any:
    keys = pulsar if type(pulsar) is tuple else (pulsar,)
    aliases = tuple(key if isinstance(key, Alias) else Alias(str(key)) for key in keys)
    setting = Setting("", kind, default, doc, aliases=aliases, **more)
    assert setting.accepts(default), f"{doc}: the default {default!r} is not {setting.allowed}"
    return field(default=default, repr=not setting.secret, metadata={"setting": setting})
