"""The counters of a producer or consumer.

    consumer.stats.messages_received, producer.stats.receipts

Read at any time; rates are the reader's business, from two readings.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import TypeVar


@dataclass(slots=True)
class ProducerStatistics:
    messages_sent: int = 0
    """Messages that were given a sequence id."""
    bytes_sent: int = 0
    """Payloads as the user gave them."""
    entries_sent: int = 0
    """SEND commands, the first time: messages, batches or chunks."""
    receipts: int = 0
    """Messages that are stored."""
    failures: int = 0
    """Messages that were refused or timed out."""


@dataclass(slots=True)
class ConsumerStatistics:
    messages_received: int = 0
    """Messages that a user took."""
    bytes_received: int = 0
    """Their payloads."""
    acks: int = 0
    """Acks asked for, before they are grouped."""
    negative_acks: int = 0
    redeliveries_asked: int = 0
    """Entries asked for again."""
    unreadable: int = 0
    """Entries with a wrong checksum, batch or compression."""
    dead_letters: int = 0
    """Messages sent to the dead letter topic."""


Statistics = TypeVar("Statistics", ProducerStatistics, ConsumerStatistics)


def total(empty: Statistics, parts: Iterable[Statistics]) -> Statistics:
    """The sum of what several have done, added to `empty`."""
    for part in parts:
        for field in fields(part):
            setattr(empty, field.name, getattr(empty, field.name) + getattr(part, field.name))
    return empty
