"""Members of broadcast groups: joined, remembered over restarts, forgotten. The durable half.

A member is a state of its own in the catalog, beside its group's; both are made before the SUBSCRIBE that
asked for them is answered. That a member is connected is stored when it comes, and for how long it has been
away now and then: so one that a crash cuts off is not taken for one that left long ago, and a wall clock that
jumps makes no member older. `tick` forgets those that were away for long; a group itself is deleted as any
subscription is, with its members.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from milepost.broker.subscription.broadcast import MEMBER_STATE, BroadcastGroup, MemberSubscription
from milepost.cursor import snapshot
from milepost.cursor.cursor import Cursor
from milepost.cursor.group import expired, start_of
from milepost.errors import (
    AlreadyExists,
    InvalidInput,
    MilepostError,
    ServiceNotReady,
    TooManyRequests,
)
from milepost.positions.labels import check_label
from milepost.storage.catalog.catalog import Snapshot, StateRow
from milepost.storage.interface import Catalog

if TYPE_CHECKING:
    from milepost.broker.broker import Broker
    from milepost.broker.topic.topic import Topic

# How often it is stored for how long a member has been away, until it is forgotten.
NOTED_PARTS = 10


class OpenMember(Protocol):
    """Opens a member from its state, as `topic_loader.open_member` does."""

    def __call__(
        self, broker: Broker, topic: Topic, state: StateRow, stored: Snapshot, *, made: Cursor
    ) -> MemberSubscription: ...


async def join(
    broker: Broker, group: BroadcastGroup, name: str, open_member: OpenMember
) -> MemberSubscription:
    """The member of this name: where it was, or, for a stranger, where the group starts those."""
    check_label("member", name)
    if not name:
        raise InvalidInput(f"a member of {group.name} without a name")
    known = group.members.get(name)
    if known is not None:
        return known
    limit = broker.settings.max_consumers_per_subscription
    if limit and len(group.members) >= limit:
        raise TooManyRequests(f"group {group.name} has {limit} members already")
    first, end, group_id = group.topic.log.first_index, group.topic.visible_end, group.state_id
    assert group_id is not None, f"{group} is not durable"
    at = start_of(group.start, at=group.position, first=first, end=end)
    cursor = Cursor(first, end, at=at)
    data = snapshot.encode(cursor)
    sequence = broker.store.journal.last_sequence
    doc = {"group": group.name, "member": name, "away_ms": None}

    def create(catalog: Catalog) -> StateRow:
        if catalog.state_by_id(group_id) is None:
            raise ServiceNotReady(f"group {group.name} was deleted meanwhile")
        row = catalog.create_state(
            group.topic.row.topic_id, MEMBER_STATE, _state_name(group, name), doc
        )
        catalog.put_snapshot(row.state_id, Snapshot(sequence, data, []))
        return row

    try:
        state = await broker.engine.catalog(create)
    except AlreadyExists:
        if name in group.members:  # another client joined under this name at the same time
            return group.members[name]
        raise
    group.topic.check_open()
    if group.topic.subscriptions.get(group.name) is not group:
        raise ServiceNotReady(f"group {group.name} is being deleted")
    stored = Snapshot(sequence, data, [])
    return open_member(broker, group.topic, state, stored, made=cursor)


def states_of(catalog: Catalog, topic: Topic, group: str) -> list[int]:
    """Those of a group's members, if it is one: also of members that are not open yet."""
    return [
        state.state_id
        for state in catalog.states(topic.row.topic_id)
        if state.kind == MEMBER_STATE and state.doc["group"] == group
    ]


def _state_name(group: BroadcastGroup, member: str) -> str:
    """Of both names; no other two give the same."""
    return f"{len(group.name)}:{group.name}:{member}"


def note(broker: Broker, member: MemberSubscription) -> None:
    """Store that a member is connected, or when it left; its group is behind its slowest member again."""
    group = member.group
    if member.journal is None or group.members.get(member.member) is not member:
        return  # it is being deleted
    group.settle()
    if member.is_noted and member.consumers:
        return
    state_id, doc = member.state_id, member.doc()
    assert state_id is not None
    member.is_noted = bool(member.consumers)
    member.noted_away_ms = member.away_ms or 0

    def save(catalog: Catalog) -> None:
        if catalog.state_by_id(state_id) is not None:
            catalog.set_state(state_id, doc)

    async def saving() -> None:
        try:
            await broker.engine.catalog(save)
        except MilepostError:  # it is tried again at the next tick
            member.is_noted = not member.consumers

    if not broker.is_closing:
        broker.spawn(saving())


async def forget(broker: Broker, member: MemberSubscription) -> None:
    """Delete a member for good. What its group needs for it is not needed any more."""
    group, state_id, journal = member.group, member.state_id, member.journal
    group.topic.check_open()  # another opening of the topic would go on with what is deleted
    for consumer in list(member.consumers):
        broker.close_consumer(consumer)
    if group.members.get(member.member) is not member or state_id is None:
        return
    group.settle()  # else the group would fall back to an older minimum, if this is its last member
    member.flush_acks()
    del group.members[member.member]
    member.dispatcher = member.journal = None
    sequence = broker.store.journal.last_sequence
    with broker.transactions.namesakes.departing(group.topic):
        try:
            await broker.engine.catalog(lambda catalog: catalog.delete_state(state_id, sequence))
        except BaseException:
            member.journal = journal
            group.members[member.member] = member
            member.extend(group.cursor.end)
            raise
    broker.store.forget_state(state_id)
    if group.members:
        group.settle()


def tick(broker: Broker, group: BroadcastGroup) -> None:
    """Now and then: the group follows its members, and forgets those that are gone."""
    group.settle()
    after_ms = int(broker.settings.broadcast_member_expiry_s * 1000)
    for member in group.members.values():
        # A crash or a failed store left an old note; or a good part of the time until expiry has passed.
        away_ms = member.away_ms or 0
        if member.is_noted is not bool(member.consumers) or (
            away_ms - member.noted_away_ms >= max(after_ms // NOTED_PARTS, 1000)
        ):
            note(broker, member)
    members = [member.as_member() for member in group.members.values()]
    for name in expired(members, group.now_ms(), after_ms):
        broker.spawn(_forget_quietly(broker, group.members[name]))


async def _forget_quietly(broker: Broker, member: MemberSubscription) -> None:
    with suppress(MilepostError):  # it is tried again at the next tick
        if not member.consumers:
            await forget(broker, member)
