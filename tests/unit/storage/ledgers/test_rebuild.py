"""Mileposts made again: exact where entries are intact, and one damaged entry costs one."""

from __future__ import annotations

import pytest

from milepost.storage.header import HEADER_SIZE, LEDGER, FileHeader
from milepost.storage.ledgers import rebuild as rebuild_module
from milepost.storage.ledgers.entry import HEADER_SIZE as ENTRY_HEADER_SIZE
from milepost.storage.ledgers.entry import Block, NewEntry
from milepost.storage.ledgers.ledger import LedgerRow
from milepost.storage.ledgers.mileposts import Row
from milepost.storage.ledgers.rebuild import rebuild
from milepost.testing import MemoryFiles

PATH = "ledger"
FIRST_INDEX, FIRST_TIME_MS = 1_000, 1_700_000_000_000
COUNTS = [1, 3, 1, 20, 2]


@pytest.fixture(params=[4 * 1024 * 1024, 100, 64])
def read_size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """However little is read at a time, the rows are the same."""
    monkeypatch.setattr(rebuild_module, "READ_SIZE", request.param)


def ledger() -> tuple[bytes, LedgerRow, list[Row]]:
    header = FileHeader(LEDGER, bytes(16), 7, 1, FIRST_INDEX, FIRST_TIME_MS)
    data = header.encode()
    index, rows = FIRST_INDEX, []
    for n, count in enumerate(COUNTS):
        item = NewEntry(b"payload %d" % n * n, count, n % 3, b"beside" if n == 2 else b"")
        block = Block.encode(7, n, index, FIRST_TIME_MS + 10 * n, [item])
        index += count
        rows.append(Row(len(data), index - 1 - FIRST_INDEX, 10 * n, n % 3))
        data += block.data
    row = LedgerRow(7, 1, FIRST_INDEX, FIRST_TIME_MS, 5, index, FIRST_TIME_MS + 40, len(data))
    return data, row, rows


@pytest.mark.usefixtures("read_size")
def test_every_row_is_as_it_was() -> None:
    data, row, rows = ledger()
    assert rebuild(MemoryFiles({PATH: data}), PATH, row).rows(0, 5) == rows


def test_bytes_behind_what_is_stored_do_not_count() -> None:
    data, row, rows = ledger()
    more = Block.encode(7, 5, row.end_index, FIRST_TIME_MS + 50, [NewEntry(b"unknown")]).data
    assert rebuild(MemoryFiles({PATH: data + more}), PATH, row).rows(0, 5) == rows


@pytest.mark.usefixtures("read_size")
@pytest.mark.parametrize("damaged", range(5))
def test_a_flipped_bit_costs_its_entry_only(damaged: int) -> None:
    """Wherever in the entry: offsets and last indexes of all stay exact, even its own."""
    data, row, rows = ledger()
    end = [*(r.offset for r in rows[1:]), len(data)][damaged]
    for place in range(rows[damaged].offset, end):
        for bit in (0, 7):
            content = bytearray(data)
            content[place] ^= 1 << bit
            found = rebuild(MemoryFiles({PATH: bytes(content)}), PATH, row).rows(0, 5)
            assert [r.offset for r in found] == [r.offset for r in rows]
            assert [r.last_index for r in found] == [r.last_index for r in rows]
            assert found[:damaged] + found[damaged + 1 :] == rows[:damaged] + rows[damaged + 1 :]


@pytest.mark.usefixtures("read_size")
def test_several_in_a_row_keep_their_outer_bounds() -> None:
    data, row, rows = ledger()
    content = data[: rows[1].offset] + bytes(rows[4].offset - rows[1].offset)
    found = rebuild(MemoryFiles({PATH: content + data[rows[4].offset :]}), PATH, row).rows(0, 5)
    assert (found[0], found[4]) == (rows[0], rows[4])
    assert found[1].offset == rows[1].offset
    assert found[3].last_index == rows[3].last_index
    assert sorted(r.last_index for r in found) == [r.last_index for r in found]


@pytest.mark.usefixtures("read_size")
@pytest.mark.parametrize("size", [0, 10, HEADER_SIZE, HEADER_SIZE + ENTRY_HEADER_SIZE + 1, 200])
def test_a_file_cut_short_costs_what_is_gone(size: int) -> None:
    data, row, rows = ledger()
    found = rebuild(MemoryFiles({PATH: data[:size]}), PATH, row).rows(0, 5)
    ends = [*(r.offset for r in rows[1:]), len(data)]
    intact = len([end for end in ends if end <= size])
    assert found[:intact] == rows[:intact]
    assert found[-1].last_index == rows[-1].last_index


def test_a_missing_file_still_tells_how_many_entries_were_lost() -> None:
    _, row, rows = ledger()
    found = rebuild(MemoryFiles(), PATH, row)
    assert found.count == 5
    assert found.row(4).last_index == rows[4].last_index


def test_an_entry_of_another_ledger_is_not_taken() -> None:
    """A misdirected write: intact bytes of the same size that belong elsewhere."""
    data, row, rows = ledger()
    other = Block.encode(8, 1, FIRST_INDEX + 1, FIRST_TIME_MS + 10, [NewEntry(b"payload 1", 3, 1)])
    content = data[: rows[1].offset] + other.data + data[rows[2].offset :]
    assert len(content) == len(data)
    found = rebuild(MemoryFiles({PATH: content}), PATH, row).rows(0, 5)
    assert found[1] == Row(rows[1].offset, rows[1].last_index, 0, 0)
    assert found[2:] == rows[2:]
