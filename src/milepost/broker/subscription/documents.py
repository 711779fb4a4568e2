"""What the catalog stores of a subscription beside its cursor: properties, resets, idle since.

`Subscription.doc` says what. It is written as a whole: two changes on their way do not undo each other.

    subscription.is_replicated = True
    await save(broker.engine, [subscription])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from milepost.broker.subscription.subscription import Subscription
    from milepost.broker.topic.topic import Topic
    from milepost.cursor.cursor import Cursor
    from milepost.storage.interface import Catalog, Engine

CURSOR_STATE: Final = "cursor"
"""The kind of a subscription's state in the catalog."""


class NewSubscription(NamedTuple):
    """One that is to be made."""

    topic: Topic
    name: str
    cursor: Cursor
    doc: dict[str, Any]


async def save(
    engine: Engine,
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
