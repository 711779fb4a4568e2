"""What a topic has lost, and how it goes on without that when an operator accepts it.

Three things may be gone, each remembered where it is met:

    messages      a ledger's file was cut, or the journal lost entries: the catalog remembers it, and the
                  topic takes no messages until it is accepted
    an entry      a read met one that is damaged: the topic goes on, and remembers it while it is open
    progress      the journal lost a fact of a subscription: the topic cannot be opened until that is
                  accepted; then the subscription is where it was before that fact

What is accepted is done for every subscription: no consumer could ever ack it, and it would keep everything
behind it from being forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.topic.topic import Topic
from milepost.errors import CorruptData, NotFound, PreconditionFailed, TopicNotFound
from milepost.positions.names import TopicName
from milepost.positions.ranges import IndexRanges
from milepost.positions.spans import Span
from milepost.storage.catalog.catalog import Catalog, Snapshot, StateRow
from milepost.storage.ledgers.loss import Loss as _Loss

if TYPE_CHECKING:
    from milepost.broker.broker import Broker

Loss = _Loss

# The ledger of a loss that is of no ledger: of a subscription's progress.
NO_LEDGER = -1


async def find(broker: Broker, name: TopicName) -> list[Loss]:
    """What a topic has lost, as far as it is known, and no operator has accepted."""
    lost = [_of_state(broker, state) for state, _ in await _damaged_states(broker, name)]
    if lost:
        return lost
    topic = await broker.topic(name, create=False)
    return [*broker.store.losses.get(topic.row.topic_id, ()), *await _struck(broker, topic)]


async def accept(broker: Broker, name: TopicName) -> list[Loss]:
    """Let a topic go on without what it has lost; what that is.

    `PreconditionFailed` if it has lost nothing, or if it cannot be told what: then the journal still holds
    a part of it, and only a copy brings the rest back.
    """
    states = await _damaged_states(broker, name)
    lost = [_of_state(broker, state) for state, _ in states]
    if states:
        broker.store.accept_damage({state.state_id: stored for state, stored in states})
        await broker.engine.checkpoint()
    topic = await broker.topic(name, create=False)
    log = topic.log
    if log.damage is not None:
        raise PreconditionFailed(
            f"{topic.name} is damaged in a way that cannot be accepted: {log.damage}; restore the data "
            "directory from a copy, or delete the topic"
        )
    struck = await _struck(broker, topic)
    if log.loss is None and not struck and not lost:
        raise PreconditionFailed(f"{topic.name} has lost nothing")
    # First: once it is accepted no request can ask for it again.
    gone = [*broker.store.losses.get(topic.row.topic_id, ()), *struck]
    ranges = [(loss.first_index, loss.end_index) for loss in gone]
    for subscription in topic.subscriptions.values():
        subscription.pass_over(ranges)
        subscription.flush_acks()
    await broker.engine.flush()
    for first, end in ranges:
        topic.unreadable.discard(first, end)
    if log.loss is not None:
        lost += await broker.engine.accept_loss(topic.row.topic_id)
    return [*lost, *struck]


async def _damaged_states(broker: Broker, name: TopicName) -> list[tuple[StateRow, Snapshot]]:
    row = broker.directory.row(name)
    if row is None:
        raise TopicNotFound(f"topic {name} does not exist")
    topic_id, damaged = row.topic_id, broker.store.damaged_states
    if not damaged:
        return []

    def look(catalog: Catalog) -> list[tuple[StateRow, Snapshot]]:
        return [(state, catalog.snapshot(state.state_id)) for state in catalog.states(topic_id)]

    return [one for one in await broker.engine.catalog(look) if one[0].state_id in damaged]


def _of_state(broker: Broker, state: StateRow) -> Loss:
    reason = broker.store.damaged_states[state.state_id]
    told = f"{state.kind} {state.name}: what it did from there on is lost: {reason}"
    return Loss(NO_LEDGER, 0, 0, told, broker.clock.wall_ms())


async def _struck(broker: Broker, topic: Topic) -> list[Loss]:
    """Entries that reads met damaged, and that still are."""
    known = IndexRanges()
    for loss in broker.store.losses.get(topic.row.topic_id, ()):
        known.add(loss.first_index, loss.end_index)
    found: list[Loss] = []
    # A loss of very many messages is one range: it is not walked through index by index.
    for struck in list(topic.unreadable):
        for first, end in known.gaps(*struck):
            index = max(first, topic.log.first_index)
            while index < end:
                ledger_id = topic.log.ledger_with(index).ledger_id
                span, reason = await _look_at(broker, topic, index)
                if reason is None:
                    topic.unreadable.discard(span.first_index, span.end_index)
                else:
                    now_ms = broker.clock.wall_ms()
                    found.append(Loss(ledger_id, span.first_index, span.end_index, reason, now_ms))
                index = span.end_index
    return found


async def _look_at(broker: Broker, topic: Topic, index: int) -> tuple[Span, str | None]:
    """The entry that holds an index, and what is wrong with it. Where none can be found, all that is left
    of its ledger."""
    log, engine = topic.log, broker.engine
    span = Span(index, max(log.ledger_with(index).end_index - index, 1))
    try:
        located = await engine.look(lambda: log.locate(index))
        span = located.span
        plan = await engine.look(lambda: log.plan_read(located.position, entries_max=1))
        await engine.read(plan)
    except CorruptData as error:
        return span, str(error)
    except NotFound:
        pass  # it was trimmed meanwhile
    return span, None
