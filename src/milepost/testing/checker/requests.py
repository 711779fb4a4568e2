"""What was asked of a subscription, while its outcome or its effect may still come."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from milepost.testing.checker.subscription import Subscription


class Seek:
    def __init__(self, op: str, by: str, index: int, last: int, invoked: int) -> None:
        self.op = op
        self.by = by
        self.index = index
        self.last = last
        """Above `index` where the target moves while it is asked for: the end."""
        self.invoked = invoked
        self.answered = 0
        self.given_up = False
        """Its answer will not come any more."""
        self.settled = 0
        """Where its outcome is certain to stand: its answer, or the start of the next broker."""


class Given(NamedTuple):
    """An ack without an answer, of which it is told how long it was given before its broker ended."""

    life: int
    t: float
    slack: float
    line: int


class Before(NamedTuple):
    """What was known of acks when one was asked for."""

    asked: list[int]
    """By message, the line of the latest ack of any kind."""
    outside: list[int]
    up_to_asked: tuple[int, int]
    up_to_outside: tuple[int, int]


class Ack:
    """An ack of which the answer may come, or come into force, later."""

    def __init__(
        self,
        subscription: Subscription,
        numbers: list[int],
        by: str,
        invoked: int,
        before: Before,
        *,
        cumulative: bool,
    ) -> None:
        self.subscription = subscription
        self.numbers = numbers
        self.by = by
        self.invoked = invoked
        self.before = before
        self.cumulative = cumulative
        self.is_answered = False

    def answered(self, line: int) -> None:
        """It is durable; one of a transaction, with its commit."""
        self.subscription.ack_answered(
            self.invoked, line, self.numbers, self.by, cumulative=self.cumulative
        )


class Undone(NamedTuple):
    given: Given
    age_s: float
    line: int
    """Where the message came again."""
