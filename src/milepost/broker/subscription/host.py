"""What a subscription needs of the broker that runs it, as interfaces.

A subscription decides and never waits. What has to wait for the loop, the disk or the clock is done by the
collaborators here. The host makes them when the subscription is made: `topic_loader.SubscriptionHost`.

    subscription ──▶ Waker.wake ──▶ subscription.demand, subscription.offer    read_loop.py
    subscription ──▶ Alarm.wake_at ──▶ subscription.rescan                     delay_timer.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from milepost.broker.subscription.broadcast import MemberSubscription
    from milepost.broker.subscription.subscription import Subscription


class Waker(Protocol):
    """The read loop, as its subscription sees it: it reads what is demanded, and offers it."""

    def wake(self) -> None:
        """Something changed: dispatch soon."""
        ...

    def wake_after(self, seconds: float) -> None:
        """The same, but not before so many seconds."""
        ...

    def rest(self) -> None:
        """Dispatch nothing for a moment: enough was done in one go."""
        ...


class Alarm(Protocol):
    """The timer of delayed messages, as its subscription sees it."""

    def wake_at(self, due_ms: int) -> None:
        """A message waits until this time, in milliseconds since 1970."""
        ...


class Host(Protocol):
    """The broker, as a subscription sees it."""

    def read_loop(self, subscription: Subscription) -> Waker:
        """The read loop of a subscription that is being made."""
        ...

    def delay_timer(self, subscription: Subscription) -> Alarm:
        """The timer of a subscription that is being made."""
        ...

    def soon(self, work: Callable[[], None]) -> None:
        """Call `work` in the next turn of the loop."""
        ...

    def before_commit(self, work: Callable[[], None]) -> None:
        """Call `work`, which submits something to the journal, at the end of this turn of the loop."""
        ...

    def note_presence(self, member: MemberSubscription) -> None:
        """A member of a broadcast group has a consumer, or has none any more: remember when."""
        ...
