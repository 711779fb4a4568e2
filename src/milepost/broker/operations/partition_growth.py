"""Gives a partitioned topic more partitions, and each of them every subscription that the topic has.

A client hears of new partitions up to a minute later, and its consumers begin there at the latest message.
Had a subscription no cursor there from the start, what producers sent in that minute would be lost for it. So
count, topics and cursors become durable in one change of the catalog; upstream makes the cursors first.

    2 partitions, billing  ─▶ one transaction: 4 partitions, 2 and 3 with billing at index 0
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.subscription.broadcast import BROADCAST
from milepost.broker.subscription.documents import CURSOR_STATE
from milepost.cursor import snapshot
from milepost.cursor.cursor import Cursor
from milepost.cursor.group import Start
from milepost.storage.catalog.catalog import Catalog, Doc, Snapshot, TopicRow

if TYPE_CHECKING:
    from milepost.broker.broker import Broker
    from milepost.positions.names import TopicName

# What a subscription on a new partition has of those on the others. Their resets are their own.
_SHARED_FIELDS = ("properties", "replicated", BROADCAST)


async def grow(broker: Broker, name: TopicName, partitions: int) -> None:
    """More partitions; those that are there stay as they are."""
    sequence = broker.store.journal.last_sequence
    first = snapshot.encode(Cursor(0, 0, at=0))
    topic_doc = broker.first_doc()
    subscriptions: dict[str, Doc] = {}
    had: list[TopicName] = []

    def furnish(catalog: Catalog, before: int) -> list[TopicRow]:
        subscriptions.update(_subscriptions(catalog, name, before))
        rows = []
        for partition in map(name.partition_name, range(before, partitions)):
            if not subscriptions:
                break  # the first client to come makes it
            if catalog.topic(str(partition)) is not None:
                had.append(partition)  # it was a topic of its own until now
                continue
            row = catalog.create_topic(str(partition), topic_doc)
            for subscription, doc in subscriptions.items():
                state = catalog.create_state(row.topic_id, CURSOR_STATE, subscription, doc)
                catalog.put_snapshot(state.state_id, Snapshot(sequence, first, []))
            rows.append(row)
        return rows

    await broker.directory.grow_partitioned(name, partitions, furnish)
    for partition in had:
        topic = await broker.topic(partition)
        for subscription, doc in subscriptions.items():
            if subscription not in topic.subscriptions:
                start = Start(doc[BROADCAST]["start"]) if BROADCAST in doc else None
                await broker.create_subscription(
                    topic, subscription, topic.log.end_index, doc["properties"], broadcast=start
                )


def _subscriptions(catalog: Catalog, name: TopicName, partitions: int) -> dict[str, Doc]:
    """The durable subscriptions of any partition, and what a new one of each is to have."""
    if not name.is_persistent:
        return {}
    found: dict[str, Doc] = {}
    for partition in map(name.partition_name, range(partitions)):
        row = catalog.topic(str(partition))
        for state in () if row is None else catalog.states(row.topic_id):
            if state.kind == CURSOR_STATE and state.name not in found:
                doc = {key: state.doc[key] for key in _SHARED_FIELDS if key in state.doc}
                found[state.name] = {"properties": {}, **doc}
    return found
