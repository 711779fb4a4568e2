"""Awaits what the journal answers: that something is on disk, or why not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from milepost.broker.operations import moving
from milepost.errors import MilepostError, OutcomeUnknown
from milepost.positions.ranges import Range

if TYPE_CHECKING:
    from milepost.broker.broker import Broker
    from milepost.broker.subscription.subscription import Subscription

Done = Callable[[MilepostError | None], None]


async def durable(begin: Callable[[Done], None]) -> None:
    """Begin something, and return when that is on disk; raise the reason if it is not."""
    answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def done(error: MilepostError | None) -> None:
        if answer.done():
            return  # the client is gone
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(None)

    begin(done)
    await answer


async def moved(
    broker: Broker,
    subscription: Subscription,
    ranges: Sequence[Range],
    publish: Callable[[], tuple[int, asyncio.Future[None]]],
    in_doubt: Callable[[], None],
    epoch: int | None = None,
) -> None:
    """Publish a message elsewhere and ack it here, as one; return when both are on disk.

    `publish` says the last index, -1 if it was refused, and what is done when it is stored. `in_doubt` is
    called if the disk does not say whether it has the record.
    """
    published: list[asyncio.Future[None]] = []

    def submit() -> bool:
        at, stored = publish()
        published.append(stored)
        return at >= 0

    def begin(done: Done) -> None:
        def heard(error: MilepostError | None) -> None:
            if isinstance(error, OutcomeUnknown):
                in_doubt()
            done(error)

        moving.move(subscription, ranges, submit, broker.store, heard, epoch=epoch)

    try:
        await durable(begin)
    except MilepostError:
        if published and published[0].done():
            published[0].result()  # what the topic says is nearer to the reason
        raise
