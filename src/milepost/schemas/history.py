"""The versions of a topic's schema, and the decisions about a new one. Stores and awaits nothing.

A version is a number, given once, whatever is deleted: messages carry it for as long as they live. To
delete is to add a marker; what lies before the last marker is gone for everybody who asks. A new schema
that says what one of the versions says already is that version.

    history = History([Version(0, avro_info, 1_700_000_000_000)])
    history.register(other_info, Strategy.FULL)     # a version that exists, or None: to be stored next

Invariant: numbers grow by one from entry to entry, and never repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

from milepost.errors import IncompatibleSchema
from milepost.schemas import avro_schema
from milepost.schemas.compatibility import Strategy, check_compatible
from milepost.schemas.types import NO_VERSION, SchemaInfo
from milepost.schemas.validation import check_schema


class Version(NamedTuple):
    number: int
    info: SchemaInfo | None
    """None marks a deletion."""
    time_ms: int
    """When it was registered."""


class Live(NamedTuple):
    """A version that is not deleted."""

    number: int
    info: SchemaInfo
    time_ms: int


class History:
    def __init__(self, versions: Sequence[Version] = ()) -> None:
        self._last = NO_VERSION
        # Behind the last deletion, oldest first.
        self._live: list[Live] = []
        # Of Avro definitions, by version: parsed once.
        self._meanings: dict[int, bytes] = {}
        for version in versions:
            self.add(version)

    @property
    def next_number(self) -> int:
        """What the next registration or deletion is numbered."""
        return self._last + 1

    @property
    def live(self) -> list[Live]:
        return list(self._live)

    @property
    def latest(self) -> Live | None:
        return self._live[-1] if self._live else None

    def version(self, number: int) -> Live | None:
        return next((one for one in self._live if one.number == number), None)

    def add(self, version: Version) -> None:
        """A version or deletion that is stored."""
        assert version.number > self._last, f"version {version.number} after {self._last}"
        self._last = version.number
        if version.info is None:
            self._live = []
            self._meanings = {}
        else:
            self._live.append(Live(version.number, version.info, version.time_ms))

    # -- decisions ---------------------------------------------------------------------------------

    def find(self, info: SchemaInfo) -> int | None:
        """The version that says the same: of Avro definitions the same schema, else the same bytes."""
        exact = self.find_exact(info)
        if exact != NO_VERSION:
            return exact
        if not info.type.is_avro_defined:
            return None
        meaning = _meaning(info)
        for one in self._live:
            if one.info.type is info.type and self._meaning_of(one) == meaning:
                return one.number
        return None

    def find_exact(self, info: SchemaInfo) -> int:
        """The version with the very same definition; `NO_VERSION` if there is none."""
        return next((one.number for one in self._live if one.info.is_same(info)), NO_VERSION)

    def _meaning_of(self, live: Live) -> bytes:
        found = self._meanings.get(live.number)
        if found is None:
            found = self._meanings[live.number] = _meaning(live.info)
        return found

    def register(
        self, info: SchemaInfo, strategy: Strategy, *, may_update: bool = True
    ) -> int | None:
        """The version that `info` is already; None if it may become the next one; or the refusal."""
        check_schema(info)
        found = self.find(info)
        if found is not None:
            return found
        if not may_update:
            raise IncompatibleSchema(
                "the schema is unknown, and schemas are not updated by clients"
            )
        self.check(info, strategy)
        return None

    def check(self, info: SchemaInfo, strategy: Strategy) -> None:
        """Refuse what the strategy does not allow beside what is there."""
        check_schema(info)
        if strategy.is_transitive:
            check_compatible([one.info for one in self._live], info, strategy)
        elif self._live and not self._live[-1].info.is_same(info):
            check_compatible([self._live[-1].info], info, strategy)

    def check_consumer(self, info: SchemaInfo, strategy: Strategy) -> None:
        """Refuse a consumer that could not read what producers may have written."""
        check_schema(info)
        if strategy is Strategy.ALWAYS_COMPATIBLE:
            return
        if not self._live:
            raise IncompatibleSchema(
                f"a {info.type.name} schema for a topic in use that has none (its messages are bytes)"
            )
        if strategy in _WITH_LATEST:
            # Whatever producers may do, a consumer has to read.
            self.check(info, Strategy.BACKWARD)
        else:
            check_compatible([one.info for one in self._live], info, strategy)


# Where only the latest version is looked at, which forward evolution keeps readable for the rest.
_WITH_LATEST = frozenset(
    {Strategy.BACKWARD, Strategy.FORWARD, Strategy.FORWARD_TRANSITIVE, Strategy.FULL}
)


def _meaning(info: SchemaInfo) -> bytes:
    """Equal for definitions that differ in nothing that matters."""
    return sha256(repr(avro_schema.identity(avro_schema.parse(info.data))).encode()).digest()
