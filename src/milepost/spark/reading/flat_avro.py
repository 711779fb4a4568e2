"""Decodes flat Avro records to Arrow by a compiled loop.

Most records of a topic are flat: numbers, text, times, each perhaps null. Such a definition becomes a short
program, a step a field, which a compiled loop runs over all values of a batch. Definitions that are not flat
have no such program (`flat_record` is None), and a batch with anything that the loop does not take has no
array: fastavro reads both, and says what is wrong. The loop never does.

    record = flat_record({"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}, kind)
    record.array(values)                    # None: not as it should be, to be read plainly
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from milepost.spark.reading.compiled_bytes import compiled, copy, is_text

# What a step reads.
BOOLEAN: Final = 0
WHOLE: Final = 1
FLOAT: Final = 2
DOUBLE: Final = 3
TEXT: Final = 4
BYTES: Final = 5

NEVER_NULL: Final = -1
# Records with more are left to the library, as their arrays would take more room than they save time.
FIELDS_MAX: Final = 128

_INT: Final = (-(1 << 31), (1 << 31) - 1)
_LONG: Final = (-(1 << 63), (1 << 63) - 1)
# What Python's dates and times can be, which the library goes by: the years 1 to 9999.
_DAYS: Final = (-719_162, 2_932_896)
_MILLIS: Final = (-62_135_596_800_000, 253_402_300_799_999)
_MICROS: Final = (_MILLIS[0] * 1000, _MILLIS[1] * 1000 + 999)


class Step(NamedTuple):
    """What is read of a field that is not null."""

    reads: int
    kind: pa.DataType
    low: int = _LONG[0]
    high: int = _LONG[1]
    """Of WHOLE: what it must be within; of an enum, that is how many symbols there are."""
    factor: int = 1
    """Of WHOLE: what it is multiplied with."""
    symbols: tuple[str, ...] = ()
    """Of an enum."""


_MOMENT, _LOCAL = pa.timestamp("us", tz="UTC"), pa.timestamp("us")
# By type and annotation.
_STEPS: Final = {
    ("boolean", None): Step(BOOLEAN, pa.bool_()),
    ("int", None): Step(WHOLE, pa.int32(), *_INT),
    ("long", None): Step(WHOLE, pa.int64()),
    ("float", None): Step(FLOAT, pa.float32()),
    ("double", None): Step(DOUBLE, pa.float64()),
    ("string", None): Step(TEXT, pa.string()),
    ("bytes", None): Step(BYTES, pa.binary()),
    ("int", "date"): Step(WHOLE, pa.date32(), *_DAYS),
    ("long", "timestamp-millis"): Step(WHOLE, _MOMENT, *_MILLIS, 1000),
    ("long", "timestamp-micros"): Step(WHOLE, _MOMENT, *_MICROS),
    ("long", "local-timestamp-millis"): Step(WHOLE, _LOCAL, *_MILLIS, 1000),
    ("long", "local-timestamp-micros"): Step(WHOLE, _LOCAL, *_MICROS),
}
# Numbers are kept by the width of their type: as they are, or as its bits.
_KEPT: Final = {32: np.int32, 64: np.int64}


class FlatRecord:
    def __init__(self, steps: list[Step], null_branches: list[int], kind: pa.StructType) -> None:
        """`null_branches`: which of the two of a field's union is null, or NEVER_NULL."""
        self._steps = steps
        self._kind = kind
        # For the loop: a row a step.
        self._program = np.array(
            [
                (one.reads, one.low, one.high, one.factor, null_branch)
                for one, null_branch in zip(steps, null_branches, strict=True)
            ],
            np.int64,
        )

    def array(self, values: pa.Array) -> pa.Array | None:
        """All values, which has no nulls; None if one of them is not as clients write it."""
        _, ends_buffer, data_buffer = values.buffers()
        rows = len(values)
        if data_buffer is None or not data_buffer.size or not rows:
            return None
        bounds = np.frombuffer(ends_buffer, np.int32)[values.offset :][: rows + 1]
        data = np.frombuffer(data_buffer, np.uint8)
        fields = len(self._steps)
        numbers = np.empty((fields, rows), np.int64)
        ends = np.empty((fields, rows + 1), np.int32)
        valid = np.empty((fields, rows), np.bool_)
        if not scan_values(data, bounds, self._program, numbers, ends, valid):
            return None
        arrays = [
            _array(step, data, numbers[at], ends[at], valid[at])
            for at, step in enumerate(self._steps)
        ]
        return pa.StructArray.from_arrays(arrays, fields=list(self._kind))


