"""Compiled functions that read numbers and text from bytes.

Compiled by numba when first called and kept on disk beside the source (or in the user's cache, or where
`NUMBA_CACHE_DIR` says), or in memory alone where none of these can be written. Nothing here checks that a
target has room: the caller has counted.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any, Final, TypeVar

import llvmlite.binding as llvm
import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    try:
        made: F = numba.njit(cache=True, nogil=True, boundscheck=False)(function)
    except RuntimeError:
        # No place to keep it: an executor without a home, or the package in an archive that numba does
        # not look into. Each process then compiles for itself.
        made = numba.njit(nogil=True, boundscheck=False)(function)
    return made


@compiled
def varint(data, at, end):
    """A number and where it ends; -1: there is none."""
    value = np.int64(0)
    shift = np.int64(0)
    while at < end and shift < 64:
        byte = np.int64(data[at])
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    return np.int64(0), np.int64(-1)


@compiled
def signed32(value):
    return ((value & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000


@compiled
def size32(data, at):
    return (
        np.int64(data[at]) << 24
        | np.int64(data[at + 1]) << 16
        | np.int64(data[at + 2]) << 8
        | np.int64(data[at + 3])
    )


@compiled
def is_text(data, at, end):
    """Is it UTF-8 as Unicode defines it: shortest forms, no surrogates, up to U+10FFFF?"""
    while at < end:
        lead = data[at]
        if lead < 0x80:
            at += 1
            continue
        low, high = 0x80, 0xBF
        if 0xC2 <= lead <= 0xDF:
            more = 1
        elif 0xE0 <= lead <= 0xEF:
            more = 2
            if lead == 0xE0:
                low = 0xA0
            elif lead == 0xED:
                high = 0x9F
        elif 0xF0 <= lead <= 0xF4:
            more = 3
            if lead == 0xF0:
                low = 0x90
            elif lead == 0xF4:
                high = 0x8F
        else:
            return False
        if at + more >= end or not low <= data[at + 1] <= high:
            return False
        for behind in range(2, more + 1):
            if not 0x80 <= data[at + behind] <= 0xBF:
                return False
        at += more + 1
    return True


@intrinsic
def copy(typing, source, at, size, target, to):
    """`target[to : to + size] = source[at : at + size]`, by the C library: a loop takes ten times as
    long for a hundred bytes."""

    def generate(context, builder, signature, args):
        arrays = [
            context.make_array(signature.args[number])(context, builder, args[number])
            for number in (0, 3)
        ]
        begins = [
            builder.gep(array.data, [place])
            for array, place in zip(arrays, (args[1], args[4]), strict=True)
        ]
        cgutils.raw_memcpy(builder, begins[1], begins[0], args[2], itemsize=1)
        return context.get_dummy_value()

    whole = types.int64
    return types.void(source, whole, whole, target, whole), generate


def checksum_table():
    """CRC-32C of one byte, followed by none to seven zeros: eight bytes are looked up at once."""
    table = np.zeros((8, 256), np.uint32)
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table[0, byte] = crc
    for row in range(1, 8):
        before = table[row - 1]
        table[row] = table[0][before & 255] ^ (before >> 8)
    return table


_TABLE: Final = checksum_table()


@compiled
def crc32c_by_table(data, at, end):
    """CRC-32C of `data[at:end]`, on every machine."""
    crc = np.uint32(0xFFFFFFFF)
    while end - at >= 8:
        low = crc ^ (
            np.uint32(data[at])
            | np.uint32(data[at + 1]) << np.uint32(8)
            | np.uint32(data[at + 2]) << np.uint32(16)
            | np.uint32(data[at + 3]) << np.uint32(24)
        )
        crc = (
            _TABLE[7, low & np.uint32(255)]
            ^ _TABLE[6, (low >> np.uint32(8)) & np.uint32(255)]
            ^ _TABLE[5, (low >> np.uint32(16)) & np.uint32(255)]
            ^ _TABLE[4, low >> np.uint32(24)]
            ^ _TABLE[3, data[at + 4]]
            ^ _TABLE[2, data[at + 5]]
            ^ _TABLE[1, data[at + 6]]
            ^ _TABLE[0, data[at + 7]]
        )
        at += 8
    while at < end:
        crc = _TABLE[0, (crc ^ np.uint32(data[at])) & np.uint32(255)] ^ (crc >> np.uint32(8))
        at += 1
    return crc ^ np.uint32(0xFFFFFFFF)


HAS_CRC32C: Final = platform.machine() in ("x86_64", "AMD64") and bool(
    llvm.get_host_cpu_features().get("sse4.2")
)
"""Whether the machine has an instruction for CRC-32C. What was compiled for such a machine is kept apart
from what was compiled for others: the cache knows the features of the machine."""


@intrinsic
def _fold_eight(typing, crc, data, at):
    """The checksum of what came before and of eight more bytes, by one instruction."""

    def generate(context, builder, signature, args):
        eight = ir.IntType(64)
        array = context.make_array(signature.args[1])(context, builder, args[1])
        place = builder.bitcast(builder.gep(array.data, [args[2]]), eight.as_pointer())
        value = builder.load(place)
        value.align = 1
        kind = ir.FunctionType(eight, [eight, eight])
        name = "llvm.x86.sse42.crc32.64.64"
        return builder.call(
            cgutils.get_or_insert_function(builder.module, kind, name), [args[0], value]
        )

    return types.uint64(types.uint64, data, types.int64), generate


@intrinsic
def _fold_one(typing, crc, byte):
    """The same of one more byte."""

    def generate(context, builder, signature, args):
        four, one = ir.IntType(32), ir.IntType(8)
        kind = ir.FunctionType(four, [four, one])
        fold = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.sse42.crc32.32.8")
        crc = builder.call(fold, [builder.trunc(args[0], four), args[1]])
        return builder.zext(crc, ir.IntType(64))

    return types.uint64(types.uint64, types.uint8), generate


@compiled
def _crc32c_by_machine(data, at, end):
    crc = np.uint64(0xFFFFFFFF)
    while end - at >= 8:
        crc = _fold_eight(crc, data, at)
        at += 8
    while at < end:
        crc = _fold_one(crc, data[at])
        at += 1
    return np.uint32(crc ^ np.uint64(0xFFFFFFFF))


crc32c_of = _crc32c_by_machine if HAS_CRC32C else crc32c_by_table
"""CRC-32C of `data[at:end]`."""


@compiled
def put_varint(target, at, value):
    while value > 127:
        target[at] = value & 127 | 128
        at += 1
        value >>= 7
    target[at] = value
    return at + 1


@compiled
def put_base64(data, at, size, target, to):
    """What base64 means, written to target; -1 if it is none."""
    if size % 4:
        return -1
    pad = 0
    if size and data[at + size - 1] == 61:
        pad = 2 if data[at + size - 2] == 61 else 1
    bits = np.int64(0)
    begin = to
    for step in range(size):
        byte = data[at + step]
        if 65 <= byte <= 90:
            digit = byte - 65
        elif 97 <= byte <= 122:
            digit = byte - 71
        elif 48 <= byte <= 57:
            digit = byte + 4
        elif byte == 43:
            digit = 62
        elif byte == 47:
            digit = 63
        elif byte == 61 and step >= size - pad:
            digit = 0
        else:
            return -1
        bits = bits << 6 | np.int64(digit)
        if step % 4 == 3:
            target[to] = bits >> 16 & 255
            target[to + 1] = bits >> 8 & 255
            target[to + 2] = bits & 255
            to += 3
            bits = np.int64(0)
    return to - begin - pad
