"""One consumer of a subscription: permits, unacked messages, priority, epoch.

`permits` count messages that the client has room for, `unacked` those it holds. Both belong to this
session alone: a client that subscribes again, even with the same consumer id, is another consumer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.broker.metrics.rates import Rates
from milepost.broker.peer import Peer
from milepost.wire.scanners.encode import MessageEncoder

if TYPE_CHECKING:
    from milepost.broker.dispatch.chunk_handover import Handover
    from milepost.broker.subscription.held_deliveries import Held
    from milepost.broker.subscription.subscription import Subscription

# A client that sends FLOW for ever cannot push its credit past this (reliability: FLOW wrap-around).
PERMITS_MAX = 2**31 - 1

NO_EPOCH = -1

# A consumer property. A consumer that sends it, and consumer epochs, understands a SEEK from the broker:
# it stays connected when an operator or another consumer moves the cursor. Other consumers are closed.
RESET_PROPERTY = "milepost.reset"
IN_PLACE = "in-place"


class Consumer:
    __slots__ = (
        "bytes_out",
        "connected_since_ms",
        "consumer_id",
        "encoder",
        "epoch",
        "flowed_ms",
        "handover",
        "held",
        "holder",
        "holds",
        "is_blocked",
        "is_closed",
        "key_ranges",
        "knows_end",
        "messages_acked",
        "messages_out",
        "messages_redelivered",
        "metadata",
        "name",
        "owes_echo",
        "peer",
        "permits",
        "priority",
        "rates",
        "reads_any",
        "subscription",
        "takes_runs",
        "unacked",
    )

    def __init__(
        self,
        holder: int,
        consumer_id: int,
        name: str,
        peer: Peer,
        subscription: Subscription,
        *,
        partition: int = -1,
        priority: int = 0,
        epoch: int = NO_EPOCH,
        metadata: dict[str, str] | None = None,
        key_ranges: list[tuple[int, int]] | None = None,
        connected_since_ms: int = 0,
        reads_any: bool = False,
        takes_runs: bool = False,
    ) -> None:
        self.holder = holder
        """Its number in the cursor: what is inflight with it."""
        self.consumer_id = consumer_id
        self.name = name
        self.peer = peer
        self.subscription = subscription
        self.priority = priority
        self.epoch = epoch
        """The consumer epoch the client sent last (PIP-194). Invariant: only grows; -1 without."""
        self.metadata = metadata or {}
        self.key_ranges = key_ranges
        self.connected_since_ms = connected_since_ms
        self.flowed_ms = 0
        """When it last gave permits; 0 before the first."""
        self.reads_any = reads_any
        """It takes whatever schema the topic has (AUTO_CONSUME)."""
        self.takes_runs = takes_runs
        """It reads entries as they are stored, many in one frame."""
        self.encoder = MessageEncoder(consumer_id, partition)
        self.permits = 0
        """Messages it has room for. May be below zero: entries are indivisible."""
        self.unacked = 0
        """Messages it holds. Invariant: what is inflight with its holder in the cursor."""
        self.is_blocked = False
        """Holds too many unacked messages; until half of them are acked it gets no more."""
        self.is_closed = False
        self.knows_end = False
        """Was told that its topic is terminated and nothing more will come."""
        self.owes_echo: int | None = None
        """The epoch that it was told of, until it says that it has obeyed (`follows`): an ack that comes
        before that was sent for an older delivery, whatever went out meanwhile."""
        self.held: Held | None = None
        """Deliveries that wait for a fact to be on disk; later ones queue behind them. None: nothing
        waits."""
        self.handover: Handover | None = None
        """The chunked message that it is being sent; until all of it is out it gets nothing else."""
        self.holds = 0
        """Facts that `held` waits for."""
        self.messages_out = 0
        self.bytes_out = 0
        self.messages_acked = 0
        self.messages_redelivered = 0
        self.rates = Rates()

    def __repr__(self) -> str:
        return f"<Consumer {self.name} of {self.subscription.name}: {self.permits} permits>"

    @property
    def follows(self) -> bool:
        """Does it stay connected when an operator or another consumer moves the cursor?"""
        return self.epoch != NO_EPOCH and self.metadata.get(RESET_PROPERTY) == IN_PLACE

    @property
    def can_take(self) -> bool:
        return (
            self.permits > 0
            and not self.is_blocked
            and self.handover is None
            and self.peer.is_writable
        )
