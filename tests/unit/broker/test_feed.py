"""What a feed read last serves the other subscriptions of the topic."""

from __future__ import annotations

from milepost.broker.feed import LastRead
from milepost.storage.entry import Block, Entry, NewEntry
from milepost.storage.log import Log


class NoOwner:
    """A log of which only the identity matters."""


def log() -> Log:
    return Log(1, "topic", [], NoOwner())  # type: ignore[arg-type]


def entries() -> list[Entry]:
    """Indexes 10, 11 to 13, 14, 15 to 19."""
    items = [NewEntry(b"x", count) for count in (1, 3, 1, 5)]
    return Block.encode(7, 0, 10, 0, items).entries()


def test_as_much_is_found_as_was_read() -> None:
    last_read, mine = LastRead(), log()
    assert last_read.find(mine, 0, 99) == ()
    read = entries()
    last_read.keep(mine, read)
    for index in range(8, 22):
        for end_index in range(index + 1, 24):
            wanted = [e for e in read if e.last_index >= index and e.span.first_index < end_index]
            if not 10 <= index < 20:
                wanted = []
            assert list(last_read.find(mine, index, end_index)) == wanted, (index, end_index)


def test_another_log_has_other_entries() -> None:
    last_read, mine, other = LastRead(), log(), log()
    last_read.keep(mine, entries())
    assert last_read.find(other, 10, 20) == ()
    last_read.keep(other, entries())
    assert last_read.find(mine, 10, 20) == ()
    assert len(last_read.find(other, 10, 20)) == 4
