"""What the broker needs of a connection, as an interface.

The session of a connection is one; tests have others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

Buffer = bytes | bytearray | memoryview


class Peer(Protocol):
    """The other end of a connection."""

    @property
    def address(self) -> str: ...

    @property
    def client_version(self) -> str: ...

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

    def fail(self, reason: str) -> None:
        """End the connection: what it waits for can no longer be answered for certain."""
        ...
