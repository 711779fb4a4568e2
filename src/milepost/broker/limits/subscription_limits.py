"""The limits of one subscription: unacked messages, and how far ahead it looks.

`Subscription` obeys them. Half of a limit must be free again before what it stopped goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from milepost.broker.policies.effective import TopicPolicies

if TYPE_CHECKING:
    from milepost.broker.settings.settings import Settings

NO_LIMIT = 1 << 62


class SubscriptionLimits(NamedTuple):
    unacked_per_consumer: int = 50_000
    unacked_per_subscription: int = 200_000
    batch_index_ack: bool = True
    expose_broker_entry: bool = True
    round_robin_entries: int = 20
    """Entries that one of several consumers gets in one turn."""
    key_ring: bool = True
    """Key_Shared: does a ring share out the keys, or are ranges halved?"""
    look_ahead_per_consumer: int = 2000
    """Messages that may be passed over for each consumer that is connected; 0: no limit."""
    look_ahead_per_subscription: int = 20_000
    """The same for all of them together."""

    @classmethod
    def of(cls, settings: Settings, policies: TopicPolicies) -> SubscriptionLimits:
        return cls(
            unacked_per_consumer=policies.max_unacked_per_consumer or NO_LIMIT,
            unacked_per_subscription=policies.max_unacked_per_subscription or NO_LIMIT,
            batch_index_ack=settings.batch_index_ack,
            expose_broker_entry=settings.broker_entry_metadata
            and settings.expose_broker_entry_metadata,
            round_robin_entries=settings.dispatch_round_robin_entries,
            key_ring=settings.key_shared_consistent_hashing,
            look_ahead_per_consumer=settings.key_shared_look_ahead_per_consumer,
            look_ahead_per_subscription=settings.key_shared_look_ahead_per_subscription,
        )

    def look_ahead(self, consumers: int) -> int:
        """Messages that may be passed over while so many consumers are connected."""
        per_consumer = self.look_ahead_per_consumer * consumers or NO_LIMIT
        return min(per_consumer, self.look_ahead_per_subscription or NO_LIMIT)
