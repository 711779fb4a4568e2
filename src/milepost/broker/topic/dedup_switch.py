"""Switches deduplication on or off while producers are connected.

Between two sends that are on their way a verdict cannot change: so those who publish are not read for the
moment that it takes, everything they sent becomes durable, and then the sequence ids begin to count, or stop.
Ids from before the switch mean nothing, as for a topic that begins with deduplication.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from milepost.broker.topic import dedup_state
from milepost.broker.topic.topic import Topic
from milepost.errors import PersistenceError

if TYPE_CHECKING:
    from milepost.broker.broker import Broker
    from milepost.broker.peer import Peer


async def switch(broker: Broker, topic: Topic) -> None:
    """Do as the topic's policies say; return when it is so."""
    held: set[Peer] = set()
    try:
        while topic.policies.deduplication is (topic.dedup is None):
            if topic.log.next_index != topic.log.end_index:
                await _quieten(broker, topic, held)
                continue  # a producer may have come in the meantime
            _hold(topic, held)
            if topic.policies.deduplication:
                await _begin(broker, topic, held)
            else:
                await _end(broker, topic)
    finally:
        for peer in held:
            peer.release()


def _hold(topic: Topic, held: set[Peer]) -> None:
    """Read nothing more of those who publish now."""
    for producer in topic.producers.values():
        if producer.peer not in held:
            held.add(producer.peer)
            producer.peer.hold()


async def _quieten(broker: Broker, topic: Topic, held: set[Peer]) -> None:
    """Let everything become durable, or be refused, that those have sent who publish now."""
    _hold(topic, held)
    with suppress(PersistenceError):  # who sent it is told, and a refused id means nothing
        await broker.engine.flush()


async def _begin(broker: Broker, topic: Topic, held: set[Peer]) -> None:
    engine = broker.engine
    topic_id = topic.row.topic_id
    found = await engine.catalog(
        lambda catalog: [
            state.state_id for state in catalog.states(topic_id) if state.kind == dedup_state.KIND
        ]
    )
    for state_id in found:  # what was known when it was last switched on
        await _forget(broker, state_id)
    state, begun = await dedup_state.begin(topic, engine)
    # A producer that came while the catalog was asked has sent without a verdict, and what of that is
    # not durable yet would never count.
    await dedup_state.restore(
        topic,
        state,
        begun,
        engine,
        broker.clock.monotonic(),
        quieten=partial(_quieten, broker, topic, held),
    )
    assert topic.dedup is not None
    for name in topic.producers:
        topic.dedup.opened(name)


async def _end(broker: Broker, topic: Topic) -> None:
    state_id, topic.dedup_state_id = topic.dedup_state_id, None
    topic.dedup = None
    if state_id is not None:
        await _forget(broker, state_id)


async def _forget(broker: Broker, state_id: int) -> None:
    sequence = broker.store.journal.last_sequence
    await broker.engine.catalog(lambda catalog: catalog.delete_state(state_id, sequence))
    broker.store.forget_state(state_id)