def _array(step: Step, data: Any, numbers: Any, ends: Any, valid: Any) -> pa.Array:
    """The column of one field."""
    rows, kind = len(numbers), step.kind
    nulls = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    if step.reads in (TEXT, BYTES):
        written = np.empty(int(ends[rows]), np.uint8)
        gather(data, numbers, ends, written)
        return pa.Array.from_buffers(kind, rows, [nulls, pa.py_buffer(ends), pa.py_buffer(written)])
    if step.symbols:
        places = pa.Array.from_buffers(pa.int64(), rows, [nulls, pa.py_buffer(numbers)])
        return pa.DictionaryArray.from_arrays(places, pa.array(step.symbols, kind)).cast(kind)
    if step.reads == BOOLEAN:
        kept = np.packbits(numbers.astype(np.bool_), bitorder="little")
    else:
        kept = numbers.astype(_KEPT[kind.bit_width], copy=False)
    return pa.Array.from_buffers(kind, rows, [nulls, pa.py_buffer(kept)])


def flat_record(definition: Any, kind: pa.DataType) -> FlatRecord | None:
    """The record that a definition is, to be read as `kind`; None if it is not flat."""
    if not isinstance(definition, dict) or definition.get("type") != "record":
        return None
    fields = definition["fields"]
    if not pa.types.is_struct(kind) or not 0 < len(fields) == kind.num_fields <= FIELDS_MAX:
        return None
    steps, null_branches = [], []
    for field, shown in zip(fields, kind, strict=True):
        null_branch, branch = NEVER_NULL, field["type"]
        if isinstance(branch, list):
            if len(branch) != 2 or branch.count("null") != 1:
                return None
            null_branch = branch.index("null")
            branch = branch[1 - null_branch]
        step = _step(branch)
        if step is None or (shown.name, shown.type) != (field["name"], step.kind):
            return None
        steps.append(step)
        null_branches.append(null_branch)
    return FlatRecord(steps, null_branches, kind)


def _step(branch: Any) -> Step | None:
    if isinstance(branch, str):
        return _STEPS.get((branch, None))
    if not isinstance(branch, dict) or not isinstance(branch.get("type"), str):
        return None
    if branch["type"] == "enum":
        symbols = tuple(branch["symbols"])
        return Step(WHOLE, pa.string(), 0, len(symbols) - 1, symbols=symbols)
    return _STEPS.get((branch["type"], branch.get("logicalType")))


@compiled
def zigzag(data, at, end):
    """A whole number and where it ends; -1: there is none of 64 bits."""
    value = np.int64(0)
    shift = np.int64(0)
    while at < end:
        byte = np.int64(data[at])
        at += 1
        if shift == 63 and byte > 1:
            return np.int64(0), np.int64(-1)
        value |= (byte & 127) << shift
        if byte < 128:
            return ((value >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(value & 1), at
        shift += 7
    return np.int64(0), np.int64(-1)


@compiled
def scan_values(data, bounds, program, numbers, ends, valid):
    """Run a program over all values. Text and bytes are left where they are: `numbers` has where each
    begins, `ends` where it will end. False: there is something that is not taken."""
    fields = len(program)
    for field in range(fields):
        ends[field, 0] = 0
    for row in range(len(bounds) - 1):
        at = np.int64(bounds[row])
        end = np.int64(bounds[row + 1])
        for field in range(fields):
            reads = program[field, 0]
            numbers[field, row] = 0
            valid[field, row] = True
            ends[field, row + 1] = ends[field, row]
            if program[field, 4] >= 0:
                branch, at = zigzag(data, at, end)
                if at < 0 or branch < 0 or branch > 1:
                    return False
                if branch == program[field, 4]:
                    valid[field, row] = False
                    continue
            if reads == WHOLE:
                value, at = zigzag(data, at, end)
                if at < 0 or value < program[field, 1] or value > program[field, 2]:
                    return False
                numbers[field, row] = value * program[field, 3]
            elif reads == BOOLEAN:
                if at >= end or data[at] > 1:
                    return False
                numbers[field, row] = data[at]
                at += 1
            elif reads in (FLOAT, DOUBLE):
                size = 4 if reads == FLOAT else 8
                if end - at < size:
                    return False
                value = np.int64(0)
                for step in range(size):
                    value |= np.int64(data[at + step]) << (8 * step)
                numbers[field, row] = value
                at += size
            else:
                size, at = zigzag(data, at, end)
                if at < 0 or size < 0 or size > end - at:
                    return False
                if reads == TEXT and not is_text(data, at, at + size):
                    return False
                numbers[field, row] = at
                ends[field, row + 1] = ends[field, row] + size
                at += size
        if at != end:
            return False
    return True


@compiled
def gather(data, begins, ends, written):
    """Copy what lies apart to one place."""
    for row in range(len(begins)):
        size = np.int64(ends[row + 1]) - ends[row]
        if size:
            copy(data, begins[row], size, written, np.int64(ends[row]))
