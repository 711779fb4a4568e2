"""Gives a partitioned topic more partitions, and each of them every subscription that the topic has.

A client hears of new partitions up to a minute later, and its consumers begin there at the latest message.
Had a subscription no cursor there from the start, what producers sent in that minute would be lost for it. So
count, topics and cursors become durable in one change of the catalog; upstream makes the cursors first.

    2 partitions, billing  ─▶ one transaction: 4 partitions, 2 and 3 with billing at index 0

A new partition may have been a topic of its own until now. It is opened first, for its end is where billing
begins in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.subscription.broadcast import BROADCAST
from milepost.broker.subscription.documents import CURSOR_STATE, NewSubscription
from milepost.cursor import snapshot
from milepost.cursor.cursor import Cursor
from milepost.errors import ServiceNotReady
from milepost.storage.catalog.catalog import Catalog, Doc, Snapshot, StateRow, TopicRow

if TYPE_CHECKING:
    from milepost.broker.broker import Broker
    from milepost.broker.topic.topic import Topic
    from milepost.positions.names import TopicName

# What a subscription on a new partition has of those on the others. Their resets are their own.
_SHARED_FIELDS = ("properties", "replicated", BROADCAST)
# How often topics that become partitions are opened, while operators unload them.
_OPENINGS_MAX = 10


async def grow(broker: Broker, name: TopicName, partitions: int) -> None:
    """More partitions; those that are there stay as they are."""
    with broker.directory.growing(name):
        await _grow(broker, name, partitions, await _open_topics(broker, name, partitions))


async def _grow(broker: Broker, name: TopicName, partitions: int, opened: list[Topic]) -> None:
    """`opened`: topics of their own that become partitions. Nothing suspends between their last look and
    the change, so that whatever opens one of them again finds what was made."""
    sequence, topic_doc = broker.store.journal.last_sequence, broker.first_doc()
    topics = {topic.row.topic_id: topic for topic in opened}
    begins = {number: _at_the_end(topic) for number, topic in topics.items()}
    taken = {number: {*one.subscriptions, *one.being_made} for number, one in topics.items()}
    first = snapshot.encode(Cursor(0, 0, at=0))
    made: list[tuple[StateRow, Snapshot]] = []

    def furnish(catalog: Catalog, before: int) -> list[TopicRow]:
        rows = []
        subscriptions = _subscriptions(catalog, name, before)
        for partition in map(name.partition_name, range(before, partitions)):
            if not subscriptions:
                break  # the first client to come makes it
            row = catalog.topic(str(partition))
            if row is None:
                row = catalog.create_topic(str(partition), topic_doc)
                rows.append(row)
            elif row.topic_id not in topics:
                raise ServiceNotReady(f"{partition} was made just now: try again")
            number = row.topic_id
            there = {*taken.get(number, ()), *_names(catalog, number)}
            for subscription, doc in subscriptions.items():
                if subscription not in there:
                    state = catalog.create_state(number, CURSOR_STATE, subscription, doc)
                    stored = Snapshot(sequence, begins.get(number, first), [])
                    catalog.put_snapshot(state.state_id, stored)
                    made.append((state, stored))
        return rows

    await broker.directory.grow_partitioned(name, partitions, furnish)
    for state, stored in made:
        topic = topics.get(state.topic_id)
        if topic is None or topic.is_closed or state.name in topic.subscriptions:
            continue  # the next opening finds it
        assert stored.data is not None, "made just now"
        new = NewSubscription(topic, state.name, snapshot.decode(stored.data), state.doc)
        broker.open_made(new, state, stored)


async def _open_topics(broker: Broker, name: TopicName, partitions: int) -> list[Topic]:
    """Open what there is under the names of the new partitions. Transactions do not take subscriptions that
    these get for others of the name, which were deleted."""
    directory = broker.directory
    before = directory.partitions(name)
    if before is None or not name.is_persistent:
        return []
    directory.check_count(name, partitions)
    for _ in range(_OPENINGS_MAX):
        topics = [
            await broker.topic(partition, create=False)
            for partition in map(name.partition_name, range(before, partitions))
            if directory.row(partition) is not None or str(partition) in broker.opening
        ]
        waited = [await broker.transactions.namesakes.let_go_of_deleted(one) for one in topics]
        if not any(waited) and not any(topic.is_closed for topic in topics):
            return topics
    raise ServiceNotReady(f"topics that become partitions of {name} are being unloaded")


def _at_the_end(topic: Topic) -> bytes:
    """The cursor of a subscription that begins behind all that a topic has."""
    end = topic.visible_end
    return snapshot.encode(Cursor(topic.log.first_index, end, at=end))


def _names(catalog: Catalog, topic_id: int) -> list[str]:
    """The durable subscriptions of a topic."""
    return [state.name for state in catalog.states(topic_id) if state.kind == CURSOR_STATE]


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
