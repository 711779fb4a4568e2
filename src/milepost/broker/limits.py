"""Limits: the settings that a subscription obeys, as it needs them; the same for all of a broker."""

from __future__ import annotations

from typing import NamedTuple


class Limits(NamedTuple):
    unacked_per_consumer: int = 50_000
    unacked_per_subscription: int = 200_000
    batch_index_ack: bool = True
    expose_broker_entry: bool = True
    round_robin_entries: int = 20
    """Entries that one of several consumers gets in one turn."""
