"""Records: what is intact, what is torn, what is damaged, and whose it was."""

from __future__ import annotations

import pytest

from milepost.errors import UnknownFormat
from milepost.storage.journal.records import (
    ENTRIES,
    FACT,
    LEDGER,
    RECORD_HEADER_SIZE,
    Damage,
    Scan,
    body_crc,
    encode_header,
    scan,
    seed_of,
)

SEED = seed_of(bytes(range(16)))
FIRST = 10


def record(
    sequence: int, group: int, body: bytes = b"body", kind: int = FACT, owner: int = 7
) -> bytes:
    head = encode_header(SEED, kind, len(body), body_crc([body]), owner, sequence, group)
    return head + body


def journal(*groups: int) -> bytes:
    """Records numbered from FIRST on, in groups of these sizes; each owned by its sequence."""
    parts, sequence = [], FIRST
    for size in groups:
        group = sequence
        for _ in range(size):
            parts.append(record(sequence, group, f"body {sequence}".encode(), owner=sequence))
            sequence += 1
    return b"".join(parts)


SIZE = len(journal(1))


def read(data: bytes, *, whole: bool = False) -> Scan:
    return scan(data, 0, "j", FIRST, SEED, whole=whole)


def sequences(found: Scan) -> list[int]:
    return [record.sequence for record in found.records]


def flip(data: bytes, place: int) -> bytes:
    damaged = bytearray(data)
    damaged[place] ^= 0x10
    return bytes(damaged)


class TestIntact:
    def test_records_come_back_in_order(self) -> None:
        data = journal(2, 1)
        found = read(data)
        assert sequences(found) == [10, 11, 12]
        assert [record.group for record in found.records] == [10, 10, 12]
        assert [record.body for record in found.records] == [b"body 10", b"body 11", b"body 12"]
        assert [record.offset for record in found.records] == [0, SIZE, 2 * SIZE]
        assert (found.damages, found.size) == ([], len(data))

    @pytest.mark.parametrize("whole", [False, True])
    def test_nothing_is_nothing(self, whole: bool) -> None:
        assert read(b"", whole=whole) == Scan([], [], 0)

    def test_scanning_may_start_behind_a_file_header(self) -> None:
        found = scan(b"h" * 64 + journal(1), 64, "j", FIRST, SEED, whole=False)
        assert [(record.sequence, record.offset) for record in found.records] == [(10, 64)]

    def test_a_record_of_another_directory_is_none(self) -> None:
        found = scan(journal(3), 0, "j", FIRST, seed_of(bytes(16)), whole=False)
        assert (found.records, found.size) == ([], 0)

    def test_a_body_that_looks_like_a_record_is_not_taken_for_one(self) -> None:
        """It is an old one at best, and only looked at when its own record is damaged."""
        inner = record(5, 5, b"inner")
        data = record(10, 10, inner) + record(11, 11)
        assert sequences(read(data)) == [10, 11]
        damaged = flip(data, RECORD_HEADER_SIZE + len(inner) - 1)
        found = read(damaged)
        assert sequences(found) == [11]
        assert [damage.sequence for damage in found.damages] == [10]


class TestTornTail:
    """Of the last group nobody was told: what is missing of it is cut, and what is behind that."""

    def test_every_cut_leaves_the_whole_records_before_it(self) -> None:
        data = journal(2, 3)
        for size in range(len(data)):
            found = read(data[:size])
            assert len(found.records) == size // SIZE, size
            assert found.size == size // SIZE * SIZE
            assert found.damages == []

    @pytest.mark.parametrize("bad", [2, 3, 4])
    def test_a_bad_record_in_the_last_group_ends_the_file(self, bad: int) -> None:
        data = journal(2, 3)
        for place in range(bad * SIZE, (bad + 1) * SIZE):
            found = read(flip(data, place))
            assert sequences(found) == list(range(10, 10 + bad))
            assert (found.damages, found.size) == ([], bad * SIZE)

    def test_zeros_and_noise_behind_the_end_are_cut(self) -> None:
        data = journal(2)
        for tail in (bytes(100), b"\xff" * 7, b"MPR1MPR1MPR1"):
            found = read(data + tail)
            assert (sequences(found), found.size) == ([10, 11], len(data))

    def test_an_old_record_behind_the_end_is_cut(self) -> None:
        data = journal(3)
        found = read(data + data[:SIZE])
        assert (sequences(found), found.damages, found.size) == ([10, 11, 12], [], len(data))


