"""Starts a broker: recovers its data directory, or its bucket, and opens its ports."""

from __future__ import annotations

import socket
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from milepost.broker.broker import Broker
from milepost.broker.connection.server import RunningBroker
from milepost.broker.settings.settings import Settings
from milepost.broker.workers.workers import Place, Workers
from milepost.clock import Clock, SystemClock
from milepost.storage.engine import StorageEngine, open_store
from milepost.storage.journal.loop_commit import Shortcut
from milepost.storage.ledgers.log import RollPolicy
from milepost.storage.shards import check_one, first_ledger_id

if TYPE_CHECKING:
    from milepost.storage.bucket.objects import Objects


async def run_broker(
    settings: Settings, *, clock: Clock | None = None, place: Place | None = None
) -> RunningBroker:
    """Recover what is stored, and listen. With a `place` this is one of several workers."""
    clock = clock or SystemClock()
    engine = await _open_storage(settings, clock, place)
    try:
        broker = Broker(settings, engine, clock, _workers(settings, place))
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


def _workers(settings: Settings, place: Place | None) -> Workers | None:
    if place is None:
        return None
    if place.seat is None:
        return Workers(place)
    from milepost.storage.cluster.registry import BucketRegistry

    return Workers(place, partial(BucketRegistry, _objects(settings)))


def _objects(settings: Settings) -> Objects:
    # Loaded by those that use it: it needs a package that others have no use for.
    from milepost.storage.bucket.stores import open_objects

    return open_objects(
        settings.bucket, endpoint=settings.bucket_endpoint, region=settings.bucket_region
    )


async def _open_storage(settings: Settings, clock: Clock, place: Place | None) -> StorageEngine:
    shard = 0 if place is None else place.placement.own
    options: dict[str, Any] = {
        "roll_policy": RollPolicy(
            settings.ledger_size_max, settings.ledger_entries_max, settings.ledger_age_max_s * 1000
        ),
        "journal_size_max": settings.journal_size_max,
        "tail_size_max": settings.tail_cache_size,
    }
    check_one(settings.data)
    if settings.bucket:
        from milepost.storage.bucket.start import ShardSeat, open_bucket
        from milepost.storage.cluster.document import shard_prefix
        from milepost.storage.cluster.part import PartObjects

        objects, owner, seat = _objects(settings), f"{socket.gethostname()}-{uuid4().hex[:8]}", None
        if place is not None and place.seat is not None:
            assert place.seat.epoch is not None, "its owner has not handed it over yet"
            objects, owner = PartObjects(objects, shard_prefix(shard)), place.seat.broker
            seat = ShardSeat(place.seat.epoch, place.seat.right)
        return await open_bucket(
            objects,
            settings.bucket,
            settings.data,
            clock,
            cluster=settings.cluster_name,
            owner=owner,
            linger_s=settings.bucket_linger_s,
            cache_size=settings.bucket_cache_size,
            seat=seat,
            first_ledger_id=first_ledger_id(shard),
            **options,
        )
    store, lock = open_store(
        settings.data,
        clock,
        journal_ahead=settings.journal_ahead_size,
        first_ledger_id=first_ledger_id(shard),
        **options,
    )
    return StorageEngine(store, lock, Shortcut(settings.journal_shortcut_s))
