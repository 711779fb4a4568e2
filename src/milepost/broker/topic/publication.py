"""Sends of one producer that are judged and stored together, until their receipts.

One block of the journal makes all of it durable, and one write answers it. Owns nothing but what has to be
remembered on the way; `Topic` decides, and the producer keeps the order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from milepost.errors import PersistenceError
from milepost.storage.ledgers.entry import Block
from milepost.wire.events import Send

if TYPE_CHECKING:
    from milepost.broker.topic.producer import Producer


class Publication:
    """Consecutive sends of one producer, answered together and in order."""

    __slots__ = (
        "answers",
        "began",
        "block",
        "count",
        "has_chunks",
        "has_transactions",
        "is_answered",
        "is_whole",
        "producer",
        "size_bytes",
    )

    def __init__(self, producer: Producer) -> None:
        self.producer = producer
        self.answers: list[Send | bytes | tuple[Send, tuple[int, int]]] = []
        """In order: a send that is stored, a ready-made frame, or a send with the id to give it."""
        self.began = 0.0
        """When its block was on its way to the journal, in seconds."""
        self.is_whole = False
        """Every answer is a send that is stored."""
        self.has_chunks = False
        self.has_transactions = False
        self.block: Block | None = None
        self.count = 0
        self.size_bytes = 0
        self.is_answered = False
        """Its fate is known; it waits only for those before it."""

    def durable(self, error: PersistenceError | None) -> None:
        """The journal's answer to its block."""
        self.producer.topic.on_durable(self, error)
