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

# Most worlds are small: by the second of machine time they find as much as larger ones, and there are more
# of them. Some mistakes need more time than they have.
SMALL_STEPS: Final = 2
MEDIUM_STEPS: Final = 10
MEDIUM_EVERY: Final = 10
LARGE_STEPS: Final = 40
LARGE_EVERY: Final = 100
# A bucket costs several times as much as a disk in memory.
BUCKET_SHARE: Final = 0.01
# How much happens in a step, of a small world and of the others.
SMALL_VERBS: Final = (1, 3, 5)
VERBS: Final = (2, 4, 6)

# What may happen, and how often beside the rest.
WORK: Final = {"publish": 10, "receive": 4, "ack": 12}
DISTURBANCES: Final = {
    "hang_up": 1, "slow": 1, "reset": 1, "seek": 1, "give_back": 1, "hold_journal": 1, "hold_reads": 1,
    "fault": 1, "let_go": 3, "checkpoint": 1, "pass_time": 2, "kill": 1, "lose_power": 1, "compact": 1,
    "trim": 1, "count": 1, "cut": 1, "jump": 1, "unload": 1,
}  # fmt: skip
TRANSACT: Final = "transact"

# Some mistakes need several things in a row that hardly ever follow each other in a small world. Some worlds
# do little else, and have the steps for it: a message is sought, comes again, and is acked behind a kill; a
# transaction is opened, acks, and is committed; a reset waits for a disk that hangs, what it skips is acked,
# and the broker is killed.
THEMES: Final = {
    "seeks": {"publish": 2, "receive": 10, "ack": 8, "seek": 8, "come_back": 4},
    "transactions": {"publish": 3, "receive": 5, "ack": 1, TRANSACT: 20},
    "resets": {"publish": 4, "receive": 6, "ack": 3, "reset_and_hang": 4, "let_go": 3, "kill": 1},
}
THEME_STEPS: Final = {"seeks": 7, "transactions": 7, "resets": 3}
THEME_WEIGHTS: Final = (2, 1, 1)  # seeks need luck more often
THEME_SHARE: Final = 0.15


def steps_of(seed: int) -> int:
    """How long a world is, by its number."""
    if seed % LARGE_EVERY == 0:
        return LARGE_STEPS
    return MEDIUM_STEPS if seed % MEDIUM_EVERY == 0 else SMALL_STEPS


@dataclass
class Dials:
    steps: int
    verbs: tuple[int, ...]
    """How much may happen in a step."""
    producers: int
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
    stored: int
    """How often something is published before anything else happens."""
    ends_abruptly: bool
    """The last broker ends with everything that is under way, on a disk that may hang."""
    opens_twice: bool
    """The broker is opened twice at the end: both must find the same."""
    on_bucket: bool
    """The broker keeps nothing on its machine: a start takes the bucket over, as another machine would."""
    odds: dict[str, float] = field(default_factory=dict)

    @classmethod
    def drawn(cls, random: Random, steps: int) -> Dials:
        deduplicated = random.random() < 0.75
        odds: dict[str, float] = {}
        work: dict[str, float] = {**WORK}
        verbs = VERBS if steps > SMALL_STEPS else SMALL_VERBS
        if steps == SMALL_STEPS and random.random() < THEME_SHARE:
            theme = random.choices([*THEMES], THEME_WEIGHTS)[0]
            steps, verbs, work = THEME_STEPS[theme], VERBS, {}
            odds = dict(THEMES[theme])
            subscriptions = random.sample([one for one in SUBSCRIPTIONS if one != BROADCAST], 1)
        elif steps > SMALL_STEPS:
            subscriptions = random.sample([*SUBSCRIPTIONS], random.randint(1, 4))
            for name, weight in DISTURBANCES.items():
                odds[name] = random.choice((0, 0, 1, 3)) * weight
            if random.random() < 0.4:
                odds[TRANSACT] = random.choice((5, 15))
        else:
            subscriptions = random.sample([*SUBSCRIPTIONS], random.choice((1, 1, 1, 2)))
            for name in random.sample([*DISTURBANCES, TRANSACT], random.choice((2, 3, 4))):
                odds[name] = 2 * DISTURBANCES.get(name, 3)
        if not deduplicated:
            odds["cut"] = odds["unload"] = 0  # a message that is sent again is stored again
        if odds.get("unload"):
            odds["slow"] = (
                0  # an ack of a consumer that has not heard that it is closed is of no use
            )
        return cls(
            steps=steps,
            verbs=verbs,
            producers=2 if verbs is VERBS else random.choice((1, 1, 2)),
            subscriptions=subscriptions,
            deduplicated=deduplicated,
            ledger_entries_max=random.choice((2, 3, 1000)),
            tail_size=random.choice((0, 1 << 20)),
            # Who follows a seek gets the message again at once.
            follows=random.choice((0.0, 0.5, 1.0) if work else (0.5, 1.0)),
            batched=random.choice((0.0, 0.4, 0.8)),
            # Without deduplication a chunk may be stored twice, and no client puts such a message together.
            chunked=random.choice((0.0, 0.0, 0.3)) if deduplicated else 0.0,
            # A delay changes the order of its key.
            delayed=0.0 if "keys" in subscriptions else random.choice((0.0, 0.0, 0.3)),
            keys=3 if "keys" in subscriptions else random.choice((0, 2)),
            has_transactions=bool(odds.get(TRANSACT)),
            stored=random.choice((0, 1, 3) if work else (1, 3)),
            ends_abruptly=random.random() < 0.5,
            opens_twice=random.random() < 0.05,
            on_bucket=random.random() < BUCKET_SHARE,
            odds={name: work.get(name, 0) + odds.get(name, 0) for name in {**work, **odds}},
        )
