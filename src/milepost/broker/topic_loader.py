"""Opens a topic: from its states in the catalog and the journal to running subscriptions.

    snapshot ─▶ + facts of the journal ─▶ cursor ─▶ Subscription ─▶ read loop

Nothing is inflight then, and no client is connected. A state that cannot be read is put back as it was found,
and the topic is not opened.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from milepost.broker.limits.subscription_limits import SubscriptionLimits
from milepost.broker.operations import compaction_run, transactions
from milepost.broker.subscription import pending_acks
from milepost.broker.subscription.broadcast import (
    BROADCAST,
    MEMBER_STATE,
    BroadcastGroup,
    MemberSubscription,
)
from milepost.broker.subscription.delay_timer import DelayTimer
from milepost.broker.subscription.documents import CURSOR_STATE
from milepost.broker.subscription.read_loop import ReadLoop
from milepost.broker.subscription.reset_history import ResetHistory
from milepost.broker.subscription.subscription import Subscription
from milepost.broker.topic import dedup_state
from milepost.cursor import facts, snapshot
from milepost.cursor.cursor import Cursor
from milepost.cursor.group import Start
from milepost.errors import CorruptData, MilepostError
from milepost.storage.catalog.catalog import Snapshot, StateRow

if TYPE_CHECKING:
    from milepost.broker.broker import Broker
    from milepost.broker.topic.topic import Topic


async def open_states(
    broker: Broker, topic: Topic, states: list[tuple[StateRow, Snapshot]]
) -> None:
    """All that a topic has beside its log."""
    dedup: tuple[StateRow, Snapshot] | None = None
    members: list[tuple[StateRow, Snapshot]] = []
    await topic.log.prepare(broker.engine)
    for state, stored in states:
        if state.kind == transactions.STATE:  # before the cursors: it says how far they see
            coordinator = broker.transactions.coordinator
            await transactions.restore(topic, state, stored, broker.engine, coordinator)
    try:
        for state, stored in states:
            if state.kind == CURSOR_STATE:
                open_subscription(broker, topic, state, stored)
            elif state.kind == MEMBER_STATE:
                members.append((state, stored))
            elif state.kind == compaction_run.STATE:
                compaction_run.restore(topic, stored)
            elif state.kind == dedup_state.KIND:
                dedup = (state, stored)
        for state, stored in members:  # after their groups, which they join
            open_member(broker, topic, state, stored)
        for subscription in topic.subscriptions.values():
            if isinstance(subscription, BroadcastGroup):
                # The disk may have refused a member's ack and taken the group's move behind it.
                subscription.settle()
        if topic.transactions is not None:
            pending_acks.pend_again(topic)
        if topic.policies.deduplication:
            engine = broker.engine
            state, stored = dedup or await dedup_state.begin(topic, engine)
            await dedup_state.restore(topic, state, stored, engine, broker.clock.monotonic())
    except BaseException:
        for subscription in topic.subscriptions.values():
            for part in subscription.parts():
                assert part.state_id is not None
                broker.store.close_state(part.state_id)
        if topic.transactions is not None:
            broker.store.close_state(topic.transactions.state_id)
        raise


def open_cursor(
    broker: Broker, topic: Topic, state: StateRow, stored: Snapshot, *, made: Cursor | None = None
) -> Cursor:
    """`made`: it was made and stored just now, and nothing of it was ever delivered."""
    cell: list[Cursor] = []
    store = broker.store
    found = store.open_state(state.state_id, lambda: snapshot.encode(cell[0]), stored)
    assert found.data is not None, f"{state.kind} {state.name} was made without a snapshot"
    if made is not None:
        assert not found.facts, f"{state.name} was made just now, and has {len(found.facts)} facts"
        cursor = made
    else:
        try:
            cursor = snapshot.decode(found.data)
            for fact in found.facts:
                cursor.replay(facts.decode(fact))
        except Exception as failure:
            store.put_back_state(state.state_id, found)
            if isinstance(failure, MilepostError):
                raise
            raise CorruptData(
                f"{state.kind} {state.name} of {topic.name} cannot be read: "
                f"{type(failure).__name__}: {failure}"
            ) from failure
    cursor.extend(max(cursor.end, topic.visible_end))
    cursor.trim(topic.log.first_index)
    if made is None:
        # Most deliveries are not journaled: an earlier process may have delivered what is not acked. A
        # seek makes all of it stale, so that no ack from that time undoes the seek.
        cursor.unsure_end = cursor.end
    cell.append(cursor)
    return cursor


def open_subscription(
    broker: Broker, topic: Topic, state: StateRow, stored: Snapshot, *, made: Cursor | None = None
) -> Subscription:
    cursor = open_cursor(broker, topic, state, stored, made=made)
    resets = ResetHistory.from_doc(state.doc.get("resets", ()))
    broadcast = state.doc.get(BROADCAST)
    fields: dict[str, Any] = {
        "host": broker.subscription_host,
        "limits": SubscriptionLimits.of(broker.settings, topic.policies),
        "state_id": state.state_id,
        "journal": broker.store,
        "properties": state.doc.get("properties"),
        "resets": resets,
    }
    if broadcast is None:
        subscription = Subscription(topic, state.name, cursor, **fields)
    else:
        start = Start(broadcast["start"])

        def now_ms() -> int:
            return int(broker.clock.monotonic() * 1000)

        subscription = BroadcastGroup(
            topic, state.name, cursor, start=start, now_ms=now_ms, **fields
        )
    subscription.recall(state.doc)
    return attach(broker, subscription)


def open_member(
    broker: Broker, topic: Topic, state: StateRow, stored: Snapshot, *, made: Cursor | None = None
) -> MemberSubscription:
    """A member of a group that is open."""
    group = topic.subscriptions[state.doc["group"]]
    assert isinstance(group, BroadcastGroup), f"{state} is a member of {group}"
    cursor = open_cursor(broker, topic, state, stored, made=made)
    cursor.trim(group.cursor.first)  # further than the log, while that is being truncated
    name, away_ms = state.doc["member"], state.doc.get("away_ms")
    if state.doc.get("left_ms") is not None:  # as it was stored once, by the wall clock
        away_ms = 0
    member = MemberSubscription(
        group,
        name,
        away_ms,
        cursor=cursor,
        host=broker.subscription_host,
        state_id=state.state_id,
        journal=broker.store,
    )
    group.members[name] = member
    broker.policies.join(member)
    member.pass_over_hidden(cursor.first)
    return member


def attach(broker: Broker, subscription: Subscription) -> Subscription:
    """It is one of its topic's from now on."""
    broker.policies.join(subscription)
    subscription.topic.subscriptions[subscription.name] = subscription
    subscription.pass_over_hidden(subscription.cursor.first)
    return subscription


class SubscriptionHost:
    """Runs the subscriptions of a broker (`subscription.host.Host`)."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._loop = asyncio.get_running_loop()

    def read_loop(self, subscription: Subscription) -> ReadLoop:
        return ReadLoop(subscription, self._broker, self._loop)

    def delay_timer(self, subscription: Subscription) -> DelayTimer:
        return DelayTimer(subscription, self._broker.clock, self._loop)

    def soon(self, work: Callable[[], None]) -> None:
        self._loop.call_soon(work)

    def before_commit(self, work: Callable[[], None]) -> None:
        self._broker.engine.before_commit(work)

    def note_presence(self, member: MemberSubscription) -> None:
        self._broker.note_presence(member)
