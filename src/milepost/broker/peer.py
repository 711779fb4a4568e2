"""What the broker needs of a connection, as an interface.

The session of a connection is one, the broker's own health check is another; tests have more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from milepost.broker.dispatch.consumer import Consumer
    from milepost.broker.topic.producer import Producer

Buffer = bytes | bytearray | memoryview


class Peer(Protocol):
    """The other end of a connection."""

    @property
    def address(self) -> str: ...

    @property
    def client_version(self) -> str: ...

    @property
    def role(self) -> str | None:
        """The role that its client proved to have; None where clients are not asked."""
        ...

    @property
    def wants_broker_entry(self) -> bool:
        """Does it read broker entry metadata (PIP-90), and may it?"""
        ...

    @property
    def is_writable(self) -> bool:
        """False while it reads slower than it is written to: dispatch passes it by."""
        ...

    @property
    def has_consumers(self) -> bool:
        """Does it consume too, beside what it publishes?"""
        ...

    @property
    def unwritable_since(self) -> float:
        """When `is_writable` last changed, by the monotonic clock."""
        ...

    def understands(self, kind: int) -> bool:
        """May its client be sent this command unasked?"""
        ...

    def write(self, buffers: Sequence[Buffer]) -> None:
        """Send, in order, behind everything written before. Never blocks."""
        ...

    def settled(self, publishes: int) -> None:
        """So many of its sends were answered: it may send more."""
        ...

    def hold(self) -> None:
        """Do not read from it until as many `release`s: it sends faster than it may."""
        ...

    def release(self) -> None: ...

    def resume(self) -> None:
        """Read from it again, if nothing stands against it any more."""
        ...

    def unsent_size(self) -> int:
        """Bytes that wait for its client to read them."""
        ...

    def restart_producer(self, producer: Producer) -> None:
        """Close the producer and have its client open it again: something it sent was not stored."""
        ...

    def forget_producer(self, producer: Producer) -> None:
        """The producer is closed; sends that are on their way to it are dropped."""
        ...

    def forget_consumer(self, consumer: Consumer) -> None:
        """The consumer is closed; commands that name it are dropped."""
        ...

    def fail(self, reason: str) -> None:
        """End the connection: what it waits for can no longer be answered for certain."""
        ...

    def abort(self, reason: str) -> None:
        """End the connection now; what waits to be sent is dropped."""
        ...
