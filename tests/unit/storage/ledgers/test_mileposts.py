"""Mileposts: rows in memory, rows in a file, and no difference to whoever asks."""

from __future__ import annotations

from bisect import bisect_left

import google_crc32c
import pytest

from milepost.errors import CorruptData
from milepost.storage.header import HEADER_SIZE
from milepost.storage.ledgers.mileposts import ROW_SIZE, ROWS_PER_PAGE, FileBytes, Mileposts, Row
from milepost.testing import MemoryFiles

# Around the edges of pages, and past two of them.
COUNTS = [1, 2, 255, 256, 257, 511, 512, 513, 600]


def rows_of(count: int) -> list[Row]:
    """Entries of 1 to 3 messages; times that stand still for a while."""
    rows, last = [], -1
    for n in range(count):
        last += 1 + n % 3
        rows.append(Row(64 + 50 * n, last, n // 7 * 10, n % 4))
    return rows


def in_memory(rows: list[Row]) -> Mileposts:
    mileposts = Mileposts()
    for row in rows:
        mileposts.extend(row.offset, [50], [row.last_index], row.time_ms, [row.flags])
    return mileposts


def file_of(rows: list[Row]) -> bytes:
    return b"h" * HEADER_SIZE + in_memory(rows).tail_bytes(0, len(rows))


def loaded(rows: list[Row]) -> Mileposts:
    data = file_of(rows)
    mileposts = Mileposts()
    assert mileposts.load(data, len(rows), google_crc32c.value(data[HEADER_SIZE:]))
    return mileposts


def adopted(rows: list[Row], *, held: int = 0) -> Mileposts:
    mileposts = in_memory(rows)
    # In steps, as checkpoints do it.
    for count in (len(rows) // 3, len(rows) // 2, len(rows) - held):
        mileposts.adopt(file_of(rows), count)
    return mileposts


def answers_are_right(mileposts: Mileposts, rows: list[Row]) -> None:
    count = len(rows)
    assert mileposts.count == count
    assert mileposts.rows(0, count) == rows
    lasts, times = [row.last_index for row in rows], [row.time_ms for row in rows]
    for n in {0, 1, count // 2, count - 2, count - 1, *range(250, 260), *range(508, 516)}:
        if not 0 <= n < count:
            continue
        assert mileposts.row(n) == rows[n]
        before = rows[n - 1].last_index if n else -1
        assert mileposts.ends(n) == (before, rows[n].last_index, rows[n].flags)
        assert mileposts.rows(n, count) == rows[n:]
        assert mileposts.rows(n, n + 1) == rows[n : n + 1]
        offsets, last_indexes = mileposts.places(n, count)
        assert list(offsets) == [row.offset for row in rows[n:]]
        assert list(last_indexes) == lasts[n:]
    for index in range(lasts[-1] + 1):
        assert mileposts.entry_with(index) == bisect_left(lasts, index)
    for time in range(-1, times[-1] + 2):
        assert mileposts.first_entry_from(time) == bisect_left(times, time)


@pytest.mark.parametrize("count", COUNTS)
def test_from_memory(count: int) -> None:
    answers_are_right(in_memory(rows_of(count)), rows_of(count))


@pytest.mark.parametrize("count", COUNTS)
def test_from_a_file(count: int) -> None:
    mileposts = loaded(rows_of(count))
    assert mileposts.mapped_count == count
    answers_are_right(mileposts, rows_of(count))


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("held", [0, 1, 100])
def test_from_both(count: int, held: int) -> None:
    held = min(held, count // 2)
    mileposts = adopted(rows_of(count), held=held)
    assert mileposts.mapped_count == count - held
    answers_are_right(mileposts, rows_of(count))


@pytest.mark.parametrize("count", [10, 255, 300])
def test_a_page_that_was_not_full_is_read_again_when_it_has_grown(count: int) -> None:
    rows = rows_of(count + 40)
    mileposts = in_memory(rows)
    mileposts.adopt(file_of(rows), count)
    assert mileposts.entry_with(rows[count - 1].last_index) == count - 1
    mileposts.adopt(file_of(rows), count + 40)
    for n in range(count, count + 40):
        assert mileposts.entry_with(rows[n].last_index) == n


@pytest.mark.parametrize("count", COUNTS)
def test_from_a_file_that_grew(count: int) -> None:
    rows = rows_of(count + 300)
    mileposts = loaded(rows[:count])
    for row in rows[count:]:
        mileposts.extend(row.offset, [50], [row.last_index], row.time_ms, [row.flags])
    answers_are_right(mileposts, rows)
    mileposts.adopt(file_of(rows), len(rows))
    answers_are_right(mileposts, rows)


def test_rows_of_several_entries_that_came_together() -> None:
    mileposts = Mileposts()
    mileposts.extend(64, [10, 20, 30], [0, 4, 5], 7, [0, 2, 0])
    assert mileposts.rows(0, 3) == [Row(64, 0, 7, 0), Row(74, 4, 7, 2), Row(94, 5, 7, 0)]


def test_a_wrong_checksum_is_no_file() -> None:
    rows = rows_of(300)
    data = file_of(rows)
    crc = google_crc32c.value(data[HEADER_SIZE:])
    for place in (HEADER_SIZE, HEADER_SIZE + 299 * ROW_SIZE, len(data) - 1):
        damaged = bytearray(data)
        damaged[place] ^= 1
        mileposts = Mileposts()
        assert not mileposts.load(bytes(damaged), len(rows), crc)
        assert mileposts.count == 0
    # Bytes behind the rows that count do not count.
    assert Mileposts().load(data + b"more", len(rows), crc)


def test_the_checksum_goes_on_from_checkpoint_to_checkpoint() -> None:
    mileposts = in_memory(rows_of(500))
    first, rest = mileposts.tail_bytes(0, 200), mileposts.tail_bytes(200, 500)
    assert first + rest == mileposts.tail_bytes(0, 500)
    crc = google_crc32c.extend(google_crc32c.value(first), rest)
    assert crc == google_crc32c.value(mileposts.tail_bytes(0, 500))


def test_a_file_is_read_a_page_at_a_time() -> None:
    rows = rows_of(5_000)
    files = MemoryFiles({"m": file_of(rows)})
    mileposts = Mileposts()
    crc = google_crc32c.value(files.contents()["m"][HEADER_SIZE:])
    assert mileposts.load(FileBytes(files, "m"), len(rows), crc)
    before = files.faults.calls["read"]
    assert mileposts.entry_with(rows[4_000].last_index) == 4_000
    assert mileposts.row(4_000) == rows[4_000]
    assert mileposts.ends(4_001)[1] == rows[4_001].last_index
    assert files.faults.calls["read"] - before == 1
    assert ROWS_PER_PAGE * ROW_SIZE == 4096


def test_a_file_that_ends_early_is_named() -> None:
    files = MemoryFiles({"m": bytes(100)})
    assert FileBytes(files, "m")[10:20] == bytes(10)
    with pytest.raises(CorruptData, match="m: ends at byte 100"):
        FileBytes(files, "m")[90:110]
