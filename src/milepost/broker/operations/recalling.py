"""Recalls a delayed message: from the answer on no subscription delivers it, after a crash neither.

The message keeps its index and its place in the log. It is hidden as the messages of an aborted transaction
are: every subscription passes over it, those that are made or moved later too.

    check that it is not due ─▶ hidden, passed over ─▶ a fact of the topic ─▶ durable: the answer

It is hidden before that is durable: a message that comes due while the disk is slow must not go to some
subscriptions and be kept from others. Acks of those that pass over it stand behind the fact in the journal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from milepost.broker.operations import transactions
from milepost.errors import MilepostError, NotAllowed, NotFound
from milepost.positions.spans import Span

if TYPE_CHECKING:
    from milepost.broker.broker import Broker
    from milepost.broker.topic.topic import Topic
    from milepost.storage.interface import Engine


async def prepare(topic: Topic, broker: Broker) -> None:
    """Give the topic a state for what is hidden."""
    if topic.transactions is None:
        await transactions.begin(topic, broker)


def recall(
    topic: Topic,
    index: int,
    due_ms: int,
    engine: Engine,
    done: Callable[[MilepostError | None], None],
) -> None:
    """Hide the message with this index, an entry of its own, of a topic that is prepared. `done` is called
    when that is durable. A message that is hidden already is hidden again, so that a second call hears of
    the disk too. `NotAllowed` when the message is due, `NotFound` when it is not in the log."""
    state, log = topic.transactions, topic.log
    assert state is not None, f"{topic.name} is not prepared"
    if not log.first_index <= index < log.end_index:
        raise NotFound(f"{topic.name}: index {index} is not there any more")
    was_hidden = topic.is_hidden(index)
    if not was_hidden and due_ms <= topic.now_ms():
        raise NotAllowed(f"{topic.name}: index {index} is due, and may be delivered already")
    engine.store.fact(state.state_id, state.hide(index, index + 1), done)
    if was_hidden:
        return
    for subscription in topic.subscriptions.values():
        for part in subscription.parts():
            if part.cursor.first <= index < part.cursor.end:
                part.counts.hidden += 1
                if not part.cursor.is_acked(Span(index, 1)):
                    part.pass_over([(index, index + 1)])
