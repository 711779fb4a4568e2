"""The compatibility strategies: may this schema follow those? The strategies, and the verdict of each type.

    check_compatible([old, older], new, Strategy.BACKWARD_TRANSITIVE)     # or IncompatibleSchema

BACKWARD: the new schema reads what the old one wrote. FORWARD: the old one reads what the new one writes.
FULL: both. `…_TRANSITIVE`: with every version, else with the latest. Verdicts are upstream's:

- AVRO, JSON and PROTOBUF by the rules of Avro (`avro_reading.py`);
- PROTOBUF_NATIVE: the message keeps its full name; fields are protobuf's own business;
- KEY_VALUE: the types of both parts stay, and each part by its own rules;
- all others: one type is compatible with itself, but for ALWAYS_INCOMPATIBLE.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from milepost.errors import IncompatibleSchema
from milepost.schemas import avro_schema, key_value, protobuf_native
from milepost.schemas.avro_reading import why_not
from milepost.schemas.types import SchemaInfo, SchemaType


class Strategy(StrEnum):
    """Upstream's names, as REST and settings say them."""

    UNDEFINED = "UNDEFINED"
    ALWAYS_INCOMPATIBLE = "ALWAYS_INCOMPATIBLE"
    ALWAYS_COMPATIBLE = "ALWAYS_COMPATIBLE"
    BACKWARD = "BACKWARD"
    FORWARD = "FORWARD"
    FULL = "FULL"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def is_transitive(self) -> bool:
        return self.endswith("_TRANSITIVE")

    @property
    def new_reads_old(self) -> bool:
        return self in _NEW_READS_OLD

    @property
    def old_reads_new(self) -> bool:
        return self in _OLD_READS_NEW


_NEW_READS_OLD: Final = frozenset(
    {
        Strategy.BACKWARD,
        Strategy.BACKWARD_TRANSITIVE,
        Strategy.FULL,
        Strategy.FULL_TRANSITIVE,
    }
)
_OLD_READS_NEW: Final = frozenset(
    {
        Strategy.FORWARD,
        Strategy.FORWARD_TRANSITIVE,
        Strategy.FULL,
        Strategy.FULL_TRANSITIVE,
    }
)


def check_compatible(olds: Sequence[SchemaInfo], new: SchemaInfo, strategy: Strategy) -> None:
    """Compare with each of `olds`; whom to compare with is the caller's to choose."""
    if strategy is Strategy.ALWAYS_COMPATIBLE:
        return
    for old in olds:
        if old.type is not new.type:
            raise IncompatibleSchema(f"the topic has a {old.type.name} schema, not {new.type.name}")
    if new.type.is_avro_defined:
        _check_avro(olds, new, strategy)
    elif new.type is SchemaType.PROTOBUF_NATIVE:
        _check_protobuf(olds, new, strategy)
    elif new.type is SchemaType.KEY_VALUE:
        _check_key_value(olds, new, strategy)
    elif new.type is not SchemaType.EXTERNAL and strategy is Strategy.ALWAYS_INCOMPATIBLE:
        raise _refused(new, strategy, "nothing is compatible")


def _check_avro(olds: Sequence[SchemaInfo], new: SchemaInfo, strategy: Strategy) -> None:
    if not olds:
        return
    if not (strategy.new_reads_old or strategy.old_reads_new):
        raise _refused(new, strategy, "nothing is compatible")
    ours = avro_schema.parse(new.data)
    for old in olds:
        theirs = avro_schema.parse(old.data)
        if strategy.new_reads_old and (fault := why_not(ours, theirs)):
            raise _refused(new, strategy, f"the new one cannot read the old: {fault}")
        if strategy.old_reads_new and (fault := why_not(theirs, ours)):
            raise _refused(new, strategy, f"the old one cannot read the new: {fault}")


def _check_protobuf(olds: Sequence[SchemaInfo], new: SchemaInfo, strategy: Strategy) -> None:
    if olds and not (strategy.new_reads_old or strategy.old_reads_new):
        raise _refused(new, strategy, "nothing is compatible")
    name = protobuf_native.parse_definition(new.data).full_name
    for old in olds:
        before = protobuf_native.parse_definition(old.data).full_name
        if before != name:
            raise _refused(new, strategy, f"message {before} cannot become {name}")


def _check_key_value(olds: Sequence[SchemaInfo], new: SchemaInfo, strategy: Strategy) -> None:
    new_parts = key_value.split_info(new)
    old_parts = [key_value.split_info(old) for old in olds]
    for at, part in enumerate(("key", "value")):
        try:
            check_compatible([parts[at] for parts in old_parts], new_parts[at], strategy)
        except IncompatibleSchema as refusal:
            raise IncompatibleSchema(f"{part}: {refusal}") from None


def _refused(new: SchemaInfo, strategy: Strategy, why: str) -> IncompatibleSchema:
    return IncompatibleSchema(f"{new.type.name} schema under {strategy.value}: {why:.500}")
