"""The progress of many subscriptions in order of trouble, as `milepost progress` shows it."""

from __future__ import annotations

from collections.abc import Iterable

from milepost.broker.broker import Broker
from milepost.broker.monitoring.overview import survey, trouble
from milepost.broker.monitoring.progress import Progress
from milepost.positions.names import TopicName


async def overview(
    broker: Broker, names: Iterable[TopicName], subscription: str | None = None
) -> list[Progress]:
    """Of these topics, all subscriptions or those of one name; in order of trouble, then of name."""
    return sorted([line async for line in survey(broker, names, subscription)], key=trouble)
