"""Starts a broker: recovers its data directory and opens its ports."""

from __future__ import annotations

from milepost.broker.broker import Broker
from milepost.broker.connection.server import RunningBroker
from milepost.broker.settings.settings import Settings
from milepost.clock import Clock, SystemClock
from milepost.storage.engine import StorageEngine, open_store
from milepost.storage.journal.loop_commit import Shortcut
from milepost.storage.ledgers.log import RollPolicy


async def run_broker(settings: Settings, *, clock: Clock | None = None) -> RunningBroker:
    """Recover the data directory and listen."""
    clock = clock or SystemClock()
    store, lock = open_store(
        settings.data,
        clock,
        roll_policy=RollPolicy(
            settings.ledger_size_max, settings.ledger_entries_max, settings.ledger_age_max_s * 1000
        ),
        journal_size_max=settings.journal_size_max,
        journal_ahead=settings.journal_ahead_size,
        tail_size_max=settings.tail_cache_size,
    )
    engine = StorageEngine(store, lock, Shortcut(settings.journal_shortcut_s))
    try:
        broker = Broker(settings, engine, clock)
    except BaseException:
        await engine.close()
        raise
    running = RunningBroker(broker)
    try:
        await broker.start()
        await running.listen()
    except BaseException:
        await broker.close()
        raise
    return running
