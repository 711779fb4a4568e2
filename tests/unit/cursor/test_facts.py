"""Facts: the bytes that the journal keeps, and what is refused."""

from __future__ import annotations

import struct

import pytest

from milepost.cursor import facts
from milepost.cursor.facts import AckFact, DeliveryFact, SeekFact, TrimFact, decode, encode
from milepost.errors import CorruptData, UnknownFormat
from milepost.positions.ranges import IndexRanges

# The upper seven bytes of a small u64.
ZEROS = " 00" * 7

ALL = [
    AckFact(0, IndexRanges([(7, 9)])),
    AckFact(2**40, IndexRanges([(7, 9), (11, 12), (5000, 9000)])),
    AckFact(1, IndexRanges((index, index + 1) for index in range(0, 500, 2))),
    SeekFact(3, 17, IndexRanges()),
    SeekFact(3, 17, IndexRanges([(17, 40), (50, 60)])),
    TrimFact(9, 12),
    DeliveryFact(2, IndexRanges([(7, 9)])),
    DeliveryFact(2, IndexRanges([(7, 9), (20, 3000)])),
]


@pytest.mark.parametrize("fact", ALL, ids=str)
def test_a_fact_comes_back_from_its_bytes(fact: facts.Fact) -> None:
    assert decode(encode(fact)) == fact
    assert decode(memoryview(encode(fact))) == fact


def test_one_ack_is_26_bytes() -> None:
    written = facts.encode_ack_range(epoch=3, first=10, end=11)
    assert written == struct.pack("<BBQQQ", 1, 1, 3, 10, 11)


@pytest.mark.parametrize(
    ("fact", "written"),
    [
        (AckFact(3, IndexRanges([(7, 9)])), f"01 01 03{ZEROS} 07{ZEROS} 09{ZEROS}"),
        (AckFact(3, IndexRanges([(7, 9), (11, 12)])), f"01 02 03{ZEROS} 00 05 80 09"),
        (SeekFact(3, 17, IndexRanges([(17, 40)])), f"01 03 03{ZEROS} 11{ZEROS} 11 2e"),
        (TrimFact(3, 12), f"01 04 03{ZEROS} 0c{ZEROS}"),
        (DeliveryFact(3, IndexRanges([(7, 9)])), f"01 05 03{ZEROS} 07 04"),
    ],
    ids=str,
)
def test_the_format_does_not_move(fact: facts.Fact, written: str) -> None:
    """Journals of this version must be readable for ever."""
    assert encode(fact) == bytes.fromhex(written)


def test_the_acks_of_one_commit_become_one_fact() -> None:
    acks = [(index, index + 1) for index in range(1000)]
    assert facts.encode_ack(3, acks) == facts.encode_ack_range(3, 0, 1000)
    scattered = [(index, index + 1) for index in range(0, 2000, 2)]
    assert len(facts.encode_ack(3, scattered)) < 300
    assert decode(facts.encode_ack(3, scattered)) == AckFact(3, IndexRanges(scattered))


def test_a_newer_version_is_refused_with_both_numbers() -> None:
    with pytest.raises(UnknownFormat, match="version 9; this release knows 1"):
        decode(b"\x09" + encode(ALL[0])[1:])


@pytest.mark.parametrize("fact", ALL, ids=str)
def test_a_cut_fact_is_corrupt_or_another_whole_one(fact: facts.Fact) -> None:
    whole = encode(fact)
    for size in range(len(whole)):
        try:
            cut = decode(whole[:size])
        except CorruptData:
            continue
        # Only a list of ranges can end early; the journal's checksum is there for that.
        assert type(cut) is type(fact)
        assert cut.epoch == fact.epoch
        assert encode(cut) != whole


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no bytes"),
        (b"\x01", "cut to 1 bytes"),
        (struct.pack("<BBQ", 1, 7, 0), "unknown kind 7"),
        (struct.pack("<BBQ", 1, 0, 0), "unknown kind 0"),
        (struct.pack("<BBQQQ", 1, 1, 0, 9, 9), r"acks \[9, 9\)"),
        (struct.pack("<BBQQQ", 1, 1, 0, 9, 2**63), r"acks \[9, "),
        (struct.pack("<BBQQQ", 1, 1, 0, 9, 12) + b"x", "cut to 27 bytes"),
        (struct.pack("<BBQQ", 1, 3, 0, 2**63), f"index {2**63}"),
        (struct.pack("<BBQQ", 1, 4, 0, 5) + b"x", "1 bytes behind"),
        (struct.pack("<BBQQ", 1, 3, 0, 5) + b"\x00\x00", "a part of 0"),
    ],
)
def test_other_bytes_are_corrupt(data: bytes, why: str) -> None:
    with pytest.raises(CorruptData, match=why):
        decode(data)
