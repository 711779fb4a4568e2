"""The strip of a subscription: its indexes in columns, and single messages with their holders.

    columns = await columns_of(subscription, 0, 10_000_000, 1200, slices)   # exact, of one moment
    marks = await marks_of(subscription, 4711, 4731, broker)                # one line a message

Columns are counted in slices from a copy of the cursor's sets (`cursor/strip.py`): publishing goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from milepost.broker.limits.time_slices import TimeSlices
from milepost.broker.messages.browse import Filter, browse
from milepost.broker.messages.message_view import MessageView
from milepost.broker.monitoring.progress import id_text
from milepost.broker.subscription.broadcast import BroadcastGroup
from milepost.cursor.cursor import TRANSACTIONS
from milepost.cursor.strip import Columns
from milepost.positions.spans import Span

if TYPE_CHECKING:
    from milepost.broker.broker import Broker
    from milepost.broker.subscription.subscription import Subscription

COLUMNS_MAX: Final = 2000
MARKS_MAX: Final = 200


class Mark(NamedTuple):
    """One message on a strip."""

    index: int  # type: ignore[assignment]  # in place of tuple.index, which has no use here
    id: str
    state: str
    """`acked`, `inflight`, `ready`, `delayed`, `trimmed`."""
    holder: str
    """The consumer that has it, or "a transaction"; empty if none has."""
    deliveries: int
    """How often it was delivered and not acked, as far as that is counted."""
    age_ms: int
    """Since it came; 0 for one that is trimmed."""
    key: str | None
    size: int
    """Of its payload; -1 for what is no message that consumers see."""


async def columns_of(
    subscription: Subscription, first: int, end: int, count: int, slices: TimeSlices
) -> Columns:
    """How many indexes of each column are in which state."""
    if isinstance(subscription, BroadcastGroup):
        subscription.settle()
    strip = subscription.cursor.strip()
    columns = strip.empty(first, end, count)
    for _ in strip.fill(columns):
        if slices.is_over:
            await slices.rest()
    return columns


async def marks_of(subscription: Subscription, first: int, end: int, broker: Broker) -> list[Mark]:
    """Of each index that is there; of MARKS_MAX at most."""
    cursor, topic = subscription.cursor, subscription.topic
    end = min(end, cursor.end, first + MARKS_MAX)
    if first >= end:
        return []
    slices = TimeSlices(broker.clock)
    read = await browse(
        topic, first, Filter(), count=end - first, slices=slices, disk=broker.engine
    )
    messages = {one.index: one for one in read.messages}
    # From here on one step: the states are of one moment.
    return await broker.engine.look(
        lambda: _marks(subscription, first, end, messages, broker.clock.wall_ms())
    )


def _marks(
    subscription: Subscription,
    first: int,
    end: int,
    messages: dict[int, MessageView],
    now_ms: int,
) -> list[Mark]:
    cursor, topic = subscription.cursor, subscription.topic
    strip = cursor.strip()
    names = {one.holder: one.name for one in subscription.consumers}
    names[TRANSACTIONS] = "a transaction"
    marks = []
    for index in range(first, min(end, cursor.end)):
        holder = cursor.holder_of(index)
        message = messages.get(index)
        marks.append(
            Mark(
                index,
                message.id if message is not None else id_text(topic, index),
                strip.state_of(index),
                "" if holder is None else names.get(holder, ""),
                cursor.redelivery_count(Span(index, 1)) + (holder is not None),
                0 if message is None else max(now_ms - message.came_ms, 0),
                None if message is None else message.key,
                -1 if message is None else message.size,
            )
        )
    return marks
