"""Runs a compaction: reads the topic, stores which messages are kept.

The first run reads everything; later ones read what the last one kept, and what came since. It works in
short slices and rests between them, so that producers hardly notice.

    start(broker, topic)  ─▶ NOT_RUN | RUNNING ─▶ SUCCESS, `topic.compacted` | ERROR, the old one stays
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from milepost.broker.limits.time_slices import TimeSlices
from milepost.broker.messages.chunked import PATIENCE_S
from milepost.broker.messages.compacted import Compacted
from milepost.broker.messages.compactor import Compactor
from milepost.errors import Busy, ServiceNotReady
from milepost.positions.ranges import IndexRanges
from milepost.storage.catalog.catalog import Snapshot
from milepost.storage.interface import Catalog, Log
from milepost.storage.ledgers.entry import LAST_CHUNK, Entry
from milepost.storage.ledgers.ledger import ReadPlan

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from milepost.broker.broker import Broker
    from milepost.broker.topic.topic import Topic
    from milepost.positions.ranges import Range

logger = logging.getLogger(__name__)

STATE: Final = "compacted"
# Entries and bytes in one read: it is unpacked in one go, while the loop does nothing else.
READ_ENTRIES_MAX: Final = 64
READ_SIZE_MAX: Final = 128 * 1024
# Between two rests: a million messages take a third of a minute, and producers hardly notice.
WORK_S: Final = 0.00025


def start(broker: Broker, topic: Topic) -> None:
    """Begin a run; `Busy` if one is under way."""
    runs = topic.compactions
    if runs.status == "RUNNING":
        raise Busy(f"compaction of {topic.name} is already running")
    runs.status = "RUNNING"
    broker.spawn(run(broker, topic))


async def run(broker: Broker, topic: Topic) -> None:
    """Compact a topic; how it went is told by `topic.compactions`."""
    runs, began = topic.compactions, broker.clock.monotonic()
    try:
        looked_at = await _compact(broker, topic)
    except Exception as error:  # the topic goes on with its last compaction
        logger.warning("compaction of %s: %s", topic.name, error)
        runs.status, runs.last_error = "ERROR", str(error)
        runs.failed_ms = broker.clock.wall_ms()
        return
    assert topic.compacted is not None
    runs.status, runs.last_error = "SUCCESS", ""
    runs.succeeded_ms = broker.clock.wall_ms()
    runs.took_ms = round((broker.clock.monotonic() - began) * 1000)
    runs.removed = looked_at - topic.compacted.kept.count


async def _compact(broker: Broker, topic: Topic) -> int:
    """One run; returns how many messages it looked at."""
    compactor, horizon = Compactor(topic.compacted), topic.visible_end

    slices = TimeSlices(broker.clock, WORK_S)
    async for entries in _entries(broker, topic, horizon):
        chunks = {
            entry.last_index: await _chunk_ranges(broker, topic, entry)
            for entry in entries
            if entry.flags & LAST_CHUNK
        }
        for _ in compactor.take_entries(entries, partial(_found, chunks)):
            if slices.is_over:
                await slices.rest()
    kept = IndexRanges()
    oldest_ms = broker.clock.wall_ms() - PATIENCE_S * 1000
    for _ in compactor.gather(kept, oldest_ms=oldest_ms):
        if slices.is_over:
            await slices.rest()
    await _keep(broker, topic, Compacted(horizon, kept))
    return compactor.messages


def _found(chunks: dict[int, list[Range]], last: Entry) -> list[Range]:
    return chunks[last.last_index]


async def _chunk_ranges(broker: Broker, topic: Topic, last: Entry) -> list[Range]:
    """The chunks before the last one of a message, as far as they are retained."""
    return await broker.engine.look(lambda: topic.chunk_ranges(last.ledger_id, last.entry_id))


async def _entries(broker: Broker, topic: Topic, horizon: int) -> AsyncIterator[list[Entry]]:
    """What decides, in order: of what was compacted before, the kept; of the rest, everything."""
    log, before = topic.log, topic.compacted
    index = log.first_index
    while True:
        index = max(index, log.first_index)
        if before is not None:
            index = before.next_kept(index)
        if index >= horizon:
            return
        plan = await broker.engine.look(lambda at=index: _plan(log, at))  # type: ignore[misc]
        read = await broker.engine.read(plan)
        entries = [
            entry
            for entry in read
            if entry.last_index < horizon
            and not topic.is_hidden(entry.last_index)
            and (before is None or before.next_kept(entry.span.first_index) <= entry.last_index)
        ]
        yield entries
        index = read[-1].last_index + 1


def _plan(log: Log, index: int) -> ReadPlan:
    return log.plan_read(
        log.locate(index).position, entries_max=READ_ENTRIES_MAX, size_max=READ_SIZE_MAX
    )


async def _keep(broker: Broker, topic: Topic, compacted: Compacted) -> None:
    """Durable first, then in force for consumers that read compacted."""
    if topic.is_closed:
        raise ServiceNotReady(f"{topic.name} was closed meanwhile")
    data = compacted.encode()

    def change(catalog: Catalog) -> None:
        states = [s for s in catalog.states(topic.row.topic_id) if s.kind == STATE]
        row = states[0] if states else catalog.create_state(topic.row.topic_id, STATE, "", {})
        catalog.put_snapshot(row.state_id, Snapshot(0, data, []))

    await broker.engine.catalog(change)
    topic.compacted = compacted
    for subscription in topic.subscriptions.values():
        subscription.rescan()


def restore(topic: Topic, stored: Snapshot) -> None:
    """What an earlier process has left of the topic."""
    assert stored.data is not None, f"a compaction of {topic.name} was stored without its result"
    topic.compacted = Compacted.decode(stored.data)
