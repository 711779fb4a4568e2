"""The tail cache: what is stored stays in memory while there is room."""

from __future__ import annotations

import pytest

from milepost.storage.ledgers import ledger as ledger_module
from milepost.storage.ledgers.entry import Block, NewEntry
from milepost.storage.ledgers.ledger import FOLDER, Ledger, LedgerRow
from milepost.storage.ledgers.tail import TailCache
from milepost.testing import MemoryFiles


def stored(ledger_id: int, blocks: int, files: MemoryFiles) -> tuple[Ledger, list[int]]:
    ledger = Ledger(LedgerRow(ledger_id, 1, 0, 0))
    for n in range(blocks):
        ledger.admit(Block.encode(ledger_id, n, n, 0, [NewEntry(b"x" * 52)]), files)
    flush = ledger.plan_flush(bytes(16))
    flush.perform(files)
    ledger.flushed(flush, files)
    return ledger, [len(block) for block in flush.blocks]


def test_the_oldest_blocks_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "JOINED_SIZE", 1)
    files = MemoryFiles(folders=[FOLDER])
    cache = TailCache(500)
    first, sizes = stored(1, 3, files)
    cache.keep(first, sizes)
    assert (sizes, cache.size_bytes, first.stored_blocks()) == ([100, 100, 100], 300, 3)
    second, sizes = stored(2, 4, files)
    cache.keep(second, sizes)
    assert (cache.size_bytes, first.stored_blocks(), second.stored_blocks()) == (500, 1, 4)
    assert first.plan_read(0, 1, 1, files).data is None
    assert first.plan_read(2, 3, 1, files).data is not None


def test_no_room_keeps_nothing() -> None:
    files = MemoryFiles(folders=[FOLDER])
    cache = TailCache(0)
    ledger, sizes = stored(1, 3, files)
    cache.keep(ledger, sizes)
    assert (cache.size_bytes, ledger.stored_blocks()) == (0, 0)


def test_what_is_not_stored_is_not_dropped() -> None:
    files = MemoryFiles(folders=[FOLDER])
    cache = TailCache(0)
    ledger, sizes = stored(1, 2, files)
    ledger.admit(Block.encode(1, 2, 2, 0, [NewEntry(b"new")]), files)
    cache.keep(ledger, sizes)
    assert ledger.plan_read(1, 2, 1, files).data is None
    assert ledger.plan_read(2, 3, 1, files).data is not None
