"""Stores the sequence ids of producers, and loads them when the topic opens.

Little is journaled for them: an entry says by itself whose it is and which sequence id it has. A
checkpoint keeps a snapshot with the end of the log that it speaks of; what lies behind that is read
again when the topic is opened. Entries that are trimmed before a checkpoint has seen them can say nothing
any more: so the whole state is journaled first (`keep`).

    restore(topic, row, stored, engine, now)  ─▶  snapshot ─▶ entries since ─▶ topic.dedup
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from milepost.broker.topic.dedup import Dedup
from milepost.broker.topic.topic import Topic
from milepost.errors import PersistenceError
from milepost.storage.catalog.catalog import Snapshot, StateRow
from milepost.storage.interface import Catalog, Engine, Store
from milepost.storage.ledgers.entry import Entry
from milepost.wire.metadata import chunk_info, split_entry

KIND = "dedup"


async def begin(topic: Topic, engine: Engine) -> tuple[StateRow, Snapshot]:
    """Looking for duplicates begins now; ids of entries stored before mean nothing.

    Where it begins is durable at once: or it would begin again after a crash before the first
    checkpoint, with nothing known of what was stored since.
    """
    begun = Snapshot(engine.store.journal.last_sequence, Dedup().snapshot(topic.log.end_index), [])

    def create(catalog: Catalog) -> StateRow:
        row = catalog.create_state(topic.row.topic_id, KIND, "", {})
        catalog.put_snapshot(row.state_id, begun)
        return row

    return await engine.catalog(create), begun


async def restore(
    topic: Topic,
    state: StateRow,
    stored: Snapshot,
    engine: Engine,
    now: float,
    *,
    quieten: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Give the topic its sequence ids: as of the last checkpoint, and what the entries since say.

    `quieten`, for a topic that is in use, lets what is on its way to the log become durable.
    """
    store, log = engine.store, topic.log
    cell: list[tuple[Dedup, int]] = []

    def take_snapshot() -> bytes:
        dedup, replayed_end = cell[0]
        # While entries are still being read, those that follow are not known yet.
        return dedup.snapshot(replayed_end if topic.dedup is None else log.end_index)

    found = store.open_state(state.state_id, take_snapshot, stored)
    assert found.data is not None, f"dedup of {topic.name} was made without a snapshot"
    try:
        dedup, index = Dedup.restore(found.data, now)
        cell.append((dedup, index))
        index = max(index, log.first_index)
        while True:
            if index >= log.end_index:
                if quieten is None or log.end_index == log.next_index:
                    break
                await quieten()
                continue
            plan = await engine.look(
                lambda at=index: log.plan_read(log.locate(at).position)  # type: ignore[misc]
            )
            for entry in await engine.read(plan):
                _replay(dedup, entry, now)
                index = entry.last_index + 1
            cell[0] = (dedup, index)
    except BaseException:
        store.put_back_state(state.state_id, found)
        raise
    topic.dedup = dedup
    topic.dedup_state_id = state.state_id


async def keep(topic: Topic, store: Store, before_index: int) -> None:
    """Make durable what the entries below an index say, which are about to be trimmed."""
    state_id, going = topic.dedup_state_id, topic.log.trimmable(before_index)
    if state_id is None or not any(ledger.is_dirty for ledger in going):
        return
    topic.check_open()  # else its state is the next opening's
    kept = asyncio.get_running_loop().create_future()

    def heard(error: PersistenceError | None) -> None:
        if not kept.done():
            kept.set_exception(error) if error else kept.set_result(None)

    store.keep_state(state_id, heard)
    await kept


def _replay(dedup: Dedup, entry: Entry, now: float) -> None:
    metadata = split_entry(bytes(entry.payload)).metadata
    if not metadata.HasField("marker_type"):
        dedup.replay(
            metadata.producer_name,
            metadata.sequence_id,
            metadata.highest_sequence_id,
            chunk_info(metadata),
            now=now,
        )
