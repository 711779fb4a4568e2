"""What open transactions have done to topics and subscriptions, whichever workers have them.

    found = await parts_of(broker, [txn])
    found[txn.txn_id].written["persistent://public/default/t"].start        # "12:0"

The coordinator of a transaction knows its topics by name; what is in them, their workers know. Each of them
is asked once about all transactions ("txn_parts"). One that does not answer is `ServiceNotReady`, which names
it: half an answer would look like a whole one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from milepost.broker.subscription.subscription import Subscription
from milepost.broker.topic.topic import Topic
from milepost.broker.transactions.coordinator import Outcome, Transaction
from milepost.broker.workers.link import Answer, Doc
from milepost.errors import CorruptData, TopicNotFound
from milepost.positions.names import TopicName
from milepost.positions.ranges import IndexRanges
from milepost.positions.transactions import TxnId

if TYPE_CHECKING:
    from milepost.broker.broker import Broker

# Transactions in one call, and before others have their turn.
BATCH: Final = 100


class Written(NamedTuple):
    """What a transaction has written to a topic."""

    start: str | None = None
    """The position of its first message."""
    is_aborted: bool = False
    messages: int | None = None
    """None: it has none, or they are not known."""


@dataclass
class Parts:
    """What a transaction has done."""

    written: dict[str, Written] = field(default_factory=dict)
    """By topic."""
    acked: dict[tuple[str, str], int | None] = field(default_factory=dict)
    """By topic and subscription: how many messages."""


async def written(broker: Broker, topic: Topic | None, txn_id: TxnId) -> Written:
    """What a transaction has written to a topic that is open here; None: it is not."""

    def look() -> Written:
        is_aborted = broker.transactions.coordinator.outcome_of(txn_id) is Outcome.ABORT
        if topic is None or topic.transactions is None:
            return Written(is_aborted=is_aborted)
        messages = topic.transactions.messages_of(txn_id)
        if messages is None or messages.first is None:
            return Written(is_aborted=is_aborted)
        start = topic.log.locate(max(messages.first, topic.log.first_index)).position
        return Written(str(start), is_aborted, messages.count)

    return await broker.engine.look(look)


def acked(subscription: Subscription | None, txn_id: TxnId) -> int | None:
    """How many messages a transaction has acked; None for none. Of a broadcast group, for all members."""
    if subscription is None:
        return None
    counts = [ranges.count for one in subscription.parts() if (ranges := _acked(one, txn_id))]
    return sum(counts) if counts else None


def _acked(part: Subscription, txn_id: TxnId) -> IndexRanges | None:
    transactions, state_id = part.topic.transactions, part.state_id
    if transactions is None or state_id is None:
        return None
    return transactions.pending_of(txn_id, state_id, part.cursor.epoch)


async def parts_of(
    broker: Broker, txns: Sequence[Transaction], *, opens: bool = False
) -> dict[TxnId, Parts]:
    """What open transactions have done. `opens`: open their topics for that; what a transaction has done to a
    topic, the topic says only while it is open."""
    found = {txn.txn_id: Parts() for txn in txns}
    shared = broker.transactions.shared
    calls: dict[int, list[Doc]] = {}
    for place, txn in enumerate(txns, 1):
        away = {} if shared is None else shared.elsewhere(txn)
        own = [name for name in txn.topics if name not in away]
        pairs = [pair for pair in txn.subscriptions if pair[0] not in away]
        await _add_own(broker, found[txn.txn_id], txn.txn_id, own, pairs, opens=opens)
        for shard in sorted(set(away.values())):
            question = {
                "txn": list(txn.txn_id),
                "topics": [name for name in txn.topics if away.get(name) == shard],
                "subscriptions": [pair for pair in txn.subscriptions if away.get(pair[0]) == shard],
            }
            calls.setdefault(shard, []).append(question)
        if not place % BATCH:
            await asyncio.sleep(0)
    await asyncio.gather(
        *(_add_elsewhere(broker, found, shard, some, opens) for shard, some in calls.items())
    )
    return found


async def _add_own(
    broker: Broker,
    parts: Parts,
    txn_id: TxnId,
    topics: Iterable[str],
    pairs: Iterable[tuple[str, str]],
    *,
    opens: bool,
) -> None:
    """What is in topics of this worker."""
    for name in topics:
        topic = await _topic(broker, name, opens=opens)
        parts.written[name] = await written(broker, topic, txn_id)
    for name, subscription in pairs:
        topic = await _topic(broker, name, opens=opens)
        group = None if topic is None else topic.subscriptions.get(subscription)
        parts.acked[name, subscription] = acked(group, txn_id)


async def _topic(broker: Broker, name: str, *, opens: bool) -> Topic | None:
    if not opens:
        return broker.topics.get(name)
    try:
        return await broker.topic(TopicName.parse(name), create=False)
    except (TopicNotFound, CorruptData):  # deleted since it was added, or it cannot be read
        return None


async def _add_elsewhere(
    broker: Broker, found: dict[TxnId, Parts], shard: int, questions: list[Doc], opens: bool
) -> None:
    assert broker.workers is not None, "there are no others"
    for first in range(0, len(questions), BATCH):
        values: dict[str, Any] = {"txns": questions[first : first + BATCH], "opens": opens}
        said, _ = await broker.workers.ask_owner(shard, "txn_parts", values)
        for one in said["txns"]:
            parts = found[TxnId(*one["txn"])]
            parts.written |= {name: Written(*values) for name, values in one["written"]}
            parts.acked |= {(name, group): count for name, group, count in one["acked"]}


async def answer(broker: Broker, said: Doc) -> Answer:
    """What another worker asks about topics of this one."""
    told: list[Doc] = []
    for question in said["txns"]:
        parts, txn_id = Parts(), TxnId(*question["txn"])
        pairs = [(name, group) for name, group in question["subscriptions"]]
        await _add_own(broker, parts, txn_id, question["topics"], pairs, opens=said["opens"])
        told.append(
            {
                "txn": list(txn_id),
                "written": [[name, list(one)] for name, one in parts.written.items()],
                "acked": [[name, group, count] for (name, group), count in parts.acked.items()],
            }
        )
    return {"txns": told}, b""