class TestDamage:
    """A missing sequence below a later group had been acknowledged."""

    @pytest.mark.parametrize("place", range(SIZE, SIZE + RECORD_HEADER_SIZE))
    def test_a_bad_header_costs_its_record_and_hides_its_owner(self, place: int) -> None:
        found = read(flip(journal(1, 1, 1), place))
        assert sequences(found) == [10, 12]
        assert found.damages == [Damage("j", SIZE, 11)]

    @pytest.mark.parametrize("place", range(SIZE + RECORD_HEADER_SIZE, 2 * SIZE))
    def test_a_bad_body_costs_its_record_and_names_its_owner(self, place: int) -> None:
        found = read(flip(journal(1, 1, 1), place))
        assert sequences(found) == [10, 12]
        (damage,) = found.damages
        assert (damage.offset, damage.sequence, damage.kind, damage.owner) == (SIZE, 11, FACT, 11)
        assert str(damage) == f"j: byte {SIZE}: sequence 11: a fact of state 11 cannot be read"

    def test_a_zeroed_stretch_names_every_sequence_it_took(self) -> None:
        data = journal(1, 1, 1, 1, 1)
        found = read(data[:SIZE] + bytes(3 * SIZE) + data[4 * SIZE :])
        assert sequences(found) == [10, 14]
        assert [damage.sequence for damage in found.damages] == [11, 12, 13]
        assert all(damage.kind is None for damage in found.damages)
        assert "a record of unknown kind cannot be read" in str(found.damages[0])

    def test_damage_and_a_torn_tail_are_told_apart(self) -> None:
        data = flip(journal(1, 1, 2), SIZE + RECORD_HEADER_SIZE)[:-3]
        found = read(data)
        assert sequences(found) == [10, 12]
        assert [damage.sequence for damage in found.damages] == [11]
        assert found.size == 3 * SIZE

    def test_an_old_record_in_place_of_a_newer_one_is_damage(self) -> None:
        data = journal(1, 1, 1, 1)
        found = read(data[: 2 * SIZE] + data[:SIZE] + data[3 * SIZE :])
        assert sequences(found) == [10, 11, 13]
        assert [damage.sequence for damage in found.damages] == [12]

    def test_a_later_record_in_place_of_an_earlier_one_is_damage(self) -> None:
        data = journal(1, 1, 1, 1)
        found = read(data[:SIZE] + data[3 * SIZE :] + data[2 * SIZE :])
        assert [damage.sequence for damage in found.damages] == [11, 12]

    def test_an_intact_header_behind_it_proves_as_much_as_a_record(self) -> None:
        """The last record's body is torn; its header still says that the group before was synced."""
        data = flip(journal(1, 1, 1), SIZE + RECORD_HEADER_SIZE)
        found = read(data[:-1])
        assert sequences(found) == [10]
        assert [damage.sequence for damage in found.damages] == [11]

    def test_everything_in_a_file_that_another_vouches_for_was_acknowledged(self) -> None:
        data = journal(2, 3)
        for place in range(len(data)):
            found = read(flip(data, place), whole=True)
            assert [damage.sequence for damage in found.damages] == [10 + place // SIZE]
            assert len(found.records) == 4
            assert found.size == len(data)

    def test_kinds_are_named(self) -> None:
        assert "entries of ledger 3" in str(Damage("j", 0, 1, ENTRIES, 3))
        assert "start of ledger 3" in str(Damage("j", 0, 1, LEDGER, 3))


class TestNewerFormats:
    @pytest.mark.parametrize("body", [b"body", b""])
    def test_an_unknown_kind_is_refused(self, body: bytes) -> None:
        with pytest.raises(
            UnknownFormat, match=r"j: byte 0: record kind 9; known are \[1, 2, 3, 4, 5, 6, 7\]"
        ):
            read(record(10, 10, body, kind=9))

    def test_also_when_its_body_is_damaged(self) -> None:
        with pytest.raises(UnknownFormat):
            read(flip(record(10, 10, kind=9), RECORD_HEADER_SIZE))
