"""Overview: the progress of many subscriptions, trouble first.

Topics that nobody has used since the start are opened on the way: their subscriptions have a progress too.
Each line is one moment; between lines others have their turn, so that asking for a thousand of them delays
no publish by more than a few of them take.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from milepost.broker.progress import Progress, progress_of
from milepost.errors import NotFound

if TYPE_CHECKING:
    from milepost.broker.broker import Broker
    from milepost.broker.topic import Topic
    from milepost.positions.names import TopicName

# Lines made in one go.
LINES_PER_TURN: Final = 16


async def overview(
    broker: Broker, names: Iterable[TopicName], subscription: str | None = None
) -> list[Progress]:
    """Of these topics, all subscriptions or those of one name; in order of trouble, then of name."""
    lines: list[Progress] = []
    made = 0
    for name in names:
        try:
            topic = broker.topics.get(str(name)) or await broker.topic(name, create=False)
        except NotFound:
            continue  # deleted since it was listed, or a partition that was never used
        lines += lines_of(topic, broker.clock.wall_ms(), subscription)
        if len(lines) - made >= LINES_PER_TURN:
            made = len(lines)
            await asyncio.sleep(0)
    lines.sort(key=_by_trouble)
    return lines


def lines_of(topic: Topic, now_ms: int, subscription: str | None = None) -> Iterator[Progress]:
    for name, found in topic.subscriptions.items():
        if subscription is None or name == subscription:
            yield progress_of(found, now_ms)


def _by_trouble(line: Progress) -> tuple[int, int, str, int, str, str]:
    return (
        -line.verdict.severity,
        -line.backlog,
        line.subscription,
        line.partition,
        line.topic,
        line.member,
    )
