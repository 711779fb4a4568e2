"""Gives entries to a consumer as they are stored, many in one frame.

One step of the cursor and one frame for all of them, with the permits, counts and rates of single frames.
Only what has nothing special about it goes so: entries that the storage calls plain, every message of them
ready and never released before, to the one consumer of its subscription that asked for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.dispatch.frames import stored_run_frame

if TYPE_CHECKING:
    from milepost.broker.subscription.subscription import Subscription
    from milepost.cursor.cursor import Cursor
    from milepost.storage.ledgers.stored_run import StoredRun


def offer(subscription: Subscription, run: StoredRun, data: bytes, epoch: int) -> bool:
    """Send entries that were read under an epoch of the cursor. False: the consumer may not have all of
    them any more, and they are to be offered as others are."""
    cursor, dispatcher = subscription.cursor, subscription.dispatcher
    consumer = None if dispatcher is None else dispatcher.run_consumer()
    if consumer is None or epoch != cursor.epoch:
        return False
    if consumer.permits < run.end_index - run.first_index or not _comes_next(cursor, run):
        return False
    went = cursor.deliver(run.first_index, run.end_index, consumer.holder)
    frames = stored_run_frame(consumer, run, data)
    subscription.delivered(consumer, went, frames, run.entries, run.payload_size)
    return True


def _comes_next(cursor: Cursor, run: StoredRun) -> bool:
    """Is all of the run ready, nothing before it, and none of it released before?"""
    first, end = run.first_index, run.end_index
    return cursor.next_ready(0, end - first) == (first, end) and cursor.redelivery_run(
        first, end
    ) == (0, end)
