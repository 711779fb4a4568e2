"""A backlog looked through, entry by entry: what upstream calls its analysis. Reads, and changes nothing.

Upstream counts the messages of every entry of which anything is not acked; here only those messages count
that are not acked, so the number is the backlog's own.

    found = await scan(subscription, from_index=0)     # Scan(entries=3, messages=30, markers=0, …)
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from milepost.broker.inspection import STEP_ENTRIES
from milepost.broker.subscription import Subscription
from milepost.positions.ids import Position
from milepost.storage.entry import MARKER


class Scan(NamedTuple):
    entries: int = 0
    messages: int = 0
    """Without system messages."""
    markers: int = 0
    first: Position | None = None
    last: Position | None = None


async def scan(subscription: Subscription, from_index: int) -> Scan:
    """What is not acked at this moment, from an index on."""
    log, cursor = subscription.topic.log, subscription.cursor
    ranges = list(cursor.backlog_ranges())
    entries = messages = markers = 0
    first = last = None
    for begin, end in ranges:
        index = max(begin, from_index)
        while index < end:
            # Somebody may have trimmed while others had their turn.
            found = log.entries_from(max(index, log.first_index), STEP_ENTRIES)
            for one in found:
                if one.span.first_index >= end:
                    break
                if one.position != last:
                    entries += 1
                first, last = first or one.position, one.position
                count = min(one.span.end_index, end) - max(one.span.first_index, index)
                if one.flags & MARKER:
                    markers += count
                else:
                    messages += count
            index = found[-1].span.end_index if found else end
            await asyncio.sleep(0)
    return Scan(entries, messages, markers, first, last)
