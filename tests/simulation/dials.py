"""What a seed draws for its world. Each has some features and lacks others, and does some things often and
others never (swarm testing): what is rare beside everything else is common in some worlds."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Final

from milepost.wire import pulsar_pb2 as pb

EXCLUSIVE = pb.CommandSubscribe.Exclusive
SHARED = pb.CommandSubscribe.Shared
FAILOVER = pb.CommandSubscribe.Failover
KEY_SHARED = pb.CommandSubscribe.Key_Shared

SUBSCRIPTIONS: Final = {
    "one": EXCLUSIVE, "many": SHARED, "keys": KEY_SHARED, "spare": FAILOVER, "cast": SHARED,
}  # fmt: skip
BROADCAST: Final = "cast"

SMALL_STEPS: Final = 10
LARGE_STEPS: Final = 60

# What may happen, and how often beside the rest.
WORK: Final = {"publish": 10, "receive": 8, "ack": 8}
DISTURBANCES: Final = {
    "hang_up": 1, "slow": 1, "reset": 1, "seek": 1, "give_back": 1, "hold_journal": 1, "hold_reads": 1,
    "fault": 1, "let_go": 3, "checkpoint": 1, "pass_time": 2, "kill": 1, "lose_power": 1, "compact": 1,
    "trim": 1, "count": 1, "cut": 1, "jump": 1,
}  # fmt: skip


@dataclass
class Dials:
    steps: int
    subscriptions: list[str]
    deduplicated: bool
    ledger_entries_max: int
    tail_size: int
    follows: float
    """The share of consumers that follow a reset in place."""
    batched: float
    chunked: float
    delayed: float
    keys: int
    """How many keys there are; 0: messages have none."""
    has_transactions: bool
    opens_twice: bool
    """The broker is opened twice at the end: both must find the same."""
    odds: dict[str, float] = field(default_factory=dict)

    @classmethod
    def drawn(cls, random: Random, steps: int) -> Dials:
        is_large = steps > SMALL_STEPS
        deduplicated = random.random() < 0.75
        subscriptions = random.sample([*SUBSCRIPTIONS], random.choice((1, 2, 2)))
        if is_large:
            subscriptions = random.sample([*SUBSCRIPTIONS], random.randint(1, 4))
        has_transactions = random.random() < 0.4
        odds = {name: random.choice((0, 0, 1, 3)) * weight for name, weight in DISTURBANCES.items()}
        if has_transactions:
            odds["transact"] = random.choice((5, 15))
        if not deduplicated:
            odds["cut"] = 0  # a message that is sent again is stored again
        return cls(
            steps=steps,
            subscriptions=subscriptions,
            deduplicated=deduplicated,
            ledger_entries_max=random.choice((2, 3, 1000)),
            tail_size=random.choice((0, 1 << 20)),
            follows=random.choice((0.0, 0.5, 1.0)),
            batched=random.choice((0.0, 0.4, 0.8)),
            # Without deduplication a chunk may be stored twice, and no client puts such a message together.
            chunked=random.choice((0.0, 0.0, 0.3)) if deduplicated else 0.0,
            # A delay changes the order of its key.
            delayed=0.0 if "keys" in subscriptions else random.choice((0.0, 0.0, 0.3)),
            keys=3 if "keys" in subscriptions else random.choice((0, 2)),
            has_transactions=has_transactions,
            opens_twice=random.random() < 0.1,
            odds={**WORK, **odds},
        )
