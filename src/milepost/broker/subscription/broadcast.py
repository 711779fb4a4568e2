"""Broadcast groups: each member gets every message, from a cursor of its own.

    SUBSCRIBE, Shared, milepost.mode=broadcast, milepost.member=cache-7
         └▶ BroadcastGroup "caches"           in the topic's subscriptions; its cursor is the minimum
               ├── MemberSubscription cache-7     one consumer, one durable cursor
               └── MemberSubscription cache-9

To its consumer a member is an ordinary Shared subscription: acks, redeliveries, seeks and limits are those
of `Subscription`. The group passes on what happens to the log, and moves its own cursor behind the slowest
member now and then (`settle`), so that code that looks at subscriptions (retention, a stranger's start,
progress after all members are gone) finds the minimum there. It is never ahead of a member.

A publish costs one step however many members there are: they hear of it when the loop comes round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from milepost.broker.dispatch.consumer import Consumer
from milepost.broker.dispatch.dispatchers import SHARED
from milepost.broker.subscription.ack_journal import Done
from milepost.broker.subscription.subscription import Subscription
from milepost.cursor.cursor import Cursor
from milepost.cursor.group import Member, Start, minimum
from milepost.errors import (
    ConsumerBusy,
    InvalidInput,
    MilepostError,
    NotAllowed,
    PersistenceError,
)
from milepost.positions.ranges import Range
from milepost.wire.events import Ack

if TYPE_CHECKING:
    from milepost.broker.peer import Peer

# Consumer properties.
MODE_PROPERTY: Final = "milepost.mode"
BROADCAST: Final = "broadcast"
MEMBER_PROPERTY: Final = "milepost.member"
START_PROPERTY: Final = "milepost.start"

MEMBER_STATE: Final = "member"
"""The kind of a member's state in the catalog."""

TYPE_NAME: Final = "Broadcast"


class MemberSubscription(Subscription):
    """The progress of one member."""

    def __init__(
        self, group: BroadcastGroup, member: str, away_ms: int | None, **fields: Any
    ) -> None:
        """`away_ms`: for how long it has been away; None: it was connected when that was stored last."""
        super().__init__(group.topic, group.name, limits=group.limits, **fields)
        self.group = group
        self.member = member
        self.left_ms = group.now_ms() - (away_ms or 0)
        """When it was last connected, if it is not now, by a clock that does not jump. While its topic
        was not open no time has passed: it could not come."""
        self.noted_away_ms = away_ms or 0
        """For how long it is stored to have been away."""
        self.is_noted = away_ms is None
        """It is stored that it is connected."""

    @property
    def owner(self) -> Subscription:
        return self.group

    def label_of(self, consumer: Consumer) -> str:
        return self.member

    def doc(self) -> dict[str, Any]:
        return {"group": self.name, "member": self.member, "away_ms": self.away_ms}

    @property
    def away_ms(self) -> int | None:
        """For how long it has been away, as far as its group was open; None: it is connected."""
        return None if self.consumers else self.group.now_ms() - self.left_ms

    def as_member(self) -> Member:
        position = self.cursor.mark_delete_index + 1
        return Member(self.member, position, bool(self.consumers), self.left_ms)

    def add_consumer(
        self, consumer: Consumer, sub_type: int, sticky: bool = False, in_order: bool = True
    ) -> None:
        if sub_type != SHARED:
            raise NotAllowed(f"members of the broadcast group {self.name} are Shared consumers")
        if self.consumers:
            raise ConsumerBusy(
                f"member {self.member} of {self.name} is connected already, from "
                f"{self.consumers[0].peer.address}"
            )
        self.group.catch_up()
        super().add_consumer(consumer, sub_type, sticky, in_order)
        self.group.consumers.append(consumer)
        self.host.note_presence(self)

    def flow(self, consumer: Consumer, permits: int) -> None:
        self.keep_up()
        super().flow(consumer, permits)

    def ack(
        self, consumer: Consumer, ack: Ack, done: Callable[[MilepostError | None], None]
    ) -> None:
        self.keep_up()  # a client may ack an id that this member has not been sent
        super().ack(consumer, ack, done)

    def keep_up(self) -> None:
        if self.cursor.end < self.group.cursor.end:
            self.extend(self.group.cursor.end)

    def remove_consumer(self, consumer: Consumer) -> None:
        if not consumer.is_closed:
            super().remove_consumer(consumer)
            self.group.consumers.remove(consumer)
            self.left_ms = self.group.now_ms()
            self.host.note_presence(self)

    def seek(
        self, index: int, done: Done, *, by: Consumer | None = None, everyone: bool = False
    ) -> list[Consumer]:
        self.group.catch_up()
        closed = super().seek(index, done, by=by, everyone=everyone)
        self.group.settle()  # it may have gone back, behind the group
        return closed


