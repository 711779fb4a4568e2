from __future__ import annotations

import tracemalloc
import zlib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from milepost.errors import DecompressionError, UncompressedSizeError, UnknownCompression
from milepost.wire import pulsar_pb2 as pb
from milepost.wire.compression import compress, decompress

KINDS = pb.CompressionType.values()
PACKED = [kind for kind in KINDS if kind != pb.NONE]
TEXT = b"a message, and another message, and one more message. " * 20


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.binary(max_size=2000) | st.binary(max_size=20).map(lambda part: part * 300))
def test_there_and_back(kind: int, data: bytes) -> None:
    assert decompress(kind, compress(kind, data), len(data)) == data


@pytest.mark.parametrize("kind", KINDS)
def test_from_a_view(kind: int) -> None:
    packed = memoryview(b"before" + compress(kind, memoryview(TEXT)))[6:]
    assert decompress(kind, packed, len(TEXT)) == TEXT


# Ten times "a", made by hand from the documents of the formats.
@pytest.mark.parametrize(
    ("kind", "packed"),
    [
        (pb.NONE, "61616161616161616161"),
        (pb.LZ4, "a061616161616161616161"),
        (pb.ZLIB, "789c4b84030014e103cb"),
        (pb.ZSTD, "28b52ffd200a53000061"),
        (pb.SNAPPY, "0a2461616161616161616161"),
    ],
)
def test_byte_for_byte(kind: int, packed: str) -> None:
    assert decompress(kind, bytes.fromhex(packed), 10) == b"a" * 10


@pytest.mark.parametrize("kind", PACKED)
@pytest.mark.parametrize("claimed", [0, 1, len(TEXT) - 1, len(TEXT) + 1, 2**31, 2**32 - 1])
def test_another_size_than_claimed(kind: int, claimed: int) -> None:
    with pytest.raises(DecompressionError, match=str(claimed)):
        decompress(kind, compress(kind, TEXT), claimed)


@pytest.mark.parametrize("kind", PACKED)
def test_more_than_the_caller_takes(kind: int) -> None:
    packed = compress(kind, TEXT)
    assert decompress(kind, packed, len(TEXT), size_max=len(TEXT)) == TEXT
    with pytest.raises(UncompressedSizeError, match="at most 1079"):
        decompress(kind, packed, len(TEXT), size_max=len(TEXT) - 1)
    with pytest.raises(UncompressedSizeError):
        decompress(kind, packed, -1)


@pytest.mark.parametrize("kind", PACKED)
def test_a_payload_cut_short_or_with_something_behind(kind: int) -> None:
    packed = compress(kind, TEXT)
    for cut in range(len(packed)):
        with pytest.raises(DecompressionError):
            decompress(kind, packed[:cut], len(TEXT))
    with pytest.raises(DecompressionError):
        decompress(kind, packed + b"more", len(TEXT))


@pytest.mark.parametrize("kind", PACKED)
@given(data=st.binary(max_size=300), claimed=st.integers(0, 2**32 - 1))
def test_any_bytes_unpack_to_the_claim_or_to_an_error(kind: int, data: bytes, claimed: int) -> None:
    with suppress(DecompressionError):  # and no other
        assert len(decompress(kind, data, claimed, size_max=1 << 20)) == claimed


def test_a_bomb_costs_what_it_claims() -> None:
    bomb = zlib.compress(bytes(1 << 26))
    tracemalloc.start()
    with pytest.raises(UncompressedSizeError, match="1000 bytes and has 1001 or more"):
        decompress(pb.ZLIB, bomb, 1000)
    with pytest.raises(UncompressedSizeError, match="cannot have more"):
        decompress(pb.LZ4, b"\x1f" * 1000, 2**32 - 1)
    with pytest.raises(UncompressedSizeError, match="cannot have more"):
        decompress(pb.SNAPPY, compress(pb.SNAPPY, TEXT), 2**32 - 1)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


@pytest.mark.parametrize("kind", [-1, 5, 99])
def test_a_type_that_is_none(kind: int) -> None:
    with pytest.raises(UnknownCompression, match=str(kind)):
        compress(kind, b"")
    with pytest.raises(UnknownCompression, match=str(kind)):
        decompress(kind, b"", 0)
