"""Compresses and decompresses payloads.

Owns the byte forms: LZ4 is one block without a size in front, ZLIB has its own header, ZSTD is one
frame, SNAPPY is raw. Owns the bound too: what a payload unpacks to is compared with the size that its
metadata claims, and no more than that is ever allocated, nor the claim itself believed where the form
shows it to be impossible. Never reads metadata: the caller passes its two fields.

    >>> small = compress(pb.LZ4, b"abc" * 1000)
    >>> decompress(pb.LZ4, small, 3000) == b"abc" * 1000
    True
    >>> decompress(pb.LZ4, small, 2999)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    milepost.errors.DecompressionError: LZ4 payload of 24 bytes does not unpack to the 2999 bytes ...
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Final

import cramjam

from milepost.errors import DecompressionError, UncompressedSizeError, UnknownCompression
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.frames import Buffer

# What one byte can unpack to at most, by kind: a claim above that is a lie. An LZ4 block grows by 255
# bytes for each of its own, ZLIB codes 258 bytes in two bits, ZSTD makes a block of 128 KiB out of 4
# bytes, SNAPPY copies 64 bytes with 3.
GROWTH_MAX: Final[dict[int, int]] = {
    pb.NONE: 1,
    pb.LZ4: 255,
    pb.ZLIB: 1032,
    pb.ZSTD: 32 * 1024,
    pb.SNAPPY: 22,
}


def compress(kind: int, data: Buffer) -> bytes:
    """`data` in the form of `kind`; the metadata's `uncompressed_size` is `len(data)`.

    Producers send an empty payload as NONE: the C++ client cannot unpack nothing out of ZLIB.
    """
    match kind:
        case pb.NONE:
            return bytes(data)
        case pb.LZ4:
            return bytes(cramjam.lz4.compress_block(data, store_size=False))
        case pb.ZLIB:
            return zlib.compress(data)
        case pb.ZSTD:
            return bytes(cramjam.zstd.compress(data))
        case pb.SNAPPY:
            return bytes(cramjam.snappy.compress_raw(data))
    raise UnknownCompression(f"compression type {kind}; known are 0 to {pb.SNAPPY}")


def decompress(
    kind: int, data: Buffer, uncompressed_size: int, *, size_max: int | None = None
) -> bytes:
    """What was compressed: exactly `uncompressed_size` bytes, or an error.

    `size_max` is the most the caller is ready to hold, whatever the metadata claims. A payload that is
    not compressed is given back as it is: clients do not look at the claim then.
    """
    if kind == pb.NONE:
        return bytes(data)
    if kind not in _NAMES:
        raise UnknownCompression(f"compression type {kind}; known are 0 to {pb.SNAPPY}")
    name = _NAMES[kind]
    if uncompressed_size < 0 or (size_max is not None and uncompressed_size > size_max):
        raise UncompressedSizeError(
            f"{name} payload claims {uncompressed_size} bytes; at most {size_max} are taken"
        )
    try:
        if kind == pb.ZLIB:
            return _unzip(data, uncompressed_size)
        _check_claim(kind, data, uncompressed_size)
        unpacked = bytearray(uncompressed_size)
        size = _INTO[kind](data, unpacked)
    except (cramjam.DecompressionError, zlib.error) as failure:
        raise DecompressionError(
            f"{name} payload of {len(data)} bytes does not unpack to the {uncompressed_size} bytes"
            f" it claims: {failure}"
        ) from failure
    if size != uncompressed_size:
        raise UncompressedSizeError(
            f"{name} payload claims {uncompressed_size} bytes and has {size}"
        )
    return bytes(unpacked)


def _unzip(data: Buffer, uncompressed_size: int) -> bytes:
    """ZLIB, a byte further than the claim at most; bytes behind the stream are refused."""
    unpacker = zlib.decompressobj()
    unpacked = unpacker.decompress(data, uncompressed_size + 1)
    if len(unpacked) != uncompressed_size:
        raise UncompressedSizeError(
            f"ZLIB payload claims {uncompressed_size} bytes and has {len(unpacked)} or more"
        )
    if not unpacker.eof or unpacker.unused_data:
        raise zlib.error("the stream has no end, or bytes behind it")
    return unpacked


def _check_claim(kind: int, data: Buffer, uncompressed_size: int) -> None:
    """Refuse a claim that these bytes cannot keep, before anything is allocated by it."""
    if kind == pb.SNAPPY:
        possible = cramjam.snappy.decompress_raw_len(data)
    else:
        possible = len(data) * GROWTH_MAX[kind]
    if uncompressed_size > possible:
        raise UncompressedSizeError(
            f"{_NAMES[kind]} payload of {len(data)} bytes claims {uncompressed_size} bytes"
            f" and cannot have more than {possible}"
        )


def _into_lz4(data: Buffer, unpacked: bytearray) -> int:
    return cramjam.lz4.decompress_block_into(data, unpacked, output_len=len(unpacked))


_NAMES: Final = {kind: pb.CompressionType.Name(kind) for kind in pb.CompressionType.values()}
_INTO: Final[dict[int, Callable[[Buffer, bytearray], int]]] = {
    pb.LZ4: _into_lz4,
    pb.ZSTD: cramjam.zstd.decompress_into,
    pb.SNAPPY: cramjam.snappy.decompress_raw_into,
}