class BroadcastGroup(Subscription):
    """The group itself. Its `consumers` are those of its members; none is dispatched to from here.

    Invariant: its cursor is at or before every member's, so what it still needs is retained.
    """

    def __init__(self, *args: Any, start: Start, now_ms: Callable[[], int], **fields: Any) -> None:
        super().__init__(*args, **fields)
        self.start = start
        self.now_ms = now_ms  # by a clock that does not jump
        self.members: dict[str, MemberSubscription] = {}
        self._is_scheduled = False
        # The whole group is being moved: the minimum over its members means nothing until that is done.
        self._is_moving = False

    def __repr__(self) -> str:
        return f"<BroadcastGroup {self.name} of {self.topic.name}: {len(self.members)} members>"

    def parts(self) -> Sequence[Subscription]:
        return [self, *self.members.values()]

    def doc(self) -> dict[str, Any]:
        return {**super().doc(), BROADCAST: {"start": self.start.value}}

    def add_consumer(
        self, consumer: Consumer, sub_type: int, sticky: bool = False, in_order: bool = True
    ) -> None:
        raise NotAllowed(
            f"{self.name} of {self.topic.name} is a broadcast group: its consumers have the property "
            f"{MODE_PROPERTY}={BROADCAST}"
        )

    # -- positions ---------------------------------------------------------------------------------

    @property
    def position(self) -> int:
        """The minimum over the members; where it was last if there are none."""
        before = self.cursor.mark_delete_index + 1
        return minimum((member.as_member() for member in self.members.values()), before)

    def cursors(self) -> Sequence[Cursor]:
        return [member.cursor for member in self.members.values()] or [self.cursor]

    def settle(self) -> None:
        """Move the group's own cursor to where its slowest member is."""
        if self._is_moving:
            return
        self.catch_up()
        position, mark = self.position, self.cursor.mark_delete_index
        if position <= mark:
            self._move(position, lambda error: None)  # a member went back
        elif position > mark + 1:
            super().pass_over([(mark + 1, position)])

    # -- what happens to all -----------------------------------------------------------------------

    def extend(self, end_index: int) -> None:
        self.cursor.extend(end_index)
        if self.consumers and not self._is_scheduled:
            self._is_scheduled = True
            self.host.soon(self._wake_connected)

    def _wake_connected(self) -> None:
        """Who is away, or has asked for nothing, hears of it when it comes or asks, or when another
        wants to know where it is."""
        self._is_scheduled = False
        end = self.cursor.end
        for consumer in self.consumers:
            if consumer.permits > 0 and consumer.subscription.cursor.end < end:
                consumer.subscription.extend(end)

    def catch_up(self) -> None:
        """Let every member know how far the log is."""
        for member in self.members.values():
            member.keep_up()

    def trim(self, first_index: int) -> None:
        self.catch_up()  # trimmed messages are acked also for members that did not know of them
        super().trim(first_index)
        for member in self.members.values():
            member.trim(first_index)

    def pass_over(self, ranges: Sequence[Range]) -> None:
        """An operator declares them done: for every member, and so for the group."""
        self.catch_up()
        for member in self.members.values():
            member.pass_over(ranges)
        if self.members:
            self.settle()
        else:
            super().pass_over(ranges)

    def pass_over_hidden(self, first_index: int) -> None:
        if not self.members:
            super().pass_over_hidden(first_index)
            return
        self.catch_up()
        for member in self.members.values():
            member.pass_over_hidden(first_index)
        self.settle()

    def skip(self, end_index: int) -> int:
        """Everything before an index is done, for every member; returns what the group had of it."""
        if not self.members:
            return super().skip(end_index)
        self.catch_up()
        before = self.cursor.backlog
        for member in self.members.values():
            member.skip(end_index)
        self.settle()
        return before - self.cursor.backlog

    def flush_acks(self) -> None:
        super().flush_acks()
        for member in self.members.values():
            member.flush_acks()

    def seek(
        self, index: int, done: Done, *, by: Consumer | None = None, everyone: bool = False
    ) -> list[Consumer]:
        """Move every member, and the group; `done` is called when all of that is durable."""
        assert by is None, f"{by} is not a consumer of the group itself"
        self.catch_up()
        waiting = len(self.members) + 1
        failure: PersistenceError | None = None

        def one_done(error: PersistenceError | None) -> None:
            nonlocal waiting, failure
            waiting -= 1
            failure = failure or error
            if not waiting:
                done(failure)

        self._is_moving = True
        try:
            self._move(index, one_done)
            return [
                consumer
                for member in list(self.members.values())
                for consumer in member.seek(index, one_done)
            ]
        finally:
            self._is_moving = False

    def waiting_labels(self) -> list[str]:
        """Members that are away have not obeyed either, until they come."""
        return list(self.members)


def wants_broadcast(metadata: dict[str, str]) -> bool:
    """Whether a consumer says that it is a member of a broadcast group."""
    mode = metadata.get(MODE_PROPERTY, "")
    if mode not in ("", BROADCAST):
        raise InvalidInput(f"{MODE_PROPERTY}={mode!a}; known is {BROADCAST}")
    return mode == BROADCAST


def member_name(metadata: dict[str, str], peer: Peer) -> str:
    """By its name, else by the address it comes from, without the port: that changes."""
    name = metadata.get(MEMBER_PROPERTY, "")
    if name:
        return name
    host = peer.address.rpartition(":")[0]
    return host or peer.address


def start_rule(metadata: dict[str, str]) -> Start:
    rule = metadata.get(START_PROPERTY, Start.MINIMUM.value)
    try:
        return Start(rule)
    except ValueError:
        known = ", ".join(Start)
        raise InvalidInput(f"{START_PROPERTY}={rule!a}; known are {known}") from None
