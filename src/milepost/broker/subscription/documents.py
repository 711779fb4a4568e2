"""What the catalog stores of a subscription beside its cursor: properties, resets, idle since.

Properties, resets, whether one is to be replicated, since when it is idle (`parts.py` says what). Written as
a whole, so that two changes on their way do not undo each other.

    subscription.is_replicated = True
    await save(broker.engine, [subscription])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from milepost.broker.subscription.subscription import Subscription
    from milepost.storage.catalog.catalog import Catalog
    from milepost.storage.engine import StorageEngine


async def save(
    engine: StorageEngine,
    subscriptions: Iterable[Subscription],
    undo: Callable[[], None] | None = None,
) -> None:
    """Store all of them or none; without those that were deleted meanwhile.

    `undo` takes back in memory what could not be stored.
    """
    docs = {one.state_id: one.doc() for one in subscriptions if one.state_id is not None}

    def store(catalog: Catalog) -> None:
        for state_id, doc in docs.items():
            if catalog.state_by_id(state_id) is not None:
                catalog.set_state(state_id, doc)

    if docs:
        await engine.catalog(store, undo=undo)
