"""Compiled functions that read numbers and text from bytes.

Compiled by numba when first called and kept on disk beside the source (or in the user's cache, or where
`NUMBA_CACHE_DIR` says), or in memory alone where none of these can be written. Nothing here checks that a
target has room: the caller has counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
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
